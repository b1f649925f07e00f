"""Directed scenarios of what is somebody else's: an adapter, a prefix, an answer, a block, news of a transfer."""

from collections.abc import Callable

from attrs import evolve

from schedspec.spec.vocabulary import Settings

from .parked_scenarios import PARKING
from .scenarios_of_transfers import TWO_POOLS
from .script import (
    BEGIN_TRANSFER,
    COMPLETE,
    FAIL_TRANSFER,
    REPEAT_TRANSFER,
    STEP,
    TRANSFER,
    Op,
    answer,
    cancel,
    rounds,
    submit,
)

_Built = tuple[tuple[str, ...], Settings, tuple[Op, ...]]

ONE_SLOT = Settings(blocks=32, block_size=1, seats=6, token_budget=32, adapter_slots=1)


def one_of_two_with_the_same_adapter_ends() -> _Built:
    """It is in use still, so whoever needs another one waits."""
    ops = (submit("short", 1, 1, adapter="x"), submit("long", 1, 6, adapter="x"), submit("other", 1, 2, adapter="y"))
    return ("STEP-19",), ONE_SLOT, (*ops, *rounds(10))


def more_adapters_come_at_once_than_there_are_slots() -> _Built:
    settings = evolve(ONE_SLOT, adapter_slots=2)
    ops = tuple(submit(name, 1, 2, adapter=name) for name in "xyz")
    return ("STEP-19",), settings, (*ops, submit("plain", 1, 2), *rounds(8))


def a_prompt_is_half_way_when_other_adapters_come() -> _Built:
    settings = evolve(ONE_SLOT, token_budget=4, adapter_slots=2)
    ops = (
        submit("long", 9, 1, adapter="x"),
        *rounds(1),
        submit("y", 1, 2, adapter="y"),
        submit("z", 1, 2, adapter="z"),
    )
    return ("STEP-19",), settings, (*ops, *rounds(8))


def the_last_one_with_an_adapter_is_cancelled() -> _Built:
    """While it runs, and while it waits: the slot is free."""
    ops = (submit("x", 1, 9, adapter="x"), *rounds(1), submit("y", 1, 3, adapter="y"), cancel("y"), STEP, cancel("x"))
    return ("STEP-19",), ONE_SLOT, (*ops, submit("z", 1, 3, adapter="z"), *rounds(6))


def whoever_is_parked_needs_no_adapter() -> _Built:
    settings = evolve(ONE_SLOT, park_timeout_ns=100)
    ops = (submit("x", 1, 6, adapter="x", pauses=(1,)), *rounds(1), submit("y", 1, 3, adapter="y"), *rounds(2))
    return ("LIVE-8",), settings, (*ops, answer("x", 1), *rounds(8))


def a_tool_answers_whose_turn_has_not_come() -> _Built:
    """It is no answer to what the request is parked for, and one to what it will ask."""
    ops = (submit("a", 2, 6, pauses=(1, 3)), submit("b", 2, 9), *rounds(1), answer("a", 3), *rounds(2), answer("a", 1))
    return ("LIVE-5",), PARKING, (*ops, *rounds(8))


def news_of_another_tool_gives_no_more_time() -> _Built:
    ops = (submit("a", 2, 6, pauses=(1,)), submit("b", 2, 9), *rounds(1), Op("tick", ns=60), answer("a", 3))
    return ("LIVE-5",), PARKING, (*ops, *rounds(1), Op("tick", ns=60), *rounds(4))


def two_prefixes_have_a_block_of_a_third_one() -> _Built:
    """Equal tokens at equal places are another prefix behind another beginning."""
    settings = Settings(blocks=16, block_size=2, seats=1, token_budget=8, prefix_caching=True)
    come = (submit("a", (1, 1, 2, 2), 1), submit("b", (3, 3, 4, 4), 1), *rounds(2))
    return ("KV-2", "KV-12"), settings, (*come, submit("c", (1, 1, 4, 4, 5), 1), *rounds(1))


def tokens_of_drafts_are_served_too() -> _Built:
    settings = Settings(blocks=32, block_size=2, seats=2, token_budget=16, draft_tokens=3, policy="vtc")
    come = (submit("a1", 2, 8, client="a"), submit("b1", 2, 3, client="b"), *rounds(2))
    return ("FAIR-1", "FAIR-6"), settings, (*come, *(submit(f"{c}2", 2, 6, client=c) for c in "ab"), *rounds(16))


def a_transfer_that_failed_is_done_after_all() -> _Built:
    """The news is about the first one: the second, for the same request, has only been asked for."""
    ops = (submit("a", 4, 4), *rounds(1), BEGIN_TRANSFER, FAIL_TRANSFER, *rounds(2), REPEAT_TRANSFER, *rounds(2))
    return ("XFER-2", "XFER-5"), TWO_POOLS, (*ops, *TRANSFER, *rounds(6))


def a_transfer_that_was_silent_is_done_after_all() -> _Built:
    ops = (submit("a", 4, 4), *rounds(1), BEGIN_TRANSFER, Op("tick", ns=100), *rounds(3), BEGIN_TRANSFER)
    return ("XFER-2", "XFER-5"), TWO_POOLS, (*ops, REPEAT_TRANSFER, *rounds(2), *TRANSFER, *rounds(6))


def a_transfer_fails_twice() -> _Built:
    fails = (BEGIN_TRANSFER, FAIL_TRANSFER, *rounds(2))
    return ("XFER-5",), TWO_POOLS, (submit("a", 4, 4), *rounds(1), *fails, *fails, *fails, *TRANSFER, *rounds(6))


def what_has_arrived_waits_for_a_seat() -> _Built:
    """Nothing more is pulled for those behind it."""
    pools = evolve(TWO_POOLS.pools, decode_seats=1, landing_blocks=3)
    ops = (*(submit(name, 2, 6) for name in "abc"), *rounds(1), *TRANSFER, *rounds(2), *TRANSFER, *rounds(3), *TRANSFER)
    return ("XFER-3",), evolve(TWO_POOLS, pools=pools), (*ops, *rounds(12), *TRANSFER, *rounds(6))


def two_steps_may_write_for_whoever_is_cancelled() -> _Built:
    """What the first may write to is free when it has completed, the rest after the second."""
    settings = Settings(blocks=8, block_size=1, seats=2, token_budget=8, overlap_depth=2, defer_frees=True)
    ops = (submit("a", 1, 6), STEP, STEP, cancel("a"), submit("b", 4, 2), COMPLETE, STEP, COMPLETE)
    return ("KV-19",), settings, (*ops, *rounds(4))


def a_prompt_is_cancelled_before_it_samples() -> _Built:
    """The step that may write for it brings nobody a token."""
    settings = Settings(blocks=8, block_size=2, seats=2, token_budget=2, defer_frees=True)
    ops = (submit("a", 5, 2), *rounds(1), STEP, cancel("a"), COMPLETE, submit("b", 4, 2))
    return ("KV-19",), settings, (*ops, *rounds(5))


BUILDERS: tuple[Callable[[], _Built], ...] = (
    one_of_two_with_the_same_adapter_ends,
    more_adapters_come_at_once_than_there_are_slots,
    a_prompt_is_half_way_when_other_adapters_come,
    the_last_one_with_an_adapter_is_cancelled,
    whoever_is_parked_needs_no_adapter,
    a_tool_answers_whose_turn_has_not_come,
    news_of_another_tool_gives_no_more_time,
    two_prefixes_have_a_block_of_a_third_one,
    tokens_of_drafts_are_served_too,
    a_transfer_that_failed_is_done_after_all,
    a_transfer_that_was_silent_is_done_after_all,
    a_transfer_fails_twice,
    what_has_arrived_waits_for_a_seat,
    two_steps_may_write_for_whoever_is_cancelled,
    a_prompt_is_cancelled_before_it_samples,
)
