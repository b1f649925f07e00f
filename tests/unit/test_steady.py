"""Forecasts: for how many rounds a comparison comes out the same, and how cells grow."""

from collections.abc import Callable
from random import Random

import pytest
from tests.mutants.readings import batch

from schedspec.optimized.growth import FOR_EVER, Forms, growth_of, rounds_left
from schedspec.optimized.monitor import BulkMonitor
from schedspec.optimized.steady import after

HOLDS: dict[str, Callable[[int], bool]] = {
    "eq": lambda apart: apart == 0,
    "le": lambda apart: apart >= 0,
    "lt": lambda apart: apart > 0,
}
FAR = 40


@pytest.mark.parametrize("op", HOLDS)
def test_a_comparison_comes_out_the_same_for_so_many_rounds(op: str) -> None:
    """No more, and, unless it is passed over, no fewer."""
    dice = Random(op)
    for _ in range(3_000):
        slope = dice.randint(-3, 3)
        side = dice.choice((-1, 1))
        apart = [side * dice.randint(0, 9) for _ in range(dice.randint(1, 4))]
        first = {HOLDS[op](number) for number in apart}
        if len(first) > 1:
            continue
        (value,) = first
        rounds = rounds_left(op, value, slope, min(apart), max(apart))
        alike = 0
        while alike < FAR and {HOLDS[op](number + (alike + 1) * slope) for number in apart} == first:
            alike += 1
        assert min(rounds, FAR) == alike or (op == "eq" and rounds < alike)
        assert rounds <= FAR or rounds == FOR_EVER


def test_numbers_on_both_sides_are_asked_each_time() -> None:
    assert rounds_left("eq", False, 1, -3, 3) == 0
    assert rounds_left("eq", False, 0, -3, 3) == FOR_EVER


def test_cells_of_a_batch_that_decodes_grow_by_one() -> None:
    """As the effects of the three events say; where a field alone says it, nothing is known."""
    run = batch()
    bulk = BulkMonitor(run.header, fewest=1)
    for message in run.messages:
        bulk.feed(message)
    rounds = bulk._rounds
    forms: Forms = {name: (name, 0) for name in rounds.table.codes}
    for event in rounds.order:
        forms = after(rounds.turns[event].part, forms)
    grows = growth_of(forms)
    assert rounds.order == ["Serve", "Computed", "Deliver"]
    assert {name for name, growth in grows.items() if growth == 1} == {"issued", "known", "outputs", "high"}
    assert {"prompt", "output_limit", "in_flight", "phase", "owed"} <= {name for name in grows if grows[name] == 0}
    assert grows.keys().isdisjoint({"computed", "served_in"})
