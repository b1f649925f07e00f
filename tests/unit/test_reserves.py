"""What an admission reserves: by the specification, by the reference, and by schedulers that reserve something else."""

from typing import get_args

import pytest
from attrs import evolve

from schedspec.conformance.driver import Driver
from schedspec.conformance.script import STEP, Op, rounds, submit
from schedspec.reference import make
from schedspec.reference.job import Job
from schedspec.reference.scheduler import Scheduler
from schedspec.spec.reserves import CLAIMED, RESERVED, Lengths, power_of_two
from schedspec.spec.vocabulary import CLAIMS, Reserve, Settings, SubjectFactory

PROMPT, DECLARED, PREDICTED, LONGEST = 3, 9, 5, 20
SETTINGS = Settings(blocks=32, block_size=1, token_budget=2, max_model_tokens=LONGEST)
POSITIONS = {
    "on_demand": 2,  # its first chunk
    "peak": 2,
    "known": PROMPT,
    "declared": PROMPT + DECLARED - 1,
    "predicted": PROMPT + PREDICTED - 1,
    "power_of_two": PROMPT + 8 - 1,
    "model": LONGEST - 1,
}


def run(factory: SubjectFactory, reserve: Reserve, output: int, *ops: Op) -> Driver:
    """One request with a prediction, then these operations."""
    driver = Driver.start(factory, evolve(SETTINGS, reserve=reserve), 0)
    driver.run((submit("a", PROMPT, DECLARED, predicted_output_tokens=output), *ops))
    return driver


@pytest.mark.parametrize("reserve", get_args(Reserve))
def test_the_reference_takes_what_the_specification_says(reserve: Reserve) -> None:
    observation = run(make, reserve, PREDICTED, STEP).subject.observe()
    assert observation is not None
    assert len(observation.tables["a"]) == POSITIONS[reserve]
    lengths = Lengths(PROMPT, DECLARED, PREDICTED, PROMPT, LONGEST)
    assert max(RESERVED[reserve](lengths), 2) == POSITIONS[reserve]


def test_every_reserve_can_be_claimed() -> None:
    assert set(CLAIMED) <= set(CLAIMS)
    assert set(CLAIMED.values()) == set(get_args(Reserve)) - {"on_demand", "peak"}


def test_powers_of_two() -> None:
    assert [power_of_two(tokens) for tokens in (1, 2, 3, 4, 5, 25, 32, 33)] == [1, 2, 4, 4, 8, 32, 32, 64]


def test_a_power_of_two_is_at_most_what_is_declared() -> None:
    assert RESERVED["power_of_two"](Lengths(3, 9, 9, 3, 20)) == RESERVED["declared"](Lengths(3, 9, 9, 3, 20))


@pytest.mark.parametrize("reserve", ["predicted", "power_of_two"])
def test_a_prediction_that_was_too_short_grows_on_demand(reserve: Reserve) -> None:
    driver = run(make, reserve, 2, *rounds(DECLARED + 2))
    assert driver.broken == []
    assert driver.monitor.live == 0


class ReservesAllTheSame(Scheduler):
    """Whatever was asked for, it takes blocks for the declared length."""

    def reserved_tokens(self, job: Job, first: int) -> int:
        return job.request.prompt_tokens + job.request.max_output_tokens - 1


@pytest.mark.parametrize("reserve", ["on_demand", "peak", "known", "predicted", "power_of_two"])
def test_who_reserves_more_than_it_was_asked_is_named(reserve: Reserve) -> None:
    broken = run(ReservesAllTheSame, reserve, PREDICTED, STEP).broken
    assert {violation.rule for violation in broken} == {"KV-5"} | ({"KV-18"} if reserve == "on_demand" else set())


def test_the_longest_request_must_fit() -> None:
    with pytest.raises(ValueError, match="max_model_tokens is 34 and the pool holds 32 positions"):
        Settings(blocks=32, block_size=1, reserve="model", max_model_tokens=34)
    with pytest.raises(ValueError, match="reserve is 'model', but max_model_tokens has no limit"):
        Settings(reserve="model")
    assert Settings(blocks=32, block_size=1, reserve="model", max_model_tokens=33).reserve == "model"
