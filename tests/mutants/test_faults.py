"""Every seeded fault turns its rule red, and beyond it only what was declared; the clean reference breaks no MUST."""

import sys

import pytest

from schedspec.conformance.check import Check, Depth, Findings, results
from schedspec.reference import make
from schedspec.reference.faults import FAULTS, factory
from schedspec.spec.catalogue import registry

DEPTH = Depth(name="until found", search_s=40.0, workload_s=0.0, shrink_s=4.0, examples=3_000)
LONGEST_TRACE = 20
ALSO_BROKEN_BY_THE_REFERENCE = {"LIVE-11"}
"""A SHOULD: stopping at a blocked head is what the settings ask for."""


def judged(rule: str, seed: int) -> Findings:
    check = Check(
        name=f"fault:{rule}",
        factory=factory(rule),
        seed=seed,
        depth=DEPTH,
        rerun=[sys.executable, "-m", "schedspec", "rerun", f"fault:{rule}"],
        stop_at=rule,
    )
    if registry.rules[rule].form == "run":
        check.depth = Depth(name="few runs", search_s=4.0, workload_s=0.0, shrink_s=5.0, examples=50)
    return check.run()


def test_every_rule_has_a_fault() -> None:
    """Those of an engine are in tests/kernels."""
    assert set(FAULTS) == {rule.id for rule in registry.rules.values() if "engine" not in rule.binding.claims}


@pytest.mark.parametrize("rule", FAULTS)
def test_fault_is_caught_by_its_rule(rule: str) -> None:
    findings = judged(rule, seed=0)
    assert not findings.faults, f"void: {findings.faults[0]}"
    assert results(findings)[rule].verdict == "fail"
    beyond = findings.broken - registry.closure(rule) - ALSO_BROKEN_BY_THE_REFERENCE
    assert not beyond, f"{sorted(beyond)} broke too, which no edge declares"
    messages = results(findings)[rule].messages
    assert messages is not None
    assert messages <= LONGEST_TRACE


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.deep)])
def test_the_clean_reference_breaks_no_must(seed: int) -> None:
    depth = Depth(name="clean", search_s=12.0, workload_s=0.0, shrink_s=1.0, examples=500)
    findings = Check(name="reference", factory=make, seed=seed, depth=depth).run()
    assert {rule for rule in findings.broken if registry.rules[rule].level == "MUST"} == set()


@pytest.mark.parametrize(("at_blocked_head", "broken"), [("break", {"LIVE-11"}), ("skip", set())])
def test_break_at_the_head_is_the_only_advice(at_blocked_head: str, broken: set[str]) -> None:
    depth = Depth(name="advice", search_s=6.0, workload_s=0.0, shrink_s=1.0, examples=200)
    pinned = {"at_blocked_head": at_blocked_head, "admission_period_steps": 1}  # a period keeps what fits waiting, too
    findings = Check(name="reference", factory=make, seed=3, depth=depth, pinned=pinned).run()
    assert findings.broken == broken
    assert results(findings)["LIVE-11"].exercised > 0
