"""Cells that the numpy reading and the compiled reading share: neither has to be brought up to date."""

import pytest

pytest.importorskip("numpy")

import numpy as np
from tests.unit.test_agreement import Things
from tests.unit.test_columns import Meets

from schedspec.optimized.cells import Table
from schedspec.optimized.columns import column_of, function_of
from schedspec.optimized.scans import scan_of
from schedspec.spec.compiled import World, compile_program
from schedspec.spec.registry import Registry
from schedspec.spec.terms import Bool


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
    places, flags = np.array([table.row_of("a1")]), column_of([True], "Bool")

    def told(added: int) -> bool:
        return function(world, table, places, 1, column_of([added], "Int"), column_of([0], "Int"), flags)

    table.reach = (1 << 62) - 1
    assert not any(map(told, (100, -1, 1 << 62)))
    assert world.A["a1"].value == 3
    table.measure()
    assert told(100)
    assert world.A["a1"].value == 103
    with pytest.raises(OverflowError):
        column_of([1 << 63], "Int")
