"""Directed scenarios of what a cost, a share or a peak comes to where several settings go into it; `scenarios.py` has
all others."""

from collections.abc import Callable

from attrs import evolve

from schedspec.spec.vocabulary import Door, Lane, Settings

from .script import COMPLETE, STEP, Op, cancel, rounds, submit

_Built = tuple[tuple[str, ...], Settings, tuple[Op, ...]]

SAME = (7, 7, 7, 7, 7, 7)
PEAK = Settings(blocks=11, block_size=1, seats=3, token_budget=8, reserve="peak")
SHARED = Settings(blocks=64, block_size=1, seats=1, token_budget=8, policy="vtc")
TWO_LANES = (Lane(name="a", share_percent=60), Lane(name="b", share_percent=20, burst=9))


# --- room at every moment to come ------------------------------------------------------------------------------


def one_enters_when_the_peak_of_all_has_passed() -> _Built:
    """Both together need less than each at its longest: the first one has ended by then."""
    ops = (submit("a", 2, 6), *rounds(3), submit("b", 2, 5), submit("c", 3, 3), *rounds(12))
    return ("PRE-12", "LIVE-8"), PEAK, ops


def a_prompt_that_runs_alone_is_ahead_of_those_who_decode() -> _Built:
    settings = evolve(PEAK, batch_mix="exclusive", phase_first="prefill")
    return ("PRE-12", "STEP-16"), settings, (submit("a", 2, 4), *rounds(1), submit("b", 2, 5), *rounds(12))


def who_may_have_to_sit_out_needs_its_whole_length() -> _Built:
    """Two decode, and one token is left for whoever comes: it may be anywhere when they end."""
    settings = evolve(PEAK, token_budget=3, phase_first="decode")
    return ("PRE-12", "LIVE-8"), settings, (submit("a", 2, 6), submit("b", 2, 2), submit("c", 4, 4), *rounds(16))


def the_peak_of_batches_in_a_pipeline() -> _Built:
    settings = evolve(PEAK, overlap_depth=2, disjoint_steps=True)
    ops = (submit("a", 2, 3), STEP, submit("b", 2, 4), STEP, COMPLETE, submit("c", 2, 2), *((STEP, COMPLETE) * 14))
    return ("PRE-12", "STEP-17"), settings, ops


# --- in the place of a lower class -----------------------------------------------------------------------------


def who_would_take_a_place_counts_on_what_its_holder_has() -> _Built:
    """The prefix of the one that would leave is that of the other, which needs more blocks than it would find."""
    settings = Settings(blocks=6, block_size=2, seats=3, token_budget=16, policy="priority", prefix_caching=True)
    settings = evolve(settings, preempt_lower_class=True, victim="lowest_priority")
    first = (submit("best", 3, 2), submit("low", (*SAME[:5],), 4, priority=2), *rounds(1))
    return (
        ("LIVE-10", "KV-12"),
        settings,
        (*first, submit("high", (*SAME[:4], 1, 2, 3, 4, 5), 1, priority=1), *rounds(9)),
    )


def a_better_class_has_a_prompt_that_is_not_cut() -> _Built:
    """First the budget is too small for it beside the others, then a seat is missing."""
    settings = Settings(blocks=32, block_size=1, seats=2, token_budget=6, policy="priority", chunked_prefill=False)
    settings = evolve(settings, preempt_lower_class=True, victim="lowest_priority")
    ops = (submit("a", 3, 4, priority=1), submit("urgent", 4, 2), *rounds(2), submit("b", 2, 4, priority=1))
    return ("LIVE-10", "KV-10"), settings, (*ops, *rounds(1), submit("next", 5, 2), *rounds(12))


# --- what service costs ----------------------------------------------------------------------------------------


def a_dear_client_has_all_that_it_may_under_way() -> _Built:
    """By its price, and with what each request costs beside its tokens."""
    settings = evolve(SHARED, seats=4, client_committed_cost=30, prices={"A": 3}, request_weight=2)
    ops = tuple(submit(f"a{number}", 1, 2, client="A") for number in range(3))
    cheap = tuple(submit(f"b{number}", 1, 2, client="B") for number in range(3))
    return ("FAIR-12",), settings, (*ops, *cheap, *rounds(8))


def fewer_outputs_come_than_a_lane_has_paid_for() -> _Built:
    settings = evolve(SHARED, policy="lanes", lanes=TWO_LANES, charge_prediction=True)
    long = submit("b1", 1, 9, lane="b", predicted_output_tokens=9, stop_after=2)
    ops = tuple(submit(f"{lane}{number}", 2, 2, lane=lane) for number in range(2, 6) for lane in "ab")
    return ("LANE-4",), settings, (long, *ops, *rounds(18))


def fewer_outputs_come_than_a_client_has_paid_for() -> _Built:
    """And service alone counts, since ever."""
    settings = evolve(SHARED, policy="lcf", charge_prediction=True)
    long = submit("a1", 1, 9, client="A", predicted_output_tokens=9, stop_after=2)
    ops = tuple(submit(f"{name}{number}", 2, 2, client=name.upper()) for number in range(2, 5) for name in "ab")
    return ("FAIR-6",), settings, (long, *ops, *rounds(16))


def a_lane_comes_back_with_its_burst() -> _Built:
    """It was away while the other one got much."""
    settings = evolve(SHARED, policy="lanes", lanes=TWO_LANES)
    away = (submit("b1", 1, 1, lane="b"), *(submit(f"a{number}", 4, 2, lane="a") for number in range(6)), *rounds(7))
    ops = tuple(submit(f"b{number}", 3, 2, lane="b") for number in range(2, 9))
    return ("LANE-3",), settings, (*away, *ops, *rounds(24))


def a_longer_prefix_is_that_of_the_client_who_came_later() -> _Built:
    """Neither has used up its quanta."""
    settings = evolve(SHARED, policy="dlpm", quantum=40, prefix_caching=True)
    ops = (submit("a1", SAME[:4], 1, client="A"), *rounds(1), submit("b1", (1, 2, 3, 4), 2, client="B"), STEP)
    ops = (*ops, submit("a2", (5, 6, 5, 6), 1, client="A"), submit("b2", (*SAME[:4], 1), 1, client="B"), COMPLETE)
    return ("FAIR-1",), settings, (*ops, *rounds(8))


# --- keys ------------------------------------------------------------------------------------------------------


def the_key_of_whoever_left_the_door_is_free() -> _Built:
    """It was held there and is cancelled, or its time is over, before anybody let it in."""
    limits = {"queue_requests": 1, "retain_ns": 40, "defer_ns": 12, "deferred_requests": 1}
    settings = Settings(blocks=32, block_size=1, seats=1, token_budget=4, door=Door(**limits))
    again = [submit(name, 2, 2, idempotency_key="k") for name in ("held", "again", "late", "last")]
    ops = (submit("a", 2, 6), *rounds(1), submit("b", 2, 6), again[0], cancel("held"), again[1], Op("tick", ns=13))
    return (
        ("ADMIT-6", "ADMIT-11"),
        settings,
        (*ops, STEP, again[2], COMPLETE, cancel("b"), *rounds(6), again[3], *rounds(3)),
    )


BUILDERS: tuple[Callable[[], _Built], ...] = (
    one_enters_when_the_peak_of_all_has_passed,
    a_prompt_that_runs_alone_is_ahead_of_those_who_decode,
    who_may_have_to_sit_out_needs_its_whole_length,
    the_peak_of_batches_in_a_pipeline,
    who_would_take_a_place_counts_on_what_its_holder_has,
    a_better_class_has_a_prompt_that_is_not_cut,
    a_dear_client_has_all_that_it_may_under_way,
    fewer_outputs_come_than_a_lane_has_paid_for,
    fewer_outputs_come_than_a_client_has_paid_for,
    a_lane_comes_back_with_its_burst,
    a_longer_prefix_is_that_of_the_client_who_came_later,
    the_key_of_whoever_left_the_door_is_free,
)
