"""Directed scenarios of numbers: ids that come again, zeros that are no absence, three of something where two are
usual, and counts that go past a byte; `scenarios.py` has all others."""

from collections.abc import Callable

from attrs import evolve

from schedspec.spec.vocabulary import NS_PER_S, Lane, Settings

from .script import COMPLETE, STEP, Op, cancel, rounds, submit

_Built = tuple[tuple[str, ...], Settings, tuple[Op, ...]]

PAST_A_BYTE = 260
"""Counters of a byte wrap on the way there.  Those of two bytes are not reached by a run that is worth its time."""

THREE_IN_FLIGHT = Settings(blocks=16, block_size=2, seats=4, token_budget=6, overlap_depth=3)


def the_id_of_whoever_ended_comes_again() -> _Built:
    """One has finished, one was cancelled, one was refused, and one is cancelled while it comes again."""
    settings = Settings(blocks=8, block_size=2, seats=2)
    ended = (submit("a", 3, 1), submit("b", 2, 3), submit("big", 30, 1), *rounds(1), cancel("b"))
    again = (submit("a", 3, 1), submit("b", 2, 3), *rounds(2), submit("big", 30, 1), submit("big", 2, 1))
    ops = (*ended, *again, submit("c", 2, 4), *rounds(1), submit("c", 2, 4), cancel("c"), submit("c", 2, 4))
    return ("LIFE-2", "LIFE-3"), settings, (*ops, submit("d", 2, 2), *rounds(4))


def the_id_of_a_victim_comes_again() -> _Built:
    """While it waits to be resumed, and with a result of it under way."""
    settings = Settings(blocks=5, block_size=1, seats=4, token_budget=8, overlap_depth=2)
    ops = (submit("a", 1, 4), submit("b", 1, 4), submit("c", 1, 4), STEP, *((STEP, COMPLETE) * 3))
    return ("LIFE-2", "LIFE-8"), settings, (*ops, submit("c", 1, 4), submit("b", 2, 2), *((STEP, COMPLETE) * 12))


def three_steps_are_in_flight() -> _Built:
    """One stops, one is cancelled, and one comes while all three are under way."""
    ops = (submit("a", 4, 7, stop_after=3), submit("b", 3, 6), STEP, STEP, STEP, *((COMPLETE, STEP) * 5))
    after = (cancel("b"), submit("c", 2, 5), *((COMPLETE, STEP) * 8))
    return ("LIFE-8", "LIFE-7"), THREE_IN_FLIGHT, (*ops, *after)


def a_victim_has_results_of_two_steps_under_way() -> _Built:
    settings = evolve(THREE_IN_FLIGHT, blocks=6, block_size=1, token_budget=8)
    ops = (*(submit(name, 1, 5) for name in "abc"), STEP, STEP, *((STEP, COMPLETE) * 12))
    return ("LIFE-8", "PRE-8"), settings, (*ops, submit("d", 2, 3), *((STEP, COMPLETE) * 6))


def a_deadline_is_zero() -> _Built:
    """It is the first of all, and no absence of one."""
    settings = Settings(blocks=16, block_size=1, seats=1, token_budget=8, policy="edf")
    late, none = submit("late", 1, 1, deadline_ns=5 * NS_PER_S), submit("none", 1, 1)
    ops = (submit("a", 1, 2), *rounds(1), late, none, submit("zero", 1, 1, deadline_ns=0))
    return ("LANE-4",), settings, (*ops, *rounds(6))


def three_lanes_wait_for_long() -> _Built:
    lanes = tuple(Lane(name=name, share_percent=share) for name, share in (("a", 50), ("b", 30), ("c", 10)))
    settings = Settings(blocks=64, block_size=16, seats=32, token_budget=1_024, policy="lanes", lanes=lanes)
    ops = [submit(f"{lane}{n}", 30, 1, lane=lane) for n in range(1, 11) for lane in "cba"]
    return ("LANE-1",), settings, (*ops, *rounds(3))


def a_client_that_waits_long_sends_more() -> _Built:
    """Its oldest request has waited as long as before."""
    settings = Settings(blocks=64, block_size=1, seats=1, token_budget=8, policy="vtc", aging_picks=3, aging_credit=8)
    first = (submit("a1", 1, 6, client="A"), submit("a2", 1, 1, client="A"), submit("b0", 1, 1, client="B"))
    ops: tuple[Op, ...] = (*first, *rounds(6))
    for number in range(1, 8):
        b, a = submit(f"b{number}", 1, 1, client="B"), submit(f"more{number}", 1, 1, client="A")
        ops += (b, a, *rounds(1))
    return ("FAIR-17", "FAIR-21"), settings, (*ops, *rounds(10))


def a_prompt_that_is_cached_is_charged_by_chunks() -> _Built:
    """Cached or computed, each token once."""
    settings = Settings(blocks=64, block_size=2, seats=1, token_budget=8, policy="vtc", charge_prompt="chunk")
    come = (submit(name, (7,) * 6, 2, client=name[0]) for name in ("a1", "b1", "a2"))
    return ("FAIR-14",), evolve(settings, prefix_caching=True), (*come, *rounds(12))


def somebody_stops_before_what_was_predicted() -> _Built:
    """What it did not use is given back, and no more: its client has another one waiting."""
    settings = Settings(blocks=64, block_size=1, seats=1, token_budget=8, policy="vtc", charge_prediction=True)
    stops = submit("a1", 1, 9, client="A", predicted_output_tokens=6, stop_after=2)
    come = tuple(submit(f"b{n}", 1, 3, client="B", predicted_output_tokens=3) for n in (1, 2))
    late = submit("a2", 1, 2, client="A", predicted_output_tokens=2)
    return ("FAIR-13",), settings, (stops, *come, *rounds(1), late, *rounds(12))


def a_request_counts_past_a_byte() -> _Built:
    """Its outputs, the steps, and the blocks that it holds."""
    settings = Settings(blocks=PAST_A_BYTE + 4, block_size=1, seats=2, token_budget=8)
    return ("LIFE-4", "LIFE-5"), settings, (submit("a", 2, PAST_A_BYTE), *rounds(PAST_A_BYTE))


def more_requests_come_than_a_byte_counts() -> _Built:
    """The first still lives when the last comes, and is cancelled then; nobody else goes."""
    settings = Settings(blocks=PAST_A_BYTE + 40, block_size=1, seats=PAST_A_BYTE, token_budget=PAST_A_BYTE + 40)
    come = tuple(submit(f"r{number}", 1, 1) for number in range(1, PAST_A_BYTE))
    ops = (submit("first", 1, 9), STEP, *come, COMPLETE, *rounds(1), submit("last", 1, 3), cancel("first"))
    return ("LIFE-2", "LIFE-6"), settings, (*ops, *rounds(3))


BUILDERS: tuple[Callable[[], _Built], ...] = (
    the_id_of_whoever_ended_comes_again,
    the_id_of_a_victim_comes_again,
    three_steps_are_in_flight,
    a_victim_has_results_of_two_steps_under_way,
    a_deadline_is_zero,
    three_lanes_wait_for_long,
    a_client_that_waits_long_sends_more,
    a_prompt_that_is_cached_is_charged_by_chunks,
    somebody_stops_before_what_was_predicted,
    a_request_counts_past_a_byte,
    more_requests_come_than_a_byte_counts,
)
