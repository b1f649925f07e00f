"""A step that was planned, as arrays: what the engine is given, and what waits for its result."""

import numpy as np
from attrs import define

from .arrays import NOTHING, Bools, Ints, Rows
from .calendar import Calendar


@define(eq=False)
class Growth:
    """What running requests get in a step, on counts alone: `row[i]` runs `tokens[i]` positions from `start[i]`.
    Those at the places `growing` need `blocks` more each, `needed` in all."""

    row: Ints = NOTHING
    start: Ints = NOTHING
    tokens: Ints = NOTHING
    growing: Ints = NOTHING
    blocks: Ints = NOTHING
    needed: int = 0

    def first(self, count: int) -> "Growth":
        """The same for the first so many of those who run alone."""
        kept = int(np.searchsorted(self.growing, count))
        blocks = self.blocks[:kept]
        return Growth(
            self.row[:count],
            self.start[:count],
            self.tokens[:count],
            self.growing[:kept],
            blocks,
            int(blocks.sum()),
        )


@define(eq=False)
class Batch:
    """Entry i runs positions [start[i], start[i] + tokens[i]) of the request at row[i], and samples[i] outputs.

    It counts while the row has the generation that it had.  `tick`: which step of the calendar it is, if any.
    """

    step: int
    row: Ints = NOTHING
    start: Ints = NOTHING
    tokens: Ints = NOTHING
    samples: Ints = NOTHING
    generation: Ints = NOTHING
    calendar: Calendar | None = None
    tick: int = 0

    def standing(self, rows: Rows) -> Bools | None:
        """Whose request still has its row; None if all have."""
        standing: Bools = rows.generation[self.row] == self.generation
        return None if standing.all() else standing
