"""Directed scenarios at the very edge of a limit, of who counts towards it, and of names and numbers that are in no
order; `scenarios.py` has all others."""

from collections.abc import Callable

from attrs import evolve

from schedspec.spec.vocabulary import Door, Settings

from .script import COMPLETE, STEP, Op, rounds, submit

_Built = tuple[tuple[str, ...], Settings, tuple[Op, ...]]

TWO_THAT_GROW = Settings(blocks=4, block_size=1, seats=2, token_budget=8)


def _a_victim_of_two(door: Door) -> tuple[Settings, tuple[Op, ...]]:
    """Both are of one client and grow until the second is a victim; while it waits others come, and wait behind it."""
    grow = (submit("a", 1, 4, client="A"), *rounds(1), submit("b", 1, 4, client="A"), *rounds(2))
    come = (submit("c", 1, 1, client="A"), submit("d", 1, 1, client="B"), submit("e", 1, 1, client="B"))
    return evolve(TWO_THAT_GROW, door=door), (*grow, *come, Op("tick", ns=21), *rounds(9))


def a_victim_is_nobody_new_at_the_door() -> _Built:
    """It is no part of the queue and does not expire, but its client has it still."""
    settings, ops = _a_victim_of_two(Door(queue_requests=1, queue_age_ns=20, client_requests=2))
    return ("ADMIT-3", "ADMIT-4", "ADMIT-7"), settings, ops


def tokens_of_a_victim_and_of_what_it_has_delivered_count() -> _Built:
    settings, ops = _a_victim_of_two(Door(queue_tokens=5, client_tokens=11, committed_tokens=12))
    return ("ADMIT-3", "ADMIT-7"), settings, ops


def somebody_has_waited_just_as_long_as_it_may() -> _Built:
    """It expires later, and not yet."""
    settings = Settings(blocks=16, block_size=2, seats=1, token_budget=8, door=Door(queue_age_ns=20))
    ops = (submit("a", 2, 4), STEP, submit("b", 2, 1), Op("tick", ns=20), COMPLETE, STEP, Op("tick", ns=1), COMPLETE)
    return ("ADMIT-4",), settings, (*ops, *rounds(3))


def a_result_comes_twice_when_a_wait_is_over() -> _Built:
    """The second time it changes nothing, so whoever waits expires in the call after that."""
    settings = Settings(blocks=16, block_size=2, seats=1, token_budget=8, door=Door(queue_age_ns=20))
    ops = (submit("a", 2, 4), *rounds(1), submit("b", 2, 1), Op("tick", ns=21), Op("repeat"), *rounds(4))
    return ("LIFE-7", "ADMIT-4"), settings, ops


ONE_BY_ONE = Settings(blocks=16, block_size=2, seats=1, token_budget=8)


def later_names_stand_first() -> _Built:
    """All come at the same time, so that only their order tells who was first."""
    return ("LANE-4",), ONE_BY_ONE, (*(submit(name, 2, 1) for name in "cba"), *rounds(4))


def classes_are_negative_and_names_in_no_order() -> _Built:
    """Classes are numbers: below none is better than none."""
    classes = {"d": 1, "c": -1, "b": -1, "a": 0, "e": -2}
    ops = tuple(submit(name, 2, 1, priority=priority) for name, priority in classes.items())
    return ("LANE-4",), evolve(ONE_BY_ONE, policy="priority"), (*ops, *rounds(6))


def deadlines_are_equal_or_absent() -> _Built:
    deadlines = {"d": None, "c": 500, "b": 500, "a": None, "e": 0}
    ops = tuple(submit(name, 2, 1, deadline_ns=deadline_ns) for name, deadline_ns in deadlines.items())
    return ("LANE-4",), evolve(ONE_BY_ONE, policy="edf"), (*ops, *rounds(6))


def the_budget_of_a_victim_goes_to_who_needs_its_blocks() -> _Built:
    """The victim stands before it in the step, and the prompt is cut where the budget ends."""
    settings = Settings(blocks=8, block_size=1, seats=4, token_budget=4, policy="priority", victim="lowest_priority")
    ops = (submit("low", 1, 5, priority=2), *rounds(1), submit("urgent", 1, 5), submit("long", 8, 1), *rounds(14))
    return ("STEP-18", "PRE-2"), settings, ops


def a_prompt_that_may_not_be_split_is_as_long_as_the_budget() -> _Built:
    settings = Settings(blocks=32, block_size=2, seats=2, token_budget=6, chunked_prefill=False)
    return ("LIVE-1", "ADMIT-1"), settings, (submit("a", 6, 2), submit("b", 6, 1), submit("c", 1, 2), *rounds(7))


def a_victim_does_not_fit_and_somebody_small_comes() -> _Built:
    """Whoever resumes victims first waits for it, and any other lets the small one in."""
    settings = Settings(blocks=6, block_size=1, seats=3, token_budget=8, at_blocked_head="skip")
    ops = (submit("a", 2, 5), submit("b", 3, 3), *rounds(2), submit("small", 1, 1), *rounds(8))
    return ("LIVE-8", "PRE-6"), settings, ops


BUILDERS: tuple[Callable[[], _Built], ...] = (
    a_victim_is_nobody_new_at_the_door,
    tokens_of_a_victim_and_of_what_it_has_delivered_count,
    somebody_has_waited_just_as_long_as_it_may,
    a_result_comes_twice_when_a_wait_is_over,
    later_names_stand_first,
    classes_are_negative_and_names_in_no_order,
    deadlines_are_equal_or_absent,
    the_budget_of_a_victim_goes_to_who_needs_its_blocks,
    a_prompt_that_may_not_be_split_is_as_long_as_the_budget,
    a_victim_does_not_fit_and_somebody_small_comes,
)
