"""Many steps at once: as far as single steps would change nothing but clocks and tables, and no further."""

from collections.abc import Sequence

import numpy as np
import pytest
from attrs import evolve

from schedspec.optimized.scheduler import Scheduler
from schedspec.spec.vocabulary import Delta, Outcome, Plan, Request, Settings

PLAIN = Settings(blocks=60, block_size=4, seats=4, token_budget=64)
FAR = 1_000


def request(name: str, prompt: int, output: int) -> Request:
    return Request(id=name, prompt_ids=tuple(range(prompt)), max_output_tokens=output)


def running(settings: Settings, *lengths: tuple[int, int]) -> Scheduler:
    """Prompts and outputs; a calendar stands."""
    scheduler = Scheduler(settings)
    for number, (prompt, output) in enumerate(lengths):
        scheduler.submit(request(f"r{number}", prompt, output), 0)
    for _ in range(4):
        one_step(scheduler)
    assert scheduler.calendar is not None
    return scheduler


def one_step(scheduler: Scheduler) -> None:
    batch = scheduler.step_arrays()
    scheduler.complete_arrays(batch, np.zeros(int(batch.samples.sum()), dtype=np.bool_))


def must_be_alike(fast: Scheduler, slow: Scheduler) -> None:
    assert fast.observe() == slow.observe()
    assert (fast.steps, fast.blocks.tables.tolist()) == (slow.steps, slow.blocks.tables.tolist())


@pytest.mark.parametrize("policy", ["fcfs", "vtc", "lanes"])
@pytest.mark.parametrize("asked", [1, 3, 4, 5, 17, FAR])
def test_it_stops_before_the_step_that_somebody_ends_in(policy: str, asked: int) -> None:
    settings = evolve(PLAIN, policy=policy)  # type: ignore[arg-type]
    fast, slow = (running(settings, (3, 30), (6, 22), (9, 40)) for _ in range(2))
    done, _ = fast.run_ahead(asked)
    assert done == min(asked, 22 - 4 - 1)
    for _ in range(done):
        one_step(slow)
    must_be_alike(fast, slow)
    for _ in range(30):
        one_step(fast)
        one_step(slow)
        must_be_alike(fast, slow)


def outcome(plan: Plan, stop: list[bool]) -> Outcome:
    return Outcome(step=plan.step, request=plan.request, token=[0] * len(stop), stop=stop)


@pytest.mark.parametrize("policy", ["fcfs", "vtc", "lanes"])
@pytest.mark.parametrize("stopping", [["r0"], ["r2"], ["r2", "r0"], ["r0", "r1", "r2"], ["r1"]])
@pytest.mark.parametrize("free", [5, 30])
def test_models_stop_in_the_last_of_its_steps(policy: str, stopping: list[str], free: int) -> None:
    """If there are blocks for all of them, and somebody stays; r1 has its last output there anyhow."""
    settings = evolve(PLAIN, policy=policy, blocks=9 + free)  # type: ignore[arg-type]
    fast, slow = (running(settings, (3, 30), (6, 22), (9, 40)) for _ in range(2))
    asked = 18 if stopping == ["r1"] else 11
    done, deltas = fast.run_ahead(asked, stopping)
    expected: Sequence[Delta] = ()
    for step in range(done):
        plan = slow.step(0)
        stop = [step == asked - 1 and request in stopping for request in plan.request]
        expected = slow.complete(outcome(plan, stop), 0)[1:]
    assert list(deltas) == list(expected)
    assert bool(deltas) == (done == asked) == (free == 30 and len(stopping) < 3)
    must_be_alike(fast, slow)
    for _ in range(8):
        one_step(fast)
        one_step(slow)
        must_be_alike(fast, slow)


FOUR = ((3, 40), (6, 40), (5, 40), (4, 40))


@pytest.mark.parametrize("free", range(7))
def test_it_goes_as_far_as_there_are_blocks(free: int) -> None:
    """Also if the last of them is taken by the last of its steps; single steps go as far until the calendar ends."""
    settings = evolve(PLAIN, blocks=12 + free)
    fast, slow = (running(settings, *FOUR) for _ in range(2))
    done, _ = fast.run_ahead(FAR)
    for _ in range(done):
        one_step(slow)
    must_be_alike(fast, slow)
    assert slow.calendar is not None
    one_step(slow)
    assert slow.calendar is None


def test_nothing_is_skipped_while_somebody_could_enter() -> None:
    """Into the last seat, as soon as it has come."""
    scheduler = running(PLAIN, (3, 30), (6, 30), (9, 30))
    assert scheduler.run_ahead(2)[0] == 2
    scheduler.submit(request("late", 3, 3), 0)
    assert scheduler.run_ahead(2)[0] == 0
    one_step(scheduler)
    assert scheduler.admissions == 4


def test_nothing_is_skipped_after_a_cancel_that_lets_others_in() -> None:
    """Who did not fit kept them out."""
    scheduler = running(evolve(PLAIN, blocks=18), (3, 30), (6, 30))
    scheduler.submit(request("large", 60, 3), 0)
    scheduler.submit(request("small", 3, 3), 0)
    one_step(scheduler)
    assert scheduler.run_ahead(2)[0] == 2
    scheduler.cancel("large", 0)
    assert scheduler.run_ahead(2)[0] == 0
    one_step(scheduler)
    assert scheduler.admissions == 3
