"""Who is next in one queue, whose place may be taken, and what an admission waits for, on runs small enough to work out
by hand.  With one seat the order of admissions is the order of service.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve

from schedspec.conformance.driver import Driver, all_but
from schedspec.conformance.script import COMPLETE, STEP, Op, rounds, submit, with_deadline
from schedspec.conformance.walks import plain_walk
from schedspec.reference import make
from schedspec.reference.job import Job
from schedspec.reference.peak import Course, peak_blocks
from schedspec.reference.selection.one_queue import ORDERS
from schedspec.spec.queueing import expected_left, mlfq_level
from schedspec.spec.settings import LPM_WINDOW
from schedspec.spec.vocabulary import Delta, Plan, Policy, Request, Settings, strays

SETTINGS = Settings(blocks=64, block_size=1, seats=1, token_budget=16)
FIRST = (submit("run", 1, 1), STEP)
"""Somebody has the seat, so that all who come after it wait."""


def run(ops: Sequence[Op], settings: Settings) -> Driver:
    """A run to its end, or to where it breaks a rule."""
    driver = Driver.start(make, settings, 0, ignored=all_but([]))
    driver.run(ops)
    driver.drain()
    assert driver.fault is None, str(driver.fault)
    return driver


def plans(driver: Driver) -> list[Plan]:
    return [message.answer for message in driver.messages if message.kind == "step"]


def deltas(driver: Driver, *names: str) -> list[Delta]:
    return [delta for plan in plans(driver) for delta in plan.deltas if delta[0] in names]


def order(driver: Driver) -> str:
    """Who was admitted, in order."""
    return " ".join(delta[1] for delta in deltas(driver, "admitted", "resumed"))


def preempted(driver: Driver) -> str:
    """victim<who takes its place"""
    return " ".join(f"{delta[1]}<{delta[3]}" for delta in deltas(driver, "preempted"))


def changed(op: Op, **changes: Any) -> Op:
    """A submission of a request that is a little different."""
    assert op.request is not None
    return evolve(op, request=evolve(op.request, **changes))


# --- the guard against starvation --------------------------------------------------------------------------


def test_nobody_is_overtaken_more_often_than_is_allowed() -> None:
    """h2 to h4 have seen two admissions as well, but began to wait later."""
    ops = (*FIRST, submit("low", 1, 1, priority=1), *(submit(f"h{n}", 1, 1) for n in range(5)))
    settings = evolve(SETTINGS, policy="priority")
    assert order(run(ops, settings)) == "run h0 h1 h2 h3 h4 low"
    assert order(run(ops, evolve(settings, max_overtaken=2))) == "run h0 h1 low h2 h3 h4"


def test_of_those_who_waited_long_enough_who_began_first_is_next() -> None:
    ops = (
        *FIRST,
        *(submit(name, 1, 1, priority=priority) for name, priority in zip("abcd", (3, 1, 2, 0), strict=True)),
    )
    assert order(run(ops, evolve(SETTINGS, policy="priority", max_overtaken=1))) == "run d a b c"


def test_who_waited_long_enough_and_does_not_fit_is_passed_where_that_is_allowed() -> None:
    """big wants 8 of 10 blocks, and run has 5 to 8 of them for four steps."""
    ops = (submit("run", 5, 4), STEP, submit("big", 8, 1), *(submit(f"s{n}", 1, 1) for n in range(4)))
    settings = evolve(SETTINGS, blocks=10, seats=2, policy="fcfs", max_overtaken=1)
    assert order(run(ops, settings)) == "run big s0 s1 s2 s3"
    assert order(run(ops, evolve(settings, at_blocked_head="skip"))) == "run s0 s1 s2 big s3"


def test_a_victim_begins_to_wait_anew() -> None:
    """Whoever was admitted before it was preempted is not who it overtook then."""
    ops = tuple(submit(name, 1, 4) for name in "abc")
    settings = evolve(SETTINGS, blocks=5, seats=3)
    assert order(run(ops, settings)) == order(run(ops, evolve(settings, max_overtaken=9)))
    assert preempted(run(ops, settings))


# --- orders ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "declared", "outputs", "left"),
    [(4, 10, 0, 4), (4, 10, 3, 1), (4, 10, 4, 4), (4, 10, 7, 1), (4, 10, 8, 2), (4, 10, 9, 1), (1, 99, 5, 3)],
)
def test_who_has_got_what_was_expected_is_expected_to_need_as_much_again(
    expected: int, declared: int, outputs: int, left: int
) -> None:
    assert expected_left(expected, declared, outputs) == left


@pytest.mark.parametrize(("service", "level"), [(0, 0), (3, 0), (4, 1), (7, 1), (8, 2), (15, 2), (16, 3), (1024, 9)])
def test_each_level_is_twice_as_long_as_the_one_before(service: int, level: int) -> None:
    assert mlfq_level(service, 4) == level


def test_the_shortest_rest_is_first_by_prediction() -> None:
    a, b, c = submit("a", 1, 40), submit("b", 1, 9), submit("c", 1, 30)
    ops = (*FIRST, changed(a, predicted_output_tokens=3), b, changed(c, predicted_output_tokens=99))
    assert order(run(ops, evolve(SETTINGS, policy="srpt"))) == "run a b c"
    assert order(run((*FIRST, a, b, c), evolve(SETTINGS, policy="srpt"))) == "run b c a"


def key(policy: Policy, outputs: int, **request: int) -> int:
    """Of a request with a prompt of 3 and at most 20 outputs that is the first to arrive."""
    job = Job.of(Request(id="r", prompt_ids=(1, 2, 3), max_output_tokens=20, **request), 1)  # type: ignore[arg-type]
    job.outputs = outputs
    return ORDERS[policy](Settings(policy=policy, quantum=4))(job)


def test_a_victim_comes_back_to_the_place_of_what_it_got() -> None:
    assert [key("srpt", outputs, predicted_output_tokens=6) for outputs in (0, 4, 6)] == [49, 17, 49]
    assert [key("sjf", outputs, predicted_output_tokens=6) for outputs in (0, 4, 6)] == [49, 49, 49]
    assert [key("mlfq", outputs) for outputs in (0, 1, 4, 5, 13)] == [0, 1, 1, 2, 3]


def test_a_new_request_joins_the_level_that_covers_its_prompt() -> None:
    lengths = {"long": 9, "mid": 5, "next": 4, "short": 2}
    ops = (*FIRST, *(submit(name, prompt, 1) for name, prompt in lengths.items()))
    assert order(run(ops, evolve(SETTINGS, policy="mlfq", quantum=4))) == "run short mid next long"


WARM = (submit("warm", (1, 2, 3, 4), 1), STEP)
CACHED = evolve(SETTINGS, policy="lpm", prefix_caching=True)


def test_the_longest_cached_prefix_is_next() -> None:
    cold = submit("cold", (9, 9), 1)
    ops = (*WARM, cold, submit("two", (1, 2, 7), 1), submit("three", (1, 2, 3, 8), 1), submit("as_cold", (8, 8), 1))
    assert order(run(ops, CACHED)) == "warm three two cold as_cold"
    assert order(run(ops, evolve(CACHED, max_overtaken=1))) == "warm three cold two as_cold"
    assert order(run(ops, evolve(CACHED, prefix_caching=False))) == "warm cold two three as_cold"


def test_a_cached_prefix_is_looked_for_among_the_first_alone() -> None:
    cold = [submit(f"c{n}", (100 + n, 9), 1) for n in range(LPM_WINDOW)]
    served = order(run((*WARM, *cold, submit("hot", (1, 2, 3, 8), 1)), CACHED)).split()
    assert served[:4] == ["warm", "c0", "hot", "c1"]


# --- in the place of a lower class -------------------------------------------------------------------------

CLASSES = evolve(SETTINGS, policy="priority", preempt_lower_class=True)


def test_a_higher_class_takes_the_seat_of_a_lower_one() -> None:
    ops = (submit("low", 1, 5, priority=1), *rounds(2), submit("high", 1, 1), submit("equal", 1, 1, priority=1))
    driver = run(ops, CLASSES)
    assert not driver.broken
    assert order(driver) == "low high low equal"
    assert preempted(driver) == "low<high"
    assert order(run(ops, evolve(CLASSES, preempt_lower_class=False))) == "low high equal"


@pytest.mark.parametrize("policy", ["edf", "sjf", "srpt", "aging"])
def test_the_class_is_the_priority_whatever_the_order(policy: Policy) -> None:
    ops = [submit("low", 1, 5, priority=9), *rounds(2), submit("high", 1, 1, priority=1)]
    assert preempted(run([with_deadline(op) for op in ops], evolve(CLASSES, policy=policy))) == "low<high"


@pytest.mark.parametrize("policy", ["fcfs", "lpm", "vtc"])
def test_an_order_of_arrival_or_of_clients_has_no_classes(policy: Policy) -> None:
    with pytest.raises(ValueError, match="has no classes"):
        evolve(CLASSES, policy=policy)


THREE = (submit("x", 2, 2, priority=1), submit("y", 2, 2, priority=2), submit("z", 2, 2, priority=2))


def test_the_fewest_of_the_lowest_class_leave() -> None:
    """Each holds 2 of 10 blocks and asks for a third: 1 is left, 4 without z, 7 without y as well; high wants 6."""
    settings = evolve(CLASSES, blocks=10, seats=4)
    driver = run((*THREE, STEP, COMPLETE, submit("high", 6, 1)), settings)
    assert preempted(driver) == "z<high y<high"
    assert list(plans(driver)[1].request) == ["x", "high"]
    assert not driver.broken


def test_nobody_leaves_where_that_is_not_enough() -> None:
    """All of a lower class free 7 blocks at most, and high wants 8."""
    settings = evolve(CLASSES, blocks=10, seats=4)
    driver = run((*THREE, STEP, COMPLETE, submit("high", 8, 1, priority=1)), settings)
    assert list(plans(driver)[1].request) == ["x", "y", "z"]
    assert "high" not in preempted(driver)


def test_a_victim_gives_its_tokens_back() -> None:
    """The budget is 4 and a chunk 3: b has the one token that a leaves, and then high has it; c waits for its turn."""
    settings = evolve(CLASSES, seats=2, token_budget=4, chunk_tokens=3)
    ops = (submit("a", 12, 1, priority=1), submit("b", 12, 1, priority=2), STEP, COMPLETE)
    driver = run((*ops, submit("high", 2, 1), submit("c", 1, 1, priority=3)), settings)
    assert list(plans(driver)[1].request) == ["a", "high"]
    assert list(plans(driver)[1].tokens) == [3, 1]
    assert not driver.broken


def test_who_waits_for_tokens_alone_takes_nobodys_place() -> None:
    settings = evolve(CLASSES, seats=2, token_budget=4)
    ops = (submit("low", 12, 1, priority=1), STEP, COMPLETE, submit("high", 1, 1))
    driver = run(ops, settings)
    assert order(driver) == "low high"
    assert not preempted(driver)


def test_nobody_enters_before_those_who_have_just_left() -> None:
    """high takes the seat of z; w is behind z, though a block for it is left."""
    settings = evolve(CLASSES, seats=3)
    driver = run((*THREE, STEP, COMPLETE, submit("high", 1, 1), submit("w", 1, 1, priority=3)), settings)
    assert order(driver) == "x y z high z w"


def test_a_cached_block_of_a_victim_is_not_counted_as_free() -> None:
    """high shares the 4 blocks of low, and asks for the 2 others of 7 and for the one that low was to grow by."""
    settings = evolve(CLASSES, blocks=7, seats=2, prefix_caching=True)
    ops = (submit("low", (1, 2, 3, 4), 3, priority=1), STEP, COMPLETE, submit("high", (1, 2, 3, 4, 5, 6, 7), 1))
    driver = run(ops, settings)
    assert preempted(driver) == "low<high"
    assert not driver.broken


def test_a_class_may_be_a_level() -> None:
    ops = (submit("long", 4, 5), *rounds(2), submit("short", 1, 1))
    assert preempted(run(ops, evolve(CLASSES, policy="mlfq", quantum=2))) == "long<short"


# --- the peak to come --------------------------------------------------------------------------------------


def test_most_is_held_just_before_somebody_ends() -> None:
    """11 when a ends alone, or 6 of each when b ends; if b may lag, all of both."""
    a, b, late = Course(1, 10, lags=False), Course(1, 5, lags=False), Course(1, 5, lags=True)
    assert peak_blocks([a], 1, 0) == 11
    assert peak_blocks([a, b], 1, 0) == peak_blocks([b, a], 1, 0) == 12
    assert peak_blocks([a, late], 1, 0) == 17
    assert peak_blocks([a, b], 1, late_steps=1) == 13
    assert peak_blocks([a, b], 4, 0) == 4
    assert peak_blocks([], 1, 0) == 0


@pytest.mark.parametrize(("blocks", "first"), [(12, "a b"), (11, "a")])
def test_an_admission_waits_until_all_outputs_to_come_fit(blocks: int, first: str) -> None:
    settings = evolve(SETTINGS, blocks=blocks, seats=2, reserve="peak")
    driver = run((submit("a", 1, 10), submit("b", 1, 5)), settings)
    assert " ".join(plans(driver)[0].request) == first
    assert not preempted(driver)


def test_who_is_alone_may_fill_the_pool() -> None:
    driver = run((submit("a", 5, 7), submit("b", 1, 1)), evolve(SETTINGS, blocks=11, seats=2, reserve="peak"))
    assert order(driver) == "a b"


def test_who_is_behind_an_unfinished_prompt_may_lag() -> None:
    """In lock step 18 blocks would do; but a may be at its end before b has its prompt."""
    ops = (submit("a", 1, 10), STEP, COMPLETE, submit("b", 6, 5))
    settings = evolve(SETTINGS, blocks=18, seats=2, token_budget=4, reserve="peak")
    assert list(plans(run(ops, settings))[1].request) == ["a"]
    assert list(plans(run(ops, evolve(settings, blocks=22)))[1].request) == ["a", "b"]
    assert list(plans(run(ops, evolve(settings, token_budget=16)))[1].request) == ["a", "b"]


# --- adapters ----------------------------------------------------------------------------------------------


def with_adapter(op: Op, adapter: str) -> Op:
    return changed(op, adapter=adapter)


@pytest.mark.parametrize("policy", ["fcfs", "priority", "lpm", "vtc"])
def test_who_waits_for_an_adapter_holds_up_nobody(policy: Policy) -> None:
    """y is loaded when x is not used any more; b1 stays before b2."""
    ops = (
        with_adapter(submit("a1", 1, 3), "x"),
        with_adapter(submit("b1", 1, 1), "y"),
        with_adapter(submit("b2", 1, 1), "y"),
        with_adapter(submit("a2", 1, 2), "x"),
        submit("c", 1, 1),
    )
    settings = evolve(SETTINGS, seats=2, policy=policy)
    assert order(run(ops, evolve(settings, adapter_slots=1))) == "a1 a2 c b1 b2"
    assert order(run(ops, evolve(settings, adapter_slots=2))) == "a1 b1 b2 a2 c"


def test_who_waited_long_enough_goes_first_when_its_adapter_can_be_loaded() -> None:
    """With two seats a2 is in before b has seen anybody enter; then b stands before a3."""
    names = {"a1": "x", "b": "y", "a2": "x", "a3": "x", "c": "z"}
    ops = tuple(with_adapter(submit(name, 1, 2), adapter) for name, adapter in names.items())
    settings = evolve(SETTINGS, policy="priority", adapter_slots=1, max_overtaken=1)
    assert order(run(ops, settings)) == "a1 b a2 a3 c"
    assert order(run(ops, evolve(settings, seats=2))) == "a1 a2 b a3 c"


# --- claims ------------------------------------------------------------------------------------------------


def claims(**changes: Any) -> set[str]:
    return set(make(evolve(SETTINGS, **changes), 0).capabilities().claims)


def test_claims_follow_the_settings() -> None:
    assert make(evolve(SETTINGS, max_overtaken=3), 0).capabilities().constant("max_overtaken") == 3
    assert "bounded_overtaking" in claims(max_overtaken=3) - claims() - claims(max_overtaken=3, at_blocked_head="skip")
    assert {"resume_order"} == claims() - claims(max_overtaken=3)
    assert "peak_reserve" in claims(reserve="peak")
    assert "adapters" in claims(adapter_slots=1) - claims()
    assert "prompt_share" in claims(chunk_tokens=4) - claims(chunk_tokens=4, chunked_prefill=False)
    assert "class_preemption" in claims(policy="priority", preempt_lower_class=True) - claims(policy="priority")


def test_the_newest_is_not_always_the_victim_of_a_higher_class() -> None:
    classes: dict[str, Any] = {"policy": "priority", "preempt_lower_class": True}
    assert "newest_first" not in claims(**classes)
    assert "lowest_priority" in claims(**classes, victim="lowest_priority")
    assert "lowest_priority" not in claims(policy="mlfq", preempt_lower_class=True, victim="lowest_priority")


def test_no_decode_stalls_if_the_budget_has_a_chunk_for_every_seat() -> None:
    assert "stall_free" in claims(seats=4, chunk_tokens=4)
    assert "stall_free" not in claims(seats=5, chunk_tokens=4)
    assert "stall_free" not in claims(seats=2)
    assert "stall_free" in claims(seats=16, chunked_prefill=False)


# --- everything at once ------------------------------------------------------------------------------------

FEATURES: tuple[dict[str, Any], ...] = (
    {},
    {"max_overtaken": 2},
    {"adapter_slots": 1},
    {"preempt_lower_class": True},
    {"reserve": "peak"},
    {"max_overtaken": 1, "adapter_slots": 1, "reserve": "peak", "quantum": 2},
    {"max_overtaken": 1, "preempt_lower_class": True, "reserve": "peak", "victim": "lowest_priority"},
)


def varied(op: Op, number: int) -> Op:
    """With an adapter and a prediction, some wrong."""
    if op.request is None:
        return op
    return changed(op, adapter=(None, "x", "y", "z")[number % 4], predicted_output_tokens=(None, 1, 3)[number % 3])


@pytest.mark.parametrize("policy", ORDERS)
def test_every_order_works_with_everything_else_at_once(policy: Policy) -> None:
    """Walks of memory that is short, with preemption, cancels, chunks, shared prefixes and steps that overlap."""
    victims = 0
    for seed in range(20):
        script = plain_walk(seed)
        ops = [varied(op, number) for number, op in enumerate(script.ops)]
        features: dict[str, Any] = {"policy": policy, **FEATURES[seed % len(FEATURES)], **strays(policy)}
        driver = run(ops, evolve(script.settings, **features))
        assert not driver.broken, f"walk {seed}: {driver.broken[0]}"
        victims += sum(track.epoch > 1 for track in driver.monitor.tracks.values())
    assert victims


def test_nobody_is_preempted_whose_outputs_were_foreseen() -> None:
    for seed in range(60):
        script = plain_walk(seed)
        driver = run(script.ops, evolve(script.settings, policy="fcfs", reserve="peak"))
        assert not preempted(driver), f"walk {seed}"
