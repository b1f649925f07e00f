"""Events that are judged in the memory of a table, held against the compiled reading on specifications made at random.

Those of `test_agreement.py`, with two keys of the table and one beside it: what failed, what counts as exercised, and
the state after, for columns in which one of the keys comes once.  Some numbers have no place in the table.
"""

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("numpy")

from attrs import define, field
from tests.unit.test_agreement import A, B, Draw, Happens, Things, keys, specification, state_of, value_of, world_of

from schedspec.optimized import in_place
from schedspec.optimized.cells import ASIDE, FARTHEST, LIMITS, SET_METHODS, Table
from schedspec.spec.compiled import Program, compile_program
from schedspec.spec.registry import Registry
from schedspec.spec.terms import Sort, Term

SEEDS = 20
ONCE = ("x", "z")
IN_TABLE = ("value", "ready", "group"), ("weight", "ready"), ()


class UpdatesDraw(Draw):
    """Most sets get or lose a field, as those of blocks do."""

    def update(self, name: str, sort: Sort) -> Any:
        if sort.name != "Set" or self.random.random() < 0.2:
            return super().update(name, sort)
        before, member = getattr(self.state, name), self.key(A if sort.args[0].name == "A" else B, 0)
        return self.one(lambda: before.add(member), lambda: before.remove(member))


@define
class Case:
    draw: Draw
    registry: Registry = field(init=False)
    program: Program = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.registry = specification(self.draw)
        self.program = compile_program(self.registry)


def columns_of(case: Case, once: str) -> dict[str, list[Any]]:
    pick, sorts = case.draw.random, Happens.sorts
    count = pick.randint(1, len(keys(sorts[once])))
    columns = {name: [value_of(case.draw, sort) for _ in range(count)] for name, sort in sorts.items()}
    return columns | {once: pick.sample(keys(sorts[once]), count)}


def state_with_large_numbers(case: Case) -> dict[str, Any]:
    state, pick = {name: value_of(case.draw, sort) for name, sort in Things.sorts.items()}, case.draw.random
    for name in ("value", "weight"):
        for key in state[name]:
            if pick.random() < 0.2:
                state[name][key] = pick.choice((-1, 1)) * (FARTHEST + pick.randint(-2, 2))
    return state


def differs(case: Case, once: str, names: tuple[str, ...]) -> str | None:
    state, columns = state_with_large_numbers(case), columns_of(case, once)
    plain = world_of(case.program.world(), state)
    case.program.many["Happens"](plain, *columns.values())
    world, table = case.program.world(), Table(Things, "A", names)
    world_of(world, state)
    table.join(world)
    function = in_place.in_place(case.registry, "Happens", case.program.active, None, once=once, table=table)
    function(world, table, *columns.values())
    if world.failed != plain.failed:
        return f"failed {world.failed} for {plain.failed}"
    if world.exercised != plain.exercised or world.events != plain.events:
        return "what is counted as exercised"
    if any(abs(value) >= FARTHEST for name in names for value in getattr(table, f"mem_{name}") if value != ASIDE):
        return "a number that has no place in the table has one"
    expected, found = state_of(plain), state_of(world)
    wrong = [n for n, value in expected.items() if value != (set(found[n]) if type(value) is set else found[n])]
    return f"after the event: {wrong}" if wrong else None


def disagreements() -> Iterator[str]:
    for seed in range(SEEDS):
        case = Case(UpdatesDraw(seed))
        for once in ONCE:
            for names in IN_TABLE:
                if problem := differs(case, once, names):
                    yield f"seed {seed}, {once} comes once, {names} in the table: {problem}"


def test_both_leave_the_same() -> None:
    assert list(disagreements()) == []


_IN_PLACE = in_place._InPlace


def _is_an_update(reading: Any, variable: str, value: Term) -> bool:
    """Whoever looks at the set meanwhile."""
    is_plain = value.op in SET_METHODS and value.args[0].op == "state" and value.args[1].op == "field"
    return is_plain and variable not in reading.table.sets


FAULTS: dict[str, tuple[Any, str, Any]] = {
    "sets are written behind the loop though somebody looks": (_IN_PLACE, "_is_unseen", _is_an_update),
    "numbers that have no place are read from it": (in_place, "LIMITS", LIMITS | {"ASIDE": 0}),
    "all numbers have a place": (in_place, "LIMITS", LIMITS | {"LEAST": -(1 << 62), "MOST": 1 << 62}),
    "cells are not written": (_IN_PLACE, "_put", lambda *asked: ["pass"]),
    "in is out": (in_place, "SET_METHODS", {"with": "difference_update", "without": "update"}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_shows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_place, "_FUNCTIONS", {})
    monkeypatch.setattr(*FAULTS[name])
    assert next(disagreements(), None)
