"""Drafts: what a plan and an outcome may say of them, what is delivered, and what is owed."""

from random import Random
from typing import Any

import pytest
from attrs import evolve

from schedspec.conformance.driver import Driver
from schedspec.conformance.scenarios_of_neighbours import BUILDERS, DRAFTING
from schedspec.conformance.walks import walk
from schedspec.optimized.monitor import BulkMonitor
from schedspec.reference import make
from schedspec.reference.simulation import DEFAULT, PROFILES, Conditions, SimulationError, System, replay
from schedspec.spec.catalogue import registry
from schedspec.spec.encoding import encode
from schedspec.spec.errors import ProtocolError
from schedspec.spec.monitor import Monitor
from schedspec.spec.protocol import read_outcome, read_plan
from schedspec.spec.vocabulary import Capabilities, Door, Header, Message, Outcome, Plan, Pools, Receipt, Request

HEADER = Header(
    settings=evolve(DRAFTING, token_budget=4),
    capabilities=Capabilities(observes="tables", ordered=True, claims={"drafts", "hard_budget"}, lookahead_tokens=3),
)
ASKING = Request(id="a", prompt_ids=(1, 2), max_output_tokens=6)
FIRST = Plan(
    step=1, request=["a"], start=[0], tokens=[2], samples=[1], deltas=[("took", "a", [0, 1, 2]), ("admitted", "a", 0)]
)


def decoding(header: Header = HEADER) -> Monitor:
    """Of a request that has one token, and blocks for six positions."""
    monitor = Monitor(evolve(header, capabilities=evolve(header.capabilities, lookahead_tokens=4)))
    monitor.feed(Message("submit", 0, ASKING, Receipt(verdict="accepted")))
    monitor.feed(Message("step", 0, None, FIRST))
    outcome = Outcome(step=1, request=["a"], token=[7], stop=[False])
    assert monitor.feed(Message("complete", 0, outcome, [("delivered", ["a"], [7])])) == []
    return monitor


def planned(**changes: Any) -> Message:
    plan = Plan(step=2, request=["a"], start=[2], tokens=[1], samples=[1], drafts={"a": 2})
    return Message("step", 0, None, evolve(plan, **changes))


def result(accepted: list[list[int]], told: list[int], *, stop: bool = False) -> Message:
    outcome = Outcome(step=2, request=["a"], token=[8], stop=[stop], accepted=accepted)
    return Message("complete", 0, outcome, [("delivered", ["a"] * len(told), told)] if told else [])


def broken(monitor: Monitor, message: Message) -> set[str]:
    return {violation.conjunct for violation in monitor.feed(message)}


@pytest.mark.parametrize(
    ("changes", "conjunct"),
    [
        ({"drafts": {"a": 4}}, "STEP-6.most"),
        ({"drafts": {"a": 0}}, "STEP-6.most"),
        ({"drafts": {"b": 1}}, "STEP-6.stray"),
        ({"request": [], "start": [], "tokens": [], "samples": []}, "STEP-6.stray"),
        ({"step": 2}, None),
    ],
)
def test_drafts_are_few_and_of_somebody_in_the_step(changes: dict[str, Any], conjunct: str | None) -> None:
    found = broken(decoding(), planned(**changes))
    assert (conjunct in found) if conjunct else not found


def test_drafts_count_against_the_budget_and_need_blocks() -> None:
    small = evolve(HEADER, settings=evolve(HEADER.settings, token_budget=2))
    assert "STEP-1.drafts" in broken(decoding(small), planned())
    monitor = decoding()
    monitor.world.RequestId["a"].room = 4
    assert "KV-4.drafts" in broken(monitor, planned())


def test_a_prompt_has_no_drafts() -> None:
    monitor = Monitor(HEADER)
    monitor.feed(Message("submit", 0, ASKING, Receipt(verdict="accepted")))
    assert "STEP-6.prefill" in broken(monitor, Message("step", 0, None, evolve(FIRST, drafts={"a": 1})))


def test_whatever_was_right_is_delivered_in_order() -> None:
    def after(message: Message) -> set[str]:
        monitor = decoding()
        assert broken(monitor, planned()) == set()
        return broken(monitor, message)

    assert after(result([[9, 10]], [8, 9, 10])) == set()
    assert after(result([[]], [8])) == set()
    assert "LIFE-4.9" in after(result([[9, 10]], [8, 9]))  # one is lost
    assert "LIFE-4.2" in after(result([[9, 10]], [8, 10, 9]))  # not in order
    assert "LIFE-4.1" in after(result([[9]], [8, 9, 10]))  # one that nobody computed
    assert "LIFE-5.1" in after(result([[9]], [8, 9], stop=True))  # the last of them ends it


def test_the_next_entry_starts_behind_what_was_right() -> None:
    for start, conjuncts in ((4, set()), (3, {"STEP-4.1"}), (5, {"STEP-4.1"})):
        monitor = decoding()
        monitor.feed(planned())
        monitor.feed(result([[9]], [8, 9]))
        found = broken(monitor, Message("step", 0, None, third(start)))
        assert conjuncts <= found
        assert bool(found) == bool(conjuncts)


def third(start: int) -> Plan:
    return Plan(step=3, request=["a"], start=[start], tokens=[1], samples=[1])


def test_nobody_drafts_who_does_not_claim_it_and_no_outcome_has_more() -> None:
    plain = evolve(HEADER, capabilities=evolve(HEADER.capabilities, claims=frozenset()))
    with pytest.raises(ProtocolError, match="claim 'drafts'"):
        decoding(plain).feed(planned())
    monitor = decoding()
    monitor.feed(planned())
    with pytest.raises(ProtocolError, match="3 tokens of 'a', which has 2 drafts in step 2"):
        monitor.feed(result([[9, 10, 11]], [8]))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"overlap_depth": 2}, "draft_tokens is 3, but overlap_depth 2"),
        ({"door": Door(step_ns=1, token_ns=1)}, "draft_tokens is given with a time model"),
        ({"draft_tokens": -1}, "draft_tokens is -1, but must be an integer of at least 0"),
        (
            {"pools": Pools(decode_blocks=4, decode_seats=1, decode_token_budget=1, transfer_ns=1)},
            "draft_tokens is given with two pools",
        ),
    ],
)
def test_what_does_not_go_together_is_said(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        evolve(DRAFTING, **changes)


@pytest.mark.parametrize("wrong", [{"a": -1}, {"a": 1.5}, {"a": "1"}, {1: 1}, [["a", 1]]])
def test_drafts_that_are_none_are_refused(wrong: Any) -> None:
    with pytest.raises(ProtocolError, match="drafts"):
        read_plan({"step": 1, "drafts": wrong})


@pytest.mark.parametrize("wrong", [[[1], [2]], [1], [[-1]], "x"])
def test_accepted_tokens_that_are_none_are_refused(wrong: Any) -> None:
    with pytest.raises(ProtocolError, match="accepted"):
        read_outcome({"step": 1, "request": ["a"], "token": [1], "stop": [False], "accepted": wrong})


def test_lines_without_drafts_are_what_they_were() -> None:
    assert "drafts" not in encode(Plan(step=1))
    assert "accepted" not in encode(Outcome(step=1))
    assert read_plan({"step": 1, "drafts": {"a": 2}}).drafts == {"a": 2}


@pytest.mark.parametrize("seed", range(8))
def test_the_reference_drafts_and_both_monitors_agree(seed: int) -> None:
    """In walks, with drafts wherever they go with the rest."""
    drawn = walk(seed)
    if drawn.settings.pools.are_two or drawn.settings.door.has_time_model:
        return
    settings = evolve(drawn.settings, overlap_depth=1, disjoint_steps=False, draft_tokens=Random(seed).randint(1, 3))
    driver = Driver.start(make, settings, seed)
    driver.run(drawn.ops)
    driver.drain()
    assert [v for v in driver.broken if registry.rules[v.rule].level == "MUST"] == []
    bulk = BulkMonitor(driver.header, fewest=1)
    for message in driver.messages:
        bulk.feed(message)
    assert [v.conjunct for v in bulk.violations] == [v.conjunct for v in driver.monitor.violations]


def test_drafts_are_right_and_wrong() -> None:
    """The scenario has both, or it would show nothing."""
    build = next(build for build in BUILDERS if build.__name__ == "drafts_are_right_and_wrong")
    _, settings, ops = build()
    driver = Driver.start(make, settings, 0)
    driver.run(ops)
    drafts = sum(sum(m.answer.drafts.values()) for m in driver.messages if m.kind == "step")
    right = sum(len(tokens) for m in driver.messages if m.kind == "complete" for tokens in m.given.accepted)
    assert 0 < right < drafts


def test_the_tokens_are_those_of_a_run_without_drafts() -> None:
    told = []
    for drafts in (0, 1, 3):
        driver = Driver.start(make, evolve(DRAFTING, draft_tokens=drafts), 0)
        build = next(build for build in BUILDERS if build.__name__ == "drafts_are_right_and_wrong")
        driver.run(build()[2])
        driver.drain()
        told.append({id: list(track.tokens) for id, track in driver.monitor.tracks.items()})
    assert told[0] == told[1] == told[2]


def test_which_drafts_are_right_is_not_simulated() -> None:
    system = System("drafting", make, DRAFTING)
    with pytest.raises(SimulationError, match="draft_tokens is 3, but which drafts are right is not simulated"):
        replay(system, [], Conditions(profile=PROFILES[DEFAULT]))
