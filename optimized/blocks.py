"""Paged blocks that nobody shares: a stack of free ones, and a table per row."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from attrs import define

from .ints import Ints

FEW_PLACES = 4


@define(eq=False)
class Blocks:
    """`stack[:free]` are free, the next one to be taken last.  `tables` has a line per row; how much of it counts
    stands in the rows.  Whoever takes has asked before how many are free.  Rows are at least one."""

    stack: Ints
    free: int
    tables: npt.NDArray[np.int64]

    @classmethod
    def of(cls, blocks: int, rows: int) -> "Blocks":
        stack = np.arange(blocks - 1, -1, -1, dtype=np.int64)
        return cls(stack, blocks, np.zeros((rows, FEW_PLACES), dtype=np.int64))

    def take(self, count: int) -> Ints:
        """From the top of the stack, in the order in which single ones would be taken."""
        self.free -= count
        return self.stack[self.free : self.free + count][::-1].copy()

    def append(self, rows: Ints, held: Ints, counts: Ints) -> Ints:
        """So many blocks for each of the rows, in order; all of them."""
        if len(rows) == 1:
            return self._append_to(int(rows[0]), int(held[0]), int(counts[0]))
        ends = counts.cumsum()
        taken = self.take(int(ends[-1]))
        self._reach(int(np.maximum.reduce(held + counts)))
        first = rows * self.tables.shape[1] + held
        self.tables.reshape(-1)[(first + counts - ends).repeat(counts) + np.arange(len(taken))] = taken
        return taken

    def append_one(self, rows: Ints, held: Ints) -> Ints:
        """A block for each of the rows, in order; all of them."""
        if len(rows) == 1:
            return self._append_to(int(rows[0]), int(held[0]), 1)
        taken = self.take(len(rows))
        self._reach(int(np.maximum.reduce(held)) + 1)
        self.tables[rows, held] = taken
        return taken

    def give_all(self, rows: Ints, held: Ints) -> Ints:
        """All blocks of the rows, in order, each from the end of its table; all of them."""
        if len(rows) == 1:
            given: Ints = self.tables[rows[0], : held[0]][::-1].copy()
            self.stack[self.free : self.free + len(given)] = given
            self.free += len(given)
            return given
        ends = held.cumsum()
        first, count = rows * self.tables.shape[1], int(ends[-1])
        given = self.tables.reshape(-1)[(first + ends).repeat(held) - np.arange(1, count + 1)]
        self.stack[self.free : self.free + count] = given
        self.free += count
        return given

    def table(self, row: int, held: int) -> list[int]:
        return list(map(int, self.tables[row, :held]))

    def reach_rows(self, rows: int) -> None:
        """There are so many rows now."""
        more = rows - len(self.tables)
        if more > 0:
            self.tables = np.concatenate((self.tables, np.zeros((more, self.tables.shape[1]), dtype=np.int64)))

    def _append_to(self, row: int, held: int, count: int) -> Ints:
        """The same for one row, which is the rule: an array of one costs as much as one of many."""
        taken = self.take(count)
        self._reach(held + count)
        self.tables[row, held : held + count] = taken
        return taken

    def _reach(self, places: int) -> None:
        width = self.tables.shape[1]
        if places > width:
            more = max(places, 2 * width) - width
            self.tables = np.concatenate((self.tables, np.zeros((len(self.tables), more), dtype=np.int64)), axis=1)


def parts(blocks: Ints, counts: Ints) -> Iterator[list[int]]:
    """So many of the blocks for each, as lists."""
    plain, first = blocks.tolist(), 0
    for count in counts.tolist():
        yield plain[first : first + count]
        first += count
