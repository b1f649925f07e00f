"""Preemption by swap: what is kept and comes back, what it costs, and who is caught that goes wrong with it."""

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve
from tests.unit.simulated import MS, Constant, incoming

from schedspec.conformance.driver import Driver
from schedspec.conformance.narrate import Teller
from schedspec.conformance.scenarios import scenarios
from schedspec.conformance.scenarios_of_swapping import SWAPPING
from schedspec.conformance.script import COMPLETE, STEP, Op, Script, cancel, rounds, submit, with_setting
from schedspec.conformance.why import tell_of
from schedspec.reference import Scheduler, make
from schedspec.reference.faults import FAULTS, OTHERS, swapping
from schedspec.reference.simulation import Simulation
from schedspec.reference.systems import SYSTEMS
from schedspec.spec.catalogue import registry
from schedspec.spec.errors import ProtocolError
from schedspec.spec.monitor import Monitor, canonical
from schedspec.spec.recovery import avoided_ns, recompute_ns, swap_ns
from schedspec.spec.vocabulary import (
    Capabilities,
    Delta,
    Header,
    Message,
    Observation,
    Outcome,
    Plan,
    Receipt,
    Request,
    RequestView,
    Settings,
    SubjectFactory,
)

SCENARIOS = [s for s in scenarios(0) if s.script.settings.host_blocks or s.script.settings.decode_step_ns]
THREE = (submit("a", 1, 4), submit("b", 1, 4), submit("c", 1, 4), *rounds(20))


def run(script: Script, factory: SubjectFactory = make) -> Driver:
    driver = Driver.start(factory, script.settings, 0)
    driver.run(script.ops)
    driver.drain()
    return driver


def of(settings: Settings, ops: Sequence[Op]) -> Driver:
    return run(Script(settings, 0, ops))


def deltas(driver: Driver, *kinds: str) -> list[Delta]:
    plans = [message.answer for message in driver.messages if message.kind == "step"]
    return [delta for plan in plans for delta in plan.deltas if delta[0] in kinds]


def times_run(driver: Driver) -> dict[tuple[str, int], int]:
    """How often each position ran."""
    times: dict[tuple[str, int], int] = {}
    for plan in (message.answer for message in driver.messages if message.kind == "step"):
        for request, start, tokens in zip(plan.request, plan.start, plan.tokens, strict=True):
            for position in range(start, start + tokens):
                times[request, position] = times.get((request, position), 0) + 1
    return times


# --- the reference -------------------------------------------------------------------------------------------------


def test_nothing_is_computed_twice() -> None:
    driver = of(SWAPPING, THREE)
    assert not driver.broken
    assert len(deltas(driver, "preempted")) == 3
    assert set(times_run(driver).values()) == {1}
    again = of(with_setting(SWAPPING, "recover", "recompute"), THREE)
    assert max(times_run(again).values()) == 3


def test_who_comes_back_has_all_that_it_had_computed() -> None:
    driver = of(SWAPPING, THREE)
    kept = [(delta[1], len(delta[2])) for delta in deltas(driver, "swapped_out")]
    back = [(delta[1], delta[2]) for delta in deltas(driver, "resumed")]
    assert sorted(kept) == sorted(back)
    assert deltas(driver, "dropped") == []


def test_who_does_not_fit_into_the_host_is_computed_again() -> None:
    driver = of(evolve(SWAPPING, host_blocks=1), THREE)
    assert not driver.broken
    assert [delta[1:3] for delta in deltas(driver, "preempted")] == [
        ("c", "swap"),
        ("b", "recompute"),
        ("c", "recompute"),
    ]


def test_who_has_a_result_to_come_is_computed_again() -> None:
    driver = of(evolve(SWAPPING, overlap_depth=2), (*THREE[:3], STEP, *((STEP, COMPLETE) * 20)))
    assert not driver.broken
    assert "recompute" in {delta[2] for delta in deltas(driver, "preempted")}


def test_who_is_swapped_is_shown_with_what_it_kept() -> None:
    subject = make(SWAPPING, 0)
    driver = Driver.start(lambda settings, seed: subject, SWAPPING, 0)
    driver.run((*THREE[:3], *rounds(2)))
    shown = subject.observe()
    assert {request: view.state for request, view in shown.requests.items()} == {
        "a": "running",
        "b": "running",
        "c": "swapped",
    }
    assert (shown.requests["c"].issued, shown.requests["c"].computed) == (1, 1)
    assert shown.host_tables == {"c": [0]}
    assert shown.counters["swapped"] == 1
    assert shown.counters["waiting"] == 0
    assert shown.counters["free_host_blocks"] == len(shown.host_free) == 4


def test_who_decoded_comes_back_to_decode() -> None:
    """The monitor counts its token as a decode: prefill has what decodes leave, and nothing else."""
    driver = of(SWAPPING, THREE)
    record = driver.monitor.world.RequestId["b"]
    assert record.goal == 1


def test_a_cap_on_prefill_does_not_hold_who_decodes() -> None:
    settings = evolve(SWAPPING, blocks=8, host_blocks=8, prefilling_requests=1)
    driver = of(settings, [op for name in "abcd" for op in (submit(name, 1, 6), *rounds(1))])
    assert max(sum(delta[0] == "resumed" for delta in plan.deltas) for plan in _plans(driver)) == 2
    assert not driver.broken


def _plans(driver: Driver) -> list[Plan]:
    return [message.answer for message in driver.messages if message.kind == "step"]


@pytest.mark.parametrize(
    ("swap_block_ns", "recompute_token_ns", "how"), [(1, 3, "swap"), (2, 3, "recompute"), (1, 2, "recompute")]
)
def test_the_cheaper_way_is_taken(swap_block_ns: int, recompute_token_ns: int, how: str) -> None:
    """Two copies of a block, or a position, as blocks have one; where both cost the same it is computed."""
    settings = evolve(SWAPPING, swap_block_ns=swap_block_ns, recompute_token_ns=recompute_token_ns)
    driver = of(evolve(settings, recover="cheaper"), THREE)
    assert {delta[2] for delta in deltas(driver, "preempted")} == {how}
    assert driver.monitor.exercised()["PRE-10"]
    assert not driver.broken


def test_costs_are_as_declared() -> None:
    settings = Settings(
        block_size=4,
        host_blocks=9,
        recover="cheaper",
        swap_block_ns=5,
        recompute_token_ns=3,
        policy="priority",
        preempt_lower_class=True,
        decode_step_ns=7,
    )
    assert swap_ns(settings, 9) == 2 * 3 * 5
    assert recompute_ns(settings, 9) == 27
    assert avoided_ns(settings, 6) == 42


def test_taking_a_place_may_cost_too_much() -> None:
    """A victim that has computed n positions costs 3 n, and has 9 - n steps of 2 to go when it has n - 1 outputs."""
    settings = Settings(blocks=32, block_size=1, seats=1, policy="priority", preempt_lower_class=True)
    settings = evolve(settings, recompute_token_ns=3, decode_step_ns=2)
    for steps, is_worth in ((1, True), (2, True), (3, True), (4, False), (6, False)):
        driver = of(settings, (submit("long", 1, 9, priority=1), *rounds(steps), submit("urgent", 1, 1), *rounds(20)))
        assert not driver.broken
        assert bool(deltas(driver, "preempted")) == is_worth, steps


def test_with_the_host_a_place_costs_less() -> None:
    """What is saved is cheap, so that the place of one that has almost ended is worth it too."""
    settings = Settings(blocks=32, block_size=4, seats=1, policy="priority", preempt_lower_class=True)
    settings = evolve(settings, recompute_token_ns=3, decode_step_ns=2)
    ops = (submit("long", 1, 9, priority=1), *rounds(6), submit("urgent", 1, 1), *rounds(20))
    assert deltas(of(settings, ops), "preempted") == []
    swapping = evolve(settings, host_blocks=4, recover="swap", swap_block_ns=1)
    assert [delta[2] for delta in deltas(of(swapping, ops), "preempted")] == ["swap"]


# --- who goes wrong ------------------------------------------------------------------------------------------------


OF_HOST = [
    (rule, fault) for rule, faults in OTHERS.items() for fault in faults if fault.__module__ == swapping.__name__
]


@pytest.mark.parametrize(("rule", "fault"), OF_HOST, ids=lambda one: one if isinstance(one, str) else one.__name__)
def test_a_scenario_finds_each_fault_of_the_kind(rule: str, fault: type[Scheduler]) -> None:
    drivers = [run(scenario.script, fault) for scenario in SCENARIOS]
    assert not [driver.fault for driver in drivers if driver.fault]
    assert any(driver.breaks_of(rule) for driver in drivers)
    broken = {violation.rule for driver in drivers for violation in driver.broken}
    assert broken <= registry.closure(rule) | registry.closure("PRE-9")


def test_faults_of_the_kind_are_there() -> None:
    assert len(OF_HOST) == 9


@pytest.mark.parametrize("rule", ["PRE-9", "PRE-10", "PRE-11"])
def test_a_scenario_finds_the_fault_of_each_rule(rule: str) -> None:
    assert any(run(scenario.script, FAULTS[rule]).breaks_of(rule) for scenario in SCENARIOS if rule in scenario.shows)


# --- foreign traces ------------------------------------------------------------------------------------------------


def monitor(claims: Sequence[str] = ("swap",), *, ordered: bool = True, **settings: Any) -> Monitor:
    wanted = evolve(Settings(blocks=4, block_size=2, host_blocks=2, recover="swap"), **settings)
    shown = Capabilities(observes="tables", ordered=ordered, claims=claims)
    return Monitor(Header(settings=wanted, capabilities=shown))


def feed(m: Monitor, *messages: Message) -> list[str]:
    return [violation.conjunct for message in messages for violation in m.feed(message)]


def begun(m: Monitor) -> None:
    """Two requests run, and have two blocks each; of `b` four positions are computed."""
    for name in "ab":
        request = Request(id=name, prompt_ids=(1, 2, 3, ord(name)), max_output_tokens=4)
        feed(m, Message("submit", 0, request, Receipt(verdict="accepted")))
    enter: list[Delta] = [("took", "a", (0, 1)), ("admitted", "a", 0), ("took", "b", (2, 3)), ("admitted", "b", 0)]
    plan = Plan(step=1, request=("a", "b"), start=(0, 0), tokens=(4, 4), samples=(1, 1), deltas=enter)
    out = Outcome(step=1, request=("a", "b"), token=(7, 8), stop=(False, False))
    said = [("delivered", ("a", "b"), (7, 8))]
    assert feed(m, Message("step", 0, None, plan), Message("complete", 0, out, said)) == []


OUT: list[Delta] = [("swapped_out", "b", (0, 1)), ("gave", "b", (3, 2)), ("preempted", "b", "swap", "a")]
GROWS: list[Delta] = [("took", "a", (2,))]
ENDS: list[Delta] = [("gave", "a", (2, 1, 0)), ("finished", "a", "stop")]
BACK: list[Delta] = [("took", "b", (0, 1, 2)), ("swapped_in", "b", (0, 1)), ("resumed", "b", 4)]


def goes_on(m: Monitor, out: Sequence[Delta] = OUT, back: Sequence[Delta] = BACK, start: int = 4) -> list[str]:
    """`b` makes room for `a`, which ends; then it comes back."""
    return feed(
        m,
        Message("step", 1, None, Plan(step=2, request=("a",), start=(4,), tokens=(1,), samples=(1,), deltas=out)),
        Message(
            "complete",
            2,
            Outcome(step=2, request=("a",), token=(9,), stop=(True,)),
            [("delivered", ("a",), (9,)), *ENDS],
        ),
        Message("step", 3, None, Plan(step=3, request=("b",), start=(start,), tokens=(1,), samples=(1,), deltas=back)),
        Message(
            "complete", 4, Outcome(step=3, request=("b",), token=(9,), stop=(False,)), [("delivered", ("b",), (9,))]
        ),
    )


def test_a_trace_that_swaps_breaks_nothing() -> None:
    m = monitor()
    begun(m)
    assert goes_on(m, [*OUT, *GROWS]) == []
    assert m.exercised()["PRE-9"] == 1


def test_deltas_that_stand_in_no_order_are_put_into_one() -> None:
    out, back = [*GROWS, *reversed(OUT)], list(reversed(BACK))
    assert canonical(out) == [*OUT, *GROWS]
    assert canonical(back) == BACK
    m = monitor(ordered=False)
    begun(m)
    assert goes_on(m, out, back) == []


@pytest.mark.parametrize(
    ("out", "back", "broken"),
    [
        ([OUT[1], OUT[0], OUT[2], *GROWS], BACK, "PRE-9.2"),
        ([("swapped_out", "b", (0,)), *OUT[1:], *GROWS], [BACK[0], ("swapped_in", "b", (0,)), BACK[2]], "PRE-9.18"),
        ([("swapped_out", "b", (0, 2)), *OUT[1:], *GROWS], BACK, "PRE-9.1"),
        ([("swapped_out", "b", (0, 0)), *OUT[1:], *GROWS], BACK, "PRE-9.1"),
        ([*OUT[:2], ("preempted", "b", "recompute", "a"), *GROWS], BACK, "PRE-9.29"),
        ([*OUT, *GROWS], [("took", "b", (0, 1)), *BACK[1:]], "PRE-9.22"),
        ([*OUT, *GROWS], [BACK[0], BACK[2]], "PRE-9.23"),
        ([*OUT, *GROWS], [BACK[0], ("swapped_in", "b", (0,)), BACK[2]], "PRE-9.23"),
        ([*OUT, *GROWS], [BACK[0], ("swapped_in", "b", (1, 0)), BACK[2]], "KV-12.read"),
        ([*OUT, *GROWS], [BACK[0], ("dropped", "b", (0, 1)), BACK[2]], "KV-12.read"),
        ([*OUT, *GROWS], [BACK[1], *BACK[::2]], "KV-12.read"),
        ([*OUT, *GROWS], [*BACK[:2], ("admitted", "b", 4)], "PRE-7.3"),
    ],
)
def test_a_trace_that_goes_wrong_is_caught(out: Sequence[Delta], back: Sequence[Delta], broken: str) -> None:
    m = monitor(("swap", "resume_order"))
    begun(m)
    assert broken in goes_on(m, out, back)


def test_who_computes_again_what_it_kept_is_caught() -> None:
    m = monitor()
    begun(m)
    back: list[Delta] = [*BACK[:2], ("resumed", "b", 3)]
    assert "PRE-9.21" in goes_on(m, [*OUT, *GROWS], back, start=3)


def test_copies_of_several_deltas_are_copies_of_one() -> None:
    m = monitor()
    begun(m)
    out: list[Delta] = [("swapped_out", "b", (0,)), ("swapped_out", "b", (1,)), *OUT[1:]]
    back: list[Delta] = [BACK[0], ("swapped_in", "b", (0,)), ("swapped_in", "b", (1,)), BACK[2]]
    assert goes_on(m, [*out, *GROWS], back) == []


def test_a_swapped_request_is_cancelled() -> None:
    for dropped, broken in (([("dropped", "b", (0, 1))], []), ([], ["PRE-9.26"])):
        m = monitor()
        begun(m)
        plan = Plan(step=2, request=("a",), start=(4,), tokens=(1,), samples=(1,), deltas=[*OUT, *GROWS])
        assert feed(m, Message("step", 1, None, plan)) == []
        said: list[Delta] = [*dropped, ("cancelled", "b")]
        assert feed(m, Message("cancel", 1, "b", said)) == broken
        assert m.swapped == 0


def test_who_is_swapped_without_the_claim_is_told_to_make_it() -> None:
    m = monitor(())
    begun(m)
    plan = Plan(step=2, request=("a",), start=(4,), tokens=(1,), samples=(1,), deltas=[*OUT, *GROWS])
    with pytest.raises(ProtocolError, match="does not swap: claim 'swap', or recompute"):
        m.feed(Message("step", 1, None, plan))


def test_decisions_alone_show_what_is_kept() -> None:
    """Without tables the positions are judged, and nothing of host blocks."""
    shown = Capabilities(claims=("swap",))
    for cached, broken in ((4, []), (0, ["PRE-9.21"])):
        m = Monitor(Header(settings=Settings(host_blocks=2, recover="swap"), capabilities=shown))
        feed(
            m,
            Message(
                "submit", 0, Request(id="b", prompt_ids=(1, 2, 3, 4), max_output_tokens=4), Receipt(verdict="accepted")
            ),
        )
        plan = Plan(step=1, request=("b",), start=(0,), tokens=(4,), samples=(1,), deltas=[("admitted", "b", 0)])
        out = Outcome(step=1, request=("b",), token=(8,), stop=(False,))
        feed(m, Message("step", 0, None, plan), Message("complete", 0, out, [("delivered", ("b",), (8,))]))
        feed(m, Message("step", 1, None, Plan(step=2, deltas=[("preempted", "b", "swap", None)])))
        back = Plan(
            step=3,
            request=("b",),
            start=(cached,),
            tokens=(5 - cached,),
            samples=(1,),
            deltas=[("resumed", "b", cached)],
        )
        assert [name for name in feed(m, Message("step", 2, None, back)) if name.startswith("PRE-9")] == broken


def test_snapshots_are_compared() -> None:
    m = monitor()
    begun(m)
    plan = Plan(step=2, request=("a",), start=(4,), tokens=(1,), samples=(1,), deltas=[*OUT, *GROWS])
    assert feed(m, Message("step", 1, None, plan)) == []
    b = RequestView(state="swapped", issued=4, computed=4, outputs=1, in_flight=0)
    whole = Observation(
        counters={"running": 1, "waiting": 0, "swapped": 1, "free_host_blocks": 0},
        requests={"a": RequestView(state="running", issued=5, computed=4, outputs=1, in_flight=1), "b": b},
        tables={"a": (0, 1, 2)},
        free=(3,),
        ref_counts={0: 1, 1: 1, 2: 1},
        host_tables={"b": (0, 1)},
    )
    assert feed(m, Message("observe", 1, None, whole)) == []
    wrong = [
        (evolve(whole, host_free=(1,)), "PRE-9.host_free"),
        (evolve(whole, host_tables={"b": (1, 0)}), "PRE-9.host_table"),
        (evolve(whole, host_tables={}), "PRE-9.host_table"),
        (evolve(whole, counters={"waiting": 1}), "OBS-3.waiting"),
        (evolve(whole, counters={"free_host_blocks": 1}), "OBS-3.free_host_blocks"),
        (evolve(whole, requests={**whole.requests, "b": evolve(b, state="waiting")}), "LIFE-1.elsewhere"),
        (evolve(whole, requests={**whole.requests, "b": evolve(b, computed=0)}), "OBS-3.computed"),
    ]
    for shown, broken in wrong:
        assert feed(m, Message("observe", 1, None, shown)) == [broken]


# --- settings, words, time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"recover": "swap"}, "host_blocks is 0: there is nowhere to swap to"),
        ({"host_blocks": 4}, "recover is 'recompute': write recover='swap' or 'cheaper'"),
        ({"recover": "cheaper", "host_blocks": 4}, "what is cheaper is known by both"),
        ({"decode_step_ns": 4, "recompute_token_ns": 1}, "write preempt_lower_class=True"),
        ({"decode_step_ns": 4, "policy": "priority", "preempt_lower_class": True}, "a victim would cost nothing"),
        ({"host_blocks": -1}, "host_blocks is -1, but must be an integer of at least 0"),
        ({"host_blocks": 1 << 40, "recover": "swap"}, "host_blocks is 1099511627776, but must be at most"),
        ({"recover": "swop"}, "recover is 'swop', but must be one of recompute, swap, cheaper"),
    ],
)
def test_settings_that_contradict_each_other_are_told(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Settings(**wrong)


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(ValueError, match=r"nowhere to swap to.*known by both.*preempt_lower_class=True.*cost nothing"):
        Settings(recover="cheaper", decode_step_ns=1)


def test_a_setting_that_goes_takes_others_with_it() -> None:
    whole = evolve(SWAPPING, policy="priority", preempt_lower_class=True, recompute_token_ns=1, decode_step_ns=1)
    for name in ("host_blocks", "recover", "preempt_lower_class", "recompute_token_ns"):
        assert getattr(with_setting(whole, name, getattr(Settings(), name)), name) == getattr(Settings(), name)
    assert with_setting(whole, "policy", "fcfs").decode_step_ns == 0


def test_swapping_is_told_in_words() -> None:
    teller = Teller(frozenset())
    assert teller.deltas(OUT) == "b goes to host blocks 0, 1; b gave blocks 3, 2; preempted b by swap for a"
    assert teller.delta(BACK[1]) == "b comes back from host blocks 0, 1"
    assert teller.delta(("dropped", "b", (1,))) == "b drops host block 1"
    driver = of(SWAPPING, THREE)
    story = tell_of(driver.header, driver.messages, "c")
    assert any("what it has computed saved in host memory" in str(event) for event in story.events)


def test_copies_take_time_in_the_simulation() -> None:
    """Seven blocks go to the host and come back."""
    work = [incoming(name, 0, 1, 4) for name in "abc"]
    logs = [Simulation(make(SWAPPING, 0), Constant(MS), swap_block_ns=ns).run(work) for ns in (0, 1_000)]
    moved = sum(record.restored_tokens for record in logs[0].records.values())
    assert moved == 5
    assert logs[1].busy_ns - logs[0].busy_ns == 2 * moved * 1_000
    assert not any(record.repeated_tokens or record.cached_tokens for record in logs[0].records.values())


def test_cancel_frees_the_host() -> None:
    subject = make(SWAPPING, 0)
    driver = Driver.start(lambda settings, seed: subject, SWAPPING, 0)
    driver.run((*THREE[:3], *rounds(2), cancel("c")))
    assert not driver.broken
    assert sorted(subject.state.host.free) == [0, 1, 2, 3, 4]


# --- vLLM as it was published --------------------------------------------------------------------------------------


def test_no_prompt_runs_while_anybody_is_swapped() -> None:
    """Who comes back decodes on, beside those who decode; a prompt waits for the step after."""
    settings = SYSTEMS["vllm-2023-swap"].settings(blocks=6, block_size=1, seats=4, token_budget=8, host_blocks=6)
    ops = (*THREE[:3], *rounds(2), submit("late", 2, 1), *rounds(20))
    driver = run(Script(settings, 0, ops), SYSTEMS["vllm-2023-swap"].make)
    assert not driver.broken
    kinds = {plan.step: {delta[0] for delta in plan.deltas} for plan in _plans(driver)}
    swapped: set[str] = set()
    for plan in _plans(driver):
        goals = [start < 1 or request == "late" for request, start in zip(plan.request, plan.start, strict=True)]
        assert all(goals) or not any(goals)
        assert not (any(goals) and swapped)
        swapped |= {delta[1] for delta in plan.deltas if delta[0] == "preempted"}
        swapped -= {delta[1] for delta in plan.deltas if delta[0] == "resumed"}
    assert any("swapped_in" in deltas for deltas in kinds.values())
