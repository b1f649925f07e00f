"""The numpy reading is held against the compiled one, on specifications made at random.

`test_agreement.py` holds the compiled reading against a solver.  Here events with one key are drawn; those that are
scans run over columns of distinct keys in both readings: each guard by itself, what counts as exercised, and the state
after.  What is no scan has to be refused, and the state stays as it was where a guard fails.  What both share, the
cells, is in `test_cells.py`.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("numpy")

import numpy as np
from tests.unit.test_agreement import SIZE, A, Draw, Things, keys, value_of

from schedspec.optimized import columns, scans
from schedspec.optimized.cells import ColumnSet, Table
from schedspec.optimized.columns import column_of, function_of
from schedspec.optimized.scans import NoScan, Scan, scan_of
from schedspec.spec import terms
from schedspec.spec.compiled import World, compile_program
from schedspec.spec.registry import Registry
from schedspec.spec.terms import Bool, Event, Int, Sort


class Meets(Event):
    x: A
    i: Int
    j: Int
    yes: Bool


REACH = 1 << 10
"""A true bound of what is drawn, so that products are not refused."""
SCALARS = ("number", "total", "flag")
WRITTEN = ("number", "total", "flag", "group", "other", "value", "weight", "ready")


class ColumnDraw(Draw):
    """Terms that touch one key.  `kept` are the scalars and sets that no effect changes: they may be read
    whole."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.event: Any = Meets("field")
        self.kept = {name for name in ("number", "total", "flag", "group", "other") if self.random.random() < 0.5}

    def key(self, sort: Any, depth: int) -> Any:
        return self.event.x

    def leaf(self, *names: str) -> Any:
        kept = [name for name in names if name in self.kept]
        return getattr(self.view(), self.random.choice(kept)) if kept else None

    def integer(self, depth: int) -> Any:
        e, down = self.event, depth - 1
        leaves = [lambda: terms.lift(self.random.randint(-1, 3), terms.INT), lambda: e.i, lambda: e.j]
        whole = self.leaf("number", "total")
        leaves += [] if whole is None else [lambda: whole]
        if depth <= 0:
            return self.one(*leaves)
        group = self.leaf("group", "other")
        leaves += [] if group is None else [lambda: terms.card(group), lambda: terms.card(group.add(e.x))]
        return self.one(
            *leaves,
            lambda: self.table(self.one(lambda: "value", lambda: "weight"), down)[e.x],
            lambda: self.table(self.one(lambda: "value", lambda: "weight"), down)[e.x],
            lambda: self.integer(down) + self.integer(down),
            lambda: self.integer(down) - self.integer(down),
            lambda: self.integer(down) * self.integer(down),
            lambda: terms.ite(self.truth(down), self.integer(down), self.integer(down)),
        )

    def set(self, sort: Any, depth: int) -> Any:
        plain, down = getattr(self.view(), self.random.choice(("group", "other"))), depth - 1
        if depth <= 0:
            return plain
        return self.one(
            lambda: plain,
            lambda: self.set(sort, down).add(self.key(sort, 0)),
            lambda: self.set(sort, down).remove(self.key(sort, 0)),
            lambda: terms.ite(self.truth(down), self.set(sort, down), self.set(sort, down)),
        )

    def truth(self, depth: int) -> Any:
        e, down = self.event, depth - 1
        whole = self.leaf("flag")
        leaves = [lambda: e.yes, *([] if whole is None else [lambda: whole])]
        if depth <= 0:
            return self.one(*leaves)
        return self.one(
            *leaves,
            lambda: terms.lift(self.random.random() < 0.5, terms.BOOL),
            lambda: self.integer(down) <= self.integer(down),
            lambda: self.integer(down) < self.integer(down),
            lambda: self.integer(down) == self.integer(down),
            lambda: self.set(A, down).has(e.x),
            lambda: self.table("ready", down)[e.x],
            lambda: self.truth(down) & self.truth(down),
            lambda: self.truth(down) | self.truth(down),
            lambda: ~self.truth(down),
            lambda: terms.implies(self.truth(down), self.truth(down)),
            lambda: terms.iff(self.truth(down), self.truth(down)),
            lambda: terms.ite(self.truth(down), self.truth(down), self.truth(down)),
        )

    def effects(self) -> Iterator[Bool]:
        self.after = False
        for name in WRITTEN:
            if name not in self.kept and self.random.random() < 0.7:
                yield getattr(self.later, name) == self.update(name, Things.sorts[name])

    def update(self, name: str, sort: Sort) -> Any:
        before = getattr(self.state, name)
        if sort.name == "Bool":
            return self.truth(0) if self.random.random() < 0.3 else terms.lift(True, terms.BOOL)
        if sort.name == "Int":
            return self.sum(before, 2)
        key = self.event.x
        if sort.args[-1].name == "Int" and self.random.random() < 0.5:
            step = self.one(lambda: terms.lift(2, terms.INT), lambda: self.leaf("number", "total"))
            step = terms.lift(1, terms.INT) if step is None else step
            return before.set(key, self.one(lambda: before[key] + step, lambda: before[key] - step))
        if sort.name == "Set" and self.random.random() < 0.3:
            return before.add(key)
        value = before
        for _ in range(self.random.randint(1, 2)):
            value = self.updated(value, before, sort)
        return value

    def sum(self, before: Any, depth: int) -> Any:
        if depth <= 0:
            return before
        return self.one(
            lambda: self.sum(before, depth - 1) + self.integer(1),
            lambda: self.integer(1) + self.sum(before, depth - 1),
            lambda: self.sum(before, depth - 1) - self.integer(1),
            lambda: terms.ite(self.truth(1), self.sum(before, depth - 1), before),
        )

    def updated(self, value: Any, start: Any, sort: Sort) -> Any:
        key = self.event.x
        if self.random.random() < 0.3:
            return terms.ite(self.truth(1), value, self.updated(start, start, sort))
        if sort.name == "Set":
            return self.one(lambda: value.add(key), lambda: value.remove(key))
        return value.set(key, self.any(sort.args[1], 2))


def specification(draw: ColumnDraw) -> Registry:
    made = Registry(Things, {})
    body = (*(draw.guard() for _ in range(4)), *draw.effects())

    def rule(s: Things, e: Event, t: Things) -> tuple[Bool, ...]:
        """Anything."""
        return body

    made.rule("KV-1", on=Meets)(rule)
    return made


class Case:
    def __init__(self, seed: int) -> None:
        self.draw = ColumnDraw(seed)
        self.registry = specification(self.draw)
        guards = [c.name for c in self.registry.guards("Meets")]
        self.subsets = [frozenset({guard}) for guard in guards] + [frozenset(guards), frozenset()]

    def disagreement(self, active: frozenset[str]) -> str | None:
        """Columns in which all say the same are drawn, too: they have versions of their own."""
        scan, pick = scan_of(self.registry, "Meets", active, None), self.draw.random
        for _ in range(4):
            state = {name: value_of(self.draw, sort) for name, sort in Things.sorts.items()}
            if pick.random() < 0.5:
                for name in ("value", "weight"):
                    state[name] = dict.fromkeys(state[name], pick.randint(-1, 3))
            chosen = pick.sample(keys(Sort("A")), pick.randint(1, SIZE))
            alike = pick.random() < 0.5
            numbers = [[pick.randint(-1, 3) for _ in chosen] for _ in "ij"]
            flags = [pick.random() < 0.5 for _ in chosen]
            columns: list[list[Any]] = [*numbers, flags]
            events = [column[:1] * len(column) if alike else column for column in columns]
            if differs := self._differs(scan, active, state, chosen, events):
                return differs
        return None

    def _differs(
        self, scan: Scan, active: frozenset[str], state: dict[str, Any], chosen: list[str], events: list[Any]
    ) -> str | None:
        program = compile_program(self.registry, lambda c: c.name in active)
        plain, untouched = filled(program.world(), state), filled(program.world(), state)
        program.many["Meets"](plain, chosen, *events)
        world, table = program.world(), Table(Things, "A", scan.names)
        table.join(world)
        filled(world, state)
        table.reach = REACH
        arrays = [column_of(c, kind) for c, kind in zip(events, ("Int", "Int", "Bool"), strict=True)]
        done = function_of(scan)(world, table, placed(table, chosen), len(chosen), *arrays)
        if done == bool(plain.failed):
            return f"says {done} where {plain.failed} failed"
        if done and (world.exercised != plain.exercised or world.events != plain.events):
            return f"counts {world.exercised} for {plain.exercised}"
        expected, found = shown(plain if done else untouched), shown(world)
        wrong = [name for name in expected if expected[name] != found[name]]
        return f"after the event: {wrong}" if wrong else None


def placed(table: Table, column: list[str]) -> Any:
    return np.array(list(map(table.row_of, column)))


def filled(world: World, state: dict[str, Any]) -> World:
    for name, sort in Things.sorts.items():
        if sort.name == "Map":
            for key, cell in state[name].items():
                setattr(getattr(world, sort.args[0].name)[key], name, set(cell) if isinstance(cell, set) else cell)
        elif sort.name == "Set":
            for key in state[name]:
                getattr(world, name).add(key)
        else:
            setattr(world, name, state[name])
    return world


def shown(world: World) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in WRITTEN:
        sort = Things.sorts[name]
        if sort.name == "Map":
            records = getattr(world, sort.args[0].name)
            found[name] = {key: getattr(records[key], name) for key in keys(sort.args[0])}
        else:
            value = getattr(world, name)
            found[name] = value if name in SCALARS else (set(value), len(value))
    return found


def disagreements(seeds: range) -> tuple[list[str], int]:
    """What differs, and how many events were scans."""
    found: list[str] = []
    scans_seen = 0
    for seed in seeds:
        case = Case(seed)
        for active in case.subsets:
            try:
                differs = case.disagreement(active)
            except NoScan:
                continue
            scans_seen += 1
            found += [f"seed {seed}, {sorted(active)}: {differs}"] if differs else []
    return found, scans_seen


def test_readings_agree() -> None:
    found, scans_seen = disagreements(range(60))
    assert found == []
    assert scans_seen > 150


def _forgets_the_else(reader: Any, name: str, value: Any) -> Any:
    cell = _CELL(reader, name, value)
    return cell.args[1] if cell.op == "ite" else cell


def _adds_once(reader: Any, name: str, value: Any) -> Any:
    part = _INCREMENT(reader, name, value)
    return part.args[1] if part is not None and part.op == "add" else part


def _says_most(column: Any, count: int) -> bool | None:
    return bool(np.count_nonzero(column) == count)


_READER = scans._Reader
_CELL, _INCREMENT = _READER._cell, _READER._increment

FAULTS: dict[str, tuple[Any, str, Any]] = {
    "≤ is <": (columns, "_SIGNS", columns._SIGNS | {"le": "<"}),
    "or is and": (columns, "_SIGNS", columns._SIGNS | {"or": "&"}),
    "a choice has no else": (_READER, "_cell", _forgets_the_else),
    "implications count always": (columns._Version, "_times", lambda source, condition: "n"),
    "not is forgotten": (scans, "_FOLDS", scans._FOLDS | {"not": lambda term: term.args[0]}),
    "what follows from nothing holds": (scans, "_FOLDS", scans._FOLDS | {"implies": lambda term: term.args[1]}),
    "a choice is its else": (scans, "_FOLDS", scans._FOLDS | {"ite": lambda term: term.args[2]}),
    "of a sum one part is added": (_READER, "_increment", _adds_once),
    "guards are not asked": (columns._Version, "demands", lambda source: []),
    "what is false of one is false of all": (columns, "same", _says_most),
    "how it came out the last time is how it is": (columns._Version, "_cases", lambda source: []),
    "a set's size is what it was": (ColumnSet, "__len__", lambda column: column.size or 0),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_shows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_FUNCTIONS", {})  # nothing that was made without the fault
    monkeypatch.setattr(*FAULTS[name])
    assert any(disagreements(range(start, start + 5))[0] for start in range(0, 60, 5))


Body = Callable[[Any, Any, Any], tuple[Bool, ...]]
SEE_EACH_OTHER: dict[str, Body] = {
    "a sum is read": lambda s, e, t: (t.number == s.number + e.i, s.number <= 3),
    "a sum is read after": lambda s, e, t: (t.number == s.number + e.i, t.number <= 3),
    "a set is counted": lambda s, e, t: (t.group == s.group.add(e.x), terms.card(s.group) <= 2),
    "a set is cleared": lambda s, e, t: (t.group == s.group.cleared(),),
    "a number is doubled": lambda s, e, t: (t.number == s.number + s.number,),
    "the last one counts": lambda s, e, t: (t.number == e.i,),
    "an extreme": lambda s, e, t: (t.value == s.value.set(e.x, 0), e.i <= terms.least(s.value, s.group, 0)),
    "a set in a cell": lambda s, e, t: (t.holds == s.holds.set(e.x, s.holds[e.x].cleared()),),
    "a set of blocks": lambda s, e, t: (terms.card(s.holds[e.x]) <= 2,),
    "another key": lambda s, e, t: (s.price[s.friend[e.x]] <= 3,),
}


@pytest.mark.parametrize("name", SEE_EACH_OTHER)
def test_what_is_no_scan_is_refused(name: str) -> None:
    body = SEE_EACH_OTHER[name]

    def rule(s: Things, e: Meets, t: Things) -> tuple[Bool, ...]:
        """Anything."""
        return body(s, e, t)

    made = Registry(Things, {})
    made.rule("KV-1", on=Meets)(rule)
    with pytest.raises(NoScan):
        scan_of(made, "Meets", frozenset(c.name for c in made.conjuncts), None)
