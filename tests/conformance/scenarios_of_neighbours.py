"""Directed scenarios of requests beside each other: what one of them gets, loses or looks for is felt by the next."""

from collections.abc import Callable

from attrs import evolve

from schedspec.spec.vocabulary import Settings

from .scenarios_of_transfers import TWO_POOLS
from .script import BEGIN_TRANSFER, END_TRANSFER, REPEAT_TRANSFER, TRANSFER, Op, answer, cancel, rounds, submit

_Built = tuple[tuple[str, ...], Settings, tuple[Op, ...]]

SAME = (7, 7, 7, 7, 7, 7)
DRAFTING = Settings(blocks=16, block_size=2, seats=4, token_budget=8, draft_tokens=3)


def the_victim_came_before_those_who_stay() -> _Built:
    """These have their blocks in hand."""
    settings = Settings(blocks=3, block_size=4, seats=3, token_budget=8, policy="priority", victim="lowest_priority")
    later = (submit("b", 1, 4), submit("c", 1, 4, priority=1))
    return ("STEP-8", "PRE-2"), settings, (submit("a", 3, 5, priority=2), *rounds(1), *later, *rounds(12))


def somebody_of_a_better_class_needs_the_blocks_of_two() -> _Built:
    """There is a seat; memory is short, and one of the others has too little of it."""
    settings = Settings(blocks=6, block_size=1, seats=4, token_budget=16, policy="priority", preempt_lower_class=True)
    low = (submit("a", 2, 2, priority=2), submit("b", 2, 2, priority=1), *rounds(1))
    return ("LIVE-10",), settings, (*low, submit("urgent", 4, 2), *rounds(8))


def decodes_with_drafts_share_a_small_budget() -> _Built:
    """At first there is room for a draft of one of the two, and then for none."""
    settings = evolve(DRAFTING, token_budget=3, draft_tokens=2)
    ops = (submit("a", 2, 12), *rounds(1), submit("b", 2, 12), *rounds(4))
    return ("STEP-1", "STEP-6"), settings, (*ops, submit("c", 1, 5), submit("d", 1, 5), *rounds(14))


def what_never_fits_would_reserve_all_of_it() -> _Built:
    settings = Settings(blocks=4, block_size=2, reserve="known")
    return ("ADMIT-1",), settings, (submit("big", 9, 1), submit("a", 2, 2), *rounds(4))


def equal_prompts_come_at_once() -> _Built:
    settings = Settings(blocks=12, block_size=2, seats=4, token_budget=24, prefix_caching=True)
    ops = (submit("a", SAME, 3), submit("b", SAME, 3), submit("c", (*SAME[:4], 1, 2), 3), *rounds(5))
    return ("KV-12", "KV-14"), settings, ops


def who_waits_has_a_prefix_that_is_leased() -> _Built:
    settings = Settings(blocks=10, block_size=1, seats=3, token_budget=16, reserve="known", prefix_caching=True)
    settings = evolve(settings, park_timeout_ns=100, hold_ns=50)
    ops = (submit("a", SAME[:4], 4, pauses=(1,)), *rounds(1), submit("b", 3, 5), *rounds(1))
    late = (Op("tick", ns=30), *rounds(1), Op("tick", ns=30), *rounds(8))
    return ("KV-15",), settings, (*ops, submit("c", (*SAME[:4], 1, 2, 3, 4, 5), 1), *rounds(1), *late)


def two_who_are_parked_have_the_same_prefix() -> _Built:
    """The first comes back and ends; what it shared is still kept for the other, until memory is short."""
    settings = Settings(blocks=9, block_size=1, seats=3, token_budget=16, prefix_caching=True)
    settings = evolve(settings, park_timeout_ns=100, hold_ns=100)
    parked = (submit("a", SAME[:4], 2, pauses=(1,)), *rounds(1), submit("b", SAME[:4], 4, pauses=(1,)), *rounds(1))
    ops = (*parked, answer("a", 1), *rounds(2), submit("c", 4, 5), submit("d", 1, 4), *rounds(5), answer("b", 1))
    return ("KV-15",), settings, (*ops, *rounds(6))


def the_host_has_room_for_full_blocks_alone() -> _Built:
    """A victim has begun another one, so it is computed again."""
    settings = Settings(blocks=6, block_size=2, token_budget=8, host_blocks=2, recover="swap")
    return ("PRE-8",), settings, (submit("a", 3, 8), submit("b", 2, 9), *rounds(24))


def the_link_needs_most_of_its_time_for_whoever_left() -> _Built:
    ops = (submit("a", 4, 4), *rounds(1), BEGIN_TRANSFER, cancel("a"), submit("b", 4, 4), Op("tick", ns=60), *rounds(1))
    return ("KV-9",), TWO_POOLS, (*ops, END_TRANSFER, *rounds(1), *TRANSFER, *rounds(4))


def the_link_tells_late_of_whoever_left() -> _Built:
    """Its blocks are somebody else's by then."""
    gone = (submit("a", 4, 4), *rounds(1), BEGIN_TRANSFER, cancel("a"), Op("tick", ns=100))
    return ("KV-9",), TWO_POOLS, (*gone, submit("b", 4, 4), *rounds(1), REPEAT_TRANSFER, *TRANSFER, *rounds(4))


def a_tool_fails_while_what_was_computed_is_kept() -> _Built:
    settings = Settings(blocks=8, block_size=2, seats=2, token_budget=8, prefix_caching=True)
    settings = evolve(settings, park_timeout_ns=100, hold_ns=50)
    ops = (submit("a", 4, 4, pauses=(1,)), *rounds(1), answer("a", 1, is_there=False), submit("b", 2, 2), *rounds(3))
    return ("KV-15", "LIVE-5"), settings, ops


def drafts_are_right_and_wrong() -> _Built:
    ops = (submit("a", 3, 9), submit("b", 2, 6, stop_after=4), *rounds(3), submit("c", 9, 4), *rounds(9))
    return ("STEP-1", "STEP-6", "KV-4"), DRAFTING, ops


def a_victim_would_have_had_drafts() -> _Built:
    settings = evolve(DRAFTING, blocks=6, block_size=1, draft_tokens=1)
    return ("STEP-6", "STEP-7"), settings, (*(submit(name, 1, 5) for name in "abc"), *rounds(16))


def a_prompt_comes_where_decodes_had_drafts() -> _Built:
    """Steps are of one phase: they are not in the next one."""
    settings = evolve(DRAFTING, batch_mix="exclusive", phase_first="prefill")
    return ("STEP-6", "STEP-16"), settings, (submit("a", 3, 9), *rounds(3), submit("b", 3, 4), *rounds(8))


BUILDERS: tuple[Callable[[], _Built], ...] = (
    the_victim_came_before_those_who_stay,
    somebody_of_a_better_class_needs_the_blocks_of_two,
    what_never_fits_would_reserve_all_of_it,
    equal_prompts_come_at_once,
    who_waits_has_a_prefix_that_is_leased,
    two_who_are_parked_have_the_same_prefix,
    the_host_has_room_for_full_blocks_alone,
    the_link_needs_most_of_its_time_for_whoever_left,
    the_link_tells_late_of_whoever_left,
    a_tool_fails_while_what_was_computed_is_kept,
    drafts_are_right_and_wrong,
    a_victim_would_have_had_drafts,
    decodes_with_drafts_share_a_small_budget,
    a_prompt_comes_where_decodes_had_drafts,
)
