"""A step that was planned, as arrays: what the engine is given, and what waits for its result."""

import numpy as np
from attrs import define

from .arrays import Rows
from .calendar import Calendar
from .ints import NOTHING, Bools, Ints


@define(eq=False)
class Growth:
    """What running requests get in a step, on counts alone: `row[i]` runs `tokens[i]` positions from `start[i]`,
    `scheduled` in all.  Those at the places `growing` need `blocks` more each, `needed` in all."""

    row: Ints = NOTHING
    start: Ints = NOTHING
    tokens: Ints = NOTHING
    growing: Ints = NOTHING
    blocks: Ints = NOTHING
    needed: int = 0
    scheduled: int = 0

    def first(self, count: int) -> "Growth":
        """The same for the first so many of those who run alone."""
        kept = int(np.searchsorted(self.growing, count))
        tokens, blocks = self.tokens[:count], self.blocks[:kept]
        return Growth(
            self.row[:count],
            self.start[:count],
            tokens,
            self.growing[:kept],
            blocks,
            int(blocks.sum()),
            int(tokens.sum()),
        )


@define(eq=False)
class Batch:
    """Entry i runs positions [start[i], start[i] + tokens[i]) of the request at row[i], and samples[i] outputs.

    It counts while the row has the generation that it had; `left_so_far`: who had left any row by then.  `tick`: which
    step of the calendar it is, if any; then `end`, where the entries end, is not written down.
    """

    step: int
    row: Ints = NOTHING
    start: Ints = NOTHING
    tokens: Ints = NOTHING
    samples: Ints = NOTHING
    end: Ints | None = None
    generation: Ints = NOTHING
    left_so_far: int = 0
    all_sample: bool = False
    calendar: Calendar | None = None
    tick: int = 0

    def standing(self, rows: Rows) -> Bools | None:
        """Whose request still has its row; None if all have."""
        if rows.left_so_far == self.left_so_far:
            return None
        standing: Bools = rows.generation[self.row] == self.generation
        return None if standing.all() else standing

    def ends(self) -> Ints:
        return self.start + self.tokens if self.end is None else self.end
