"""FAIR rules beside the first six: each is broken by a scheduler that is wrong in one place, and kept by the clean one.

With one seat the order of admissions is the order of service; a request of one prompt token and one output costs 3.
"""

from collections.abc import Sequence

import pytest
from attrs import evolve

from schedspec.conformance.driver import Driver, all_but
from schedspec.conformance.script import STEP, Op, rounds, submit
from schedspec.reference import make
from schedspec.reference.faults import factory
from schedspec.reference.scheduler import Scheduler
from schedspec.reference.selection import SharedQueue
from schedspec.spec.catalogue import registry
from schedspec.spec.ledger import Lowest
from schedspec.spec.monitor import Monitor
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
    Settings,
    SubjectFactory,
)

from .service_gap import gap

ONE_SEAT = Settings(blocks=64, block_size=1, seats=1, token_budget=16, policy="vtc")


def of(client: str, *requests: tuple[str, int, int], predicted: int | None = None, stop: int | None = None) -> list[Op]:
    """Submissions of one client: id, prompt tokens, output tokens."""
    ops = [submit(id, prompt, output, client=client, stop_after=stop) for id, prompt, output in requests]
    return [evolve(op, request=evolve(op.request, predicted_output_tokens=predicted)) for op in ops if op.request]


def many(client: str, count: int, prompt: int = 1, output: int = 1) -> list[Op]:
    return of(client, *((f"{client}{n}", prompt, output) for n in range(1, count + 1)))


def one_by_one(client: str, count: int) -> list[Op]:
    """Each comes when the one before is about to be admitted; the first waits for three rounds."""
    ops = many(client, count)
    return [*ops[:1], *rounds(3), *(part for op in ops[1:] for part in (op, *rounds(1)))]


def run(ops: Sequence[Op], settings: Settings, subject: SubjectFactory = make, only: str = "") -> Driver:
    """A run to its end, or to where it breaks a rule (of those that are named)."""
    driver = Driver.start(subject, settings, 0, ignored=all_but(only.split()))
    driver.run(ops)
    driver.drain()
    assert driver.fault is None, str(driver.fault)
    return driver


# --- faults ------------------------------------------------------------------------------------------------


PREFIX = (7, 8, 9)
SHOWN_BY: dict[str, tuple[Settings, Sequence[Op]]] = {
    "FAIR-2": (ONE_SEAT, of("a", ("a1", 1, 3))),
    "FAIR-7": (ONE_SEAT, [*many("a", 5), *rounds(2), *many("b", 4)]),
    "FAIR-10": (evolve(ONE_SEAT, prices={"a": 3}), [*many("a", 12), *many("b", 20)]),
    "FAIR-11": (
        evolve(ONE_SEAT, blocks=8, seats=3, reserve="declared"),
        [*of("b", ("b1", 2, 3)), STEP, *of("a", ("a1", 4, 3)), *of("b", ("b2", 1, 2))],
    ),
    "FAIR-12": (
        evolve(ONE_SEAT, seats=2, client_committed_cost=6),
        of("a", ("a1", 4, 3), ("a2", 1, 1)),
    ),
    "FAIR-13": (
        evolve(ONE_SEAT, seats=2, charge_prediction=True),
        [*of("a", ("a1", 1, 9), stop=4), *many("b", 6, 2)],
    ),
    "FAIR-14": (
        evolve(ONE_SEAT, blocks=5, seats=3),
        [*many("a", 1, 1, 4), *many("b", 1, 1, 4), *many("c", 1, 1, 4)],
    ),
    "FAIR-15": (evolve(ONE_SEAT, policy="drr", quantum=1), [*many("a", 7, 9), *many("b", 20)]),
    "FAIR-16": (
        evolve(ONE_SEAT, policy="dlpm", quantum=1, prefix_caching=True),
        [*(submit(f"a{n}", PREFIX, 1, client="a") for n in range(12)), *many("b", 12, 3)],
    ),
    "FAIR-17": (
        evolve(ONE_SEAT, aging_picks=2, aging_credit=2),
        [*of("a", ("a1", 1, 3), ("a2", 1, 1)), *one_by_one("b", 5)],
    ),
    "FAIR-18": (ONE_SEAT, [*many("a", 9), *rounds(1), *many("b", 1)]),
}


@pytest.mark.parametrize("rule", SHOWN_BY)
def test_a_fault_is_seen_and_the_clean_reference_keeps_the_rule(rule: str) -> None:
    settings, ops = SHOWN_BY[rule]
    clean = run(ops, settings, only=" ".join(fair()))
    assert not clean.broken, str(clean.broken[0])
    assert clean.monitor.exercised()[rule]
    assert {violation.rule for violation in run(ops, settings, factory(rule), rule).broken} == {rule}


@pytest.mark.parametrize("rule", SHOWN_BY)
def test_beside_a_fault_only_what_is_declared_breaks(rule: str) -> None:
    settings, ops = SHOWN_BY[rule]
    broken = {violation.rule for violation in run(ops, settings, factory(rule), " ".join(fair())).broken}
    assert broken
    assert broken <= registry.closure(rule)


def fair() -> list[str]:
    return [rule for rule in registry.rules if rule.startswith("FAIR-")]


# --- bounds are tight --------------------------------------------------------------------------------------


def test_counters_come_u_apart_and_service_nearly_2u() -> None:
    """a1 costs U = 201 while b1 waits; then b1 brings B to 199, just below A, and b2 costs U again."""
    settings = evolve(ONE_SEAT, blocks=128, reserve="declared")
    ops = [*of("a", ("a1", 1, 100), ("a2", 1, 1)), *of("b", ("b1", 1, 99), ("b2", 1, 100), ("b3", 1, 1))]
    driver = run(ops, settings, only=" ".join(fair()))
    assert not driver.broken
    certificate = driver.monitor.ledger.certificate
    assert certificate == 201
    assert gap(driver, waits="b", served="a").counter == certificate
    assert gap(driver, waits="a", served="b").service >= 0.99 * 2 * certificate


class AgesTooEarly(Scheduler):
    """Counts its own admission too."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        assert isinstance(self.state.queue, SharedQueue)
        self.state.queue.members.patience.picks -= 1


def test_who_is_preferred_has_waited_as_long_as_was_declared() -> None:
    settings = evolve(ONE_SEAT, aging_picks=4, aging_credit=20)
    bs = many("b", 9)
    later = (part for op in bs[2:] for part in (op, *rounds(1)))
    ops = [*of("a", ("a1", 1, 9), ("a2", 1, 1)), *bs[:2], *rounds(9), *later]
    clean = run(ops, settings, only="FAIR-17")
    assert not clean.broken
    assert clean.monitor.exercised()["FAIR-17"]
    (violation,) = run(ops, settings, AgesTooEarly, "FAIR-17").broken
    assert violation.conjunct == "FAIR-17.young"


# --- caps --------------------------------------------------------------------------------------------------


def test_a_client_that_a_cap_holds_may_be_passed_and_is_not_backlogged() -> None:
    settings = evolve(ONE_SEAT, seats=2, client_seats=1)
    driver = Driver.start(make, settings, 0, ignored=all_but(fair()))
    driver.run([*many("a", 2, 1, 4), STEP])
    assert "a" not in driver.monitor.ledger.since
    driver.run([*rounds(1), *of("b", ("b1", 9, 4)), *rounds(1)])
    assert driver.monitor.ledger.certificate >= 9 + 8
    driver.drain()
    assert not driver.broken


@pytest.mark.parametrize(
    ("cap", "held"),
    [
        ({"client_resident_tokens": 6}, True),
        ({"client_resident_tokens": 7}, False),
        ({"client_committed_cost": 5}, True),
    ],
)
def test_who_runs_alone_may_exceed_a_cap_and_then_its_next_request_is_held(cap: dict[str, int], held: bool) -> None:
    """a1 declares 4 tokens and a2 declares 3; a1 may cost 7 in all, a2 5."""
    driver = Driver.start(make, evolve(ONE_SEAT, **cap), 0, ignored=all_but(fair()))  # type: ignore[arg-type]
    driver.run([*of("a", ("a1", 1, 3), ("a2", 1, 2)), STEP])
    assert ("a" in driver.monitor.ledger.since) is not held


# --- messages by hand --------------------------------------------------------------------------------------


def monitor(settings: Settings, *claims: str, **constants: int) -> Monitor:
    capabilities = Capabilities(observes="counters", ordered=True, claims=frozenset(claims), constants=constants)
    return Monitor(Header(settings=settings, capabilities=capabilities))


def came(id: str, client: str, prompt: int = 2, output: int = 4, predicted: int | None = None) -> Message:
    request = Request(
        id=id, client=client, prompt_ids=range(prompt), max_output_tokens=output, predicted_output_tokens=predicted
    )
    return Message("submit", 0, request, Receipt(verdict="accepted"))


def stepped(number: int, rows: Sequence[tuple[str, int, int, int]], deltas: Sequence[Delta] = ()) -> Message:
    request, start, tokens, samples = zip(*rows, strict=True)
    plan = Plan(step=number, request=request, start=start, tokens=tokens, samples=samples, deltas=deltas)
    return Message("step", 0, None, plan)


def computed(number: int, request: str, *ends: Delta, stop: bool = False) -> Message:
    deltas = [("delivered", [request], [5]), *ends]
    return Message("complete", 0, Outcome(step=number, request=[request], token=[5], stop=[stop]), deltas)


def shown(**counters: int) -> Message:
    return Message("observe", 0, None, Observation(client_counters=counters))


def rules_of(m: Monitor, *messages: Message) -> set[str]:
    return {violation.rule for message in messages for violation in m.feed(message) if violation.rule in fair()}


PREDICTS = Settings(policy="vtc", charge_prediction=True, seats=2)


def a_prediction_that_was_too_long() -> list[Message]:
    """a1 is charged 2 + 8 at the pick and generates one token: 6 are refunded, to the 4 that it was worth."""
    end = ("finished", "a1", "stop")
    admit = stepped(1, [("a1", 0, 2, 1)], [("admitted", "a1", 0)])
    return [came("a1", "a"), admit, shown(a=10), computed(1, "a1", end, stop=True)]


@pytest.mark.parametrize(("counter", "broken"), [(4, set()), (10, {"FAIR-13"}), (2, {"FAIR-13"}), (0, {"FAIR-13"})])
def test_a_prediction_is_corrected_when_the_request_ends(counter: int, broken: set[str]) -> None:
    m = monitor(PREDICTS, "vtc", "prediction", "break")
    assert rules_of(m, *a_prediction_that_was_too_long(), shown(a=counter)) == broken
    assert m.exercised()["FAIR-13"] == 1


@pytest.mark.parametrize(("counter", "broken"), [(11, set()), (17, {"FAIR-2"}), (7, {"FAIR-14"}), (1, {"FAIR-14"})])
def test_a_prompt_is_charged_chunk_by_chunk_and_cached_tokens_at_the_pick(counter: int, broken: set[str]) -> None:
    """A request is 5; of its eight tokens four are cached, and the first chunk is two."""
    settings = Settings(policy="vtc", charge_prompt="chunk", request_weight=5)
    m = monitor(settings, "vtc", "per_chunk", "break")
    admit = stepped(1, [("a1", 4, 2, 0)], [("admitted", "a1", 4)])
    assert rules_of(m, came("a1", "a", prompt=8), admit, shown(a=counter)) == broken
    assert m.ledger.running_of("a").committed == 2 + 2 * 4


@pytest.mark.parametrize(
    ("charged", "rule"), [(0, "FAIR-2"), (18, "FAIR-2"), (7, "FAIR-2"), (36, "FAIR-14"), (3, "FAIR-14")]
)
def test_another_unit_is_told_from_a_wrong_charge(charged: int, rule: str) -> None:
    """Three tokens of a prompt at 3 are 9, and not 0, 18 or 7; by the weight of outputs they are 36, and without the
    price 3."""
    settings = Settings(policy="vtc", input_weight=1, output_weight=4, prices={"a": 3})
    m = monitor(settings, "vtc", "weighted", "break")
    admit = stepped(1, [("a1", 0, 3, 1)], [("admitted", "a1", 0)])
    assert rules_of(m, came("a1", "a", 3), admit, shown(a=charged)) == {rule}


def test_the_least_of_counters_that_rise_and_fall() -> None:
    counters = {"a": 5, "b": 3, "c": 9}
    lowest = Lowest(counters)
    for client in counters:
        lowest.add(client)
    assert (lowest.least(), lowest.least({"b"}), lowest.least({"a", "b", "c"})) == (3, 5, None)
    counters["b"] = 20
    assert lowest.least() == 5
    counters["c"] = 1
    lowest.fell("c")
    lowest.remove("a")
    assert (lowest.least(), lowest.least({"c"})) == (1, 20)
