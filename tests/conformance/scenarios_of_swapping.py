"""Directed scenarios of victims that are swapped, and of what a preemption costs; `scenarios.py` has all others."""

from collections.abc import Callable

from attrs import evolve

from schedspec.spec.vocabulary import Settings

from .script import COMPLETE, STEP, Op, cancel, rounds, submit

_Built = tuple[tuple[str, ...], Settings, tuple[Op, ...]]

SWAPPING = Settings(blocks=5, block_size=1, seats=4, token_budget=8, host_blocks=5, recover="swap")


def a_victim_goes_to_the_host_and_comes_back() -> _Built:
    ops = (submit("a", 1, 4), submit("b", 1, 4), submit("c", 1, 4), *rounds(20))
    return ("PRE-7", "PRE-9", "KV-12"), SWAPPING, ops


def a_victim_was_at_the_edge_of_a_block() -> _Built:
    """What it kept fills its blocks, so that its next position needs one more; and it has two to bring back."""
    settings = evolve(SWAPPING, blocks=7, block_size=2, host_blocks=3)
    ops = (submit("a", 5, 8), submit("b", 3, 8), *rounds(6), cancel("a"), *rounds(6))
    return ("PRE-9", "KV-12"), settings, ops


def the_host_is_too_small_for_two() -> _Built:
    """The second victim is computed again; the first is cancelled while it is swapped."""
    ops = (*(submit(name, 1, 5) for name in "abcdef"), *rounds(2), cancel("e"), *rounds(30))
    return ("PRE-8", "PRE-9"), evolve(SWAPPING, blocks=6, seats=6, token_budget=16, host_blocks=2), ops


def a_victim_has_a_result_to_come() -> _Built:
    ops = (submit("a", 1, 4), submit("b", 1, 4), submit("c", 1, 4), STEP, *((STEP, COMPLETE) * 20))
    return ("LIFE-8",), evolve(SWAPPING, overlap_depth=2), ops


def a_victim_is_saved_or_recomputed_whichever_is_cheaper() -> _Built:
    """Copies cost by the block: who has but a few positions in its last one is recomputed."""
    settings = evolve(SWAPPING, block_size=3, recover="cheaper", swap_block_ns=4, recompute_token_ns=3)
    return ("PRE-10",), settings, (submit("a", 2, 9), submit("b", 3, 9), submit("c", 5, 6), *rounds(30))


def the_last_block_of_a_victim_is_not_full() -> _Built:
    settings = evolve(SWAPPING, block_size=3)
    return ("PRE-9",), settings, (submit("a", 2, 9), submit("b", 3, 9), submit("c", 5, 6), *rounds(30))


def taking_a_place_costs_less_than_waiting_or_more() -> _Built:
    """The first of the better class takes the place of one that has much to come, the second waits for its end."""
    settings = Settings(blocks=32, block_size=1, seats=1, policy="priority", preempt_lower_class=True)
    settings = evolve(settings, recompute_token_ns=3, decode_step_ns=2)
    ops = (submit("long", 2, 9, priority=1), *rounds(2), submit("urgent", 1, 1), *rounds(6), submit("late", 1, 1))
    return ("PRE-11",), settings, (*ops, *rounds(10))


BUILDERS: tuple[Callable[[], _Built], ...] = (
    a_victim_goes_to_the_host_and_comes_back,
    a_victim_was_at_the_edge_of_a_block,
    the_host_is_too_small_for_two,
    a_victim_has_a_result_to_come,
    a_victim_is_saved_or_recomputed_whichever_is_cheaper,
    the_last_block_of_a_victim_is_not_full,
    taking_a_place_costs_less_than_waiting_or_more,
)
