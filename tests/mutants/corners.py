"""Scripts for mutants of the reference that nothing else noticed: each leads to the one place where they differ."""

from collections.abc import Iterator, Mapping
from random import Random
from typing import get_args

from attrs import evolve

from schedspec.conformance.features import at_the_door, of_feature, with_alternatives, with_door
from schedspec.conformance.script import (
    COMPLETE,
    RETRY,
    STEP,
    Op,
    Script,
    cancel,
    rounds,
    submit,
    with_deadline,
    with_setting,
    with_settings,
)
from schedspec.conformance.walks import plain_walk
from schedspec.spec.vocabulary import Door, Lane, Policy, Settings

CROSSED: Mapping[str, tuple[object, ...]] = {
    "policy": get_args(Policy),
    "reserve": ("peak", "peak", "predicted", "declared"),
    "batch_mix": ("exclusive",),
    "phase_first": ("decode", "prefill", "alternate"),
    "admission_period_steps": (2,),
    "overlap_depth": (2,),
    "disjoint_steps": (True,),
    "log_waits": (True,),
    "log_decisions": (True,),
    "prefix_caching": (True,),
    "at_blocked_head": ("skip",),
    "max_overtaken": (1,),
    "prefilling_requests": (1,),
    "preempt_lower_class": (True,),
    "aging_picks": (2,),
    "charge_prediction": (True,),
    "charge_prompt": ("chunk",),
}
"""Settings, and values of them that are seldom drawn together."""

ONE_SEAT = Settings(blocks=32, block_size=1, seats=1, token_budget=8, reserve="declared")


def corners() -> Iterator[tuple[str, Script]]:
    for build in _BUILDERS:
        settings, ops = build()
        yield build.__name__.replace("_", " "), Script(settings, 0, ops)


_Built = tuple[Settings, tuple[Op, ...]]


def crossing(seed: int) -> Script | None:
    """A plain walk under four of these at once, or through a door with limits; None if they contradict each other."""
    dice = Random(f"crossing {seed}")
    script = plain_walk(seed)
    changes = {name: dice.choice(CROSSED[name]) for name in dice.sample(sorted(CROSSED), dice.choice((1, 4)))}
    try:
        settings = with_settings(script.settings, changes)
        if dice.random() < 0.25:
            settings = with_setting(settings, "recover", dice.choice(("swap", "cheaper")))
    except ValueError:
        return None
    if dice.random() < 0.4:
        settings = with_alternatives(dice, with_door(dice, settings, always=True))
    ops = [one for op in script.ops for one in at_the_door(dice, of_feature(dice, op, settings), settings)]
    return Script(settings, seed, map(with_deadline, ops) if settings.policy == "edf" else ops)


def logged(script: Script) -> Script:
    """The same with all logs, and time that passes between a step and its result."""
    settings = evolve(script.settings, log_waits=True, log_decisions=True)
    ops = [one for op in script.ops for one in ((op, _tick(3)) if op.kind == "step" else (op,))]
    return evolve(script, settings=settings, ops=ops)


def _tick(ns: int) -> Op:
    return Op("tick", ns=ns)


def whoever_has_waited_just_as_long_as_it_may_stays() -> _Built:
    """ADMIT-4: it expires after queue_age_ns, not at it."""
    settings = evolve(ONE_SEAT, door=Door(queue_age_ns=20))
    ops = (submit("a", 2, 6), submit("b", 2, 3), *rounds(1), _tick(20), *rounds(1), _tick(1), *rounds(6))
    return settings, ops


def a_rate_of_tokens_is_kept_again_when_two_have_left_the_window() -> _Built:
    """ADMIT-5, ADMIT-12: not when the first has, and the clock does not begin at 0."""
    settings = evolve(ONE_SEAT, door=Door(rate_window_ns=100, rate_tokens=20))
    ops = (_tick(7), submit("a", 2, 2), *rounds(2), _tick(20), submit("b", 2, 2), *rounds(2), _tick(20))
    more = (submit("c", 6, 2), *rounds(2), _tick(10), submit("d", 10, 2), RETRY, *rounds(2))
    return settings, (*ops, *more, submit("e", 30, 1), submit("f", 1, 1))


def a_rate_of_requests_is_kept_again_when_the_oldest_has_left_the_window() -> _Built:
    settings = evolve(ONE_SEAT, door=Door(rate_window_ns=100, rate_requests=2, rate_tokens=100))
    ops = (_tick(7), submit("a", 2, 2), *rounds(2), _tick(20), submit("b", 2, 2), *rounds(2), _tick(20))
    return settings, (*ops, submit("c", 2, 2), RETRY, *rounds(2), submit("d", 2, 2), submit("o", 2, 2, client="other"))


def a_lane_has_room_for_as_many_as_have_left_its_queue() -> _Built:
    """ADMIT-3: of requests and of tokens, by admission and by cancel."""
    lanes = (
        Lane(name="a", share_percent=50, queue_requests=1, queue_tokens=12),
        Lane(name="b", share_percent=50, queue_requests=2),
    )
    settings = Settings(blocks=32, block_size=1, seats=1, token_budget=8, policy="lanes", lanes=lanes)
    ops: list[Op] = []
    for number in range(4):
        ops += [submit(f"a{number}", 3, 1, lane="a"), submit(f"c{number}", 3, 1, lane="a"), *rounds(1)]
    ops += [submit("big", 9, 3, lane="a"), submit("x", 2, 1, lane="a"), cancel("big"), submit("y", 9, 3, lane="a")]
    ops += [submit(f"b{number}", 3, 1, lane="b") for number in range(4)]
    return settings, (*ops, *rounds(12))


def a_key_that_was_cancelled_while_it_waited_is_free() -> _Built:
    """ADMIT-6: also where the door remembers keys of who finished, and of two clients with the same key."""
    settings = evolve(ONE_SEAT, door=Door(retain_ns=50))
    one = submit("a", 2, 3, idempotency_key="k"), submit("b", 2, 3, idempotency_key="k", client="other")
    ops = (*one, *rounds(1), cancel("b"), submit("c", 2, 1, idempotency_key="k", client="other"), *rounds(6))
    late = (submit("d", 2, 1, idempotency_key="k"), _tick(51), submit("e", 2, 1, idempotency_key="k"), *rounds(2))
    return settings, (*ops, *late)


def what_a_client_has_under_way_is_counted_until_it_ends() -> _Built:
    """ADMIT-7: by requests and by tokens, each at its limit and one beyond it."""
    settings = evolve(ONE_SEAT, door=Door(client_requests=2, client_tokens=10, committed_tokens=14, step_ns=10))
    ops = (submit("a", 3, 2, client="A"), submit("b", 3, 2, client="A"), submit("c", 1, 1, client="A"))
    more = (submit("d", 2, 2, client="B"), submit("e", 1, 1, client="B"), *(STEP, COMPLETE, RETRY) * 8)
    return settings, (*ops, *more, submit("f", 3, 3, client="A"), submit("g", 3, 2, client="A"), *rounds(6))


def somebody_comes_twice() -> _Built:
    """ADMIT-6: the same id is the same request, which is said of it."""
    return ONE_SEAT, (submit("a", 2, 2), submit("a", 2, 2), *rounds(3))


def a_prompt_that_is_not_cut_waits_for_a_whole_budget() -> _Built:
    """OBS-2: what is left of the budget is less than the prompt, more than nothing."""
    settings = Settings(blocks=16, block_size=1, seats=4, token_budget=6, chunked_prefill=False, log_waits=True)
    ops = (submit("a", 3, 4), *rounds(1), submit("b", 4, 1), submit("c", 4, 1), submit("d", 1, 1), *rounds(6))
    return settings, ops


def what_fits_alone_but_not_above_the_watermark_is_foreseen() -> _Built:
    """ADMIT-8: an empty machine lets it in."""
    door = Door(first_token_ns=200, queue_age_ns=200, step_ns=10, token_ns=1)
    settings = evolve(ONE_SEAT, blocks=8, seats=2, watermark_blocks=2, door=door)
    ops = (submit("a", 4, 2), submit("b", 7, 2), submit("c", 7, 2), *(STEP, COMPLETE, RETRY) * 10)
    return settings, ops


def prompts_that_are_cut_by_the_budget_are_foreseen() -> _Built:
    """ADMIT-5: when to come again depends on whether others may still be in prefill then."""
    door = Door(first_token_ns=90, step_ns=10, token_ns=1)
    settings = evolve(ONE_SEAT, seats=3, door=door)
    return settings, (*(submit(name, 15, 3) for name in "abcdef"), *(STEP, COMPLETE, RETRY) * 16)


def who_was_swapped_has_blocks_in_the_index_too() -> _Built:
    """PRE-9: it is brought back from the host, not from the index."""
    settings = Settings(
        blocks=6, block_size=1, token_budget=8, seats=3, prefix_caching=True, recover="swap", host_blocks=6
    )
    same = (7, 7, 7)
    ops = (submit("a", same, 4), submit("b", same, 4), submit("c", (7, 7, 8), 3), *rounds(16))
    return settings, ops


def a_client_without_a_window_is_told_when_to_come_again() -> _Built:
    """ADMIT-5: a rate that it has not used does not hide for how long the queue is full."""
    door = Door(rate_window_ns=100, rate_tokens=50, rate_requests=5, queue_requests=1, step_ns=10, token_ns=1)
    settings = evolve(ONE_SEAT, door=door)
    ops = (submit("a", 2, 2), *rounds(1), submit("b", 2, 2), submit("c", 2, 2, client="other"))
    return settings, (*ops, *(STEP, COMPLETE, RETRY) * 8)


def a_lower_class_gives_way_to_whoever_shares_its_prefix() -> _Built:
    """LIVE-10: what the victims gave back is in the index, and is counted once."""
    settings = Settings(
        blocks=6,
        block_size=1,
        token_budget=8,
        seats=2,
        policy="priority",
        prefix_caching=True,
        preempt_lower_class=True,
    )
    same = (7, 7, 7, 7)
    low = submit("low", same, 2, priority=3), submit("mid", (7, 7, 8), 2, priority=2), *rounds(1)
    high = submit("high", same, 3, priority=0), *rounds(2), submit("next", same, 2, priority=1), *rounds(12)
    return settings, (*low, *high)


def the_phases_take_turns() -> _Built:
    """LIVE-8: prompts and decodes, each step the other one first."""
    settings = Settings(
        blocks=32, block_size=1, token_budget=3, seats=4, batch_mix="exclusive", phase_first="alternate"
    )
    ops = (submit("a", 2, 6), *rounds(1), submit("b", 7, 2), submit("c", 4, 3), *rounds(14))
    return settings, ops


def who_may_fall_behind_holds_more_at_the_peak() -> _Built:
    """LIVE-8, PRE-1: a phase goes first, so others may have to wait with what they hold."""
    script = plain_walk(9)
    return evolve(script.settings, reserve="peak", phase_first="decode"), script.ops


def who_may_fall_behind_a_prompt_holds_more_at_the_peak() -> _Built:
    script = plain_walk(9)
    return evolve(script.settings, reserve="peak", phase_first="prefill"), script.ops


def nobody_runs_and_whoever_is_next_needs_the_whole_pool() -> _Built:
    """OBS-2: the step looks at decodes first, of whom one is in the host, and then at prompts."""
    settings = Settings(blocks=6, block_size=1, seats=3, token_budget=8, recover="swap", host_blocks=6, log_waits=True)
    settings = evolve(settings, policy="priority", victim="lowest_priority")
    settings = evolve(settings, batch_mix="exclusive", phase_first="decode")
    ops = (submit("low", 2, 5, priority=2), submit("mid", 2, 4, priority=1), *rounds(4), submit("next", 6, 1))
    return settings, (*ops, *rounds(14))


def a_client_holds_as_many_tokens_as_it_may() -> _Built:
    """LANE-7: with one more it would hold too many; seats are no cap of its own."""
    settings = Settings(blocks=32, block_size=1, seats=4, token_budget=16, policy="vtc", client_resident_tokens=8)
    ops = (submit("a", 2, 2, client="A"), submit("b", 2, 2, client="A"), submit("c", 2, 2, client="A"))
    return settings, (*ops, submit("d", 2, 2, client="B"), *rounds(6))


def turns_have_no_credit_but_patience() -> _Built:
    """FAIR-17 is nothing that turns promise, though whoever waits long is preferred."""
    settings = Settings(blocks=32, block_size=1, seats=1, token_budget=8, policy="round_robin")
    ops = (submit("a", 2, 2, client="A"), submit("b", 2, 2, client="A"), submit("c", 2, 2, client="B"), *rounds(8))
    return evolve(settings, aging_picks=2, aging_credit=1), ops


def whom_a_smaller_one_went_past_is_all_that_is_told() -> _Built:
    """OBS-2: the last seat is gone before the next client is asked, which has the least counter by then."""
    settings = Settings(blocks=8, block_size=1, seats=2, token_budget=8, policy="vtc", at_blocked_head="skip")
    ops = (submit("runs", 4, 4, client="C"), *rounds(1), submit("large", 7, 1, client="A"))
    ops = (*ops, submit("small", 1, 1, client="A"), submit("next", 2, 1, client="B"), *rounds(8))
    return evolve(settings, log_waits=True, reserve="declared"), ops


_BUILDERS = (
    a_client_holds_as_many_tokens_as_it_may,
    turns_have_no_credit_but_patience,
    whom_a_smaller_one_went_past_is_all_that_is_told,
    nobody_runs_and_whoever_is_next_needs_the_whole_pool,
    who_may_fall_behind_holds_more_at_the_peak,
    who_may_fall_behind_a_prompt_holds_more_at_the_peak,
    the_phases_take_turns,
    a_client_without_a_window_is_told_when_to_come_again,
    a_lower_class_gives_way_to_whoever_shares_its_prefix,
    somebody_comes_twice,
    a_prompt_that_is_not_cut_waits_for_a_whole_budget,
    what_fits_alone_but_not_above_the_watermark_is_foreseen,
    prompts_that_are_cut_by_the_budget_are_foreseen,
    who_was_swapped_has_blocks_in_the_index_too,
    whoever_has_waited_just_as_long_as_it_may_stays,
    a_rate_of_tokens_is_kept_again_when_two_have_left_the_window,
    a_rate_of_requests_is_kept_again_when_the_oldest_has_left_the_window,
    a_lane_has_room_for_as_many_as_have_left_its_queue,
    a_key_that_was_cancelled_while_it_waited_is_free,
    what_a_client_has_under_way_is_counted_until_it_ends,
)
