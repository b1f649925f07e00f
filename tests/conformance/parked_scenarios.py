"""Directed scenarios: requests that depend on something, at the door or in the middle of their output."""

from attrs import evolve

from schedspec.spec.vocabulary import Settings

from .script import COMPLETE, STEP, Op, answer, cancel, rounds, submit

Built = tuple[tuple[str, ...], Settings, tuple[Op, ...]]

PARKING = Settings(blocks=12, block_size=2, seats=2, token_budget=8, park_timeout_ns=100)
HOLDING = evolve(PARKING, prefix_caching=True, hold_ns=100)


def a_transfer_is_there_or_fails() -> Built:
    ops = (submit("a", 4, 3, dependencies=("transfer",)), *rounds(2), answer("a", "transfer"), *rounds(4))
    two = (submit("b", 4, 3, dependencies=("transfer", "grammar")), answer("b", "grammar"), *rounds(1))
    return ("LIVE-4", "LIVE-5"), PARKING, (*ops, *two, answer("b", "transfer", is_there=False), *rounds(1))


def what_somebody_depends_on_does_not_come_in_time() -> Built:
    late = (Op("tick", ns=100), STEP, Op("tick", ns=1), STEP)
    ops = (submit("a", 4, 3, dependencies=("transfer",)), submit("b", 2, 4, pauses=(2,)), *rounds(3), *late)
    return ("LIVE-5",), PARKING, (*ops, answer("a", "transfer"), answer("b", 2))


def a_tool_is_called_in_the_middle() -> Built:
    ops = (submit("a", 5, 6, pauses=(2, 4)), submit("b", 3, 8), *rounds(4), answer("a", 2), answer("a", 2))
    return ("LIVE-4", "LIVE-5"), PARKING, (*ops, *rounds(3), answer("a", 4), *rounds(6))


def a_tool_answers_before_anybody_asks() -> Built:
    ops = (submit("a", 3, 4, pauses=(1,)), STEP, answer("a", 1), COMPLETE, *rounds(4))
    other = (submit("b", 3, 4, pauses=(2,)), *rounds(1), STEP, answer("b", 2, is_there=False), COMPLETE, *rounds(2))
    return ("LIVE-5",), PARKING, (*ops, *other)


def all_seats_are_taken_while_somebody_is_parked() -> Built:
    settings = evolve(PARKING, seats=1)
    ops = (submit("a", 2, 3, dependencies=("grammar",)), submit("b", 2, 12), *rounds(2), answer("a", "grammar"))
    return ("LIVE-4",), settings, (*ops, *rounds(13))


def who_is_parked_leaves_its_seat_to_others() -> Built:
    ops = (submit("a", 2, 4, pauses=(1,)), submit("b", 2, 7), submit("c", 2, 2), *rounds(6), answer("a", 1))
    return ("LIVE-4", "LIVE-5"), PARKING, (*ops, *rounds(4))


def somebody_is_cancelled_while_it_is_parked() -> Built:
    ops = (submit("a", 4, 4, pauses=(1,)), *rounds(2), cancel("a"), answer("a", 1), *rounds(1))
    door = (submit("b", 2, 3, dependencies=("grammar",)), STEP, cancel("b"), answer("b", "grammar"), *rounds(2))
    return ("LIFE-6", "LIVE-5", "KV-15"), HOLDING, (*ops, *door)


def a_tool_is_called_while_the_next_step_is_under_way() -> Built:
    settings = evolve(PARKING, overlap_depth=2)
    ops = (submit("a", 3, 6, pauses=(2,)), STEP, STEP, COMPLETE, STEP, COMPLETE, answer("a", 2), STEP)
    return ("LIVE-5", "LIFE-7"), settings, (*ops, COMPLETE, COMPLETE, *rounds(6))


def what_was_computed_is_kept_for_a_while() -> Built:
    ops = (submit("a", 6, 4, pauses=(2,)), *rounds(3), answer("a", 2), *rounds(3))
    late = (submit("b", 6, 4, pauses=(1,)), *rounds(2), Op("tick", ns=30), *rounds(1), answer("b", 1), *rounds(4))
    return ("KV-15",), evolve(HOLDING, hold_ns=25), (*ops, *late)


def memory_is_needed_that_is_leased() -> Built:
    settings = evolve(HOLDING, blocks=7)
    ops = (submit("a", 8, 3, pauses=(1,)), *rounds(1), submit("b", 6, 6), *rounds(5), answer("a", 1))
    return ("KV-15",), settings, (*ops, *rounds(8))


def a_request_lacks_blocks() -> Built:
    ops = (submit("a", 3, 5), submit("b", 3, 5), *rounds(14))
    return ("LIVE-6",), Settings(blocks=8, block_size=1, seats=2, token_budget=8), ops


def whoever_runs_is_cancelled_and_somebody_waits() -> Built:
    settings = Settings(blocks=4, block_size=1, seats=1, token_budget=8, overlap_depth=2)
    ops = (submit("a", 2, 3), submit("b", 2, 3), STEP, STEP, cancel("a"), STEP, COMPLETE, STEP, COMPLETE)
    return ("LIVE-9",), settings, (*ops, *rounds(4))


PARKED = (
    a_transfer_is_there_or_fails,
    what_somebody_depends_on_does_not_come_in_time,
    a_tool_is_called_in_the_middle,
    a_tool_answers_before_anybody_asks,
    all_seats_are_taken_while_somebody_is_parked,
    who_is_parked_leaves_its_seat_to_others,
    somebody_is_cancelled_while_it_is_parked,
    a_tool_is_called_while_the_next_step_is_under_way,
    what_was_computed_is_kept_for_a_while,
    memory_is_needed_that_is_leased,
    a_request_lacks_blocks,
    whoever_runs_is_cancelled_and_somebody_waits,
)
