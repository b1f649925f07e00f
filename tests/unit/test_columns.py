"""The numpy reading is held against the compiled one, on specifications made at random.

`test_agreement.py` holds the compiled reading against a solver.  Here events with one key are drawn; those that are
scans run over columns of distinct keys in both readings: each guard by itself, what counts as exercised, and the state
after.  What is no scan has to be refused, and the state stays as it was where a guard fails.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("numpy")

import numpy as np
from tests.unit.test_agreement import SIZE, A, B, Draw, Things, keys, value_of

from schedspec.optimized import cells, columns, scans
from schedspec.optimized.cells import ColumnSet, Rows, Table
from schedspec.optimized.columns import column_of, function_of
from schedspec.optimized.scans import NoScan, Scan, scan_of
from schedspec.spec import terms
from schedspec.spec.compiled import World, compile_program
from schedspec.spec.registry import Registry
from schedspec.spec.terms import Bool, Event, Int, Sort, Term


class Meets(Event):
    x: A
    i: Int
    j: Int
    yes: Bool


class Moves(Event):
    x: A
    z: B
    i: Int
    j: Int
    yes: Bool


REACH = 1 << 10
"""A true bound of what is drawn, so that products are not refused."""
SCALARS = ("number", "total", "flag")
WRITTEN = ("number", "total", "flag", "group", "other", "marks", "value", "weight", "price", "ready", "holds")


class ColumnDraw(Draw):
    """Terms that touch one key of a sort.  `kept` are the scalars and sets that no effect changes: they may be read
    whole."""

    def __init__(self, seed: int, event: type[Event] = Meets) -> None:
        super().__init__(seed)
        self.event: Any = event("field")
        self.two = event is Moves
        self.kept = {name for name in ("number", "total", "flag", "group", "other") if self.random.random() < 0.5}

    def key(self, sort: Any, depth: int) -> Any:
        return self.event.x if sort is A else self.event.z

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
        leaves += [lambda: self.table("price", down)[e.z]] * 2 if self.two else []
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
        names = ("group", "other") if sort is A else ("marks",)
        plain, down = getattr(self.view(), self.random.choice(names)), depth - 1
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
        if self.two:
            leaves += [lambda: self.set(B, down).has(e.z), lambda: self.state.holds[e.x].is_empty()]
            leaves += [lambda: self.state.holds[e.x].has(e.z)]
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
            one = not self.two and name in ("marks", "price", "holds")
            if not one and name not in self.kept and self.random.random() < 0.7:
                yield getattr(self.later, name) == self.update(name, Things.sorts[name])

    def update(self, name: str, sort: Sort) -> Any:
        before = getattr(self.state, name)
        if sort.name == "Bool":
            return self.truth(0) if self.random.random() < 0.3 else terms.lift(True, terms.BOOL)
        if sort.name == "Int":
            return self.sum(before, 2)
        if sort.args[-1].name == "Set":
            cell = before[self.event.x]
            return before.set(self.event.x, self.one(lambda: cell.add(self.event.z), lambda: cell.remove(self.event.z)))
        key = self.key(A if sort.args[0].name == "A" else B, 0)
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
        key = self.key(A if sort.args[0].name == "A" else B, 0)
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

    made.rule("KV-1", on=type(draw.event))(rule)
    return made


class Case:
    def __init__(self, seed: int, event: type[Event] = Meets) -> None:
        self.draw = ColumnDraw(seed, event)
        self.event = event.__name__
        self.registry = specification(self.draw)
        guards = [c.name for c in self.registry.guards(self.event)]
        self.subsets = [frozenset({guard}) for guard in guards] + [frozenset(guards), frozenset()]

    def disagreement(self, active: frozenset[str]) -> str | None:
        """Columns in which all say the same are drawn, too: they have versions of their own."""
        scan, pick = scan_of(self.registry, self.event, active, None), self.draw.random
        for _ in range(4):
            state = {name: value_of(self.draw, sort) for name, sort in Things.sorts.items()}
            if pick.random() < 0.5:
                for name in ("value", "weight", "price"):
                    state[name] = dict.fromkeys(state[name], pick.randint(-1, 3))
            chosen = self._chosen(scan)
            alike = pick.random() < 0.5
            numbers = [[pick.randint(-1, 3) for _ in chosen[0]] for _ in "ij"]
            flags = [pick.random() < 0.5 for _ in chosen[0]]
            columns: list[list[Any]] = [*numbers, flags]
            events = [column[:1] * len(column) if alike else column for column in columns]
            if differs := self._differs(scan, active, state, chosen, events):
                return differs
        return None

    def _chosen(self, scan: Scan) -> list[list[str]]:
        """Keys of each sort, twice only where they may be."""
        pick, sorts = self.draw.random, [Sort(name) for name in scan.keys]
        free = [sort for sort in sorts if sort.name in scan.repeats and pick.random() < 0.7]
        count = pick.randint(1, SIZE if len(free) < len(sorts) else 2 * SIZE)
        return [pick.choices(keys(s), k=count) if s in free else pick.sample(keys(s), count) for s in sorts]

    def _differs(
        self, scan: Scan, active: frozenset[str], state: dict[str, Any], chosen: list[list[str]], events: list[Any]
    ) -> str | None:
        program = compile_program(self.registry, lambda c: c.name in active)
        plain, untouched = filled(program.world(), state), filled(program.world(), state)
        program.many[self.event](plain, *chosen, *events)
        world = program.world()
        tables = tables_of(scan)
        for table in tables.values():
            table.join(world)
        filled(world, state)
        for table in tables.values():
            table.reach = REACH
        arrays = [column_of(c, kind) for c, kind in zip(events, ("Int", "Int", "Bool"), strict=True)]
        places = {sort: placed(tables[sort], column) for sort, column in zip(scan.keys, chosen, strict=True)}
        done = function_of(scan)(world, tables, places, len(chosen[0]), *arrays)
        if done == bool(plain.failed):
            return f"says {done} where {plain.failed} failed"
        if done and (world.exercised != plain.exercised or world.events != plain.events):
            return f"counts {world.exercised} for {plain.exercised}"
        expected, found = shown(plain if done else untouched), shown(world)
        wrong = [name for name in expected if expected[name] != found[name]]
        return f"after the event: {wrong}" if wrong else None


def tables_of(scan: Scan) -> dict[str, Table]:
    names = {sort: {name for name in scan.names if scan.at(name) == sort} for sort in scan.keys}
    return {sort: Table(Things, sort, some) for sort, some in names.items()}


def placed(table: Table, column: list[str]) -> Rows:
    turns = [column[:place].count(key) for place, key in enumerate(column)]
    return Rows.of(column, list(map(table.row_of, column)), np.array(turns) if any(turns) else 0)


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


def disagreements(seeds: range, *events: type[Event]) -> tuple[list[str], Counter[str]]:
    """What differs, and how many events were scans, and let keys come twice."""
    found: list[str] = []
    counts: Counter[str] = Counter()
    for event in events or (Meets, Moves):
        for seed in seeds:
            case = Case(seed, event)
            for active in case.subsets:
                try:
                    differs = case.disagreement(active)
                except NoScan:
                    continue
                scan = scan_of(case.registry, case.event, active, None)
                counts.update([event.__name__, *(f"{event.__name__}, {sort} twice" for sort in scan.repeats)])
                found += [f"{event.__name__}, seed {seed}, {sorted(active)}: {differs}"] if differs else []
    return found, counts


def test_readings_agree() -> None:
    found, counts = disagreements(range(60))
    assert found == []
    assert min(counts[name] for name in ("Meets", "Moves")) > 150
    assert min(counts[name] for name in ("Meets, A twice", "Moves, A twice", "Moves, B twice")) > 20


def _forgets_the_else(reader: Any, name: str, value: Any) -> Any:
    cell = _CELL(reader, name, value)
    return cell.args[1] if cell.op == "ite" else cell


def _adds_once(reader: Any, name: str, value: Any) -> Any:
    part = _INCREMENT(reader, name, value)
    return part.args[1] if part is not None and part.op == "add" else part


def _always_gains(reader: Any, name: str, value: Any) -> Any:
    return scans.Member(True, _MEMBER(reader, name, value).item)


def _step_of_one(reader: Any, name: str, cell: Any) -> Any:
    step = _STEP(reader, name, cell)
    return None if step is None else Term("add", (step.args[0], terms.lift(1, terms.INT)), step.sort)


def _says_most(column: Any, count: int) -> bool | None:
    return bool(np.count_nonzero(column) == count)


_READER = scans._Reader
_CELL, _INCREMENT, _MEMBER, _STEP = _READER._cell, _READER._increment, _READER._member, _READER._step

FAULTS: dict[str, tuple[Any, str, Any]] = {
    "≤ is <": (columns, "_SIGNS", columns._SIGNS | {"le": "<"}),
    "or is and": (columns, "_SIGNS", columns._SIGNS | {"or": "&"}),
    "a choice has no else": (_READER, "_cell", _forgets_the_else),
    "implications count always": (columns._Version, "_times", lambda source, condition: "n"),
    "not is forgotten": (scans, "_FOLDS", scans._FOLDS | {"not": lambda term: term.args[0]}),
    "what follows from nothing holds": (scans, "_FOLDS", scans._FOLDS | {"implies": lambda term: term.args[1]}),
    "a choice is its else": (scans, "_FOLDS", scans._FOLDS | {"ite": lambda term: term.args[2]}),
    "of a sum one part is added": (_READER, "_increment", _adds_once),
    "guards are not asked": (columns._Version, "_demands", lambda source: []),
    "what is false of one is false of all": (columns, "same", _says_most),
    "who leaves a set stays": (_READER, "_member", _always_gains),
    "a set in a cell is never empty": (cells, "nobody", lambda found, rows: np.zeros(len(rows.numbers), np.bool_)),
    "a set in a cell has everybody": (cells, "holds", lambda found, rows, items: np.ones(len(rows.numbers), np.bool_)),
    "each turn is a step of one": (_READER, "_step", _step_of_one),
    "all keys may come twice": (scans, "_may_repeat", lambda scan, sort: True),
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


# --- cells -----------------------------------------------------------------------------------------------------


def _table() -> tuple[Table, World]:
    made = Registry(Things, {})
    made.rule("KV-1", on=Meets)(_counts)
    table, world = Table(Things, "A", {"value", "ready", "group"}), compile_program(made).world()
    table.join(world)
    return table, world


def _counts(s: Things, e: Meets, t: Things) -> Bool:
    """Anything."""
    return t.value == s.value.set(e.x, s.value[e.x] + e.i)


def test_cells_are_shared_by_both_readings_while_the_table_grows() -> None:
    table, world = _table()
    for number in range(200):
        world.A[f"a{number}"].value = number
        world.A[f"a{number}"].ready = number % 2 == 0
    assert [world.A[f"a{number}"].value for number in range(200)] == list(range(200))
    table.at_value[table.index["a7"]] = 70  # type: ignore[attr-defined]
    assert (world.A["a7"].value, world.A["a7"].ready, world.A["a6"].ready) == (70, False, True)


def test_what_was_there_before_the_table_moves_into_it() -> None:
    made = Registry(Things, {})
    made.rule("KV-1", on=Meets)(_counts)
    table, world = Table(Things, "A", {"value", "ready", "group"}), compile_program(made).world()
    world.A["a1"].value, world.A["a1"].holds, world.A["a2"].value = 5, {"b1"}, 10**30
    world.group.add("a1")
    table.join(world)
    assert (world.A["a1"].value, world.A["a1"].holds, world.A["a2"].value) == (5, {"b1"}, 10**30)
    assert world.group == {"a1"}
    assert table.odd == {table.index["a2"]}


def test_a_row_is_used_again_as_if_new() -> None:
    table, world = _table()
    world.A["a1"].value = 5
    row = table.index["a1"]
    world.A.pop("a1")
    assert world.A["a2"].value == 0
    assert table.index == {"a2": row}


def test_a_record_that_is_made_late_changes_no_cell() -> None:
    table, world = _table()
    row = table.row_of("a1")
    table.at_value[row] = 7  # type: ignore[attr-defined]
    assert (world.A["a1"].value, world.A["a1"].ready) == (7, False)


def test_a_set_remembers_who_has_no_record_any_more() -> None:
    _, world = _table()
    world.A["a1"].value = 5
    world.group.add("a1")
    world.A.pop("a1")
    assert "a1" in world.group
    assert world.A["a1"].value == 0
    world.group.discard("a1")
    assert world.group == set()
    assert len(world.group) == 0


@pytest.mark.parametrize("value", [1 << 40, 1 << 62, 1 << 63, 10**30, -(1 << 63), -(10**30)])
def test_numbers_that_are_too_large_stand_beside_the_table(value: int) -> None:
    table, world = _table()
    world.A["a1"].value = value
    assert world.A["a1"].value == value
    assert table.odd == {table.index["a1"]}


def test_what_might_not_fit_is_left_to_the_compiled_reading() -> None:
    made = Registry(Things, {})
    made.rule("KV-1", on=Meets)(_counts)
    function = function_of(scan_of(made, "Meets", frozenset(), None))
    table, world = _table()
    world.A["a1"].value = 3
    places, flags = {"A": placed(table, ["a1"])}, column_of([True], "Bool")

    def told(added: int) -> bool:
        return function(world, {"A": table}, places, 1, column_of([added], "Int"), column_of([0], "Int"), flags)

    table.reach = (1 << 62) - 1
    assert not any(map(told, (100, -1, 1 << 62)))
    assert world.A["a1"].value == 3
    table.measure()
    assert told(100)
    assert world.A["a1"].value == 103
    with pytest.raises(OverflowError):
        column_of([1 << 63], "Int")


def test_turns_are_counted_in_the_bound() -> None:
    made = Registry(Things, {})

    def rule(s: Things, e: Moves, t: Things) -> tuple[Bool, ...]:
        """Anything."""
        return t.value == s.value.set(e.x, s.value[e.x] + s.number), t.price == s.price.set(e.z, s.value[e.x])

    made.rule("KV-1", on=Moves)(rule)
    scan = scan_of(made, "Moves", frozenset(), None)
    assert scan.repeats == {"A"}
    world, tables = compile_program(made).world(), tables_of(scan)
    for table in tables.values():
        table.join(world)
    places = {"A": placed(tables["A"], ["a1"] * 3), "B": placed(tables["B"], ["b1", "b2", "b3"])}
    columns = [column_of(column, kind) for column, kind in (([0] * 3, "Int"), ([0] * 3, "Int"), ([True] * 3, "Bool"))]
    world.number = 1 << 61
    assert not function_of(scan)(world, tables, places, 3, *columns)
    world.number = 1 << 59
    assert function_of(scan)(world, tables, places, 3, *columns)
    assert [world.B[block].price for block in ("b1", "b2", "b3")] == [0, 1 << 59, 1 << 60]
    assert world.A["a1"].value == 3 << 59


def test_a_key_that_may_not_come_twice_is_left_to_the_compiled_reading() -> None:
    made = Registry(Things, {})

    def rule(s: Things, e: Meets, t: Things) -> tuple[Bool, ...]:
        """Anything."""
        return s.value[e.x] <= 3, t.value == s.value.set(e.x, s.value[e.x] + e.i)

    made.rule("KV-1", on=Meets)(rule)
    scan = scan_of(made, "Meets", frozenset(c.name for c in made.conjuncts), None)
    world, tables = compile_program(made).world(), tables_of(scan)
    tables["A"].join(world)
    columns = [column_of(column, kind) for column, kind in (([5, 5], "Int"), ([0, 0], "Int"), ([True, True], "Bool"))]
    assert not function_of(scan)(world, tables, {"A": placed(tables["A"], ["a1", "a1"])}, 2, *columns)
    assert world.A["a1"].value == 0
    assert function_of(scan)(world, tables, {"A": placed(tables["A"], ["a1", "a2"])}, 2, *columns)
