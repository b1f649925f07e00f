"""Directed scenarios of who is next in line, and of places in it that somebody leaves."""

from collections.abc import Callable

from attrs import evolve

from schedspec.spec.vocabulary import Door, Lane, Settings

from .script import COMPLETE, STEP, Op, cancel, leave, rounds, submit

_Built = tuple[tuple[str, ...], Settings, tuple[Op, ...]]

SAME = (7, 7, 7, 7, 7, 7)
MATCHING = Settings(blocks=16, block_size=2, seats=1, token_budget=8, policy="lpm", prefix_caching=True)


def a_prefix_is_computed_while_others_wait() -> _Built:
    """Whoever shares it came last, before anything of it was in the cache."""
    come = (submit("first", SAME, 1), submit("cold", (1, 2, 3), 1), submit("warm", SAME, 1))
    return ("LIVE-12",), MATCHING, (*come, *rounds(4))


def cached_prefixes_of_several_lengths_wait() -> _Built:
    """The longest of them last; then what they share is evicted for somebody large."""
    first = (submit("first", (*SAME, 1, 2), 1), *rounds(1), submit("short", (7, 7, 3), 1), submit("cold", (4, 5, 6), 1))
    come = (submit("longer", (*SAME[:4], 9), 1), submit("longest", (*SAME, 1, 9), 1), *rounds(2))
    late = (submit("large", tuple(range(100, 130)), 1), submit("again", SAME, 1), *rounds(6))
    return ("LIVE-12",), MATCHING, (*first, *come, *late)


def equal_prompts_need_other_adapters() -> _Built:
    """What one adapter computed is of no use to another, nor to who has none; but to its own."""
    settings = Settings(blocks=24, block_size=2, seats=4, token_budget=24, prefix_caching=True, adapter_slots=2)
    come = tuple(submit(name, SAME, 2, adapter=name[0]) for name in ("x1", "y1"))
    ops = (submit("x0", SAME, 1, adapter="x"), *rounds(1), *come, submit("plain", SAME, 2), *rounds(3))
    return ("KV-12", "KV-14"), settings, (*ops, submit("x2", SAME, 2, adapter="x"), submit("p2", SAME, 1), *rounds(3))


def a_client_that_waits_sends_another() -> _Built:
    """The age of the first of them goes on."""
    settings = Settings(blocks=64, block_size=1, seats=1, token_budget=16, policy="vtc", aging_picks=3, aging_credit=8)
    first = (submit("a0", 9, 1, client="A"), *(submit(f"b{n}", 1, 1, client="B") for n in (1, 2)), *rounds(1))
    ops = (*first, submit("a1", 1, 1, client="A"), *rounds(1), submit("b3", 1, 1, client="B"))
    ops = (*ops, submit("a2", 1, 1, client="A"), *rounds(1), submit("b4", 1, 1, client="B"), *rounds(4))
    return ("FAIR-17", "FAIR-21"), settings, ops


def who_needs_an_adapter_lacks_blocks() -> _Built:
    """The slot is free all the while, and somebody more urgent has a use for it."""
    settings = Settings(blocks=7, block_size=1, seats=4, token_budget=16, adapter_slots=1, policy="priority")
    ops = (submit("p", 1, 6), submit("big", 7, 1, adapter="x", priority=2), *rounds(2))
    return ("LIVE-8",), settings, (*ops, submit("urgent", 1, 2, adapter="y", priority=1), *rounds(10))


def a_lane_waits_for_long() -> _Built:
    """Its share is small, and the other lane sends one request after the other."""
    lanes = (Lane(name="a", share_percent=60), Lane(name="b", share_percent=20))
    settings = Settings(blocks=64, block_size=1, seats=1, token_budget=16, policy="lanes", lanes=lanes)
    settings = evolve(settings, aging_picks=2, aging_credit=90)
    first = (submit("b1", 9, 1, lane="b"), *rounds(1), submit("b2", 9, 1, lane="b"), submit("a1", 1, 1, lane="a"))
    flood = tuple(op for n in range(2, 8) for op in (submit(f"a{n}", 1, 1, lane="a"), *rounds(1)))
    return ("LANE-8",), settings, (*first, *rounds(1), submit("b3", 9, 1, lane="b"), *flood, *rounds(3))


CROWDED = Door(queue_requests=2, queue_tokens=14, client_requests=3, client_tokens=21, committed_tokens=28)


def _refilled(*gone: Op) -> tuple[Op, ...]:
    """One runs and two wait, who fill the queue and their client; they go, and as many come in their place."""
    first = (submit("a", 3, 4, client="A"), STEP, submit("b", 3, 4, client="A"), submit("c", 3, 4, client="A"))
    again = (submit("d", 3, 4, client="A"), submit("e", 3, 4, client="A"), submit("over", 3, 4, client="B"))
    return (*first, *gone, *again, COMPLETE, *rounds(5), submit("f", 3, 4, client="A"), *rounds(10))


def those_who_fill_the_queue_are_cancelled() -> _Built:
    settings = Settings(blocks=64, block_size=2, seats=1, token_budget=8, reserve="declared", door=CROWDED)
    return ("ADMIT-3", "ADMIT-7"), settings, _refilled(cancel("b"), cancel("c"))


def clients_of_those_who_fill_the_queue_are_gone() -> _Built:
    settings = Settings(blocks=64, block_size=2, seats=1, token_budget=8, reserve="declared", door=CROWDED)
    settings = evolve(settings, cancel_on_disconnect=True)
    return ("ADMIT-3", "ADMIT-7"), settings, _refilled(leave("b"), leave("c"))


def those_who_fill_the_queue_expire() -> _Built:
    door = evolve(CROWDED, queue_age_ns=20)
    settings = Settings(blocks=64, block_size=2, seats=1, token_budget=8, reserve="declared", door=door)
    return ("ADMIT-3", "ADMIT-4", "ADMIT-7"), settings, _refilled(Op("tick", ns=21))


def somebody_expires_when_nothing_runs_any_more() -> _Built:
    """There is room for it in the very call in which its wait is over."""
    settings = Settings(blocks=8, block_size=2, seats=1, token_budget=8, reserve="declared", door=Door(queue_age_ns=20))
    ops = (submit("a", 2, 1), STEP, submit("b", 2, 3), COMPLETE, Op("tick", ns=21), *rounds(4))
    return ("ADMIT-4",), settings, ops


def somebody_comes_late_and_all_are_as_long_as_the_model() -> _Built:
    """What is reserved for the longest is what is declared."""
    settings = Settings(blocks=11, block_size=1, seats=4, token_budget=16, max_model_tokens=5, reserve="declared")
    settings = evolve(settings, chunked_prefill=False, disjoint_steps=True)
    return ("LIVE-8",), settings, (submit("a", 2, 3), *rounds(1), submit("b", 2, 3), submit("c", 2, 3), *rounds(7))


def a_short_one_stands_behind_one_as_long_as_the_model() -> _Built:
    """There is a block left, and it needs no more; whoever comes behind it does."""
    settings = Settings(blocks=6, block_size=1, seats=4, token_budget=16, max_model_tokens=6, chunked_prefill=False)
    settings = evolve(settings, batch_mix="exclusive", phase_first="prefill")
    return ("LIVE-8",), settings, (submit("long", 5, 1), submit("short", 1, 3), submit("more", 2, 1), *rounds(3))


BUILDERS: tuple[Callable[[], _Built], ...] = (
    a_prefix_is_computed_while_others_wait,
    cached_prefixes_of_several_lengths_wait,
    equal_prompts_need_other_adapters,
    a_client_that_waits_sends_another,
    who_needs_an_adapter_lacks_blocks,
    a_lane_waits_for_long,
    those_who_fill_the_queue_are_cancelled,
    clients_of_those_who_fill_the_queue_are_gone,
    those_who_fill_the_queue_expire,
    somebody_expires_when_nothing_runs_any_more,
    somebody_comes_late_and_all_are_as_long_as_the_model,
    a_short_one_stands_behind_one_as_long_as_the_model,
)
