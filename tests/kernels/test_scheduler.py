"""The scheduler on a device: its twins decide as the reference does, its kernels change all state as the twins do, and
small changes are seen."""

import os
import warnings
from collections import Counter
from pathlib import Path
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="kernels need torch: `make kernels` installs it")
pytest.importorskip("triton", reason="kernels need triton: `make kernels` installs it")

from schedspec.kernels import scheduler as original
from schedspec.kernels.lift import lift_plain
from schedspec.kernels.scheduler import Scheduler, Setup
from schedspec.kernels.state import Plain
from schedspec.optimized.on_device import OnDevice, setup_of
from schedspec.spec.vocabulary import Settings

from .moments import CALLS, Moment, first_moments, is_equal
from .plain_scheduler import Both, Twins
from .planted import Change, planted
from .states import DEVICE
from .workloads import POLICIES, compare

SEEN = 9
"""Moments that are looked at of each call: faults must differ in one of them."""

RUNS = int(os.environ.get("KERNEL_RUNS", "1"))
"""`KERNEL_RUNS=50 make kernels ARGS=-k runs` compares more."""


def sized(settings: Settings, dice: Random) -> Setup:
    """So small that everything crosses the edges of tiles."""
    tiles = {"tile": dice.choice((4, 16)), "share_tile": dice.choice((4, 8)), "picks": dice.choice((2, 4))}
    return setup_of(settings, places=64, **tiles)


def of_twins(settings: Settings, dice: Random) -> OnDevice:
    twins: Any = Twins.of(sized(settings, dice))
    return OnDevice(settings, twins)


def of_both(settings: Settings, dice: Random) -> OnDevice:
    both: Any = Both.of(Scheduler.of(sized(settings, dice), DEVICE))
    return OnDevice(settings, both)


@pytest.mark.parametrize("policy", POLICIES)
def test_twins_decide_as_the_reference(policy: str) -> None:
    seen = Counter[str]()
    for seed in range(max(16, RUNS)):
        seen.update(compare(policy, seed, of_twins))
    assert min(seen[name] for name in ("admitted", "took", "gave", "preempted", "resumed")) > 0


def test_twins_decide_that_who_is_behind_by_its_burst_turns_no_time_back() -> None:
    """The first waits, 100 behind; the second comes back and is lifted to the virtual time, not to the first."""
    jobs: Any = [SimpleNamespace(group=1)]
    state = Plain(jobs, [], {}, [], [], 0, [900, 0], [1, 0], [100, 0], 1_000, -1)
    lift_plain(state, [0])
    assert (state.counters, state.waits, state.virtual_time) == ([900, 1_000], [1, 1], 1_000)


@pytest.mark.parametrize("policy", ["priority", "lanes"])
def test_runs_of_the_kernels_are_those_of_the_reference(policy: str) -> None:
    for seed in range(RUNS):
        compare(policy, seed, of_both, steps=12)


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="no CUDA device is here")
@pytest.mark.parametrize("policy", POLICIES)
def test_long_runs_on_a_device_are_those_of_the_reference(policy: str) -> None:
    for seed in range(50):
        compare(policy, seed, of_both, steps=100)


@pytest.mark.parametrize("call", CALLS)
def test_a_call_changes_what_its_twin_changes(call: str) -> None:
    """Whole states: of each kind of moment two or more."""
    assert [is_equal(original, moment) for moment in first_moments(call, SEEN)] == [True] * SEEN


# --- small changes ---------------------------------------------------------------------------------------------


FAULTS: dict[str, tuple[str, Change]] = {
    # settle.py
    "a tile forgets who stayed": ("complete", ("settle", "stay += tl.sum(stays)", "stay = tl.sum(stays)")),
    "a tile forgets who left": ("complete", ("settle", "leaving += tl.sum(goes)", "leaving = tl.sum(goes)")),
    "a result of an older epoch counts": ("complete", ("settle", "other=0) == epoch)", "other=0) >= 0)")),
    "one output too many": ("complete", ("settle", "outputs >= tl.load", "outputs > tl.load")),
    "the last who ended gives first": (
        "complete",
        ("settle", "leaving_ptr + seats, 0, 1, leaving", "leaving_ptr + seats, leaving - 1, -1, leaving"),
    ),
    "a row is lost": ("complete", ("settle", "tl.store(rows_ptr + stay + order", "tl.store(rows_ptr + order")),
    "a stop is no stop": ("complete", ("settle", "ends = stops | (got", "ends = (got")),
    "an output costs as the next": ("complete", ("settle", "2 * outputs - 1", "2 * outputs + 1")),
    "counters of 32 bits": ("complete", ("settle", "+ group, cost, mask", "+ group, cost.to(tl.int32), mask")),
    "results count twice": ("again", ("settle", "tl.store(counts_ptr, entries * 0)", "tl.store(counts_ptr, entries)")),
    "cancelled twice": ("cancel", ("settle", "CANCELLED, mask=lives", "CANCELLED, mask=gone > 0")),
    "who is cancelled still waits": ("cancel", ("settle", "waits_ptr + group) - 1", "waits_ptr + group)")),
    "whoever is cancelled left last": ("cancel", ("settle", "waited & (waits == 0)", "waited & (waits >= 0)")),
    "a stale entry after a cancel": ("cancel", ("settle", "GONE) + 1", "GONE)")),
    # line.py
    "a stale entry lives": (
        "close_up",
        ("line", "lives = ((status == WAITING) | (status == RUNNING))", "lives = here"),
    ),
    "tiles forget those before": ("close_up", ("line", "total + tl.cumsum(kept) - kept", "tl.cumsum(kept) - kept")),
    "an entry too far": ("close_up", ("line", "total + tl.cumsum(kept) - kept", "total + tl.cumsum(kept)")),
    "who runs leaves the line": (
        "close_up",
        ("line", "lives = ((status == WAITING) | (status == RUNNING))", "lives = (status == WAITING)"),
    ),
    "a tie goes to who came later": ("submit", ("line", "its_arrival < arrival", "its_arrival > arrival")),
    "keys the other way": ("submit", ("line", "is_before = (its_key < key)", "is_before = (its_key > key)")),
    "groups do not come first": (
        "lift",
        ("line", "(its_group < group) | ((its_group == group) & is_before)", "is_before"),
    ),
    "an arrival is counted before itself": ("submit", ("line", "middle + 1, low", "middle + 2, low")),
    "keys of 32 bits": ("submit", ("line", "is_before = (its_key < key)", "is_before = (its_key.to(tl.int32) < key)")),
    # look.py
    "who is sure to end runs": ("step", ("look", "is_sure_to_end = coming >=", "is_sure_to_end = coming >")),
    "a prompt runs in one piece": (
        "step",
        ("look", "mask=here, other=0) - issued, most)", "mask=here, other=0) - issued, 1 << 40)"),
    ),
    "a tile forgets who waits before": ("step", ("look", "found += tl.sum(waits)", "found = tl.sum(waits)")),
    "who runs enters": (
        "step",
        ("look", "mask=here, other=0) == WAITING)).to(tl.int64)", "mask=here, other=0) >= WAITING)).to(tl.int64)"),
    ),
    "a row for two": ("step", ("look", "rows_ptr + count + order", "rows_ptr + count - 1 + order")),
    "one position less": ("step", ("look", "other=1) - 1", "other=1) - 2")),
    "a prompt is paid for twice": ("shared", ("look", "tl.where(charged > 0, 0, cost)", "cost")),
    "groups begin where another does": (
        "shared",
        ("look", "mask=behind, other=-1) == group)", "mask=behind, other=-1) >= 0)"),
    ),
    # lift.py
    "the least of all": ("lift", ("lift", "mask=number < groups, other=0) > 0", "mask=number < groups, other=0) >= 0")),
    "who left last is forgotten": ("lift", ("lift", "tl.where(last_left >= 0, left_at, time)", "time")),
    "those behind the first are lifted less": ("lift", ("lift", "tl.maximum(reached, counter))", "reached)")),
    "no burst": ("lift", ("lift", "later) - tl.load(bursts_ptr", "later) - 0 * tl.load(bursts_ptr")),
    "a tile forgets the least": ("lift", ("lift", "tl.minimum(least, tl.min(", "tl.minimum(never, tl.min(")),
    # issue.py
    "the oldest victim first": ("step", ("issue", "running_ptr + count - 1 - order", "running_ptr + stay + order")),
    "what was in flight stays known": ("step", ("issue", "known -= tl.load", "known -= 0 * tl.load")),
    "a victim keeps its epoch": ("step", ("issue", "EPOCH * places, epoch + 1", "EPOCH * places, epoch")),
    "a tile forgets entries": ("step", ("issue", "return entries + tl.sum(one)", "return tl.sum(one)")),
    "it samples a token early": ("step", ("issue", "(start + tokens == known)", "(start + tokens + 1 == known)")),
    "blocks are not held": ("step", ("issue", "tl.load(entering_needs_ptr", "0 * tl.load(entering_needs_ptr")),
    # admit_shared.py and vtc_round.py
    "a round writes over the last": ("shared", ("admit_shared", "tokens_ptr + entered", "tokens_ptr")),
    "a round forgets seats": (
        "shared",
        ("admit_shared", "tl.store(round_ptr, running + entered)", "tl.store(round_ptr, running)"),
    ),
    "one round": ("shared", ("admit_shared", "while (why == 4) | (why == 5)", "while (why == 5) & (entered == 0)")),
    "nobody left last": (
        "shared",
        (
            "vtc_round",
            "tl.store(last_left_ptr, left, mask=emptied >= 0)",
            "tl.store(last_left_ptr, left, mask=emptied > 99)",
        ),
    ),
    "the first who left, not the last": (
        "shared",
        ("vtc_round", "tl.max(tl.where(is_last, place, -1))", "tl.min(tl.where(is_last, place, picks))"),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault: str, tmp_path: Path) -> None:
    call, change = FAULTS[fault]
    module = planted(tmp_path, "scheduler", change)
    assert is_seen(module, first_moments(call, SEEN))


def is_seen(module: ModuleType, moments: list[Moment]) -> bool:
    """In a process of its own: who writes beside an array may end it, and that is seen, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of torch, which the child has no use for
        child = os.fork()
    if not child:
        os._exit(int(any(differs(module, moment) for moment in moments)))
    return os.waitpid(child, 0)[1] != 0


def differs(module: ModuleType, moment: Moment) -> bool:
    try:
        return not is_equal(module, moment)
    except Exception:  # a state that says nothing, as a row that is there twice
        return True
