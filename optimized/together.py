"""An event of a request, or of a request and a block, many at once of which no two name the same: the numpy reading
with two tables.

As in `columns.py` a function of this reading changes nothing and says False where a guard fails, a number might not
fit, or something is in several sets at once; then the same is judged one by one.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from schedspec.spec.compiled import defined
from schedspec.spec.registry import Conjunct, Registry, settled_after
from schedspec.spec.terms import Sort, Term, settled, walk

from .cells import SET_METHODS, Table
from .columns import Source
from .pool import ALONE, COUNT, PoolTable
from .scans import OPERATORS, Guard, NoScan, Scan, folded, varies

Function = Callable[..., bool]
ROOM = 1 << 50
"""No number of the tables may come near what has no place in them."""
_FUNCTIONS: dict[tuple[Any, ...], Function] = {}


def together(
    registry: Registry, event: str, active: Collection[str], dropped: str | None, tables: Sequence[Table]
) -> Function | None:
    """A function of a world, tables, places in each of them, how many there are, and the columns of fields; None where
    the event is no such one."""
    guards, effects = registry.parts_of(event, lambda c: c.name in active, dropped)
    shape = tuple((table.key, table.maps, table.sets, *table.views) for table in tables)
    key = (event, guards, effects, shape)
    if key not in _FUNCTIONS:
        try:
            source = _Together(registry, event, guards, effects, tables).source()
        except NoScan:
            return None
        given = {"count_nonzero": np.count_nonzero, "where": np.where, "each": _each, "ROOM": ROOM, **ALONE}
        _FUNCTIONS[key] = defined(f"together_{event}", source, given)
    return _FUNCTIONS[key]


def _each(method: Callable[[set[Any], Any], None], records: Any, name: str, keys: Any, members: Any) -> None:
    """Sets of records, which have no column, each get or lose one."""
    for _ in map(method, map(attrgetter(name), map(records.__getitem__, keys)), members):
        pass


class _Together(Source):
    """Names: `v_` gathered cells, `t_` results; `T0` and `k0` the first table and the places in it, `T1` and `k1` the
    second."""

    def __init__(
        self,
        registry: Registry,
        event: str,
        guards: Sequence[Conjunct],
        effects: Sequence[Conjunct],
        tables: Sequence[Table],
    ) -> None:
        self.tables = tables
        self.fields: Mapping[str, Sort] = registry.events[event].sorts
        self.place = {table.key: number for number, table in enumerate(tables)}
        self.key = {sort.name: name for name, sort in self.fields.items() if sort.name not in _PLAIN}
        if {*self.key} != {*self.place} or len(self.key) < len(self.fields):
            raise NoScan(f"{event} names something else than one key of each table")
        numbers = registry.numbers
        self.alone: list[Term] = []
        self.behind: list[str] = []
        self.sets: dict[str, Term] = {}
        asked = [self._guard(numbers[c.name], c, effects) for c in guards]
        cells = {}
        for conjunct in effects:
            name, value = str(conjunct.variable), conjunct.term.args[1]
            cell = self._effect(name, value)
            if cell is not None:
                cells[name] = folded(settled(cell, {}), {})
        scan = Scan(
            event=event,
            fields=self.fields,
            sorts=registry.state.sorts,
            key="",
            over="",
            guards=asked,
            cells=cells,
            added={},
            assigned={},
            reads=frozenset(),
        )
        for term in scan.terms:
            self._check(term)
        super().__init__(scan)

    # --- what it asks and does -----------------------------------------------------------------------------------

    def _guard(self, number: int, conjunct: Conjunct, effects: Sequence[Conjunct]) -> Guard:
        if conjunct.term.op == "implies":
            raise NoScan("what is asked only of some")
        return Guard(number, None, folded(self._without_sets(settled_after(conjunct.term, effects)), {}))

    def _without_sets(self, term: Term) -> Term:
        """Whether a set of a record is empty has no column: a guard that holds all the same needs none."""
        if term.op in ("and", "or"):
            return Term(term.op, tuple(map(self._without_sets, term.args)), term.sort)
        if term.op == "eq" and term.args[1].op == "empty" and not self._is_alone(term.args[0]):
            return Term("const", (False,), Sort("Bool"))
        return term

    def _effect(self, name: str, value: Term) -> Term | None:
        """What becomes of a cell; None where it is no column, or has no value of its own."""
        if value.op in ("with", "without") and value.args[0].op == "state":
            member = value.args[1]
            table = self._table_of(member)
            if name in table.sets and name in table.often:
                return Term("const", (value.op == "with",), Sort("Bool"))
            self.behind.append(f"W.{name}.{SET_METHODS[value.op]}(c_{member.args[0]})")
            return None
        if value.op != "store" or value.args[0].op != "state":
            raise NoScan(f"{name} is not touched at a key alone")
        _, key, cell = value.args
        table = self._table_of(key)
        if cell.sort.name == "Set":
            self._set_effect(name, key, cell)
            return None
        if name not in table.maps or name not in table.often:
            raise NoScan(f"{name} has no column, or one that is watched")
        return cell  # type: ignore[no-any-return]

    def _set_effect(self, name: str, key: Term, cell: Term) -> None:
        """A set in a cell gets or loses the other key."""
        before = cell.args[0] if cell.op in SET_METHODS else None
        if (
            before is None
            or before.op != "select"
            or before.args[0].args[0] != name
            or before.args[1].key() != key.key()
        ):
            raise NoScan(f"{name} does not get or lose one key")
        member = cell.args[1]
        self._table_of(member)
        table = self._table_of(key)
        if name in table.views:
            return
        if not self._is_alone(before):
            method = "set.add" if cell.op == "with" else "set.discard"
            self.behind.append(f"each({method}, W.{key.sort.name}, {name!r}, c_{key.args[0]}, c_{member.args[0]})")
        elif cell.op == "with":
            self.alone.append(before)
            self.sets[name] = member
        else:
            raise NoScan(f"{name} loses somebody")

    def _table_of(self, key: Term) -> Table:
        if key.op != "field" or key.sort.name not in self.place:
            raise NoScan("a key that has no table")
        return self.tables[self.place[key.sort.name]]

    def _is_alone(self, term: Term) -> bool:
        if term.op != "select" or term.args[0].op != "state" or term.args[1].op != "field":
            return False
        table = self._table_of(term.args[1])
        return isinstance(table, PoolTable) and term.args[0].args[0] == table.alone

    def _check(self, term: Term) -> None:
        """Whatever is read is a cell at a key, or the same for all entries."""
        if not varies(term):
            return
        if term.op == "eq" and term.args[1].op == "empty" and self._is_alone(term.args[0]):
            return
        if term.op in ("select", "has") and term.args[0].op == "state" and term.args[1].op == "field":
            table = self._table_of(term.args[1])
            if term.sort.name in _PLAIN and term.args[0].args[0] in (*table.maps, *table.sets):
                return
        if term.op not in OPERATORS or any(part.sort.name not in _PLAIN for part in term.parts):
            raise NoScan(f"{term.op} has no columns")
        for part in term.parts:
            self._check(part)

    # --- text ------------------------------------------------------------------------------------------------------

    def source(self) -> str:
        scan = self.scan
        self.constants(scan.terms)
        self.bounds(scan)
        self.gathered([*scan.terms, *self.alone])
        nobody = [f"(v_{part.args[0].args[0]} == NOBODY)" for part in self.alone]
        for part, text in zip(self.alone, nobody, strict=True):
            name = f"u_{part.args[0].args[0]}"
            self.lines += [f"{name} = {text}", f"if count_nonzero({name}) != n:", "    return False"]
            self.names[_is_empty(part)] = name
        return self.function("together_" + scan.event, [*self.demands(), *self._writes(), "return True"])

    def function(self, name: str, ends: Sequence[str]) -> str:
        tables = "".join(f", T{number}, k{number}" for number in range(len(self.tables)))
        fields = "".join(f", c_{name}" for name in self.fields)
        odd = " or ".join(f"T{number}.odd" for number in range(len(self.tables)))
        head = [f"if {odd}:", "    return False", "cells = " + self._reach()]
        lines = [f"def {name}(W{tables}, n{fields}):"]
        return "\n".join([*lines, *("    " + line for line in [*head, *self.lines, *ends])]) + "\n"

    def _reach(self) -> str:
        reaches = [f"T{number}.reach" for number in range(len(self.tables))]
        return reaches[0] if len(reaches) == 1 else f"max({', '.join(reaches)})"

    @staticmethod
    def _magnitude(name: str) -> str:
        return "cells" if name == "cell" else f"max(1, abs({name}))"

    def gathered(self, terms: Any) -> None:
        for part in (part for term in terms for part in walk(term)):
            if part.op not in ("select", "has") or part.key() in self.names or part.args[0].op != "state":
                continue
            if part.sort.name not in _PLAIN and not self._is_alone(part):
                continue
            number, name = self.place[part.args[1].sort.name], part.args[0].args[0]
            self.lines.append(f"v_{name} = T{number}.at_{name}[k{number}]")
            self.names[part.key()] = f"v_{name}"

    def _text(self, term: Term) -> str:
        if term.op == "eq" and term.args[1].op == "empty":
            return f"({self.text(term.args[0])} == NOBODY)"
        return super()._text(term)

    def _writes(self) -> list[str]:
        scan, values, written = self.scan, [], []
        for name, cell in scan.cells.items():
            number = self.place[self._key_of(name)]
            text = self.text(cell)
            if varies(cell) and not text.isidentifier():
                values.append(f"t_{name} = {text}")
                text = f"t_{name}"
            lines = [f"T{number}.at_{name}[k{number}] = {text}"]
            if scan.sorts[name].name == "Set":
                lines = [*self._sizes(name, text), *lines]
                if text == "False":
                    lines = [f"if W.{name}.size != 0:", *("    " + line for line in lines)]
            written += lines
        for name, member in self.sets.items():
            number, other = self.place[self._key_of(name)], self.place[member.sort.name]
            written += [f"T{number}.at_{name}[k{number}] = k{other}", f"T{other}.at_{COUNT}[k{other}] += 1"]
        values += ["X = W.exercised", *(f"X[{guard.number}] += n" for guard in scan.guards)]
        reaches = [f"T{number}.reach = max(T{number}.reach, reach)" for number in range(len(self.tables))]
        return [*values, *written, *self.behind, *reaches, f"W.events[{scan.event!r}] += n"]

    def _sizes(self, name: str, text: str) -> list[str]:
        """How many are in a set, where it is known how many of these were."""
        if f"v_{name}" not in self.names.values():
            return [f"W.{name}.size = None"]
        change = f"-= int(count_nonzero(v_{name}))" if text == "False" else f"+= n - int(count_nonzero(v_{name}))"
        return [f"if W.{name}.size is not None:", f"    W.{name}.size {change}"]

    def _key_of(self, name: str) -> str:
        return str(self.scan.sorts[name].args[0].name)


def _is_empty(part: Term) -> tuple[Any, ...]:
    empty = Term("empty", (), part.sort)
    return Term("eq", (part, empty), Sort("Bool")).key()


_PLAIN = ("Int", "Bool")
