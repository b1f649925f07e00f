"""Ways in which schedulers got it wrong whom they parked, or what they kept for it: each is named by the rule that is
about it, in a directed scenario or in a walk."""

from collections.abc import Iterator

import pytest

from schedspec.conformance.driver import Driver
from schedspec.conformance.parked_scenarios import PARKED
from schedspec.conformance.script import Script
from schedspec.reference import make
from schedspec.reference.faults import FAULTS, KINDS
from schedspec.spec.vocabulary import SubjectFactory

LONGEST_TRACE = 20
CASES = KINDS | {rule: (rule, FAULTS[rule]) for rule in ("LIVE-4", "LIVE-5", "LIVE-6", "LIVE-9", "KV-15")}


def runs(factory: SubjectFactory) -> Iterator[Driver]:
    for build in PARKED:
        _, settings, ops = build()
        script = Script(settings, 0, ops)
        driver = Driver.start(factory, script.settings, script.seed)
        driver.run(script.ops)
        driver.drain()
        yield driver


@pytest.mark.parametrize("says", CASES)
def test_the_suite_names_the_fault(says: str) -> None:
    rule, scheduler = CASES[says]
    named = (driver for driver in runs(scheduler) if driver.breaks_of(rule))
    assert any(driver.protocol_messages <= LONGEST_TRACE for driver in named), f"no short scenario shows it as {rule}"


def test_the_reference_passes_all_of_them_and_shows_each_rule_at_work() -> None:
    exercised: set[str] = set()
    for driver in runs(make):
        assert (driver.broken, driver.fault) == ([], None)
        exercised |= {rule for rule, times in driver.monitor.exercised().items() if times}
    assert {"LIVE-4", "LIVE-5", "LIVE-6", "LIVE-9", "KV-15"} <= exercised
