"""Paged blocks that nobody shares: a stack of free ones, and a table per row."""

import numpy as np
import numpy.typing as npt
from attrs import define

from .arrays import Ints

FEW_PLACES = 4


@define(eq=False)
class Blocks:
    """`stack[:free]` are free, the next one to be taken last.  `tables` has a line per row; how much of it counts
    stands in the rows.  Whoever takes has asked before how many are free."""

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

    def append_one_each(self, rows: Ints, held: Ints) -> Ints:
        """A block for each of the rows, in order; which ones."""
        taken = self.take(len(rows))
        self._reach(int(held.max()) + 1)
        self.tables[rows, held] = taken
        return taken

    def append(self, row: int, held: int, count: int) -> Ints:
        """So many blocks for a row; which ones."""
        taken = self.take(count)
        self._reach(held + count)
        self.tables[row, held : held + count] = taken
        return taken

    def give_all(self, row: int, held: int) -> Ints:
        """All blocks of a row, from the end of its table; which ones."""
        given = self.tables[row, :held][::-1].copy()
        self.stack[self.free : self.free + held] = given
        self.free += held
        return given

    def table(self, row: int, held: int) -> list[int]:
        return self.tables[row, :held].tolist()

    def reach_rows(self, rows: int) -> None:
        """There are so many rows now."""
        more = rows - len(self.tables)
        if more > 0:
            self.tables = np.concatenate((self.tables, np.zeros((more, self.tables.shape[1]), dtype=np.int64)))

    def _reach(self, places: int) -> None:
        width = self.tables.shape[1]
        if places > width:
            more = max(places, 2 * width) - width
            self.tables = np.concatenate((self.tables, np.zeros((len(self.tables), more), dtype=np.int64)), axis=1)
