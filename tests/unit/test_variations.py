"""Variations of directed scenarios: repeatable, in many worlds, and clean where the scheduler is."""

from collections import Counter

from schedspec.conformance.driver import Driver
from schedspec.conformance.scenarios import scenarios
from schedspec.conformance.variations import varied
from schedspec.reference import make

SEEDS = range(100)


def test_a_seed_is_a_script() -> None:
    assert varied(7) == varied(7)
    assert varied(7) != varied(8)


def test_scenarios_are_changed() -> None:
    known = {scenario.script.ops for scenario in scenarios(0)}
    assert sum(varied(seed).ops not in known for seed in SEEDS) > len(SEEDS) * 0.7


def test_the_reference_breaks_nothing_in_them() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        script = varied(seed)
        driver = Driver.start(make, script.settings, 0)
        driver.run(script.ops)
        driver.drain()
        assert not driver.broken, f"variation {seed}: {driver.broken[0]}"
        seen.update(op.kind for op in driver.ops)
    assert {"cancel", "answer", "repeat", "tick", "begin_transfer"} <= set(seen)


def test_who_has_one_policy_is_asked_for_it() -> None:
    assert {varied(seed, ("fcfs",)).settings.policy for seed in SEEDS} == {"fcfs"}
