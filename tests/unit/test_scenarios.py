"""Directed scenarios lead where they say: the reference meets each rule's precondition, and breaks nothing there."""

import pytest
from attrs import asdict

from schedspec.conformance.driver import Driver
from schedspec.conformance.negotiate import INSTEAD, negotiated
from schedspec.conformance.scenarios import Scenario, scenarios
from schedspec.reference import make
from schedspec.reference.faults import FAULTS
from schedspec.spec.catalogue import registry
from schedspec.spec.vocabulary import Settings, Unsupported

ALL = tuple(scenarios(0))
SHOWN = {rule for scenario in ALL for rule in scenario.shows}


def judged(rule: str, driver: Driver) -> bool:
    """Rules of several runs are judged elsewhere."""
    return registry.rules[rule].form != "run" and registry.missing(rule, driver.header.capabilities) is None


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_a_scenario_exercises_the_rules_that_it_shows(scenario: Scenario) -> None:
    driver = Driver.start(make, scenario.script.settings, 0)
    driver.run(scenario.script.ops)
    driver.drain()
    assert not driver.broken, str(driver.broken[0])
    exercised = driver.monitor.exercised()
    assert [rule for rule in scenario.shows if judged(rule, driver) and not exercised[rule]] == []


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_whoever_refuses_one_setting_is_asked_for_others(scenario: Scenario) -> None:
    plain = Settings()
    for name in asdict(scenario.script.settings, recurse=False):
        asked = getattr(plain, name)
        if getattr(scenario.script.settings, name) == asked or asked not in INSTEAD.get(name, ()):
            continue

        def honours(settings: Settings, name: str = name, asked: object = asked) -> Settings:
            if getattr(settings, name) != asked:
                raise Unsupported(name, getattr(settings, name))
            return settings

        assert getattr(negotiated(honours, scenario.script.settings, {}), name) == asked


@pytest.mark.parametrize("rule", [rule for rule in registry.rules if rule.startswith("FAIR-")])
def test_a_scenario_alone_finds_the_fault_of_a_rule_of_fair_sharing(rule: str) -> None:
    assert rule in SHOWN
    assert any(is_broken(rule, scenario) for scenario in ALL if rule in scenario.shows)


def is_broken(rule: str, scenario: Scenario) -> bool:
    driver = Driver.start(FAULTS[rule], scenario.script.settings, 0)
    driver.run(scenario.script.ops)
    driver.drain()
    return bool(driver.breaks_of(rule))
