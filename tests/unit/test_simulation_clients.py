"""Clients who leave, who lose patience and who come back: a closed loop around the simulation."""

from hypothesis import given, settings
from hypothesis import strategies as st

from schedspec import optimized
from schedspec.reference import make
from schedspec.reference.simulation import metrics
from schedspec.spec.vocabulary import Settings
from schedspec.spec.workloads import Incoming, Patience

from .simulated import MS, Constant, as_bytes, client, incoming, poisson, run

ONE = Settings(blocks=64, seats=1, token_budget=64)


def test_a_cancel_comes_when_it_comes_and_what_was_run_is_in_vain() -> None:
    work = [client("a", 0, 4, 9, cancel_after_ns=25 * MS), incoming("b", 0, 4, 9)]
    log = run(make, Settings(blocks=64, token_budget=64), work, Constant())
    a = log.records["a"]
    assert (a.end, a.ended_ns, list(a.token_ns)) == ("cancelled", 25 * MS, [10 * MS, 20 * MS])
    tokens = metrics(log)["tokens"]
    assert tokens["wasted"] == tokens["wasted_by"]["cancelled"] == a.run_tokens == 4 + 1 + 1


def test_who_has_ended_is_not_cancelled() -> None:
    log = run(make, ONE, [client("a", 0, 4, 2, cancel_after_ns=20 * MS)], Constant())
    assert (log.records["a"].end, log.records["a"].ended_ns) == ("finished", 20 * MS)


def test_an_impatient_client_asks_again_until_it_is_served() -> None:
    """The one seat is taken until 100 ms.  A client waits 30 ms and comes back 10 ms later: at 40, at 80, then it gets
    its token at 110."""
    patience = Patience(first_token_ns=30 * MS, retries=9, retry_ns=10 * MS)
    log = run(make, ONE, [incoming("long", 0, 4, 10), client("a", 0, 4, 2, patience=patience)], Constant())
    tries = {name: (record.arrived_ns, record.end) for name, record in log.records.items() if name != "long"}
    assert tries == {"a": (0, "cancelled"), "a~1": (40 * MS, "cancelled"), "a~2": (80 * MS, "finished")}
    assert list(log.records["a~2"].token_ns) == [110 * MS, 120 * MS]


def test_a_client_gives_up_after_its_last_try() -> None:
    patience = Patience(first_token_ns=15 * MS, retries=1, retry_ns=5 * MS)
    log = run(make, ONE, [incoming("long", 0, 4, 50), client("a", 0, 4, 2, patience=patience)], Constant())
    assert [(name, record.end) for name, record in log.records.items()] == [
        ("long", "finished"),
        ("a", "cancelled"),
        ("a~1", "cancelled"),
    ]


def test_a_first_token_ends_impatience() -> None:
    patience = Patience(first_token_ns=10 * MS, retries=1)
    log = run(make, ONE, [client("a", 0, 4, 6, patience=patience)], Constant())
    assert [(record.id, record.end) for record in log.records.values()] == [("a", "finished")]


def test_who_is_refused_comes_back_as_often_as_it_has_tries() -> None:
    patience = Patience(first_token_ns=1_000 * MS, retries=2, retry_ns=7 * MS)
    log = run(make, Settings(blocks=2), [client("big", 0, 400, 2, patience=patience)], Constant())
    assert [(r.id, r.arrived_ns, r.refused) for r in log.records.values()] == [
        (name, when * MS, "kv_blocks") for name, when in (("big", 0), ("big~1", 7), ("big~2", 14))
    ]


def impatient(work: list[Incoming], draw: st.DrawFn) -> list[Incoming]:
    waits = st.one_of(st.none(), st.integers(1, 400).map(lambda ms: ms * MS))
    patience = st.one_of(
        st.none(),
        st.builds(
            lambda wait, tries, pause: Patience(first_token_ns=wait * MS, retries=tries, retry_ns=pause * MS),
            st.integers(1, 200),
            st.integers(0, 3),
            st.integers(0, 50),
        ),
    )
    return [
        client(
            one.request.id,
            one.now_ns,
            one.request.prompt_tokens,
            one.output_tokens,
            cancel_after_ns=draw(waits),
            patience=draw(patience),
        )
        for one in work
    ]


@st.composite
def storms(draw: st.DrawFn) -> tuple[Settings, list[Incoming]]:
    plain = Settings(
        blocks=draw(st.integers(10, 30)),
        block_size=draw(st.sampled_from([1, 4, 16])),
        seats=draw(st.integers(1, 4)),
        token_budget=draw(st.sampled_from([3, 64])),
        policy=draw(st.sampled_from(["fcfs", "vtc"])),
        overlap_depth=draw(st.sampled_from([1, 1, 2])),
    )
    return plain, impatient(poisson(draw(st.integers(0, 99)), draw(st.integers(1, 8)), 20.0, 20, 30), draw)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(storms())
def test_storms_are_the_same_however_they_are_run(world: tuple[Settings, list[Incoming]]) -> None:
    plain, work = world
    expected = as_bytes(run(make, plain, work))
    assert as_bytes(run(optimized.make, plain, work)) == expected
    assert as_bytes(run(optimized.make, plain, work, fast_forward=False)) == expected


@settings(max_examples=40, deadline=None, derandomize=True)
@given(storms())
def test_tokens_add_up(world: tuple[Settings, list[Incoming]]) -> None:
    """Each that was run is useful or wasted, and each wasted one has one cause; nobody who left is unaccounted for."""
    log = run(make, *world)
    tokens = metrics(log)["tokens"]
    assert tokens["run"] == tokens["useful"] + tokens["wasted"] == log.run_tokens
    assert tokens["wasted"] == sum(tokens["wasted_by"].values())
    assert min(tokens["wasted_by"].values()) >= 0
    assert tokens["wasted_by"]["unfinished"] == 0
    assert all(record.refused or record.end in ("finished", "cancelled") for record in log.records.values())
    assert tokens["useful_outputs"] <= tokens["outputs"] == sum(len(r.token_ns) for r in log.records.values())
