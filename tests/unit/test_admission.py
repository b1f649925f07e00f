"""The door of the reference: limits one by one, exact times, and the walk of a request from the door to its end."""

from itertools import groupby

import pytest
from attrs import evolve

from schedspec.conformance.driver import Driver
from schedspec.conformance.script import COMPLETE, STEP, Op
from schedspec.reference import Scheduler, make
from schedspec.reference.faults import FAULTS
from schedspec.spec.vocabulary import (
    Door,
    Lane,
    Message,
    Outcome,
    Receipt,
    Request,
    Settings,
    SubjectFactory,
    budget_within,
)

PLAIN = Settings(blocks=64, block_size=1, seats=1, token_budget=4, reserve="declared")
DELAYED = {"step_ns": 10, "token_ns": 1}


def request(id: str, prompt: int = 2, output: int = 3, **others: object) -> Request:
    return Request(id=id, prompt_ids=tuple(range(1, prompt + 1)), max_output_tokens=output, **others)  # type: ignore[arg-type]


def answers(door: Door, *requests: Request, now_ns: int = 0) -> list[Receipt]:
    subject = make(evolve(PLAIN, door=door), 0)
    return [subject.submit(one, now_ns) for one in requests]


@pytest.mark.parametrize(
    ("door", "reason", "limit", "value"),
    [
        (Door(queue_requests=1), "queue_requests", 1, 2),
        (Door(queue_tokens=9), "queue_tokens", 9, 10),
        (Door(client_requests=1), "client_requests", 1, 2),
        (Door(client_tokens=9), "client_tokens", 9, 10),
        (Door(committed_tokens=9), "committed_tokens", 9, 10),
        (Door(rate_window_ns=9, rate_requests=1), "rate_requests", 1, 2),
        (Door(rate_window_ns=9, rate_tokens=9), "rate_tokens", 9, 10),
        (Door(queue_age_ns=14, **DELAYED), "queue_age", 14, 34),
    ],
)
def test_each_limit_is_said_with_its_value(door: Door, reason: str, limit: int, value: int) -> None:
    first, second = answers(door, request("a"), request("b"))
    assert first.verdict == "accepted"
    assert (second.verdict, second.reason, second.limit, second.value) == ("refused", reason, limit, value)


@pytest.mark.parametrize(
    ("door", "reason"),
    [
        (Door(queue_tokens=4, **DELAYED), "queue_tokens"),
        (Door(client_tokens=4, **DELAYED), "client_tokens"),
        (Door(rate_window_ns=9, rate_tokens=4), "rate_tokens"),
        (Door(first_token_ns=14, **DELAYED), "first_token"),
    ],
)
def test_who_is_too_large_alone_is_not_told_to_come_again(door: Door, reason: str) -> None:
    (only,) = answers(door, request("a", prompt=8))
    assert (only.reason, only.retry_after_ns) == (reason, None)


def test_without_a_time_model_nobody_knows_when_the_queue_is_shorter() -> None:
    _, second = answers(Door(queue_requests=1), request("a"), request("b"))
    assert second.retry_after_ns is None


def test_a_rate_is_exact_to_the_nanosecond() -> None:
    subject = make(evolve(PLAIN, door=Door(rate_window_ns=100, rate_requests=2)), 0)
    for name, now_ns in (("a", 7), ("b", 40)):
        assert subject.submit(request(name), now_ns).verdict == "accepted"
    assert subject.submit(request("c"), 50).retry_after_ns == 57
    assert subject.submit(request("d"), 106).retry_after_ns == 1
    assert subject.submit(request("e"), 107).verdict == "accepted"
    assert subject.submit(request("f", client="other"), 107).verdict == "accepted"


def test_a_lane_has_a_queue_of_its_own() -> None:
    lanes = (Lane(name="chat", share_percent=60, queue_requests=1), Lane(name="rest", share_percent=40))
    subject = make(Settings(policy="lanes", lanes=lanes), 0)
    receipts = [subject.submit(request(name, lane=name[:-1]), 0) for name in ("chat1", "chat2", "rest1", "rest2")]
    assert [receipt.reason for receipt in receipts] == [None, "lane_requests", None, None]


def test_who_waits_too_long_expires_in_whatever_call_comes_next() -> None:
    for call in ("submit", "cancel", "notify", "step", "complete"):
        subject = make(evolve(PLAIN, door=Door(queue_age_ns=20)), 0)
        for name in "ab":
            subject.submit(request(name), 0)
        subject.step(0)
        assert expired(subject, "notify", 20) == []
        assert subject.complete(Outcome(step=7), 21) == []  # a result that is none says nothing
        assert expired(subject, call, 21) == ["b"]


def expired(subject: Scheduler, call: str, now_ns: int) -> list[str]:
    answer = {
        "submit": lambda: subject.submit(request("b"), now_ns).deltas,
        "cancel": lambda: subject.cancel("nobody", now_ns),
        "notify": lambda: subject.notify({"type": "unknown"}, now_ns),
        "step": lambda: subject.step(now_ns).deltas,
        "complete": lambda: subject.complete(Outcome(step=1, request=["a"], token=[7], stop=[False]), now_ns),
    }[call]()
    return [delta[1] for delta in answer if delta[0] == "expired"]


def test_a_preempted_request_does_not_expire() -> None:
    settings = Settings(blocks=5, block_size=1, seats=4, token_budget=8, door=Door(queue_age_ns=20))
    driver = Driver.start(make, settings, 0)
    for name in "abc":
        driver.do(Op("submit", request(name, prompt=1, output=4)))
    driver.run((STEP, COMPLETE) * 2)
    driver.do(Op("tick", ns=100))
    driver.drain()
    deltas = [delta for message in driver.messages if message.kind == "step" for delta in message.answer.deltas]
    assert any(delta[0] == "preempted" for delta in deltas)
    assert not any(delta[0] == "expired" for delta in deltas)
    assert driver.broken == []


# --- idempotency keys ----------------------------------------------------------------------------------------


def test_a_key_is_a_clients_own_and_is_kept_for_a_while() -> None:
    driver = Driver.start(make, evolve(PLAIN, door=Door(retain_ns=50)), 0)
    for name, client in (("a", "A"), ("b", "A"), ("c", "B")):
        driver.do(Op("submit", request(name, client=client, idempotency_key="k")))
    driver.run((STEP, COMPLETE) * 10)
    for ns, name in ((49, "d"), (1, "e")):
        driver.do(Op("tick", ns=ns))
        driver.do(Op("submit", request(name, client="A", idempotency_key="k")))
    receipts = {m.given.id: (m.answer.verdict, m.answer.of) for m in driver.messages if m.kind == "submit"}
    duplicate = ("duplicate", "a")
    assert receipts["b"] == receipts["d"] == duplicate
    assert receipts["a"] == receipts["c"] == receipts["e"] == ("accepted", None)


def test_who_was_cancelled_has_no_answer_so_its_key_is_free() -> None:
    subject = make(evolve(PLAIN, door=Door(retain_ns=50)), 0)
    subject.submit(request("a", idempotency_key="k"), 0)
    subject.cancel("a", 0)
    assert subject.submit(request("b", idempotency_key="k"), 0).verdict == "accepted"


# --- predictions ---------------------------------------------------------------------------------------------


def test_an_idle_machine_takes_whoever_comes() -> None:
    door = Door(queue_age_ns=14, first_token_ns=28, **DELAYED)
    (only,) = answers(door, request("a", prompt=4, output=1_0))
    assert only.verdict == "accepted"


@pytest.mark.parametrize("seats", [1, 2, 5])
def test_who_is_accepted_is_in_time_and_who_comes_again_is_accepted(seats: int) -> None:
    """One after the other comes again exactly when it was told to, and everybody gets in."""
    settings = evolve(PLAIN, seats=seats, door=Door(queue_age_ns=90, first_token_ns=150, **DELAYED))
    driver = Driver.start(make, settings, 0)
    for number in range(12):
        driver.do(Op("submit", request(f"r{number}", prompt=1 + number % 5, output=1 + number % 4)))
        for _ in range(40):
            if driver.refused is None:
                break
            driver.run((STEP, COMPLETE, Op("retry")))
        assert driver.refused is None
    driver.drain()
    assert driver.broken == []
    assert not driver.advice
    assert driver.monitor.exercised()["ADMIT-5"] > 0


def waves(factory: SubjectFactory) -> tuple[list[int], int, set[str]]:
    """A steady stream of three times what the machine can do: lengths of rows of acceptances, how many of those
    accepted expire, and which rules break.  Who is accepted shows in what runs only later."""
    settings = evolve(PLAIN, seats=4, token_budget=8, door=Door(queue_age_ns=200, **DELAYED))
    driver = Driver.start(factory, settings, 0)
    for number in range(240):
        driver.do(Op("submit", request(f"r{number}", prompt=4, output=12)))
        driver.run((STEP, COMPLETE))
    verdicts = [m.answer.verdict for m in driver.messages if m.kind == "submit"]
    rows = [len(list(group)) for verdict, group in groupby(verdicts) if verdict == "accepted"]
    return rows, sum(_deltas(message).count("expired") for message in driver.messages), set(driver.advice)


def _deltas(message: Message) -> list[str]:
    answer = message.answer
    return [delta[0] for delta in getattr(answer, "deltas", answer if message.kind == "complete" else ())]


def test_rejecting_on_current_load_swings_and_rejecting_on_predicted_load_does_not() -> None:
    """The must-fail twin looks at who runs: while nobody new runs it accepts one after the other, and then they expire.
    After the first to come, who fill the machine, the door lets one in at a time."""
    rows, expired_ones, broken = waves(make)
    rows_of_twin, expired_of_twin, broken_by_twin = waves(FAULTS["ADMIT-8"])
    assert (max(rows[1:]), expired_ones) == (1, 0)
    assert max(rows_of_twin[1:]) > 4
    assert expired_of_twin > 20
    assert "ADMIT-10" not in broken
    assert {"ADMIT-8", "ADMIT-10"} <= broken_by_twin


# --- what makes no sense -------------------------------------------------------------------------------------


def test_all_faults_of_a_door_are_told_at_once() -> None:
    with pytest.raises(ValueError, match="settings: ") as error:
        Settings(
            policy="lanes",
            lanes=(Lane(name="a", share_percent=100, queue_requests=9),),
            door=Door(
                queue_requests=3,
                queue_tokens=-1,
                client_tokens=9,
                committed_tokens=3,
                rate_requests=2,
                first_token_ns=5,
            ),
        )
    told = str(error.value)
    for says in (
        "door: queue_tokens is -1, but must be an integer of at least 0",
        "door: client_tokens is 9, but committed_tokens allows all clients together 3",
        "door: rate_window_ns is 0, rate_requests 2 and rate_tokens 0: a rate is so much in so long",
        "door: first_token_ns is 5, but there is no time model to keep it by",
        "lane 'a': queue_requests is 9, but the door allows all lanes together 3",
    ):
        assert says in told
    assert "\n" not in told


def test_a_budget_follows_from_the_objective_of_streams() -> None:
    assert budget_within(18, step_ns=10, token_ns=2) == 4
    objective = {"step_ns": 10, "token_ns": 2, "inter_token_ns": 18}
    assert evolve(PLAIN, door=Door(**objective)).token_budget == 4
    with pytest.raises(ValueError, match="a step of token_budget 5 may take 20: write token_budget=4"):
        evolve(PLAIN, token_budget=5, door=Door(**objective))
    with pytest.raises(ValueError, match="inter_token_ns is 11, but must be at least 12, what a token alone takes"):
        budget_within(11, step_ns=10, token_ns=2)
    with pytest.raises(ValueError, match="token_ns is 0, but must be at least 1"):
        budget_within(11, step_ns=10, token_ns=0)


def test_a_deadline_within_a_step_could_never_be_kept() -> None:
    with pytest.raises(ValueError, match="what is under way may take 14: who comes at its beginning could never"):
        evolve(PLAIN, door=Door(queue_age_ns=13, **DELAYED))


# --- clients that go away ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("survives", "deltas"), [(False, ["gave", "cancelled"]), (True, [])])
def test_whose_client_is_gone_is_cancelled_unless_it_survives(survives: bool, deltas: list[str]) -> None:
    subject = make(evolve(PLAIN, cancel_on_disconnect=True), 0)
    subject.submit(request("a", survives_disconnect=survives), 0)
    subject.step(0)
    event = {"type": "disconnected", "request": "a"}
    assert [delta[0] for delta in subject.notify(event, 0)] == deltas
    assert subject.notify({"type": "disconnected", "request": "nobody"}, 0) == []
    assert subject.notify({"type": "disconnected"}, 0) == []


def test_who_does_not_look_at_connections_goes_on() -> None:
    subject = make(PLAIN, 0)
    subject.submit(request("a"), 0)
    assert subject.notify({"type": "disconnected", "request": "a"}, 0) == []


def test_who_is_refused_for_a_full_queue_comes_after_the_step_that_empties_it() -> None:
    """Found by a search under this very door: nobody had a step yet, and "come again in 0 ns" was no help."""
    subject = make(evolve(PLAIN, seats=4, door=Door(queue_requests=2, queue_age_ns=1_000, **DELAYED)), 0)
    receipts = [subject.submit(request(name, prompt=1, output=1), 0) for name in "abc"]
    assert [receipt.verdict for receipt in receipts] == ["accepted", "accepted", "refused"]
    assert receipts[2].retry_after_ns == 1
    subject.step(0)
    assert subject.submit(request("d"), 1).verdict == "accepted"
