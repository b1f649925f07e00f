"""Intervals hold what they say, also where requests wait for each other; too small a sample has none."""

import pytest

np = pytest.importorskip("numpy")

from schedspec.reference.simulation import Objective, Record  # noqa: E402
from schedspec.simulation_report.intervals import FEWEST_REQUESTS, intervals  # noqa: E402

MS = 1_000_000


def records(waits_ms: "list[float]") -> list[Record]:
    """One a second, each with its first token so much later, and another one 10 ms after it."""
    made = []
    for number, wait in enumerate(waits_ms):
        came, first = number * 1_000 * MS, int(wait * MS)
        one = Record(
            f"r{number}", "c", "l", came, 1, 2, admitted_ns=came, ended_ns=came + first + 10 * MS, end="finished"
        )
        one.token_ns.extend([came + first, came + first + 10 * MS])
        made.append(one)
    return made


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_nine_in_ten_hold_the_true_percentile(correlation: float) -> None:
    """95 % are asked for; a bootstrap of blocks falls a little short of it where neighbours are alike.  Requests drawn
    one by one would hold it in far fewer of these."""
    held = 0
    for seed in range(30):
        dice = np.random.default_rng(seed)
        noise, level, waits = dice.normal(size=400), 0.0, []
        for step in noise:
            level = correlation * level + (1 - correlation**2) ** 0.5 * float(step)
            waits.append(1_000 + 100 * level)
        low, high = intervals(records(waits), Objective())["ttft_ns"]["p50"]
        held += low <= 1_000 * MS <= high
    assert held >= 25


def test_a_figure_without_spread_has_an_interval_without_width() -> None:
    told = intervals(records([5] * 400), Objective(ttft_ns=5 * MS))
    assert (told["requests"], told["blocks"]) == (400, 20)
    assert told["ttft_ns"]["p50"] == [5 * MS, 5 * MS]
    assert told["itl_ns"]["p95"] == [10 * MS, 10 * MS]
    assert told["goodput_share"] == [1.0, 1.0]


def test_the_share_in_time_lies_within_its_interval() -> None:
    dice = np.random.default_rng(1)
    told = intervals(records(list(dice.uniform(0, 1_000, size=500))), Objective(ttft_ns=800 * MS))
    low, high = told["goodput_share"]
    assert 0.7 < low < 0.8 < high < 0.9


def test_too_few_requests_or_too_few_beyond_have_none() -> None:
    assert intervals(records([1.0] * (FEWEST_REQUESTS - 1)), Objective()) == {"requests": 99, "blocks": 0}
    told = intervals(records([float(wait) for wait in range(400)]), Objective())
    assert "p95" in told["ttft_ns"]
    assert "p99" not in told["ttft_ns"]


def test_nobody_finished_is_no_error() -> None:
    refused = [Record(f"r{n}", "c", "l", n, 1, 1, refused="queue_requests") for n in range(200)]
    told = intervals(refused, Objective())
    assert told["ttft_ns"] == told["itl_ns"] == {}
    assert told["goodput_share"] == [0.0, 0.0]
