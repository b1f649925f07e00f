"""Cells of the state in columns: what the numpy reading and the compiled reading share.

A `Table` has a row for each key, and a column for each map and set over that sort of keys.  The compiled reading sees
the same cells as attributes of records and as sets, so neither ever has to be brought up to date.
"""

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, MutableSet
from typing import Any

import attrs
import numpy as np

from schedspec.spec.compiled import Records, World
from schedspec.spec.terms import State

FARTHEST = 1 << 40
"""What is larger is kept beside the table, and its row is left to the compiled reading."""
ASIDE = -(1 << 63)
SET_METHODS = {"with": "update", "without": "difference_update"}
"""What many members do to a set at once."""
LIMITS = {"ASIDE": ASIDE, "LEAST": -FARTHEST, "MOST": FARTHEST}
"""By the names that functions over memory have for them."""


class Table:
    """Cells of some maps and sets over one sort of keys.  `at_<name>` is a column for numpy, `mem_<name>` the same
    memory for one cell at a time.  `reach` bounds all numbers in it; rows in `odd` hold one that has no place in it.
    `written`: rows of which a cell was written by itself since somebody looked, other than of `often`.  `counts`: more
    columns, of whoever else keeps a number for each row.  `views`: cells that are seen in another table, by the row."""

    def __init__(
        self,
        state: type[State],
        key: str,
        names: Collection[str],
        often: Collection[str] = (),
        counts: Collection[str] = (),
    ) -> None:
        self.key = key
        self.often = frozenset(often)
        sorts = {name: state.sorts[name] for name in sorted(names)}
        self.sets = tuple(name for name, sort in sorts.items() if sort.name == "Set")
        self.maps = tuple(name for name in sorts if name not in self.sets)
        self.codes = {n: "q" if sorts[n].args[-1].name in ("Int", "Set") else "b" for n in (*self.maps, *self.sets)}
        self.codes |= dict.fromkeys(counts, "q")
        self.views: dict[str, Callable[[int], Any]] = {}
        self.on_release: Callable[[int], None] | None = None
        self.index: dict[Any, int] = {}
        self.keys: list[Any] = []
        self.spare: list[int] = []
        self.odd: set[int] = set()
        self.reach = FARTHEST
        self.rows = 0
        self.written: set[int] = set()
        self._grow(64)

    def _grow(self, rows: int) -> None:
        for name, code in self.codes.items():
            memory = array(code, bytes(rows * array(code).itemsize))
            if self.rows:
                memory[: self.rows] = getattr(self, "mem_" + name)
            setattr(self, "mem_" + name, memory)
            setattr(self, "at_" + name, np.frombuffer(memory, dtype=np.int64 if code == "q" else np.bool_))
        self.spare += range(rows - 1, self.rows - 1, -1)
        self.keys += [None] * (rows - self.rows)
        self.rows = rows

    def row_of(self, key: Any) -> int:
        row = self.index.get(key)
        if row is None:
            if not self.spare:
                self._grow(2 * self.rows)
            row = self.index[key] = self.spare.pop()
            self.keys[row] = key
        return row

    def keys_at(self, rows: Any) -> list[Any]:
        return [self.keys[row] for row in rows.tolist()]

    def cell(self, name: str, code: str, is_often: bool) -> property:
        """How a record reads and writes its cell."""
        return _cell(name, code, is_often)

    def release(self, key: Any) -> None:
        """Its record is gone, and its cells are as if new.  A set may still name it: then it keeps its row."""
        row = self.index[key]
        if not any(getattr(self, "mem_" + name)[row] for name in self.sets):
            del self.index[key]
            self.keys[row] = None
            self.spare.append(row)
        for name in self.maps:
            getattr(self, "mem_" + name)[row] = 0
        self.odd.discard(row)

    def measure(self) -> None:
        """Bring the bound down to what is there."""
        self.reach = FARTHEST
        for name, code in self.codes.items():
            if code == "q":
                column = getattr(self, "at_" + name)
                kept = column[column != ASIDE]
                self.reach = max(self.reach, int(kept.max(initial=0)), -int(kept.min(initial=0)))

    def join(self, world: World) -> None:
        """The world's records and sets are this table's from now on; it must be new."""
        before = getattr(world, self.key)
        records = TableRecords(self, before.make)
        for key, record in before.items():
            for name in attrs.fields_dict(before.make):
                setattr(records[key], name, getattr(record, name))
        setattr(world, self.key, records)
        for name in self.sets:
            column = ColumnSet(self, name)
            self.put_in(column, getattr(world, name))
            setattr(world, name, column)

    def put_in(self, column: "ColumnSet", keys: Collection[Any]) -> None:
        column.update(keys)


class TableRecords(Records):
    """Records whose cells of the table are there, and the others their own: making one changes no cell."""

    def __init__(self, table: Table, plain: Callable[[], Any]) -> None:
        super().__init__(plain)
        self.table = table
        self.record = _record_class(table, plain)

    def __missing__(self, key: Any) -> Any:
        record = self[key] = self.record(self.table, self.table.row_of(key))
        return record

    def __iter__(self) -> Iterator[Any]:
        """Columns know keys that have no record yet."""
        return iter(list(self.table.index))

    def items(self) -> Any:
        return [(key, self[key]) for key in self]

    def pop(self, key: Any, *default: Any) -> Any:
        if key in self.table.index:
            if self.table.on_release is not None:
                self.table.on_release(self.table.index[key])
            self.table.release(key)
        return super().pop(key, *default)


def _record_class(table: Table, plain: Any) -> Any:
    """A record that keeps in the table what the table has; `big` what is too large for it."""
    own = {
        name: _first(cell) for name, cell in attrs.fields_dict(plain).items() if name not in {*table.maps, *table.views}
    }

    def __init__(self: Any, table: Table, row: int) -> None:
        self.table, self.row, self.big = table, row, {}
        for name, default in own.items():
            setattr(self, name, default() if callable(default) else default)

    cells = {name: table.cell(name, table.codes[name], name in table.often) for name in table.maps}
    cells |= {name: _view(view) for name, view in table.views.items()}
    slots = {"__slots__": ("table", "row", "big"), "__init__": __init__}
    return type(f"Table{plain.__name__}", (plain,), slots | cells)


def _view(view: Callable[[int], Any]) -> property:
    """What is written to it is written where it is seen."""
    return property(lambda record: view(record.row), lambda record, value: None)


def _first(cell: "attrs.Attribute[Any]") -> Any:
    """What a record starts with: a value, or what makes it."""
    default: Any = cell.default
    return getattr(default, "factory", default)


def _cell(name: str, code: str, is_often: bool) -> property:
    memory = "mem_" + name
    tell = "" if is_often else "table.written.add(row)"
    source = f"""
def get(record):
    value = record.table.{memory}[record.row]
    return value if value != ASIDE else record.big["{name}"]
def get_flag(record):
    return record.table.{memory}[record.row] != 0
def set(record, value):
    table, row = record.table, record.row
    {tell}
    if LEAST < value < MOST:
        table.{memory}[row] = value
    else:
        table.{memory}[row] = ASIDE
        table.odd.add(row)
        record.big["{name}"] = value
"""
    space: dict[str, Any] = dict(LIMITS)
    exec(source, space)
    return property(space["get" if code == "q" else "get_flag"], space["set"])


class ColumnSet(MutableSet[Any]):
    """A set of keys, as a column of the table.  `size` is None where columns were written since it was counted."""

    __slots__ = ("at", "memory", "size", "table")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, table: Table, name: str) -> None:
        self.table, self.memory, self.at = table, "mem_" + name, "at_" + name
        self.size: int | None = 0

    def __contains__(self, key: Any) -> bool:
        row = self.table.index.get(key)
        return row is not None and getattr(self.table, self.memory)[row] != 0

    def __iter__(self) -> Iterator[Any]:
        return iter(self.table.keys_at(np.flatnonzero(getattr(self.table, self.at))))

    def __len__(self) -> int:
        if self.size is None:
            self.size = int(np.count_nonzero(getattr(self.table, self.at)))
        return self.size

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) if other else not len(self)

    def add(self, key: Any) -> None:
        row = self.table.row_of(key)
        memory = getattr(self.table, self.memory)
        if not memory[row]:
            self.table.written.add(row)
            memory[row] = 1
            if self.size is not None:
                self.size += 1

    def discard(self, key: Any) -> None:
        row = self.table.index.get(key)
        memory = getattr(self.table, self.memory)
        if row is not None and memory[row]:
            self.table.written.add(row)
            memory[row] = 0
            if self.size is not None:
                self.size -= 1

    def clear(self) -> None:
        if self.size != 0:
            self.table.written.update(np.flatnonzero(getattr(self.table, self.at)).tolist())
            getattr(self.table, self.at)[:] = False
            self.size = 0

    def update(self, keys: Iterable[Any]) -> None:
        for key in keys:
            self.add(key)

    def difference_update(self, keys: Iterable[Any]) -> None:
        for key in keys:
            self.discard(key)

    def issuperset(self, keys: Iterable[Any]) -> bool:
        return all(key in self for key in keys)

    def intersection(self, keys: Iterable[Any]) -> set[Any]:
        return {key for key in keys if key in self}

    @classmethod
    def _from_iterable(cls, keys: Iterable[Any]) -> Any:
        return set(keys)
