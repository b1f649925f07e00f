"""While all who run decode, a step changes nothing but two clocks, the tables of those who cross a block edge, and who
comes and goes.

The calendar knows in which steps that is: whoever is at the same offset in a block crosses in the same step, once in
`block_size` steps.
"""

from itertools import pairwise

import numpy as np
import numpy.typing as npt
from attrs import Factory, define

from .arrays import Rows
from .ints import NOTHING, Bools, Ints, integers

EMPTY = np.empty((2, 0), dtype=np.int64)


@define(eq=False)
class Calendar:
    """All who run, in order of admission, each with one position and one output in each step.

    `steps` have been planned since it began, and the results of the first `done` of them have come; those of the last
    `fresh` who run began with a step whose result is still to come.  `columns` are `order` (rows),
    `generation`, `starts` and `lasts`: at `starts + steps` a row stands, and `lasts` is the step of its last output,
    of which the least is `next_end`.  In `Rows`, too, their outputs count from when the calendar began, until they are
    written.

    `edges[offset]`: who stood there when it began, rows and their generations; `joined[offset]`: who does since.  An
    entry of another generation is nobody's any more.  `is_closed`: those who wait do not fit, and will not until
    somebody leaves, since blocks only become fewer.
    """

    block_size: int
    columns: npt.NDArray[np.int64]
    edges: dict[int, Ints]
    next_end: int
    left_so_far: int
    joined: dict[int, list[tuple[int, int]]] = Factory(dict)
    ones: Ints = NOTHING
    steps: int = 0
    done: int = 0
    fresh: int = 0
    is_closed: bool = False

    @classmethod
    def of(cls, rows: Rows, order: Ints, block_size: int) -> "Calendar":
        columns = np.array((order, rows.generation[order], rows.issued[order], rows.samples_left[order]))
        edges = _by_offset(columns[:2], columns[2] % block_size)
        return cls(block_size, columns, edges, int(columns[3].min()), rows.left_so_far)

    @property
    def order(self) -> Ints:
        return self.columns[0]

    @property
    def generation(self) -> Ints:
        return self.columns[1]

    @property
    def starts(self) -> Ints:
        return self.columns[2]

    @property
    def lasts(self) -> Ints:
        return self.columns[3]

    # --- a step ------------------------------------------------------------------------------------------

    def one_each(self) -> Ints:
        """A one for each who runs."""
        count = self.columns.shape[1]
        if len(self.ones) < count:
            self.ones = integers(2 * count) + 1
        return self.ones[:count]

    def at_edge(self, rows: Rows) -> Ints:
        """Who needs a block for the next step, in order of admission."""
        there = self.standing_at(-self.steps % self.block_size, rows)
        return there[rows.held[there] * self.block_size <= rows.issued[there] + self.steps]

    def edges_ahead(self, rows: Rows, steps: int) -> tuple[Ints, Ints]:
        """Who needs a block in the next steps, at most `block_size` of them: rows in order, each once, and how many in
        each step."""
        there = [self.standing_at(-(self.steps + step) % self.block_size, rows) for step in range(steps)]
        counts = np.array([len(some) for some in there], dtype=np.int64)
        row, step = np.concatenate(there), np.repeat(np.arange(steps), counts)
        needs = rows.held[row] * self.block_size <= rows.issued[row] + self.steps + step
        return row[needs], np.bincount(step[needs], minlength=steps)

    def standing_at(self, offset: int, rows: Rows) -> Ints:
        there = self.edges.get(offset, EMPTY)
        joined = self.joined.pop(offset, None)
        if joined:
            there = self.edges[offset] = np.concatenate((there, np.array(joined).T), axis=1)
        if rows.left_so_far != self.left_so_far:
            there = self.edges[offset] = there[:, rows.generation[there[0]] == there[1]]
        return there[0]

    # --- who comes and goes ------------------------------------------------------------------------------

    def join(self, rows: Rows, which: Ints) -> None:
        """From the next step on they take part; the result of their first one is to come."""
        generation, start = rows.generation[which], rows.issued[which] - self.steps
        last = rows.samples_left[which] + self.steps
        self.columns = np.concatenate((self.columns, np.array((which, generation, start, last))), axis=1)
        rows.issued[which] = start
        rows.outputs[which] -= self.done
        self.next_end = min(self.next_end, int(last.min()))
        self.fresh = len(which)
        offsets = (start % self.block_size).tolist()
        for offset, row, of in zip(offsets, which.tolist(), generation.tolist(), strict=True):
            self.joined.setdefault(offset, []).append((row, of))

    def ending(self, stopped: Bools) -> Ints:
        """The places in the order of those who end with the next result: by their length, or as their model ended."""
        if self.done + 1 >= self.next_end:
            stopped = stopped | (self.lasts <= self.done + 1)
        return stopped.nonzero()[0]

    def leave(self, rows: Rows, places: Ints) -> None:
        """Those who stand at these places in the order take part no longer, others do; nothing is in flight."""
        self._write(rows, places)
        stays = np.ones(self.columns.shape[1], dtype=np.bool_)
        stays[places] = False
        self.columns = self.columns.take(stays.nonzero()[0], axis=1)
        self.next_end = int(self.lasts.min())
        self.is_closed = False

    def write(self, rows: Rows) -> None:
        """What the clocks stand for, into the rows."""
        self._write(rows, slice(None))

    def _write(self, rows: Rows, places: Ints | slice) -> None:
        order, start, last = self.order[places], self.starts[places], self.lasts[places]
        rows.issued[order] = start + self.steps
        rows.samples_left[order] = last - self.steps
        rows.outputs[order] += self.done
        if self.done:
            known = slice(len(order) - self.fresh)
            rows.computed[order[known]] = start[known] + self.done


def _by_offset(rows: Ints, offsets: Ints) -> dict[int, Ints]:
    by_offset = np.argsort(offsets, kind="stable")
    ordered = offsets[by_offset]
    firsts = np.concatenate(([0], np.flatnonzero(np.diff(ordered)) + 1, [len(ordered)])).tolist()
    rows = rows[:, by_offset]
    return {int(ordered[first]): rows[:, first:end] for first, end in pairwise(firsts)}
