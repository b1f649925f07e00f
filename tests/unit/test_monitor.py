"""The monitor on hand-written messages: each says what a scheduler did, and which conjunct must fail."""

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve

from schedspec.spec.errors import ProtocolError
from schedspec.spec.monitor import Monitor, canonical
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
)

SETTINGS = Settings(blocks=4, block_size=2, seats=2, token_budget=8)
SHOWS_ALL = Capabilities(observes="tables", ordered=True, claims=frozenset({"hard_budget", "newest_first", "break"}))


def monitor(settings: Settings = SETTINGS, capabilities: Capabilities = SHOWS_ALL) -> Monitor:
    return Monitor(Header(settings=settings, capabilities=capabilities))


def submit(id: str, prompt: int = 2, output: int = 2) -> Message:
    request = Request(id=id, prompt_ids=range(prompt), max_output_tokens=output)
    return Message("submit", 0, request, Receipt(verdict="accepted"))


def step(number: int, rows: Sequence[tuple[str, int, int, int]] = (), deltas: Sequence[Delta] = ()) -> Message:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    request, start, tokens, samples = columns
    plan = Plan(step=number, request=request, start=start, tokens=tokens, samples=samples, deltas=deltas)
    return Message("step", 0, None, plan)


def complete(number: int, rows: Sequence[tuple[str, int, bool]] = (), deltas: Sequence[Delta] = ()) -> Message:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    return Message("complete", 0, Outcome(step=number, request=columns[0], token=columns[1], stop=columns[2]), deltas)


ADMIT_A: list[Delta] = [("took", "a", [0]), ("admitted", "a", 0)]
GOOD = [
    submit("a"),
    step(1, [("a", 0, 2, 1)], ADMIT_A),
    complete(1, [("a", 77, False)], [("delivered", ["a"], [77])]),
    step(2, [("a", 2, 1, 1)], [("took", "a", [1])]),
    complete(2, [("a", 78, False)], [("delivered", ["a"], [78]), ("gave", "a", [1, 0]), ("finished", "a", "length")]),
]


def feed(messages: Sequence[Message], m: Monitor | None = None) -> list[str]:
    m = m or monitor()
    for message in messages:
        m.feed(message)
    return [violation.conjunct for violation in m.violations]


def test_a_good_run_breaks_nothing() -> None:
    m = monitor()
    assert feed(GOOD, m) == []
    assert m.exercised()["LIFE-4"] == 2
    assert m.exercised()["PRE-1"] == 0


def changed(place: int, **changes: Any) -> list[Message]:
    """The good run up to one message, with that one's plan or deltas changed."""
    message = GOOD[place]
    if isinstance(message.answer, Plan):
        return [*GOOD[:place], evolve(message, answer=evolve(message.answer, **changes))]
    return [*GOOD[:place], evolve(message, answer=changes["deltas"])]


@pytest.mark.parametrize(
    ("messages", "rule"),
    [
        (changed(1, start=[1], tokens=[1]), "STEP-4"),
        (changed(1, samples=[0]), "STEP-6"),
        (changed(1, deltas=[("admitted", "a", 0)]), "KV-4"),
        (changed(1, deltas=[("took", "a", [0, 1]), ("admitted", "a", 0)]), "KV-5"),
        (changed(1, deltas=[("took", "a", [0])]), "KV-16"),
        (changed(1, deltas=[("took", "a", [9]), ("admitted", "a", 0)]), "KV-1"),
        (changed(2, deltas=[]), "LIFE-4"),
        (changed(2, deltas=[("delivered", ["a"], [76])]), "LIFE-4"),
        (changed(2, deltas=[("delivered", ["a", "a"], [77, 77])]), "LIFE-4"),
        (changed(3, tokens=[2]), "STEP-6"),
        (changed(4, deltas=[("delivered", ["a"], [78]), ("gave", "a", [1, 0])]), "LIFE-5"),
        (changed(4, deltas=[("delivered", ["a"], [78]), ("finished", "a", "length")]), "KV-7"),
        (changed(4, deltas=[*GOOD[4].answer, ("gave", "a", [0])]), "KV-8"),
        (changed(4, deltas=[*GOOD[4].answer, ("cancelled", "a")]), "LIFE-3"),
        ([*GOOD, complete(2, [("a", 78, False)], [("delivered", ["a"], [78])])], "LIFE-7"),
        ([submit("a", prompt=9)], "ADMIT-1"),
        ([submit("a"), step(1)], "LIVE-1"),
    ],
)
def test_one_change_breaks_its_rule(messages: list[Message], rule: str) -> None:
    assert rule in {conjunct.rpartition(".")[0] for conjunct in feed(messages)}


def test_a_repeated_result_may_change_nothing() -> None:
    assert feed([*GOOD, complete(2, [("a", 78, False)])]) == []


def test_the_level_decides_what_binds() -> None:
    decisions = evolve(SHOWS_ALL, observes="decisions")
    without_blocks = [step(1, [("a", 0, 2, 1)], [("admitted", "a", 0)])]
    m = monitor(capabilities=decisions)
    assert feed([submit("a"), *without_blocks], m) == []
    assert not m.binds("KV-4")
    assert m.exercised()["KV-4"] == 0


def test_an_unknown_request_breaks_the_protocol() -> None:
    with pytest.raises(ProtocolError, match="'ghost', but was never submitted"):
        feed([step(1, [("ghost", 0, 1, 0)])])


def test_time_may_stand_still_and_never_goes_back() -> None:
    m = monitor()
    m.feed(evolve(submit("a"), now_ns=7))
    m.feed(evolve(submit("b"), now_ns=7))
    with pytest.raises(ProtocolError, match="goes back from 7"):
        m.feed(submit("c"))


def snapshot(**changes: Any) -> Message:
    """What an honest scheduler shows after the first step of the good run."""
    shown = Observation(
        counters={"running": 1, "waiting": 0, "free_blocks": 3},
        requests={"a": RequestView(state="running", issued=2, computed=0, outputs=0, in_flight=1)},
        tables={"a": [0]},
        free=[3, 2, 1],
        ref_counts={0: 1},
    )
    return Message("observe", 0, None, evolve(shown, **changes))


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({}, None),
        ({"counters": {"running": 0}}, "OBS-3"),
        ({"tables": {"a": [1]}, "free": [3, 2, 0], "ref_counts": {1: 1}}, "KV-6"),
        ({"free": [3, 2]}, "KV-1"),
        ({"free": [3, 2, 1, 1]}, "KV-8"),
        ({"ref_counts": {0: 2}}, "KV-3"),
        ({"index": [0]}, "KV-14"),
    ],
)
def test_an_undeclared_change_shows_in_a_snapshot(changes: dict[str, Any], rule: str | None) -> None:
    claims = SHOWS_ALL.claims | {"prefix_cache", "overlap"}
    m = monitor(capabilities=evolve(SHOWS_ALL, claims=claims))
    broken = {conjunct.rpartition(".")[0] for conjunct in feed([*GOOD[:2], snapshot(**changes)], m)}
    assert (rule in broken) if rule else not broken


def test_what_was_shown_once_must_be_shown_always() -> None:
    """A subject that never shows requests is not judged by them; one that stops showing somebody has lost him."""
    assert feed([*GOOD[:2], snapshot(requests={})]) == []
    assert feed([*GOOD[:2], snapshot(), snapshot(requests={})]) == ["LIFE-1.lost"]


def test_a_block_may_be_indexed_before_it_is_computed_and_must_be_by_then() -> None:
    capabilities = evolve(SHOWS_ALL, claims=SHOWS_ALL.claims | {"prefix_cache"})
    early: list[Delta] = [("took", "a", [0]), ("admitted", "a", 0), ("indexed", "a", [0])]
    done = complete(1, [("a", 77, False)], [("delivered", ["a"], [77])])
    good = [submit("a"), step(1, [("a", 0, 2, 1)], early), done]
    assert feed(good, monitor(capabilities=capabilities)) == []
    half = [submit("a"), step(1, [("a", 0, 1, 0)], early), complete(1)]
    assert feed(half, monitor(capabilities=capabilities)) == ["KV-14.content"]


def test_the_shadow_sees_a_read_of_nothing() -> None:
    """The first token is taken for cached: accounts are in order, and the read is wrong."""
    messages = [
        submit("a"),
        step(1, [("a", 1, 1, 1)], [("took", "a", [0]), ("admitted", "a", 1)]),
        complete(1, [("a", 5, False)], [("delivered", ["a"], [5])]),
    ]
    assert feed(messages) == ["KV-12.read"]


def test_canonical_order_puts_blocks_before_their_owner_moves() -> None:
    jumbled: list[Delta] = [
        ("admitted", "c", 0),
        ("took", "a", [7]),
        ("took", "c", [8]),
        ("preempted", "b", "recompute", "a"),
        ("unindexed", [7]),
        ("gave", "b", [7, 8]),
    ]
    assert [delta[0] for delta in canonical(jumbled)] == [
        "gave",
        "preempted",
        "unindexed",
        "took",
        "took",
        "admitted",
    ]


def test_deltas_of_two_pools_are_refused_where_there_is_one_and_no_order() -> None:
    deltas: list[Delta] = [("pulled", "a", [1], 1), ("released", "a", [1])]
    m = monitor(capabilities=evolve(SHOWS_ALL, ordered=False))
    m.feed(submit("a"))
    with pytest.raises(ProtocolError, match="there is one pool only: claim two_pools"):
        m.feed(Message("cancel", 0, "a", deltas))


def test_ended_requests_are_forgotten_after_the_horizon() -> None:
    m = Monitor(Header(settings=SETTINGS, capabilities=SHOWS_ALL), horizon=3)
    for number in range(20):
        name = f"r{number}"
        messages = [
            evolve(GOOD[0], given=evolve(GOOD[0].given, id=name, max_output_tokens=1)),
            step(number + 1, [(name, 0, 2, 1)], [("took", name, [0]), ("admitted", name, 0)]),
            complete(
                number + 1,
                [(name, 5, False)],
                [("delivered", [name], [5]), ("gave", name, [0]), ("finished", name, "length")],
            ),
        ]
        for message in messages:
            m.feed(message)
    assert m.violations == []
    assert len(m.tracks) <= 4
    assert len(m.world.RequestId) <= 4


def test_blocks_that_came_and_went_in_one_call_leave_no_trace() -> None:
    """A victim may have grown in the step that preempts it, as in vLLM's priority policy."""
    m = monitor()
    feed(GOOD[:3], m)
    deltas: list[Delta] = [("took", "a", [1]), ("gave", "a", [1, 0]), ("preempted", "a", "recompute", None)]
    assert not [conjunct for conjunct in feed([step(2, [], deltas)], m) if conjunct.startswith("KV-16")]


@pytest.mark.parametrize(("result_came", "broken"), [(False, False), (True, True)])
def test_a_victim_may_be_passed_while_its_result_is_under_way(result_came: bool, broken: bool) -> None:
    claims = frozenset({"fcfs", "break", "overlap"})
    m = monitor(evolve(SETTINGS, overlap_depth=2), evolve(SHOWS_ALL, claims=claims))
    out: list[Delta] = [("gave", "a", [0]), ("preempted", "a", "recompute", None)]
    feed([submit("a", output=5), submit("b"), step(1, [("a", 0, 2, 1)], ADMIT_A), step(2, [], out)], m)
    if result_came:
        feed([complete(1, [("a", 77, False)], [("delivered", ["a"], [77])])], m)
    passes: list[Delta] = [("took", "b", [1]), ("admitted", "b", 0)]
    assert ("LANE-4.overtaken" in feed([step(3, [("b", 0, 2, 1)], passes)], m)) == broken
