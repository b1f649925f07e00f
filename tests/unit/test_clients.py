"""Clients in a closed loop: when they come, leave, lose patience and ask again; simulated, and in the suite."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from attrs import evolve
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from schedspec.cli import cli
from schedspec.conformance.driver import Driver
from schedspec.conformance.replaying import SETTINGS, StepTime, replay_workload
from schedspec.reference import Scheduler, make
from schedspec.spec.vocabulary import Receipt, Request, Settings
from schedspec.spec.workloads import Arrival, Clients, Incoming, Patience, Workload, again

from .simulated import MS, Constant, incoming, run

SHORT = Patience(first_token_ns=15 * MS, retries=2, retry_ns=5 * MS)


def impatient(id: str, now_ns: int, patience: Patience = SHORT, prompt: int = 4, output: int = 4) -> Incoming:
    return evolve(incoming(id, now_ns, prompt, output), patience=patience)


def names(coming: Sequence[Incoming]) -> list[str]:
    return [one.request.id for one in coming]


# --- alone -------------------------------------------------------------------------------------------------


def test_a_client_asks_again_by_another_name_until_it_has_no_tries_left() -> None:
    first = impatient("r5", 0)
    second = again(first, 100)
    assert second is not None
    assert (second.request.id, second.now_ns) == ("r5~1", 100 + 5 * MS)
    third = again(second, 200, retry_after_ns=7)
    assert third is not None
    assert (third.request.id, third.now_ns) == ("r5~2", 207)
    assert third.request.prompt_ids == first.request.prompt_ids
    assert again(third, 300) is None
    assert again(incoming("a", 0, 1, 1), 0) is None


def test_who_got_a_token_in_time_stays() -> None:
    clients = Clients([impatient("a", 0), impatient("b", 0), incoming("patient", 0, 1, 1)])
    for one in clients.coming(0):
        clients.accepted(one, 0)
    clients.got_tokens(["a"])
    assert clients.next_ns == 15 * MS
    assert list(clients.leaving(15 * MS - 1)) == []
    assert list(clients.leaving(15 * MS)) == ["b"]
    assert clients.next_ns == 20 * MS
    assert clients.may_come
    assert names(list(clients.coming(20 * MS))) == ["b~1"]
    assert not clients.may_come


def test_who_has_ended_does_not_leave() -> None:
    clients = Clients([evolve(incoming("a", 3, 1, 1), cancel_after_ns=10, patience=SHORT)])
    for one in clients.coming(3):
        clients.accepted(one, 3)
    due_ns = clients.next_ns
    assert due_ns == 13
    clients.ended("a")
    assert clients.next_ns is None
    assert list(clients.leaving(10**9)) == []


def test_who_leaves_of_its_own_accord_does_not_come_back() -> None:
    clients = Clients([evolve(impatient("a", 0), cancel_after_ns=0)])
    for one in clients.coming(0):
        clients.accepted(one, 0)
    assert list(clients.leaving(0)) == ["a"]
    assert clients.next_ns is None
    assert not clients.may_come


def test_who_is_refused_comes_back_when_it_was_told_to() -> None:
    clients = Clients([impatient("a", 0), impatient("b", 30 * MS)])
    (one,) = clients.coming(0)
    clients.refused(one, 0, retry_after_ns=30 * MS)
    assert names(list(clients.coming(30 * MS))) == ["b", "a~1"]
    clients.refused(incoming("c", 0, 1, 1), 0)
    assert not clients.may_come


@given(st.lists(st.integers(0, 5), max_size=8), st.integers(0, 3), st.integers(0, 3))
def test_everybody_comes_once_per_try_and_in_order(times: list[int], retries: int, wait_ns: int) -> None:
    """All are refused: each asks as often as it has tries, and nobody before its time."""
    patience = Patience(first_token_ns=1, retries=retries, retry_ns=wait_ns)
    clients = Clients([impatient(f"r{n}", time, patience) for n, time in enumerate(sorted(times))])
    came: list[tuple[int, str]] = []
    while (now_ns := clients.next_ns) is not None:
        for one in clients.coming(now_ns):
            assert one.now_ns <= now_ns
            came.append((now_ns, one.request.id))
            clients.refused(one, now_ns)
    assert len(came) == len(set(came)) == len(times) * (1 + retries)
    assert [time for time, _ in came] == sorted(time for time, _ in came)


# --- on the simulated clock --------------------------------------------------------------------------------


def test_a_refused_client_asks_again() -> None:
    class Busy(Scheduler):
        def submit(self, request: Request, now_ns: int) -> Receipt:
            if request.id in ("b", "b~1"):
                return Receipt(
                    verdict="refused", reason="queue_full", retry_after_ns=7 * MS if request.id == "b" else None
                )
            return super().submit(request, now_ns)

    log = run(Busy, Settings(blocks=8), [impatient("b", 0)], Constant())
    assert [(name, record.arrived_ns // MS, record.refused) for name, record in log.records.items()] == [
        ("b", 0, "queue_full"),
        ("b~1", 7, "queue_full"),
        ("b~2", 12, None),
    ]


# --- in the suite ------------------------------------------------------------------------------------------


def workload(*arrivals: Arrival) -> Workload:
    return Workload(name="mine", read=lambda draws: iter(arrivals))


def test_the_suite_cancels_and_asks_again() -> None:
    """A judged scheduler gets what the clients do, and the monitor judges it."""
    long = Arrival(now_ns=0, prompt_tokens=5_000, output_tokens=8)
    plain = evolve(SETTINGS, seats=1)
    driver = Driver.start(make, plain, 0)
    patience = Patience(first_token_ns=100 * MS, retries=1, retry_ns=MS)
    impatient = Arrival(now_ns=0, prompt_tokens=8, output_tokens=8, patience=patience)
    leaves = Arrival(now_ns=0, prompt_tokens=8, output_tokens=100, cancel_after_ns=0)
    found = replay_workload(driver, workload(long, impatient, leaves), seed=0, step_time=StepTime())
    assert not driver.over
    calls = [(message.kind, getattr(message.given, "id", message.given)) for message in driver.messages]
    assert [name for kind, name in calls if kind == "submit"] == ["r0", "r1", "r2", "r1~1"]
    assert [name for kind, name in calls if kind == "cancel"] == ["r2", "r1", "r1~1"]
    assert found.requests == 4


@pytest.mark.parametrize("kind", ["cancels", "retry-storm"])
def test_hostile_clients_are_replayed(kind: str, tmp_path: Path) -> None:
    asked = ["replay", f"hostile:{kind}", "--first-s", "15", "--cost", "vtc-llama2-7b-a10g", "--size", "1/4"]
    done = CliRunner().invoke(cli, [*asked, "--report", str(tmp_path), "--system", "optimized"])
    assert done.exit_code == 0, done.output
    metrics = json.loads((tmp_path / "replay.json").read_text())["runs"][0]["metrics"]
    assert metrics["finished"] < metrics["requests"]


def test_the_suite_tells_who_is_larger_than_the_pool() -> None:
    fits = Arrival(now_ns=0, prompt_tokens=60, output_tokens=5)
    large = Arrival(now_ns=0, prompt_tokens=60, output_tokens=6, place="trace.csv:3")
    driver = Driver.start(make, Settings(blocks=4), 0)
    found = replay_workload(driver, workload(fits, large, large), seed=0, step_time=StepTime())
    assert not driver.over
    assert (found.too_large, found.first_too_large) == (2, "trace.csv:3")
