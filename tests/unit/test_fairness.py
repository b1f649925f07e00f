"""Whose token: counters, lifts and service, on runs small enough to work out by hand.

Prices are 1 per prompt token and 2 per output token; with one seat the order of admissions is the order of service.
"""

from collections.abc import Sequence

import pytest
from attrs import evolve

from schedspec.conformance.driver import Driver, all_but
from schedspec.conformance.script import COMPLETE, STEP, Op, cancel, rounds, submit, with_deadline
from schedspec.conformance.walks import plain_walk
from schedspec.reference import make
from schedspec.reference.faults import CallsArrivalFair, SharesOtherwise, factory
from schedspec.reference.scheduler import Scheduler
from schedspec.reference.selection import Sharing
from schedspec.spec.vocabulary import Capabilities, Policy, Settings, SubjectFactory

SETTINGS = Settings(blocks=64, block_size=1, seats=1, token_budget=16, policy="vtc")
NEW: tuple[Policy, ...] = ("edf", "sjf", "aging", "vtc", "lcf", "round_robin")


def of(client: str, *requests: tuple[str, int, int]) -> tuple[Op, ...]:
    """Submissions of one client: id, prompt tokens, output tokens."""
    return tuple(submit(id, prompt, output, client=client) for id, prompt, output in requests)


def run(ops: Sequence[Op], settings: Settings = SETTINGS, subject: SubjectFactory = make, only: str = "") -> Driver:
    """A run to its end, or to where it breaks a rule (of those that are named)."""
    driver = Driver.start(subject, settings, 0, ignored=all_but(only.split()))
    driver.run(ops)
    driver.drain()
    assert driver.fault is None, str(driver.fault)
    return driver


def order(driver: Driver) -> str:
    """Who was admitted, in order."""
    deltas = [delta for message in driver.messages if message.kind == "step" for delta in message.answer.deltas]
    return " ".join(delta[1] for delta in deltas if delta[0] in ("admitted", "resumed"))


def counters(driver: Driver) -> dict[str, int]:
    """What the subject shows and the monitor has computed."""
    shown = driver.subject.observe()
    assert shown is not None
    assert dict(shown.client_counters) == driver.monitor.ledger.counters
    return dict(shown.client_counters)


# --- counters and lifts ----------------------------------------------------------------------------------------


def test_prompts_are_charged_at_the_pick_and_outputs_when_they_are_delivered() -> None:
    driver = Driver.start(make, SETTINGS, 0)
    driver.run(of("A", ("a1", 5, 2)))
    assert counters(driver) == {"A": 0}
    driver.do(STEP)
    assert counters(driver) == {"A": 5}
    driver.do(COMPLETE)
    assert counters(driver) == {"A": 7}


def test_clients_take_turns_by_tokens() -> None:
    """a1 costs 9, a request of B 3: three of them stand against it."""
    ops = (*of("A", ("a1", 7, 1), ("a2", 7, 1)), *of("B", *((f"b{n}", 1, 1) for n in range(1, 5))))
    assert order(run(ops)) == "a1 b1 b2 b3 a2 b4"


def test_a_client_that_comes_back_has_no_credit() -> None:
    """A is at 12 when B comes, and at 18 when a2 ends; from 0 B would be served twice before a3."""
    ops = (*of("A", ("a1", 1, 4), ("a2", 1, 4), ("a3", 1, 4)), *rounds(5), *of("B", ("b1", 1, 4), ("b2", 1, 4)))
    assert order(run(ops)) == "a1 a2 b1 a3 b2"


def test_a_client_that_comes_back_keeps_its_debt() -> None:
    """A has 19 when B, who has none, waits: b1 to b3 come before a2."""
    ops = (
        *of("A", ("a1", 1, 9)),
        *of("B", *((f"b{n}", 1, 2) for n in range(1, 4))),
        *rounds(9),
        *of("A", ("a2", 1, 1)),
    )
    assert order(run(ops)) == "a1 b1 b2 b3 a2"


def test_nobody_waits_when_a_client_comes_back() -> None:
    """a1 is alone, and its client left the queue last: B starts at its 17."""
    driver = Driver.start(make, SETTINGS, 0)
    driver.run((*of("A", ("a1", 1, 9)), *rounds(8), *of("B", ("b1", 1, 1))))
    assert counters(driver) == {"A": 17, "B": 17}


def test_a_cancelled_request_leaves_the_queue_too() -> None:
    """The client that left last is B, by cancelling."""
    driver = Driver.start(make, SETTINGS, 0)
    driver.run((*of("A", ("a1", 3, 4)), STEP, *of("B", ("b1", 1, 1)), cancel("b1"), COMPLETE, *of("C", ("c1", 1, 1))))
    assert counters(driver) == {"A": 5, "B": 3, "C": 3}


def test_recompute_is_not_charged_again() -> None:
    """Whoever is preempted pays for its prompt and outputs once; what is more is lifts."""
    settings = evolve(SETTINGS, blocks=5, seats=3)
    driver = run((*of("A", ("a1", 1, 4)), *of("B", ("b1", 1, 4)), *of("C", ("c1", 1, 4))), settings)
    assert len(order(driver).split()) > 3
    assert counters(driver) == {"A": 9, "B": 9, "C": 9}
    assert not any(driver.monitor.ledger.committed.values())


# --- what the rules see ------------------------------------------------------------------------------------


class CallsItselfVtc(Scheduler):
    """A subject of another policy that claims `vtc` and `fair_share`."""

    def capabilities(self) -> Capabilities:
        shown = super().capabilities()
        return evolve(shown, claims=(shown.claims - {"lcf", "fcfs", "round_robin"}) | {"vtc", "fair_share"})


IDLE_THEN_BACK = (
    *of("A", *((f"a{n}", 1, 1) for n in range(1, 12))),
    *rounds(5),
    *of("B", *((f"b{n}", 1, 1) for n in range(1, 8))),
)


def test_banked_credit_is_seen_where_it_arises_and_where_it_is_spent() -> None:
    settings = evolve(SETTINGS, policy="lcf")
    assert run(IDLE_THEN_BACK, settings).broken == []
    assert run(IDLE_THEN_BACK, settings, CallsItselfVtc).broken[0].conjunct == "FAIR-3.counter"
    assert run(IDLE_THEN_BACK, settings, CallsItselfVtc, "FAIR-1").broken[0].conjunct == "FAIR-1.passed"
    assert run(IDLE_THEN_BACK, settings, CallsItselfVtc, "FAIR-9").broken[0].conjunct == "FAIR-9.behind"


def test_first_come_first_served_drifts_without_a_bound() -> None:
    ops = (*of("A", *((f"a{n}", 1, 1) for n in range(1, 6))), *of("B", ("b1", 1, 1)))
    settings = evolve(SETTINGS, policy="fcfs")
    (violation,) = run(ops, settings, CallsArrivalFair, "FAIR-8").broken
    assert violation.conjunct == "FAIR-8.behind"
    assert (violation.facts["waits"], violation.facts["served"]) == ("B", "A")
    assert (violation.facts["ahead"], violation.facts["bound"]) == (7, 6)


def test_the_same_arrivals_are_fair_by_counters() -> None:
    ops = (*of("A", *((f"a{n}", 1, 1) for n in range(1, 9))), *of("B", *((f"b{n}", 1, 1) for n in range(1, 9))))
    driver = run(ops)
    assert not driver.broken
    assert driver.monitor.exercised()["FAIR-8"]
    assert driver.monitor.exercised()["FAIR-9"]


def test_a_short_run_does_not_exercise_the_bounds() -> None:
    driver = run((*of("A", ("a1", 9, 4)), *of("B", ("b1", 9, 4))))
    assert driver.monitor.exercised()["FAIR-8"] == 0


@pytest.mark.parametrize("rule", ["FAIR-3", "FAIR-4", "FAIR-5"])
def test_a_missing_lift_is_named(rule: str) -> None:
    """The fault shows in the first snapshot after it, and only there."""
    cases = {
        "FAIR-3": (*of("A", ("a1", 1, 2), ("a2", 1, 2)), STEP, *of("B", ("b1", 1, 1))),
        "FAIR-4": (*of("A", ("a1", 1, 2)), STEP, *of("B", ("b1", 1, 1))),
        "FAIR-5": (
            *of("A", ("a1", 1, 6), ("a2", 1, 6)),
            *of("B", ("b1", 1, 6)),
            *rounds(1),
            *of("A", ("a3", 1, 2)),
            *rounds(6),
        ),
    }
    settings = evolve(SETTINGS, blocks=9, seats=3 if rule == "FAIR-5" else 1)
    assert not run(cases[rule], settings).broken
    (violation,) = run(cases[rule], settings, factory(rule)).broken
    assert violation.rule == rule


class ShowsNothing(SharesOtherwise):
    """Least counter first, which keeps its counters to itself and calls itself VTC."""

    sharing = Sharing

    def capabilities(self) -> Capabilities:
        return evolve(super().capabilities(), observes="decisions")


def test_decisions_alone_show_a_missing_lift() -> None:
    """Its counters cannot be compared, but who is picked can."""
    (violation,) = run(IDLE_THEN_BACK, subject=ShowsNothing, only="FAIR-1").broken
    assert violation.conjunct == "FAIR-1.passed"
    assert violation.facts == {"picked": "B", "counter": 18, "passed": "A", "least": 15}


# --- other policies, and all at once -----------------------------------------------------------------------


def test_round_robin_serves_clients_in_turn_whatever_they_ask_for() -> None:
    ops = (*of("A", ("a1", 9, 3), ("a2", 1, 1), ("a3", 1, 1)), *of("B", ("b1", 1, 1), ("b2", 1, 1)))
    assert order(run(ops, evolve(SETTINGS, policy="round_robin"))) == "a1 b1 a2 b2 a3"


def test_the_earliest_deadline_is_first_and_none_is_last() -> None:
    """A priority is a deadline in seconds here, none for 0."""
    ops = [with_deadline(submit(name, 1, 1, priority=priority)) for name, priority in (("a", 0), ("b", 9), ("c", 5))]
    assert order(run(ops, evolve(SETTINGS, policy="edf"))) == "c b a"


def test_the_shortest_is_first_until_enough_have_come_after_the_longer_one() -> None:
    """A token weighs eight arrivals: seven that come later overtake, the eighth stands behind."""
    ops = (submit("run", 1, 1), STEP, submit("long", 1, 2), *(submit(f"s{n}", 1, 1) for n in range(12)))
    served = order(run(ops, evolve(SETTINGS, policy="sjf"))).split()
    assert served.index("long") == 8


def test_a_low_class_is_not_overtaken_for_ever() -> None:
    low, high = submit("low", 1, 1, priority=1), (submit(f"h{n}", 1, 1) for n in range(12))
    served = order(run((submit("run", 1, 1), STEP, low, *high), evolve(SETTINGS, policy="aging"))).split()
    assert served.index("low") == 8


@pytest.mark.parametrize("policy", NEW)
def test_every_policy_works_with_everything_else_at_once(policy: Policy) -> None:
    """Walks of memory that is short, with preemption, cancels, chunks, shared prefixes and steps that overlap."""
    preempted = 0
    for seed in range(20):
        script = plain_walk(seed)
        driver = run(script.ops, evolve(script.settings, policy=policy))
        assert not driver.broken, f"walk {seed}: {driver.broken[0]}"
        preempted += sum(track.epoch > 1 for track in driver.monitor.tracks.values())
    assert preempted
