"""The loop that people draw on a board: the suite names each of its faults, and has nothing against it without them."""

import pytest

from schedspec.conformance.check import Check, Depth, Findings, results
from schedspec.reference.systems.sketch import FAULTS, subjects
from schedspec.spec.catalogue import registry

NAMED_BY = {
    "victim-stays": "STEP-5",
    "never-joins": "STEP-8",
    "prefill-as-decode": "STEP-6",
    "back-at-once": "STEP-7",
    "watermark-idles": "LIVE-1",
    "charged-at-admission": "FAIR-2",
    "never-lifted": "FAIR-3",
    "local-free": "KV-2",
}
"""Fault -> the rule that says in its own sentence what is wrong."""

SHOWN_TOGETHER = {"never-joins", "watermark-idles", "charged-at-admission", "never-lifted", "local-free"}
"""Where nobody who was admitted is seen again, nobody is a victim and no prompt goes on: three faults cannot show."""


def judged(name: str, rule: str, **options: object) -> Findings:
    depth = Depth(name="until found", search_s=10.0, workload_s=0.0, shrink_s=2.0, examples=300)
    return Check(name=name, factory=subjects()[name], seed=0, depth=depth, stop_at=rule, **options).run()  # type: ignore[arg-type]


def test_every_fault_has_a_rule_that_names_it() -> None:
    assert set(NAMED_BY) == set(FAULTS)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_suite_names_the_fault(fault: str) -> None:
    findings = judged(f"sketch:{fault}", NAMED_BY[fault])
    assert not findings.faults, f"void: {findings.faults[0]}"
    assert results(findings)[NAMED_BY[fault]].verdict == "fail"


@pytest.mark.parametrize("fault", sorted(SHOWN_TOGETHER))
def test_a_fault_is_named_among_all_the_others(fault: str) -> None:
    """One rule at a time: a run ends at the first break of those that are asked about."""
    rule = NAMED_BY[fault]
    assert results(judged("sketch", rule, only=frozenset({rule})))[rule].verdict == "fail"


def test_the_mended_sketch_breaks_no_must() -> None:
    depth = Depth(name="clean", search_s=6.0, workload_s=0.0, shrink_s=1.0, examples=200)
    findings = Check(name="sketch:mended", factory=subjects()["sketch:mended"], seed=1, depth=depth).run()
    assert not findings.faults
    assert {rule for rule in findings.broken if registry.rules[rule].level == "MUST"} == set()
