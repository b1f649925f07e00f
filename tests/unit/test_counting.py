"""Numbers that are kept in a byte are found by the scenarios that count further."""

from collections.abc import Sequence

import pytest

from schedspec.conformance.driver import Driver
from schedspec.conformance.scenarios_of_counters import (
    a_request_counts_past_a_byte,
    more_requests_come_than_a_byte_counts,
)
from schedspec.reference import Scheduler
from schedspec.reference.job import Job
from schedspec.spec.vocabulary import Delta, Plan, Receipt, Request, Settings

BYTE = 256


class OfSteps(Scheduler):
    """Their number starts again."""

    def step(self, now_ns: int) -> Plan:
        self.state.step %= BYTE
        return super().step(now_ns)


class OfOutputs(Scheduler):
    """Nobody has more than 255 of them."""

    def is_at_its_length(self, job: Job) -> bool:
        return job.outputs % BYTE >= job.request.max_output_tokens


class OfBlocks(Scheduler):
    """There are 256 of them, and some twice."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        self.state.pool.free = [block % BYTE for block in self.state.pool.free]


class OfRequests(Scheduler):
    """A cancel ends whoever has the slot by now."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        self.slots: dict[int, str] = {}
        self.slot_of: dict[str, int] = {}

    def submit(self, request: Request, now_ns: int) -> Receipt:
        slot = self.slot_of[request.id] = len(self.slot_of) % BYTE
        self.slots[slot] = request.id
        return super().submit(request, now_ns)

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        return super().cancel(self.slots[self.slot_of[request_id]], now_ns)


@pytest.mark.parametrize(
    ("subject", "rules"),
    [(OfSteps, {"STEP-3"}), (OfOutputs, {"LIFE-5"}), (OfBlocks, {"KV-1"}), (OfRequests, {"LIFE-6"})],
)
def test_what_wraps_at_a_byte_is_found(subject: type[Scheduler], rules: set[str]) -> None:
    broken = set()
    for build in (a_request_counts_past_a_byte, more_requests_come_than_a_byte_counts):
        _, settings, ops = build()
        driver = Driver.start(subject, settings, 0)
        driver.run(ops)
        driver.drain()
        broken |= {violation.rule for violation in driver.broken}
        broken |= {str(driver.fault)} if driver.fault else set()
    assert broken >= rules
