"""Overload on a virtual clock: with the door throughput stays and whoever is accepted is in time; without it the same
arrivals end in waits that nobody survives."""

from collections.abc import Iterator
from random import Random

import pytest
from attrs import frozen

from schedspec.reference import make
from schedspec.reference.simulation import Batch, Record, Simulation
from schedspec.spec.vocabulary import NS_PER_S, Door, Request, Settings
from schedspec.spec.workloads import Incoming

IN_TIME_NS = 10 * NS_PER_S
SECONDS = 60
STEP_NS, TOKEN_NS = 40_000_000, 1_000_000
DOOR = Door(queue_requests=200, queue_age_ns=IN_TIME_NS, step_ns=STEP_NS, token_ns=TOKEN_NS)
FULL = 3.0
"""Requests a second that the machine can just do: more gives no more tokens."""


@frozen
class Linear:
    def step_ns(self, batch: Batch) -> int:
        return STEP_NS + TOKEN_NS * batch.tokens


def arrivals(per_second: float, seed: int) -> Iterator[Incoming]:
    """Declared outputs are up to twice as long as those that come."""
    dice, now_s, number = Random(seed), 0.0, 0
    while now_s < SECONDS:
        now_s, number = now_s + dice.expovariate(per_second), number + 1
        prompt, output = range(1, dice.randint(20, 200)), dice.randint(5, 80)
        request = Request(id=f"r{number}", prompt_ids=prompt, max_output_tokens=dice.randint(output, 2 * output))
        yield Incoming(now_ns=int(now_s * NS_PER_S), request=request, output_tokens=output)


def records(per_second: float, door: Door, seed: int = 0) -> list[Record]:
    settings = Settings(blocks=200, block_size=16, seats=8, token_budget=128, reserve="declared", door=door)
    log = Simulation(make(settings, 0), Linear()).run(arrivals(per_second, seed))
    return list(log.records.values())


def is_in_time(record: Record) -> bool:
    return bool(record.token_ns) and record.token_ns[0] - record.arrived_ns <= IN_TIME_NS


def useful_tokens(found: list[Record]) -> int:
    """Of those who are in time, while requests come."""
    ends = SECONDS * NS_PER_S
    return sum(sum(when <= ends for when in record.token_ns) for record in found if is_in_time(record))


@pytest.mark.parametrize("seed", [0, 1])
def test_at_twice_its_capacity_the_door_keeps_throughput_and_promises(seed: int) -> None:
    peak = max(useful_tokens(records(rate, DOOR, seed)) for rate in (FULL, 1.5 * FULL))
    found = records(2 * FULL, DOOR, seed)
    accepted = [record for record in found if record.refused is None]
    assert useful_tokens(found) >= 0.9 * peak
    assert all(map(is_in_time, accepted))
    assert {record.end for record in accepted} == {"finished"}
    assert {record.refused for record in found} == {None, "queue_age"}


def test_without_the_door_the_same_arrivals_collapse() -> None:
    with_door, without = useful_tokens(records(2 * FULL, DOOR)), useful_tokens(records(2 * FULL, Door()))
    assert without < 0.5 * with_door
