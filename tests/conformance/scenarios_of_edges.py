"""Directed scenarios at the very edge of a limit, of who counts towards it, and of names and numbers that are in no
order; `scenarios.py` has all others."""

from collections.abc import Callable

from attrs import evolve

from schedspec.spec.vocabulary import Door, Lane, Settings

from .script import COMPLETE, RETRY, STEP, Op, cancel, rounds, submit

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


def a_prompt_that_may_not_be_split_is_as_long_as_the_budget() -> _Built:
    settings = Settings(blocks=32, block_size=2, seats=2, token_budget=6, chunked_prefill=False)
    return ("LIVE-1", "ADMIT-1"), settings, (submit("a", 6, 2), submit("b", 6, 1), submit("c", 1, 2), *rounds(7))


def nobody_is_in_a_step_while_somebody_runs() -> _Built:
    """Their last tokens are under way, and the watermark counts."""
    settings = Settings(blocks=5, block_size=1, seats=3, token_budget=8, watermark_blocks=2, overlap_depth=2)
    ops = (submit("a", 1, 1), submit("b", 1, 1), STEP, submit("c", 3, 1), STEP, COMPLETE, *rounds(3))
    return ("KV-11",), settings, ops


def victims_are_of_one_class_and_the_last_holds_least() -> _Built:
    """It is the victim all the same: neither its name nor what it holds counts."""
    settings = Settings(blocks=10, block_size=1, seats=4, token_budget=16, policy="priority", victim="lowest_priority")
    names = {"a": (1, 0), "d": (4, 1), "c": (2, 1), "b": (1, 1)}
    ops = tuple(submit(name, prompt, 6, priority=priority) for name, (prompt, priority) in names.items())
    return ("PRE-2", "PRE-1"), settings, (*ops, *rounds(24))


TIMED = Settings(blocks=32, block_size=1, seats=1, token_budget=4, reserve="declared")


def who_runs_has_long_to_go() -> _Built:
    """Nobody waits yet, and whoever comes, while a step is under way too, waits until it has ended."""
    settings = evolve(TIMED, door=Door(queue_age_ns=60, step_ns=10, token_ns=1))
    come = (submit("b", 2, 2), STEP, submit("c", 1, 1), COMPLETE)
    return ("ADMIT-5", "ADMIT-8"), settings, (submit("a", 2, 12), *rounds(1), *come, *(STEP, COMPLETE, RETRY) * 14)


def those_who_run_hold_the_blocks_for_long() -> _Built:
    """There are seats, and memory is what whoever comes waits for."""
    settings = evolve(TIMED, blocks=12, seats=4, token_budget=16, door=Door(queue_age_ns=60, step_ns=10, token_ns=1))
    ops = (submit("a", 2, 8), *rounds(1), submit("b", 2, 6), submit("c", 2, 2), submit("d", 1, 8))
    return ("ADMIT-5", "ADMIT-8"), settings, (*ops, *(STEP, COMPLETE, RETRY) * 14)


def caps_are_filled_to_the_last() -> _Built:
    """Two of a client fit exactly, and a third does not."""
    settings = Settings(blocks=32, block_size=1, seats=4, token_budget=16, policy="vtc")
    settings = evolve(settings, client_seats=2, client_resident_tokens=8)
    return ("LANE-7", "LIVE-8"), settings, (*(submit(name, 2, 2) for name in "abc"), *rounds(4))


def three_come_at_once_and_two_are_all_that_may_run() -> _Built:
    settings = Settings(blocks=32, block_size=1, seats=4, token_budget=16, resident_tokens=13)
    return ("LANE-7",), settings, (*(submit(name, 2, 4) for name in "abc"), *rounds(14))


def a_lane_is_at_its_maximum_and_comes_back_larger() -> _Built:
    """Two blocks of ten are what it may have, and more if nothing else of it runs."""
    lanes = (Lane(name="a", share_percent=20, maximum_percent=20), Lane(name="b", share_percent=80))
    settings = Settings(blocks=10, block_size=4, seats=8, token_budget=16, policy="lanes", lanes=lanes)
    ops = (submit("a", 2, 2, lane="a"), submit("b", 2, 2, lane="a"), submit("c", 2, 2, lane="a"), *rounds(5))
    return ("LANE-7", "LIVE-8"), settings, (*ops, submit("d", 9, 4, lane="a"), *rounds(5))


def the_last_seat_is_for_who_fits() -> _Built:
    settings = Settings(blocks=8, block_size=1, seats=2, token_budget=16, reserve="declared", at_blocked_head="skip")
    return ("LIVE-8",), settings, (submit("a", 2, 4), *rounds(1), submit("b", 2, 6), submit("c", 1, 1), *rounds(6))


def a_place_is_taken_and_a_still_lower_class_comes() -> _Built:
    """There is room for it, but whoever lost its place stands before it."""
    settings = Settings(blocks=8, block_size=1, seats=3, token_budget=16, policy="priority", victim="lowest_priority")
    come = (submit("urgent", 4, 2), submit("lowest", 1, 1, priority=3))
    ops = (submit("low", 6, 2, priority=2), *rounds(1), *come, *rounds(6))
    return ("PRE-7", "LIVE-10"), evolve(settings, preempt_lower_class=True), ops


def a_lane_of_a_small_share_has_paid_for_too_much() -> _Built:
    """What comes back counts as much as what was paid."""
    lanes = (Lane(name="a", share_percent=60), Lane(name="b", share_percent=20))
    settings = Settings(blocks=64, block_size=1, seats=1, token_budget=16, policy="lanes", lanes=lanes)
    settings = evolve(settings, charge_prediction=True, aging_picks=4, aging_credit=1)
    long = submit("b1", 1, 9, lane="b", predicted_output_tokens=9, stop_after=2)
    ops = tuple(submit(f"{lane}{number}", 2, 2, lane=lane) for number in range(2, 9) for lane in "ab")
    return ("LANE-5",), settings, (long, *ops, *rounds(30))


def who_was_preferred_for_its_age_is_a_victim() -> _Built:
    """Its age counts from the new spell on."""
    settings = Settings(blocks=6, block_size=1, seats=3, token_budget=8, policy="vtc", aging_picks=1, aging_credit=20)
    ops = (submit("a1", 3, 3, client="A"), submit("b1", 1, 3, client="B"), *rounds(1))
    come = (submit("b2", 3, 2, client="B"), *rounds(1), submit("a2", 1, 3, client="A"), *rounds(12))
    return ("FAIR-21",), settings, (*ops, *come)


def a_victim_does_not_fit_and_somebody_small_comes() -> _Built:
    """Whoever resumes victims first waits for it, and any other lets the small one in."""
    settings = Settings(blocks=6, block_size=1, seats=3, token_budget=8, at_blocked_head="skip")
    ops = (submit("a", 2, 5), submit("b", 3, 3), *rounds(2), submit("small", 1, 1), *rounds(8))
    return ("LIVE-8", "PRE-6"), settings, ops


def a_prompt_is_cancelled_between_two_chunks() -> _Built:
    """Its seat is free: as many as there are seats come."""
    settings = Settings(blocks=64, block_size=1, seats=2, token_budget=4)
    ops = (submit("long", 9, 2), STEP, cancel("long"), COMPLETE, submit("a", 1, 3), submit("b", 1, 3), *rounds(4))
    return ("KV-7", "LIFE-6"), settings, ops


ONE_SEAT = Settings(blocks=64, block_size=1, seats=1, token_budget=16, policy="vtc")
UNEQUAL = (
    *(submit(name, 9, 1, client="A") for name in ("a1", "a2")),
    submit("b1", 1, 1, client="B"),
    submit("b2", 1, 6, client="B"),
)
"""Two clients that wait: one had much, the other little."""


def somebody_comes_to_two_who_had_unequal_service() -> _Built:
    return ("FAIR-3", "FAIR-1"), ONE_SEAT, (*UNEQUAL, *rounds(2), submit("c", 1, 1, client="C"), *rounds(9))


def somebody_comes_while_who_had_least_only_runs() -> _Built:
    """Nobody of that client waits, so its counter is nobody's measure."""
    return ("FAIR-3", "FAIR-1"), ONE_SEAT, (*UNEQUAL, *rounds(3), submit("c", 1, 1, client="C"), *rounds(9))


def a_victim_whose_client_pays_has_results_to_come() -> _Built:
    """Who is charged for a token is whom it was delivered to, and once."""
    settings = Settings(blocks=6, block_size=1, seats=2, token_budget=8, overlap_depth=2, policy="vtc")
    come = (submit("a", 2, 5, client="A"), submit("b", 2, 5, client="B"), STEP, STEP, COMPLETE)
    return ("FAIR-14", "LIFE-8"), settings, (*come, *((STEP, COMPLETE) * 12))


def outputs_end_by_their_length_while_a_step_is_in_flight() -> _Built:
    """There is memory for a step more of each; nobody would read what it brings."""
    settings = Settings(blocks=32, block_size=16, seats=4, token_budget=16, overlap_depth=2)
    come = (submit("a", 3, 1), submit("b", 2, 2), submit("c", 1, 4), STEP)
    return ("STEP-20", "LIFE-5"), settings, (*come, *((STEP, COMPLETE) * 6))


BUILDERS: tuple[Callable[[], _Built], ...] = (
    a_victim_is_nobody_new_at_the_door,
    tokens_of_a_victim_and_of_what_it_has_delivered_count,
    somebody_has_waited_just_as_long_as_it_may,
    a_result_comes_twice_when_a_wait_is_over,
    later_names_stand_first,
    classes_are_negative_and_names_in_no_order,
    deadlines_are_equal_or_absent,
    a_prompt_that_may_not_be_split_is_as_long_as_the_budget,
    nobody_is_in_a_step_while_somebody_runs,
    victims_are_of_one_class_and_the_last_holds_least,
    who_runs_has_long_to_go,
    those_who_run_hold_the_blocks_for_long,
    caps_are_filled_to_the_last,
    three_come_at_once_and_two_are_all_that_may_run,
    a_lane_is_at_its_maximum_and_comes_back_larger,
    the_last_seat_is_for_who_fits,
    a_victim_does_not_fit_and_somebody_small_comes,
    a_prompt_is_cancelled_between_two_chunks,
    somebody_comes_to_two_who_had_unequal_service,
    somebody_comes_while_who_had_least_only_runs,
    a_victim_whose_client_pays_has_results_to_come,
    a_place_is_taken_and_a_still_lower_class_comes,
    a_lane_of_a_small_share_has_paid_for_too_much,
    who_was_preferred_for_its_age_is_a_victim,
    outputs_end_by_their_length_while_a_step_is_in_flight,
)
