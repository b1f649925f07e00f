"""What a request gets instead of a refusal: each alternative, the walk of a held request, and what may go wrong."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner

from schedspec.cli import cli
from schedspec.conformance.driver import Driver
from schedspec.conformance.scenarios import scenarios
from schedspec.conformance.script import Op, cancel, leave, read_settings_of, rounds, submit
from schedspec.reference import Scheduler, make
from schedspec.reference.faults import FAULTS, OTHERS
from schedspec.reference.simulation import Simulation
from schedspec.reference.simulation.costs import Batch
from schedspec.spec.catalogue import registry
from schedspec.spec.vocabulary import Door, Outcome, Receipt, Request, Settings
from schedspec.spec.workloads import Incoming

PLAIN = Settings(blocks=64, block_size=1, seats=1, token_budget=4, reserve="declared", cancel_on_disconnect=True)
FULL = {"queue_requests": 1}
HOLD = {"defer_ns": 50, "deferred_requests": 1}


def request(id: str, prompt: int = 2, output: int = 3, **others: Any) -> Request:
    return Request(id=id, prompt_ids=tuple(range(1, prompt + 1)), max_output_tokens=output, **others)


def subject(**door: int) -> Scheduler:
    """Somebody waits, and the queue has one place."""
    found: Scheduler = make(evolve(PLAIN, door=Door(**FULL, **door)), 0)
    assert found.submit(request("first"), 0).verdict == "accepted"
    return found


def verdict(receipt: Receipt) -> str:
    return receipt.how or receipt.verdict


# --- which one ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("door", "verdicts"),
    [
        ({}, ["refused", "refused", "refused"]),
        (HOLD, ["deferred", "refused", "refused"]),
        ({"pool_tokens": 5}, ["pool", "pool", "refused"]),
        ({"model_tokens": 5}, ["model", "model", "refused"]),
        ({"asynchronous_requests": 2}, ["asynchronous", "asynchronous", "refused"]),
        ({**HOLD, "model_tokens": 5, "asynchronous_requests": 1}, ["deferred", "model", "asynchronous"]),
        ({"pool_tokens": 4, "model_tokens": 9}, ["model", "model", "model"]),
    ],
)
def test_the_first_that_the_door_has_and_that_suits(door: dict[str, int], verdicts: list[str]) -> None:
    scheduler = subject(**door)
    receipts = [scheduler.submit(one, 0) for one in (request("b"), request("c"), request("d", output=4))]
    assert [verdict(receipt) for receipt in receipts] == verdicts
    assert {(receipt.reason, receipt.limit, receipt.value) for receipt in receipts} == {("queue_requests", 1, 2)}


def test_whom_another_door_converted_is_accepted_or_refused() -> None:
    scheduler = subject(**HOLD, pool_tokens=9, asynchronous_requests=1)
    assert scheduler.submit(request("b", was_converted=True), 0).verdict == "refused"


def test_who_is_too_large_for_good_is_not_held() -> None:
    scheduler = make(evolve(PLAIN, door=Door(**HOLD, client_tokens=4, asynchronous_requests=1)), 0)
    assert scheduler.submit(request("a"), 0).verdict == "refused"
    assert scheduler.submit(request("b", prompt=99), 0).reason == "kv_blocks"


def test_who_is_to_be_accepted_too_late_is_not_held() -> None:
    """With a time model it is known when."""

    def third(**hold: int) -> Receipt:
        scheduler: Scheduler = make(evolve(PLAIN, door=Door(**FULL, step_ns=10, token_ns=1, **hold)), 0)
        scheduler.submit(request("a"), 0)
        scheduler.step(0)
        scheduler.submit(request("b"), 0)
        return scheduler.submit(request("c"), 0)

    known_ns = third().retry_after_ns
    assert known_ns is not None
    assert third(deferred_requests=1, defer_ns=known_ns - 1).verdict == "refused"
    assert third(deferred_requests=1, defer_ns=known_ns).verdict == "deferred"


def test_while_the_door_holds_somebody_nobody_is_told_when_to_come_again() -> None:
    limits = {"step_ns": 10, "token_ns": 1, "queue_requests": 1}
    for held in (False, True):
        door = Door(**limits, **(HOLD if held else {}))
        scheduler = make(evolve(PLAIN, door=door), 0)
        receipts = [scheduler.submit(request(name), 0) for name in "abc"]
        assert receipts[2].verdict == "refused"
        assert (receipts[2].retry_after_ns is None) == held


# --- the walk of a held request ----------------------------------------------------------------------------------


def test_who_is_held_enters_when_there_is_room_and_else_expires_in_the_first_call_after_its_time() -> None:
    scheduler = subject(**HOLD)
    scheduler.submit(request("held"), 0)
    assert [delta[:2] for delta in scheduler.step(50).deltas if delta[0] != "took"] == [("admitted", "first")]
    assert scheduler.notify({"type": "news"}, 50) == [("entered", "held")]
    other = subject(**HOLD)
    other.submit(request("held"), 0)
    assert other.notify({"type": "news"}, 50) == []
    assert other.notify({"type": "news"}, 51) == [("expired", "held")]


def test_whom_only_its_client_keeps_out_holds_up_nobody() -> None:
    door = Door(rate_window_ns=100, rate_requests=1, asynchronous_requests=2, **FULL)
    scheduler = make(evolve(PLAIN, door=door), 0)
    for name, client in (("a1", "A"), ("a2", "A"), ("b1", "B")):
        scheduler.submit(request(name, client=client), 0)
    scheduler.step(0)
    assert scheduler.notify({"type": "news"}, 1) == [("entered", "b1")]


@pytest.mark.parametrize("gone", [cancel, leave])
@pytest.mark.parametrize(
    ("door", "survives", "ends"),
    [
        (HOLD, False, True),
        (HOLD, True, False),
        ({"asynchronous_requests": 1}, False, False),
        ({"pool_tokens": 9}, False, False),
    ],
)
def test_clients_that_go_away_while_the_door_holds_them(
    gone: Callable[[str], Op], door: dict[str, int], survives: bool, ends: bool
) -> None:
    """Whoever is asynchronous outlives its client, at the door and inside; it ends by cancel all the same."""
    driver = Driver.start(make, evolve(PLAIN, door=Door(**FULL, **door)), 0)
    driver.run([submit("first", 2, 3), submit("held", 2, 3, survives_disconnect=survives), gone("held")])
    deltas = driver.messages[-2].answer if driver.messages[-1].kind == "observe" else driver.messages[-1].answer
    was_held = "pool_tokens" not in door
    assert (("cancelled", "held") in deltas) == (ends or (gone is cancel and was_held))
    driver.run([*rounds(1), gone("held"), *rounds(6)])
    driver.drain()
    assert not driver.broken
    assert not driver.advice


def test_a_key_goes_with_its_request_through_the_door() -> None:
    """Held, inside, and after its end; and while another pool has it."""
    scheduler = subject(**HOLD, retain_ns=30, pool_tokens=4)
    keyed: dict[str, Any] = {"idempotency_key": "k"}
    assert scheduler.submit(request("held", **keyed), 0).verdict == "deferred"
    assert scheduler.submit(request("b", **keyed), 0).of == "held"
    scheduler.step(0)
    assert scheduler.submit(request("c", **keyed), 0).of == "held"
    assert scheduler.submit(request("other"), 10).verdict == "deferred"
    assert scheduler.submit(request("pool", 2, 2, idempotency_key="p"), 10).how == "pool"
    assert scheduler.submit(request("d", idempotency_key="p"), 39).of == "pool"
    assert scheduler.submit(request("e", idempotency_key="p"), 40).of is None
    scheduler.complete(Outcome(step=1, request=["first"], token=[1], stop=[True]), 40)
    assert scheduler.cancel("held", 40) == [("cancelled", "held")]
    assert scheduler.submit(request("f", **keyed), 40).of is None


def test_a_simulation_with_a_door_that_holds_ends_and_says_what_became_of_whom() -> None:
    class Tenth:
        def step_ns(self, batch: Batch) -> int:
            return 100_000_000

    door = Door(rate_window_ns=1_000_000_000, rate_requests=1, asynchronous_requests=1, pool_tokens=5)
    arrivals = [
        Incoming(now_ns=0, request=request(name, output=3 + n), output_tokens=3) for n, name in enumerate("abc")
    ]
    log = Simulation(make(evolve(PLAIN, door=door), 0), Tenth()).run(
        [*arrivals, evolve(arrivals[0], request=request("d"))]
    )
    became = {record.id: (record.instead, record.refused, record.end) for record in log.records.values()}
    assert became == {
        "a": (None, None, "finished"),
        "b": ("asynchronous", None, "finished"),
        "c": (None, "rate_requests", None),
        "d": ("pool", None, None),
    }
    assert log.records["b"].queue_ns >= 1_000_000_000


# --- what is wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [FAULTS["ADMIT-11"], *OTHERS["ADMIT-11"]], ids=lambda fault: fault.__name__)
def test_each_way_to_do_it_wrong_breaks_the_rule(fault: type[Scheduler]) -> None:
    broken: set[str] = set()
    for scenario in scenarios(0):
        if "ADMIT-11" in scenario.shows:
            driver = Driver.start(fault, scenario.script.settings, 0)
            driver.run(scenario.script.ops)
            driver.drain()
            broken |= {violation.rule for violation in driver.broken} | set(driver.advice)
    assert "ADMIT-11" in broken
    assert broken <= registry.closure("ADMIT-11")


def test_who_claims_nothing_of_the_kind_may_not_answer_so() -> None:
    class Silent(Scheduler):
        def capabilities(self) -> Any:
            shown = super().capabilities()
            return evolve(shown, claims=shown.claims - {"alternatives"})

    driver = Driver.start(Silent, evolve(PLAIN, door=Door(**FULL, pool_tokens=9)), 0)
    driver.run([submit("a", 2, 3), submit("b", 2, 3)])
    assert "is an answer of those who claim 'alternatives'" in str(driver.fault)


def test_a_held_request_that_runs_before_it_has_entered_breaks_the_protocol() -> None:
    class Quiet(Scheduler):
        def let_in(self) -> None:
            super().let_in()
            self.state.deltas = [delta for delta in self.state.deltas if delta[0] != "entered"]

    driver = Driver.start(Quiet, evolve(PLAIN, seats=2, door=Door(**FULL, **HOLD)), 0)
    driver.observe_every = 99
    driver.run([submit("a", 2, 3), submit("b", 2, 3), *rounds(3)])
    assert "is held at the door: write 'entered' before it" in str(driver.fault)


def test_limits_of_the_door_are_given_one_by_one_too() -> None:
    one_by_one = read_settings_of(["door.queue_requests=8", "seats=2", "door.defer_ns=5"], {"door": Door(retain_ns=3)})
    assert one_by_one == {"seats": 2, "door": Door(retain_ns=3, queue_requests=8, defer_ns=5)}
    for text, says in (
        ("door.queue_request=8", "the door has no limit 'queue_request': did you mean 'queue_requests'?"),
        ("door.queue_requests=x", "setting door.queue_requests is 'x', but must be an integer"),
    ):
        with pytest.raises(ValueError, match=re.escape(says)):
            read_settings_of([text], {})
    arguments = ("replay", "hostile:bursts", "--first-s", "1", "--system")
    told = CliRunner().invoke(cli, [*arguments, "reference:door.defer_ns=8,door.pool_tokens=1,door.first_token_ns=3"])
    assert told.exit_code == 2
    for says in ("deferred_requests 0", "pool_tokens is 1", "there is no time model to keep it by"):
        assert says in " ".join(told.output.split())


def test_all_contradictions_are_told_at_once() -> None:
    with pytest.raises(ValueError, match="settings: ") as error:
        Settings(door=Door(defer_ns=5, pool_tokens=1, model_tokens=-1, inter_token_ns=3))
    told = str(error.value)
    for says in (
        "door: model_tokens is -1, but must be an integer of at least 0",
        "door: defer_ns is 5 and deferred_requests 0: a deferral is so long for at most so many, give both or none",
        "door: pool_tokens is 1, but no request declares fewer than 2 tokens",
        "door: defer_ns is 5, but nobody is ever held: the door has no limit that breaks and holds again",
        "door: inter_token_ns is 3, but there is no time model to keep it by",
    ):
        assert says in told
