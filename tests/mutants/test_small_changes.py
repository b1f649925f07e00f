"""The list of small changes is of the code as it stands; `small_changes.py` makes them."""

import pytest
from tests.mutants.list_of_small_changes import OPTIMIZED, TWINS, Change
from tests.mutants.small_changes import ROOT


@pytest.mark.parametrize("change", [*OPTIMIZED, *TWINS], ids=str)
def test_a_change_can_be_made(change: Change) -> None:
    assert (ROOT / change.file).read_text(encoding="utf-8").count(change.old) == 1
    assert change.old != change.new
    assert all((ROOT / test).exists() for test in change.tests if test.startswith("tests/"))


def test_every_module_that_decides_is_changed_somewhere() -> None:
    changed = {change.module for change in OPTIMIZED}
    assert changed >= {
        "scheduler",
        "calendar",
        "blocks",
        "service",
        "members",
        "race",
        "queue",
        "sharing",
        "clients",
        "caps",
        "admission",
    }
    assert len(OPTIMIZED) > 100
    assert {change.module for change in TWINS} >= {
        "budget",
        "victims",
        "room",
        "allocate",
        "vtc_round",
        "settle",
        "lift",
    }
