"""Directed scenarios in which something is short at the very moment at which somebody else counts on it;
`scenarios.py` has all others."""

from collections.abc import Callable

from schedspec.spec.vocabulary import Settings

from .parked_scenarios import PARKING
from .script import Op, rounds, submit

_Built = tuple[tuple[str, ...], Settings, tuple[Op, ...]]


def prompts_that_end_inside_a_block_enter_at_once() -> _Built:
    """Nine tokens would fit into five blocks of two, three prompts of three do not."""
    ops = tuple(submit(name, 3, 2) for name in "abc")
    return ("KV-10", "KV-16"), Settings(blocks=5, block_size=2, seats=4, token_budget=16), (*ops, *rounds(8))


def the_least_urgent_was_admitted_first() -> _Built:
    """It is visited before the one that needs its blocks."""
    settings = Settings(blocks=4, block_size=1, seats=4, token_budget=8, policy="priority", victim="lowest_priority")
    ops = (submit("low", 1, 4, priority=2), *rounds(1), submit("urgent", 1, 4), *rounds(12))
    return ("STEP-7", "PRE-2", "PRE-8"), settings, ops


def a_cached_prefix_is_the_next_to_be_evicted() -> _Built:
    """Whoever runs needs a block in the step in which somebody is admitted who counts on it."""
    settings = Settings(blocks=6, block_size=1, seats=2, token_budget=2, prefix_caching=True)
    ops = (submit("old", (1, 2), 1), *rounds(1), submit("other", (3, 4), 1), *rounds(1), submit("runs", (5, 6), 3))
    return ("KV-12", "KV-14", "STEP-1"), settings, (*ops, *rounds(1), submit("hits", (1, 2, 7), 2), *rounds(6))


def more_streams_than_tokens() -> _Built:
    """Prompts come first, whole, so that more and more decode."""
    settings = Settings(
        blocks=64,
        block_size=1,
        seats=6,
        token_budget=3,
        chunked_prefill=False,
        batch_mix="exclusive",
        phase_first="prefill",
    )
    return ("STEP-1", "STEP-16"), settings, (*(submit(name, 1, 3) for name in "abcdef"), *rounds(12))


def more_streams_than_tokens_beside_prompts() -> _Built:
    settings = Settings(blocks=64, block_size=1, seats=6, token_budget=3, phase_first="prefill")
    return ("STEP-1",), settings, (*(submit(name, 1, 3) for name in "abcdef"), *rounds(12))


def others_come_while_somebody_is_parked() -> _Built:
    ops = (submit("a", 4, 3, dependencies=("transfer",)), Op("tick", ns=60), submit("b", 2, 2), *rounds(1))
    return ("LIVE-5",), PARKING, (*ops, Op("tick", ns=60), submit("c", 2, 2), *rounds(3))


def a_client_has_its_seats_and_another_comes() -> _Built:
    """Whoever waits longest is held by a cap of its client, and needs the most."""
    settings = Settings(blocks=64, block_size=1, seats=4, token_budget=8, policy="vtc", client_seats=1)
    first = (submit("a1", 1, 6, client="A"), submit("a2", 3, 2, client="A"), *rounds(1))
    return ("LIVE-8", "LANE-7"), settings, (*first, submit("b", 1, 2, client="B"), *rounds(9))


BUILDERS: tuple[Callable[[], _Built], ...] = (
    prompts_that_end_inside_a_block_enter_at_once,
    the_least_urgent_was_admitted_first,
    a_cached_prefix_is_the_next_to_be_evicted,
    more_streams_than_tokens,
    more_streams_than_tokens_beside_prompts,
    others_come_while_somebody_is_parked,
    a_client_has_its_seats_and_another_comes,
)
