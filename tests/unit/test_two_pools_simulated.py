"""Two pools on a virtual clock: what DistServe's latencies are made of, and the delays that its section 3 derives."""

from itertools import pairwise
from operator import add
from random import Random

import pytest

from schedspec.reference.reproduce import distserve
from schedspec.reference.reproduce.search import percentile
from schedspec.reference.simulation.pools import TwoPools
from schedspec.spec.vocabulary import NS_PER_S


def course_of(link_ns: int) -> tuple[list[int], list[float]]:
    pools = distserve.two_pools(2, 1)
    coming = distserve.arrivals(distserve.SHAREGPT, 3.0, 0, 12)
    found = TwoPools(pools.subject, pools.costs, lambda positions: link_ns).run(coming)
    assert all(len(course.tokens_ns) == course.output_tokens for course in found.values())
    return [course.ttft_ns for course in found.values()], [course.tpot_ns for course in found.values()]


def test_a_slow_link_delays_what_follows_the_first_token_and_not_that() -> None:
    """D4: the first token comes from the prefill pool; transfer and decode queue are in the time per token after it."""
    fast, slow = course_of(1_000_000), course_of(NS_PER_S)
    assert fast[0] == slow[0]
    assert sum(slow[1]) > sum(fast[1])


def test_equal_prompts_leave_as_the_device_takes_them() -> None:
    """Alone in the queue each takes its service; two stages take a step in half that time."""
    lonely = distserve.first_tokens(1_000_000, 1, 0.01, 30, 0)
    assert set(lonely) == {1_000_000}
    crowded = distserve.first_tokens(1_000_000_000, 1, 1_000.0, 30, 0)
    assert {round((after - before) / NS_PER_S, 1) for before, after in pairwise(crowded)} == {1.0}
    staged = distserve.first_tokens(1_000_000_000, 2, 1_000.0, 30, 0)
    assert {round((after - before) / NS_PER_S, 1) for before, after in pairwise(staged)} == {0.5}


def test_the_formulas_hold_to_monte_carlo_error() -> None:
    assert all(deviation < 4 for _, deviation in distserve.formulas(1_500, seed=1))


def test_what_is_slower_than_its_deadline_alone_is_not_looked_at_further() -> None:
    at = distserve.split(distserve.Case(distserve.SHAREGPT, (1.0, 1.0), (0,), 5), (1, 1))
    assert at(1.0) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(("limit", "found"), [(1.6, 1.5625), (1.8, 1.71875), (0.1, 0.0)])
def test_the_search_reports_the_last_rate_of_its_grid_that_passed(limit: float, found: float) -> None:
    """5 is halved until less than 0.25 is left: what prints as 1.56 is ten 32nds of it."""
    assert distserve.bisected(lambda rate: rate <= limit, distserve.SEARCH_MOST, distserve.SEARCH_WITHIN) == found


def test_lengths_lie_on_the_published_quantiles_and_within_the_context() -> None:
    dice = Random(0)
    prompts, outputs = zip(*(distserve.SHAREGPT(dice) for _ in range(4_000)), strict=True)
    assert max(map(add, prompts, outputs)) <= distserve.MODEL_TOKENS
    assert percentile(prompts, 50) == pytest.approx(distserve.PROMPT_QUANTILES[10], rel=0.08)
    assert percentile(outputs, 90) == pytest.approx(distserve.OUTPUT_QUANTILES[18], rel=0.08)
