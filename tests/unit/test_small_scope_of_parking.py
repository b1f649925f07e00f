"""Every transition of small scopes in which requests depend on something, judged; the second of two parts is run on
demand: SCHEDSPEC_LARGE_SCOPES=1 pytest tests/unit/test_small_scope_of_parking.py."""

import os
from typing import Any

import pytest

from schedspec.conformance.small_scope.graph import explore
from schedspec.conformance.small_scope.scope import Kind, Scope
from schedspec.conformance.small_scope.walk import Walked, walk
from schedspec.reference import make
from schedspec.reference.faults import FAULTS, KINDS
from schedspec.spec.vocabulary import Settings, SubjectFactory

TWO_NEEDS = Kind(1, 1, (("dependencies", ("grammar", "transfer")),))
CALLS = Kind(1, 2, pauses=(1,))
PLAIN = Kind(1, 2)
RULES = {"LIVE-4", "LIVE-5"}


def scope(*kinds: Kind, requests: int = 2, **settings: Any) -> Scope:
    pool: dict[str, Any] = {"blocks": 2, "block_size": 1, "seats": 1, "token_budget": 2, "park_timeout_ns": 10}
    return Scope(Settings(**(pool | settings)), kinds, requests, clients=1, cancels=True, stops=False)


def walked(factory: SubjectFactory, within: Scope) -> Walked:
    graph = explore(factory, within)
    assert not graph.cut_off
    return walk(factory, graph)


SCOPES = {
    "a tool": scope(CALLS, PLAIN),
    "two dependencies at the door": scope(TWO_NEEDS),
    "a lease": scope(CALLS, PLAIN, prefix_caching=True, hold_ns=10),
}
LARGE = {
    "overlap": scope(CALLS, overlap_depth=2),
    "two kinds": scope(CALLS, TWO_NEEDS, blocks=3, seats=2),
}
IS_LARGE = pytest.mark.skipif(not os.environ.get("SCHEDSPEC_LARGE_SCOPES"), reason="SCHEDSPEC_LARGE_SCOPES is not set")
CASES = [*SCOPES, *(pytest.param(name, marks=IS_LARGE) for name in LARGE)]


@pytest.mark.parametrize("name", CASES)
def test_the_reference_breaks_nothing_on_any_transition(name: str) -> None:
    found = walked(make, (SCOPES | LARGE)[name])
    assert not found.doubt
    assert set(found.broken) <= {"LIVE-11"}
    assert found.calls > 100


@pytest.mark.parametrize(
    ("rule", "fault", "within"),
    [
        ("LIVE-4", FAULTS["LIVE-4"], SCOPES["a tool"]),
        ("LIVE-4", KINDS["parked for ever after a failure"][1], SCOPES["a tool"]),
        ("LIVE-5", KINDS["one of two dependencies is enough"][1], SCOPES["two dependencies at the door"]),
        ("LIVE-5", KINDS["an answer that comes before the question is lost"][1], SCOPES["a tool"]),
        ("LIVE-6", FAULTS["LIVE-6"], scope(PLAIN, Kind(1, 3), seats=2, blocks=3)),
        ("LIVE-9", FAULTS["LIVE-9"], scope(PLAIN)),
    ],
)
def test_a_twin_is_refuted_by_a_shortest_run(rule: str, fault: SubjectFactory, within: Scope) -> None:
    found = walked(fault, within)
    assert rule in found.broken
    assert len(found.broken[rule]) <= 10
