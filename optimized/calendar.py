"""While all who run decode, a step changes nothing but two clocks, the tables of those who cross a block edge, and who
comes and goes.
"""

import numpy as np
import numpy.typing as npt
from attrs import define, field

from .arrays import Rows
from .ints import NOTHING, Bools, Ints, integers


@define(eq=False)
class Calendar:
    """All who run, in order of admission, each with one position and one output in each step.

    `steps` have been planned since it began, and the results of the first `done` of them have come; of the last `fresh`
    who run the result of their first step is still to come.  `columns` are `order` (rows), `generation`, and of each
    three things on the clock of steps: it stands at `starts + steps`, needs a block in the step after `edges`, and
    `ends` is its last.  `next_end` is the least of these.  In `Rows`, too, outputs count from when the calendar began,
    until they are written.  `is_closed`: those who wait do not fit, and will not until somebody leaves, since blocks
    only become fewer.
    """

    block_size: int
    columns: npt.NDArray[np.int64]
    next_end: int
    ones: Ints = NOTHING
    steps: int = 0
    done: int = 0
    fresh: int = 0
    is_closed: bool = False
    order: Ints = field(init=False)
    generation: Ints = field(init=False)
    starts: Ints = field(init=False)
    edges: Ints = field(init=False)
    ends: Ints = field(init=False)

    @classmethod
    def of(cls, rows: Rows, order: Ints, block_size: int) -> "Calendar":
        start, end = rows.issued[order], rows.samples_left[order]
        edge = rows.held[order] * block_size - start
        return cls(block_size, np.array((order, rows.generation[order], start, edge, end)), int(np.minimum.reduce(end)))

    def __attrs_post_init__(self) -> None:
        self._name_columns()

    # --- a step ------------------------------------------------------------------------------------------

    def one_each(self) -> Ints:
        """A one for each who runs."""
        count = len(self.order)
        if len(self.ones) < count:
            self.ones = integers(2 * count) + 1
        return self.ones[:count]

    def at_edge(self) -> Ints:
        """The places in the order of those who need a block for the next step."""
        return (self.edges <= self.steps).nonzero()[0]

    def edges_ahead(self, steps: int) -> tuple[Ints, Ints]:
        """Who needs a block in the next steps, at most `block_size` of them: places in the order, each once, step by
        step, and in which of them (from 0)."""
        places = (self.edges < self.steps + steps).nonzero()[0]
        step = self.edges[places] - self.steps
        if len(places) < 2:
            return places, step
        line = step.argsort(kind="stable")
        return places[line], step[line]

    def grown(self, places: Ints) -> Ints:
        """Those at these places got a block; their rows."""
        self.edges[places] += self.block_size
        return self.order[places]

    def ending(self, stopped: Bools, done: int) -> Ints:
        """The places in the order of those who end with the result number `done`: by their length, or as their model
        ended."""
        if done >= self.next_end:
            stopped = stopped | (self.ends <= done)
        return stopped.nonzero()[0]

    # --- who comes and goes ------------------------------------------------------------------------------

    def join(self, rows: Rows, which: Ints, issued: Ints, held: Ints) -> None:
        """They take part from the next step on, where so much of them is issued and held; the result of their first
        step is to come."""
        end = rows.samples_left[which] + self.steps
        start = issued - self.steps
        joined = np.array((which, rows.generation[which], start, held * self.block_size - start, end))
        self.columns = np.concatenate((self.columns, joined), axis=1)
        self._name_columns()
        rows.outputs[which] -= self.done
        self.next_end = min(self.next_end, int(np.minimum.reduce(end)))
        self.fresh = len(which)

    def leave(self, rows: Rows, places: Ints) -> Ints:
        """Those at these places take part no longer, others do; their rows."""
        left = self.order[places]
        rows.outputs[left] += self.done
        if len(places) == 1:
            place = int(places[0])
            self.columns = np.concatenate((self.columns[:, :place], self.columns[:, place + 1 :]), axis=1)
        else:
            stays = np.ones(len(self.order), dtype=np.bool_)
            stays[places] = False
            self.columns = self.columns.take(stays.nonzero()[0], axis=1)
        self._name_columns()
        self.next_end = int(np.minimum.reduce(self.ends))
        self.is_closed = False
        return left

    def write(self, rows: Rows) -> None:
        """What the clocks stand for, into the rows."""
        order = self.order
        rows.issued[order] = self.starts + self.steps
        rows.left[order] = 1
        rows.samples_left[order] = self.ends - self.steps
        rows.outputs[order] += self.done
        if self.done:
            known = slice(len(order) - self.fresh)
            rows.computed[order[known]] = self.starts[known] + self.done

    def _name_columns(self) -> None:
        self.order, self.generation, self.starts, self.edges, self.ends = self.columns
