"""While all who run decode, a step changes nothing but two clocks, and the tables of those who cross a block edge.

The calendar knows in which steps that is: whoever is at the same offset in a block crosses in the same step, once in
`block_size` steps.  It ends before the first step that somebody has no part in.
"""

from itertools import pairwise

import numpy as np
from attrs import define

from .arrays import Rows
from .ints import NOTHING, Ints, integers


@define(eq=False)
class Calendar:
    """`order`: who runs, in order of admission, each one position and one output in each step.  `starts` are their
    positions when it began; since then `steps` have been planned, and the results of the first `done` of them have
    come.  `edges[offset]`: who stood there.  `last_step` is the last that all take part in.  `is_closed`: those who
    wait do not fit, and will not while it stands, since blocks only become fewer."""

    order: Ints
    generation: Ints
    starts: Ints
    ones: Ints
    block_size: int
    edges: dict[int, Ints]
    last_step: int
    steps: int = 0
    done: int = 0
    is_closed: bool = False

    @classmethod
    def of(cls, rows: Rows, order: Ints, block_size: int) -> "Calendar":
        starts = rows.issued[order]
        ones = integers(len(order)) + 1
        last = int(rows.samples_left[order].min())
        edges = _by_offset(order, starts % block_size)
        return cls(order, rows.generation[order], starts, ones, block_size, edges, last)

    def at_edge(self, rows: Rows) -> Ints:
        """Who needs a block for the next step, in order of admission."""
        there = self.edges.get(-self.steps % self.block_size, NOTHING)
        return there[rows.held[there] * self.block_size <= rows.issued[there] + self.steps]

    def edges_ahead(self, rows: Rows, steps: int) -> tuple[Ints, Ints]:
        """Who needs a block in the next steps, at most `block_size` of them: rows in order, each once, and how many in
        each step."""
        offsets = [-(self.steps + step) % self.block_size for step in range(steps)]
        there = [self.edges.get(offset, NOTHING) for offset in offsets]
        counts = np.array([len(some) for some in there], dtype=np.int64)
        row, step = np.concatenate(there), np.repeat(np.arange(steps), counts)
        needs = rows.held[row] * self.block_size <= rows.issued[row] + self.steps + step
        return row[needs], np.bincount(step[needs], minlength=steps)

    def write(self, rows: Rows) -> None:
        """What the clocks stand for, into the rows."""
        order = self.order
        rows.issued[order] += self.steps
        rows.samples_left[order] -= self.steps
        if self.done:
            rows.outputs[order] += self.done
            rows.computed[order] = self.starts + self.done


def _by_offset(order: Ints, offsets: Ints) -> dict[int, Ints]:
    by_offset = np.argsort(offsets, kind="stable")
    ordered = offsets[by_offset]
    firsts = np.concatenate(([0], np.flatnonzero(np.diff(ordered)) + 1, [len(order)])).tolist()
    rows = order[by_offset]
    return {int(ordered[first]): rows[first:end] for first, end in pairwise(firsts)}
