"""Between two pools too it is known what pins a guard or an effect, and deleting it shows; of which nothing is known is
told."""

import pytest
from tests.mutants import pins_of_transfers as pins

PINS, OPEN = pins.stored()


def test_each_is_pinned_or_told() -> None:
    assert {*PINS, *OPEN} == set(pins.wanted())
    assert not PINS.keys() & set(OPEN)


def test_clean_runs_are_clean() -> None:
    clean = {pin for pin in PINS.values() if pin.by == pins.CLEAN}
    assert [pin.scenario for pin in clean if pins.first_broken(pins.run_of(pin)) is not None] == []


@pytest.mark.parametrize("name", PINS)
def test_deleting_it_shows(name: str) -> None:
    assert pins.shows(name, pins.run_of(PINS[name]))
