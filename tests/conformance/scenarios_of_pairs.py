"""Directed scenarios in which two things meet that other scenarios show one by one; `scenarios.py` has all others."""

from collections.abc import Callable

from attrs import evolve

from schedspec.spec.vocabulary import Door, Settings

from .parked_scenarios import HOLDING, PARKING
from .scenarios_of_swapping import SWAPPING
from .scenarios_of_transfers import TWO_POOLS
from .script import BEGIN_TRANSFER, COMPLETE, END_TRANSFER, STEP, TRANSFER, Op, answer, cancel, rounds, submit

_Built = tuple[tuple[str, ...], Settings, tuple[Op, ...]]


def a_victim_shares_its_prefix_with_who_stays() -> _Built:
    """One that decodes, one that is in its prompt still, and two that end in one call."""
    settings = Settings(blocks=7, block_size=1, seats=3, token_budget=8, prefix_caching=True)
    ops = (submit("a", (1, 2, 3, 4), 4), *rounds(1), submit("b", (1, 2, 3, 4), 4), submit("c", (1, 2, 3), 3))
    return ("KV-2", "KV-3", "PRE-3"), settings, (*ops, *rounds(16))


def a_victim_is_cancelled_when_it_is_back() -> _Built:
    """In the step in which it is resumed, and between two chunks of what it computes again."""
    settings = Settings(blocks=6, block_size=1, seats=2, token_budget=4)
    ops = (submit("a", 2, 4), submit("b", 2, 4), *rounds(5), STEP, cancel("b"), COMPLETE, *rounds(2))
    more = (submit("c", 2, 3), submit("d", 2, 4), *rounds(4), cancel("d"), *rounds(4))
    return ("LIFE-6", "KV-7", "PRE-8"), settings, (*ops, *more)


def somebody_stops_while_its_next_step_is_under_way() -> _Built:
    """And its blocks may still be written to."""
    settings = Settings(blocks=4, block_size=1, seats=2, token_budget=8, overlap_depth=2, defer_frees=True)
    ops = (submit("a", 1, 4, stop_after=1), submit("b", 2, 2), STEP, STEP, COMPLETE, STEP, COMPLETE, STEP, COMPLETE)
    return ("KV-19", "LIFE-5"), settings, (*ops, *rounds(4))


def the_decode_pool_is_short_while_nobody_wants_what_arrives() -> _Built:
    pools = evolve(TWO_POOLS.pools, decode_blocks=7)
    ops = (submit("a", 3, 6), submit("b", 3, 6), *rounds(1), *TRANSFER, *TRANSFER, submit("c", 3, 4), *rounds(2))
    ops = (*ops, BEGIN_TRANSFER, cancel("c"), *rounds(8), END_TRANSFER, *TRANSFER, *rounds(4))
    return ("KV-9", "PRE-1"), evolve(TWO_POOLS, pools=pools), ops


def something_fails_while_all_seats_are_taken() -> _Built:
    """For one that never ran, and for one that calls a tool."""
    ops = (submit("a", 2, 3, dependencies=("grammar",)), submit("b", 2, 4, pauses=(1,)), *rounds(1), submit("c", 2, 9))
    ops = (*ops, *rounds(1), answer("a", "grammar", is_there=False), *rounds(1), answer("b", 1, is_there=False))
    return ("LIVE-4", "LIVE-5"), evolve(PARKING, seats=1), (*ops, *rounds(12))


def two_are_parked_and_one_of_them_fails() -> _Built:
    ops = (submit("a", 2, 3, dependencies=("grammar",)), submit("b", 2, 3, dependencies=("grammar",)), *rounds(1))
    ops = (*ops, answer("a", "grammar", is_there=False), *rounds(1), answer("b", "grammar"), *rounds(5))
    return ("LIVE-4", "LIVE-5"), PARKING, ops


def a_tool_is_called_twice_and_does_not_answer_again() -> _Built:
    ops = (submit("a", 3, 5, pauses=(1, 2)), *rounds(1), Op("tick", ns=60), answer("a", 1), *rounds(2))
    return ("LIVE-5",), PARKING, (*ops, Op("tick", ns=60), STEP, Op("tick", ns=60), STEP, submit("b", 1, 1), *rounds(2))


def somebody_is_woken_while_a_victim_waits() -> _Built:
    settings = evolve(PARKING, blocks=6, block_size=1, seats=3)
    ops = (submit("p", 1, 2, dependencies=("transfer",)), submit("a", 1, 6), submit("b", 1, 5), *rounds(4))
    return ("LIVE-4", "PRE-7"), settings, (*ops, answer("p", "transfer"), *rounds(14))


def the_watermark_is_all_that_is_left_while_somebody_is_parked() -> _Built:
    settings = evolve(HOLDING, blocks=4, block_size=1, watermark_blocks=2)
    ops = (submit("a", 1, 4, pauses=(1,)), *rounds(1), submit("b", 3, 1), *rounds(2), answer("a", 1), *rounds(4))
    return ("LIVE-1", "LIVE-9"), settings, ops


def who_waited_longest_does_not_fit_yet() -> _Built:
    """It is the next, since others went past it, and stays so while it does not fit."""
    settings = Settings(blocks=6, block_size=1, seats=2, token_budget=16, policy="priority", max_overtaken=1)
    ops = (submit("a", 1, 6), *rounds(1), submit("low", 5, 1, priority=1), submit("b", 1, 2), *rounds(1))
    return ("LIVE-3",), settings, (*ops, submit("c", 1, 1), *rounds(2), submit("d", 1, 1), *rounds(10))


def a_cold_request_is_overtaken_by_warm_ones() -> _Built:
    settings = Settings(blocks=8, block_size=1, seats=1, token_budget=8, policy="lpm", prefix_caching=True)
    warm = tuple(submit(f"warm{number}", (1, 2, 3), 1) for number in range(1, 5))
    ops = (submit("first", (1, 2, 3), 1), *rounds(1), submit("cold", (7, 8, 9), 1), *warm, *rounds(6))
    return ("LIVE-3",), evolve(settings, max_overtaken=2), ops


def the_adapter_of_a_victim_is_gone() -> _Built:
    """Another one has the slot when its turn comes, and who needs none goes on."""
    settings = Settings(blocks=6, block_size=1, seats=3, token_budget=16, adapter_slots=1, policy="priority")
    settings = evolve(settings, victim="lowest_priority")
    ops = (submit("x", 1, 5, adapter="x", priority=1), submit("a", 1, 5), *rounds(3), submit("y", 1, 4, adapter="y"))
    return ("LIVE-7",), settings, (*ops, *rounds(1), submit("b", 1, 2, priority=2), *rounds(16))


def the_pool_is_all_of_one_request() -> _Built:
    settings = Settings(blocks=1, block_size=4, seats=2, token_budget=8)
    return ("LIVE-1", "LIVE-2"), settings, (submit("a", 1, 4), submit("b", 2, 3), *rounds(9))


def who_comes_back_from_the_host_needs_a_token_too() -> _Built:
    """All of the budget is taken in the steps around it."""
    settings = evolve(SWAPPING, blocks=6, token_budget=3)
    ops = (submit("a", 1, 5), submit("b", 1, 5), submit("c", 1, 4), *rounds(5), *(submit(n, 2, 2) for n in "defg"))
    return ("PRE-9", "STEP-1"), settings, (*ops, *rounds(24))


def whoever_is_held_at_the_door_is_cancelled() -> _Built:
    """One that is deferred, and one whose client need not stay."""
    door = Door(queue_requests=1, defer_ns=40, deferred_requests=1, asynchronous_requests=1)
    settings = Settings(blocks=16, block_size=1, seats=1, token_budget=4, reserve="declared", door=door)
    ops = (*(submit(name, 2, 3) for name in "abcd"), cancel("c"), cancel("d"), cancel("c"), *rounds(6))
    return ("LIFE-6", "ADMIT-11"), settings, ops


def somebody_is_cancelled_when_its_wait_is_over() -> _Built:
    """It has expired by then, and leaves once."""
    settings = Settings(
        blocks=32, block_size=1, seats=1, token_budget=4, reserve="declared", door=Door(queue_age_ns=20)
    )
    ops = (submit("a", 2, 6), *rounds(1), submit("b", 2, 3), Op("tick", ns=21), cancel("b"), cancel("b"), *rounds(6))
    return ("LIFE-3", "ADMIT-4"), settings, ops


def somebody_is_cancelled_when_its_tool_is_overdue() -> _Built:
    ops = (submit("a", 2, 4, pauses=(1,)), *rounds(1), Op("tick", ns=101), cancel("a"), submit("b", 2, 2), *rounds(3))
    return ("LIFE-3", "LIVE-5"), HOLDING, ops


def who_came_back_from_the_host_is_cancelled() -> _Built:
    """And others are saved where it was."""
    ops = (submit("a", 1, 4), submit("b", 1, 4), *rounds(5), cancel("b"), submit("c", 1, 4), submit("d", 1, 4))
    return ("PRE-9", "LIFE-6"), SWAPPING, (*ops, *rounds(12))


def an_id_comes_again() -> _Built:
    """While its request waits, and while it runs."""
    settings = Settings(blocks=16, block_size=2, seats=1)
    ops = (submit("a", 3, 3), *rounds(1), submit("a", 5, 2), submit("b", 2, 2), submit("b", 1, 4), *rounds(6))
    return ("LIFE-2", "LIFE-3"), settings, ops


def a_victim_leaves_and_two_need_its_seat() -> _Built:
    settings = Settings(blocks=6, block_size=1, seats=2, token_budget=4)
    ops = (submit("a", 2, 5), submit("b", 2, 5), *rounds(3), cancel("b"), cancel("a"), submit("c", 1, 2))
    return ("LIFE-6",), settings, (*ops, submit("d", 1, 2), *rounds(6))


def a_victim_comes_back_alone_and_needs_all_but_the_watermark() -> _Built:
    """Which binds only while somebody runs."""
    settings = Settings(blocks=6, block_size=1, seats=2, token_budget=8, watermark_blocks=2)
    ops = (submit("a", 1, 4), submit("b", 3, 3), *rounds(12))
    return ("LIVE-1", "LIVE-2", "KV-11"), settings, ops


def a_victim_has_an_entry_and_the_budget_binds() -> _Built:
    """What it gives back is what it had, and a prompt takes no more."""
    settings = Settings(blocks=13, block_size=1, seats=3, token_budget=3, policy="priority", victim="lowest_priority")
    ops = (submit("low", 1, 8, priority=2), *rounds(1), submit("high", 1, 8, priority=1), *rounds(1))
    return ("STEP-1", "STEP-7"), settings, (*ops, submit("c", 9, 2, priority=1), *rounds(16))


BUILDERS: tuple[Callable[[], _Built], ...] = (
    a_victim_shares_its_prefix_with_who_stays,
    a_victim_is_cancelled_when_it_is_back,
    somebody_stops_while_its_next_step_is_under_way,
    the_decode_pool_is_short_while_nobody_wants_what_arrives,
    something_fails_while_all_seats_are_taken,
    two_are_parked_and_one_of_them_fails,
    a_tool_is_called_twice_and_does_not_answer_again,
    somebody_is_woken_while_a_victim_waits,
    the_watermark_is_all_that_is_left_while_somebody_is_parked,
    who_waited_longest_does_not_fit_yet,
    a_cold_request_is_overtaken_by_warm_ones,
    the_adapter_of_a_victim_is_gone,
    the_pool_is_all_of_one_request,
    who_comes_back_from_the_host_needs_a_token_too,
    whoever_is_held_at_the_door_is_cancelled,
    somebody_is_cancelled_when_its_wait_is_over,
    somebody_is_cancelled_when_its_tool_is_overdue,
    who_came_back_from_the_host_is_cancelled,
    an_id_comes_again,
    a_victim_leaves_and_two_need_its_seat,
    a_victim_comes_back_alone_and_needs_all_but_the_watermark,
    a_victim_has_an_entry_and_the_budget_binds,
)
