"""Two pools on a virtual clock: what DistServe's latencies are made of, and the delays that its section 3 derives."""

from itertools import pairwise

from schedspec.reference.reproduce import distserve
from schedspec.reference.simulation.pools import TwoPools
from schedspec.spec.vocabulary import NS_PER_S


def course_of(link_ns: int) -> tuple[list[int], list[float]]:
    pools = distserve.two_pools(2, 1)
    found = TwoPools(pools.subject, pools.costs, lambda positions: link_ns).run(distserve.arrivals(3.0, 0, 12))
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
    at = distserve.split((1, 1), (1.0, 1.0), 1, 5)
    assert at(1.0) == (0.0, 0.0, 0.0)
