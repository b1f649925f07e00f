"""Cells of blocks in columns: a block of the pool is its own row, and whoever holds it alone is a number.

Of a map whose cells are sets, `alone` has a number for each block: the row of the one who is in it, NOBODY, or SEVERAL,
and then the record has the set.  A record that is asked for its set gets one, and the number is SEVERAL until `gather`
finds that one number does again.
"""

from collections.abc import Collection, Iterable, Iterator, MutableSet
from typing import Any

import numpy as np

from schedspec.spec.compiled import World
from schedspec.spec.registry import Registry
from schedspec.spec.terms import State, Term

from .cells import ColumnSet, Table

NOBODY, SEVERAL = -1, -2
COUNT = "held_alone"
"""The column of `holders` that counts."""
MOST_BLOCKS = 1 << 22
"""Of a larger pool no columns are made."""
ALONE: dict[str, Any] = {"NOBODY": NOBODY}
"""By the names that functions over memory have for it."""


class _Own:
    """Block -> row: its own number; whatever is no block of the pool has a row behind these."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self.others: dict[Any, int] = {}

    def get(self, key: Any) -> int | None:
        return key if key in self and key not in self.others else self.others.get(key)

    def __getitem__(self, key: Any) -> int:
        row = self.get(key)
        if row is None:
            raise KeyError(key)
        return row

    def __setitem__(self, key: Any, row: int) -> None:
        self.others[key] = row

    def __contains__(self, key: Any) -> bool:
        return (isinstance(key, int) and 0 <= key < self.blocks) or key in self.others

    def __iter__(self) -> Any:
        yield from range(self.blocks)
        yield from self.others


class PoolTable(Table):
    """`holders` is the table of those who are in the cells of the map `alone`, and has a column that counts in how many
    each is by itself; `loose` are rows in which SEVERAL stands."""

    def __init__(
        self, state: type[State], key: str, names: Collection[str], *, alone: str, blocks: int, holders: Table
    ) -> None:
        self.alone, self.holders, self.pool = alone, holders, blocks
        self.loose: set[int] = set()
        self.records: dict[int, Any] = {}
        super().__init__(state, key, {*names, alone}, names)
        self.index = _Own(blocks)  # type: ignore[assignment]

    def _grow(self, rows: int) -> None:
        before = self.rows
        rows = rows if before else self.pool + 64
        super()._grow(rows)
        self.spare = [row for row in self.spare if row >= self.pool] if not before else self.spare
        getattr(self, "at_" + self.alone)[before:] = NOBODY

    def keys_at(self, rows: Any) -> list[Any]:
        return [row if row < self.pool else self.keys[row] for row in rows.tolist()]

    def release(self, key: Any) -> None:
        raise AssertionError("blocks are never forgotten")

    def join(self, world: World) -> None:
        super().join(world)
        self.records = getattr(world, self.key)

    def put_in(self, column: ColumnSet, keys: Collection[Any]) -> None:
        rows = self._in_pool(keys)
        if rows is None:
            super().put_in(column, keys)
        else:
            getattr(self, column.at)[rows] = True
            column.size = len(rows)

    def cell(self, name: str, code: str, is_often: bool) -> property:
        return _alone(name) if name == self.alone else super().cell(name, code, is_often)

    def gather(self) -> None:
        """One number does where at most one is in the set."""
        index, counts = self.holders.index, getattr(self.holders, "mem_" + COUNT)
        memory = getattr(self, "mem_" + self.alone)
        for row in list(self.loose):
            kept = self.in_set(row)
            one = next(iter(kept), None)
            if len(kept) < 2 and (one is None or one in index):
                memory[row] = NOBODY if one is None else index[one]
                if one is not None:
                    counts[index[one]] += 1
                self.loose.discard(row)

    def in_set(self, row: int) -> set[Any]:
        """Who is in a cell of several."""
        found: set[Any] = self.records[row if row < self.pool else self.keys[row]].big[self.alone]
        return found

    def rows_of(self, blocks: Collection[int]) -> Any:
        """None if one of them is no block of the pool, or in a set of several."""
        rows = self._in_pool(blocks)
        if self.loose and rows is not None:
            self.gather()
            return rows if self.loose.isdisjoint(rows.tolist()) else None
        return rows

    def _in_pool(self, blocks: Collection[int]) -> Any:
        try:
            rows = np.fromiter(blocks, np.int64, len(blocks))
        except OverflowError:
            return None
        return rows if len(rows) and np.maximum.reduce(rows.view(np.uint64)) < self.pool else None

    def held_by(self, row: int) -> "HeldBy":
        return HeldBy(self, row)

    def part_from(self, row: int) -> None:
        """Whoever has that row is about to lose it: from here on it is in sets."""
        if getattr(self.holders, "mem_" + COUNT)[row]:
            for key in self.keys_at(np.flatnonzero(getattr(self, "at_" + self.alone) == row)):
                getattr(self.records[key], self.alone)


class HeldBy(MutableSet[Any]):
    """The blocks in whose cell somebody is.  It is the same said the other way round: whoever is put in there has one
    more, and nothing is left to be done here."""

    __slots__ = ("row", "table")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, table: PoolTable, row: int) -> None:
        self.table, self.row = table, row

    def __len__(self) -> int:
        table = self.table
        return int(getattr(table.holders, "mem_" + COUNT)[self.row]) + sum(self._is_in(row) for row in table.loose)

    def __contains__(self, key: Any) -> bool:
        row = self.table.index.get(key)
        if row is None:
            return False
        one = getattr(self.table, "mem_" + self.table.alone)[row]
        return bool(one == self.row) if one != SEVERAL else self._is_in(row)

    def __iter__(self) -> Iterator[Any]:
        table = self.table
        alone = np.flatnonzero(getattr(table, "at_" + table.alone) == self.row)
        several = [row for row in table.loose if self._is_in(row)]
        return iter(table.keys_at(np.concatenate((alone, np.array(several, dtype=alone.dtype)))))

    def _is_in(self, row: int) -> bool:
        return self.table.holders.keys[self.row] in self.table.in_set(row)

    def add(self, key: Any) -> None:
        """It is."""

    def discard(self, key: Any) -> None:
        """It is not."""

    @classmethod
    def _from_iterable(cls, keys: Iterable[Any]) -> Any:
        return set(keys)


def _alone(name: str) -> property:
    memory = "mem_" + name

    def get(record: Any) -> set[Any]:
        table, row = record.table, record.row
        one = getattr(table, memory)[row]
        if one != SEVERAL:
            record.big[name] = set() if one == NOBODY else {table.holders.keys[one]}
            if one != NOBODY:
                getattr(table.holders, "mem_" + COUNT)[one] -= 1
            getattr(table, memory)[row] = SEVERAL
            table.loose.add(row)
        found: set[Any] = record.big[name]
        return found

    def put(record: Any, value: set[Any]) -> None:
        get(record)
        record.big[name] = value

    return property(get, put)


def are_mirrored(registry: Registry, one: str, other: str) -> bool:
    """Whether two maps of sets say the same of two keys: whatever puts a key into a cell of the one, or takes it out,
    does so to the other."""
    for event in registry.events:
        written = {str(c.variable): c.term.args[1] for c in registry.effects(event).values()}
        there, back = (_moved(written.get(name)) for name in (one, other))
        if there != (None if back is None else (back[0], back[2], back[1])):
            return False
    return True


def _moved(value: Term | None) -> tuple[Any, ...] | None:
    """Whether a cell gets or loses, which key, and which cell."""
    if value is None or value.op == "state":
        return None
    cell = value.args[2] if value.op == "store" and value.args[0].op == "state" else None
    if cell is None or cell.op not in ("with", "without") or cell.args[0].op != "select":
        return value.key()
    return cell.op, cell.args[1].key(), value.args[1].key()


__all__ = ["ALONE", "COUNT", "MOST_BLOCKS", "NOBODY", "SEVERAL", "PoolTable", "are_mirrored"]
