"""Siblings at the edge of a limit are caught by the directed scenarios of edges alone, without any search."""

import pytest

from schedspec.conformance.driver import Driver
from schedspec.conformance.negotiate import negotiated
from schedspec.conformance.scenarios import Scenario, scenarios
from schedspec.conformance.scenarios_of_edges import BUILDERS
from schedspec.reference import make
from schedspec.spec.vocabulary import SubjectFactory, Unsupported

from .bugs import CATALOGUE, Bug

NAMES = {build.__name__.replace("_", " ") for build in BUILDERS}
OF_EDGES = [one for one in scenarios(0) if one.name in NAMES]
AT_EDGES = [bug for bug in CATALOGUE.values() if bug.factory.__module__.endswith(("tight_siblings", "verge_siblings"))]


def broken(factory: SubjectFactory, scenario: Scenario) -> set[str]:
    try:
        settings = scenario.script.settings
        driver = negotiated(lambda settings: Driver.start(factory, settings, 0), settings, {})
    except Unsupported:
        return set()
    driver.run(scenario.script.ops)
    driver.drain()
    return {one.rule for one in driver.broken} | set(driver.advice)


def test_all_of_them_are_here() -> None:
    assert len(OF_EDGES) == len(BUILDERS)
    assert len(AT_EDGES) > len(BUILDERS) // 2


@pytest.mark.parametrize("bug", AT_EDGES, ids=lambda bug: bug.id)
def test_a_sibling_is_caught_by_a_scenario_of_edges(bug: Bug) -> None:
    assert any(broken(bug.factory, scenario) & set(bug.rules) for scenario in OF_EDGES)


@pytest.mark.parametrize("scenario", OF_EDGES, ids=lambda scenario: scenario.name)
def test_the_reference_breaks_nothing_there(scenario: Scenario) -> None:
    assert broken(make, scenario) <= {"LIVE-11"}
