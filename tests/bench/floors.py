"""What a step costs at least: bytes and operations that its change asks for; and how many calls it makes.

The floor counts what any scheduler has to read and write for the plan, 8 bytes a number, at the speed at which this
machine copies memory: a result, a position and what is left for each who runs; for each block taken or given back its
place on the stack and in a table; a line of columns for who is admitted.  Operations are the additions and comparisons
of these.  Calls of Python and of numpy are counted by the interpreter in one step of the same kind.
"""

import sys
import time
from types import FrameType

import numpy as np
from attrs import define, frozen

from schedspec.optimized.ints import Ints
from schedspec.optimized.scheduler import Scheduler

from .rounds import OfArrays

NUMBER = 8
COLUMNS = 8
"""Fields in the line of a request: what `Rows.seat` writes."""


@frozen(kw_only=True)
class Change:
    """What one step read and wrote."""

    running: int
    ended: int
    admitted: int
    taken: int
    given: int

    @property
    def numbers(self) -> int:
        """Read or written: result, position and rest of each who runs; both places of a block; lines."""
        return 3 * self.running + 2 * (self.taken + self.given) + COLUMNS * self.admitted

    @property
    def operations(self) -> int:
        """Position + 1, rest - 1, ended?, block edge? of each who runs; an addition for each block and line."""
        return 4 * self.running + self.taken + self.given + self.admitted + self.ended

    def floor_us(self, bytes_a_second: float) -> float:
        return self.numbers * NUMBER / bytes_a_second * 1e6


@define
class Calls:
    """Of functions in Python, and of built-in ones, numpy's among them."""

    python: int = 0
    built_in: int = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        self.python += event == "call"
        self.built_in += event == "c_call"


def bytes_a_second(size: int = 1 << 26) -> float:
    """Copying an array that fits into no cache, read and written, the best of some."""
    source = np.ones(size // NUMBER)
    target = np.empty_like(source)
    took = []
    for _ in range(7):
        begun = time.thread_time()
        np.copyto(target, source)
        took.append(time.thread_time() - begun)
    return 2 * size / min(took)


def looked_at(runs: OfArrays) -> tuple[Change, Calls]:
    """One more round, counted."""
    calls = Calls()
    scheduler = runs.scheduler
    before = _state(scheduler)
    sys.setprofile(calls)
    try:
        runs.round()
    finally:
        sys.setprofile(None)
    after = _state(scheduler)
    admitted, left = after.admissions - before.admissions, after.left - before.left
    given = before.held_by_those_gone(after)
    taken = before.free - after.free + given
    change = Change(running=len(before.rows), ended=left, admitted=admitted, taken=taken, given=given)
    return change, calls


@frozen(eq=False)
class _State:
    admissions: int
    left: int
    free: int
    rows: Ints
    generation: Ints
    held: Ints

    def held_by_those_gone(self, after: "_State") -> int:
        gone = self.generation[self.rows] != after.generation[self.rows]
        return int(self.held[gone].sum())


def _state(scheduler: Scheduler) -> _State:
    rows = scheduler.rows
    return _State(
        scheduler.admissions,
        rows.left_so_far,
        scheduler.blocks.free,
        scheduler.order.copy(),
        rows.generation.copy(),
        rows.held[scheduler.order],
    )
