"""The numpy reading is held against the compiled one, on specifications made at random.

`test_agreement.py` holds the compiled reading against a solver.  Here events with one key are drawn; those that are
scans run over columns of distinct keys in both readings: each guard by itself, what counts as exercised, and the state
after.  What is no scan has to be refused, and the state stays as it was where a guard fails.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("numpy")

from tests.unit.test_agreement import SIZE, A, Draw, Things, keys, value_of

from schedspec.optimized import columns
from schedspec.optimized.columns import ColumnSet, NoScan, Scan, Table, column_of, function_of, rows_of, scan_of
from schedspec.spec import terms
from schedspec.spec.compiled import World, compile_program
from schedspec.spec.registry import Registry
from schedspec.spec.terms import Bool, Event, Int, Sort


class Meets(Event):
    x: A
    i: Int
    j: Int
    yes: Bool


WRITTEN = ("number", "total", "flag", "group", "other", "value", "weight", "ready")


class ColumnDraw(Draw):
    """Terms that touch one key.  `kept` are the scalars and sets that no effect changes: they may be read whole."""

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
        plain, down = getattr(self.view(), self.one(lambda: "group", lambda: "other")), depth - 1
        if depth <= 0:
            return plain
        return self.one(
            lambda: plain,
            lambda: self.set(sort, down).add(self.event.x),
            lambda: self.set(sort, down).remove(self.event.x),
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
        e = self.event
        if self.random.random() < 0.3:
            return terms.ite(self.truth(1), value, self.updated(start, start, sort))
        if sort.name == "Set":
            return self.one(lambda: value.add(e.x), lambda: value.remove(e.x))
        return value.set(e.x, self.any(sort.args[1], 2))


def specification(draw: ColumnDraw) -> Registry:
    made = Registry(Things, {})
    body = (*(draw.guard() for _ in range(4)), *draw.effects())

    def rule(s: Things, e: Meets, t: Things) -> tuple[Bool, ...]:
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
        scan = scan_of(self.registry, "Meets", active, None, "A")
        for _ in range(3):
            state = {name: value_of(self.draw, sort) for name, sort in Things.sorts.items()}
            chosen = self.draw.random.sample(keys(Sort("A")), self.draw.random.randint(1, SIZE))
            events = [[value_of(self.draw, Things.sorts["number"]) for _ in chosen] for _ in "ij"]
            events.append([self.draw.random.random() < 0.5 for _ in chosen])
            if differs := self._differs(scan, active, state, chosen, events):
                return differs
        return None

    def _differs(
        self, scan: Scan, active: frozenset[str], state: dict[str, Any], chosen: list[str], events: list[Any]
    ) -> str | None:
        program = compile_program(self.registry, lambda c: c.name in active)
        plain, untouched = filled(program.world(), state), filled(program.world(), state)
        program.many["Meets"](plain, chosen, *events)
        table, world = Table(Things, "A", scan.maps, scan.sets), program.world()
        table.join(world)
        filled(world, state)
        arrays = [column_of(c, kind) for c, kind in zip(events, ("Int", "Int", "Bool"), strict=True)]
        rows = rows_of([table.index[key] for key in chosen])
        done = function_of(scan)(table, world, len(chosen), rows, *arrays)
        if done == bool(plain.failed):
            return f"says {done} where {plain.failed} failed"
        if done and (world.exercised != plain.exercised or world.events != plain.events):
            return f"counts {world.exercised} for {plain.exercised}"
        expected, found = shown(plain if done else untouched), shown(world)
        wrong = [name for name in expected if expected[name] != found[name]]
        return f"after the event: {wrong}" if wrong else None


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
        if Things.sorts[name].name == "Map":
            found[name] = {key: getattr(world.A[key], name) for key in keys(Sort("A"))}
        else:
            value = getattr(world, name)
            found[name] = set(value) if isinstance(value, (set, ColumnSet)) else value
    return found


def disagreements(seeds: range) -> tuple[list[str], int]:
    """What differs, and how many events were scans."""
    found, scans = [], 0
    for seed in seeds:
        case = Case(seed)
        for active in case.subsets:
            try:
                differs = case.disagreement(active)
            except NoScan:
                continue
            scans += 1
            found += [f"seed {seed}, {sorted(active)}: {differs}"] if differs else []
    return found, scans


def test_readings_agree() -> None:
    found, scans = disagreements(range(100))
    assert found == []
    assert scans > 200


def _forgets_the_else(scan: Scan, name: str, value: Any) -> Any:
    cell = _CELL(scan, name, value)
    return cell.args[1] if cell.op == "ite" else cell


def _counts_all(source: Any, number: int, term: Any) -> list[str]:
    return [f"W.exercised[{number}] += n"]


def _reads_what_it_wrote(scan: Scan, term: Any) -> Any:
    return _FOLDED(scan, term) if term.op != "not" else _FOLDED(scan, term.args[0])


def _adds_once(scan: Scan, name: str, value: Any) -> Any:
    part = _INCREMENT(scan, name, value)
    return part.args[1] if part is not None and part.op == "add" else part


_CELL, _FOLDED, _INCREMENT = Scan._cell, Scan._folded, Scan._increment

FAULTS: dict[str, tuple[Any, str, Any]] = {
    "≤ is <": (columns, "_SIGNS", columns._SIGNS | {"le": "<"}),
    "or is and": (columns, "_SIGNS", columns._SIGNS | {"or": "&"}),
    "a choice has no else": (Scan, "_cell", _forgets_the_else),
    "implications count always": (columns._Source, "_count", _counts_all),
    "not is forgotten": (Scan, "_folded", _reads_what_it_wrote),
    "of a sum one part is added": (Scan, "_increment", _adds_once),
    "guards are not asked": (columns._Source, "_demands", lambda source: []),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_shows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[name])
    assert disagreements(range(25))[0]


Body = Callable[[Any, Any, Any], tuple[Bool, ...]]
SEE_EACH_OTHER: dict[str, Body] = {
    "a sum is read": lambda s, e, t: (t.number == s.number + e.i, s.number <= 3),
    "a sum is read after": lambda s, e, t: (t.number == s.number + e.i, t.number <= 3),
    "a set is counted": lambda s, e, t: (t.group == s.group.add(e.x), terms.card(s.group) <= 2),
    "a set is cleared": lambda s, e, t: (t.group == s.group.cleared(),),
    "a number is doubled": lambda s, e, t: (t.number == s.number + s.number,),
    "the last one counts": lambda s, e, t: (t.number == e.i,),
    "an extreme": lambda s, e, t: (t.value == s.value.set(e.x, 0), e.i <= terms.least(s.value, s.group, 0)),
    "a set of blocks": lambda s, e, t: (s.holds[e.x].is_empty(),),
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
        scan_of(made, "Meets", frozenset(c.name for c in made.conjuncts), None, "A")


# --- cells -----------------------------------------------------------------------------------------------------


def _table() -> tuple[Table, World]:
    made = Registry(Things, {})
    made.rule("KV-1", on=Meets)(_counts)
    table, world = Table(Things, "A", {"value", "ready"}, {"group"}), compile_program(made).world()
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
    table, world = Table(Things, "A", {"value", "ready"}, {"group"}), compile_program(made).world()
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
    function = function_of(scan_of(made, "Meets", frozenset(), None, "A"))
    table, world = _table()
    world.A["a1"].value = 3
    rows, flags = rows_of([table.index["a1"]]), column_of([True], "Bool")
    table.reach = (1 << 62) - 1
    for added in (100, -1, 1 << 62):
        assert not function(table, world, 1, rows, column_of([added], "Int"), column_of([0], "Int"), flags)
    assert world.A["a1"].value == 3
    table.measure()
    assert function(table, world, 1, rows, column_of([100], "Int"), column_of([0], "Int"), flags)
    assert world.A["a1"].value == 103
    with pytest.raises(OverflowError):
        column_of([1 << 63], "Int")
