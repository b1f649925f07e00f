"""What only a device shows: a captured graph, races, speed.  As far as it can be, the same code runs without one."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

pytest.importorskip("torch", reason="kernels need torch: `make kernels` installs it")
pytest.importorskip("triton", reason="kernels need triton: `make kernels` installs it")

from attrs import asdict

from schedspec.kernels import bench
from schedspec.kernels import scheduler as original
from schedspec.kernels.bench import Case, crowded, replay_of
from schedspec.kernels.scheduler import Arrival, Scheduler, Setup

from .moments import is_equal, moments
from .states import DEVICE


def setup_of(seats: int, *, shares: bool, tile: int) -> Setup:
    """Memory for two thirds of those who may run."""
    return Setup(
        places=4 * seats, groups=7 if shares else 1, blocks=4 * seats, block_size=4, table_blocks=8, seats=seats,
        token_budget=3 * seats, shares=shares, tile=tile, share_tile=min(tile, 512), picks=4 if tile < 512 else 32,
    )  # fmt: skip


def arrivals_of(dice: Random, scheduler: Scheduler, first: int, count: int) -> list[Arrival]:
    jobs = scheduler.state.plain().jobs
    free = [place for place, job in enumerate(jobs) if not job.is_live]
    setup = scheduler.setup
    return [
        Arrival(
            place=place,
            arrival=1 + first + number,
            prompt_tokens=dice.randint(1, 12),
            output_tokens=dice.randint(1, 20),
            group=dice.randrange(setup.groups),
            key=0 if setup.shares else dice.randrange(3),
            pick_cost=dice.randrange(9),
            output_cost=2,
        )
        for number, place in enumerate(free[:count])
    ]


def run(setup: Setup, rounds: int, replays: int, replay_of: Callable[..., Callable[[], Any]]) -> list[Any]:
    """Arrivals, and then steps without the host; what there is after each round."""
    dice = Random(setup.seats)
    scheduler = Scheduler.of(setup, DEVICE)
    scheduler.submit(arrivals_of(dice, scheduler, 0, 2 * setup.seats))
    plan, stop = scheduler.step(), scheduler.flags([])
    replay = replay_of(scheduler, plan, stop)
    seen = []
    for number in range(rounds):
        scheduler.submit(arrivals_of(dice, scheduler, 10_000 * (number + 1), setup.seats // 2))
        scheduler.cancel(dice.randrange(setup.places))
        for _ in range(replays):
            stop.copy_(scheduler.flags([dice.random() < 0.03 for _ in range(setup.seats)]))
            replay()
        seen += [asdict(plan.plain()), asdict(scheduler.state.plain())]
    return seen


def launches(scheduler: Scheduler, plan: Any, stop: Any) -> Callable[[], None]:
    """Each time a plan of its own, copied: nothing is left in it from the step before."""

    def work() -> None:
        scheduler.complete(plan, stop)
        fresh = scheduler.step()
        for name in ("place", "epoch", "start", "tokens", "samples", "victims", "entering", "counts"):
            getattr(plan, name).copy_(getattr(fresh, name))

    return work


@pytest.mark.parametrize("shares", [False, True])
def test_a_plan_may_be_written_over(shares: bool) -> None:
    setup = setup_of(6, shares=shares, tile=4)
    assert run(setup, 1, 3, replay_of) == run(setup, 1, 3, launches)


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="no CUDA device is here")
@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("seats", [33, 1_025])
def test_a_captured_graph_decides_as_launches_do(seats: int, shares: bool) -> None:
    setup = setup_of(seats, shares=shares, tile=1_024)
    assert run(setup, 20, 100, replay_of) == run(setup, 20, 100, launches)


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="no CUDA device is here")
@pytest.mark.parametrize("call", ["step", "shared", "complete", "cancel", "close_up", "submit", "lift"])
def test_threads_wait_for_each_other(call: str) -> None:
    """From the same state always the same: blocks that victims push are popped in the same launch, lists are closed up
    in place."""
    for moment, _ in zip(moments(call), range(20), strict=False):
        assert [is_equal(original, moment) for _ in range(50)] == [True] * 50


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="no CUDA device is here")
@pytest.mark.parametrize("seats", [1_000, 8_192])
def test_many_victims_in_one_step(seats: int) -> None:
    """Full tiles, and victims in each: again and again the same from the same state."""
    setup = setup_of(seats, shares=False, tile=1_024)
    first: Any = None
    for _ in range(20):
        told = run(setup, 2, 30, replay_of)
        assert first is None or told == first
        first = told


@pytest.mark.parametrize("shares", [False, True])
def test_the_bench_measures_full_steps_of_decode(shares: bool) -> None:
    """Everybody runs a token, whoever is said to end does, and as many enter."""
    case = Case(running=7, waiting=5, ending=2, shares=shares)
    scheduler, plan, stop = crowded(case, DEVICE, tile=4, share_tile=4, picks=4)
    assert len(plan.plain().entries) == case.running
    replay_of(scheduler, plan, stop)()
    told = plan.plain()
    assert len(told.entries) == case.running
    assert len(told.entering) == case.ending
    assert [entry.tokens for entry in told.entries[: case.running - case.ending]] == [1] * 5


def test_a_graph_needs_a_device() -> None:
    scheduler = Scheduler.of(setup_of(2, shares=False, tile=4), "cpu")
    with pytest.raises(RuntimeError, match="a graph needs a CUDA device, but this scheduler is on cpu: use step"):
        scheduler.capture(scheduler.step(), scheduler.flags([]))


def test_without_a_device_the_bench_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert bench.main() == 0
    assert capsys.readouterr().out == "There is no CUDA device here, so no GPU figure was measured.\n"
