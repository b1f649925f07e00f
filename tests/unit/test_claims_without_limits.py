"""A claim to keep a limit may be made always: where the limit is 0 there is none, and nothing is broken."""

import pytest
from attrs import evolve

from schedspec.conformance.driver import Driver
from schedspec.conformance.scenarios import Scenario, scenarios
from schedspec.reference import Scheduler
from schedspec.spec.vocabulary import Capabilities

OF_LIMITS = frozenset(
    {
        "bounded_queue",
        "queue_age",
        "client_limits",
        "rates",
        "one_generation",
        "inter_token",
        "caps",
        "prefill_cap",
        "watermark",
        "prompt_share",
        "urgency_pays",
    }
)
SAMPLE = tuple(one for one in scenarios(0) if not one.script.settings.pools.are_two)[::4]


class KeepsAll(Scheduler):
    def capabilities(self) -> Capabilities:
        shown = super().capabilities()
        return evolve(shown, claims=shown.claims | OF_LIMITS)


@pytest.mark.parametrize("scenario", SAMPLE, ids=lambda scenario: scenario.name)
def test_a_limit_that_is_not_there_binds_nobody(scenario: Scenario) -> None:
    driver = Driver.start(KeepsAll, scenario.script.settings, 0)
    driver.run(scenario.script.ops)
    driver.drain()
    assert not driver.broken, str(driver.broken[0])
