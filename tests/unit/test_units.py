"""What a check, a parity run and a search say when their work is cut into units: the same as in one piece."""

from typing import Any

import pytest

from schedspec.commands.units import compare_part, exhaust_case, soak_part
from schedspec.conformance.check import Check, soak
from schedspec.conformance.coverage import Coverage
from schedspec.conformance.parity import Parity
from schedspec.conformance.parity_report import as_json
from schedspec.conformance.report import as_json as report_of
from schedspec.conformance.small_scope.cases import TRUSTED, Case, found_again, run_case
from schedspec.conformance.soak_parts import merge_parts
from schedspec.proofs import exhausted
from schedspec.reference import make
from schedspec.reference.faults import factory
from schedspec.reference.systems import vllm_v1
from schedspec.reference.systems.vllm_v1_wrong import WRONG

SAME: dict[str, Any] = {"seed": 0, "settings": [], "timeout_s": 10.0}


def test_parts_of_a_soak_are_counted_once_and_their_smallest_failure_is_kept() -> None:
    given = {**SAME, "subject": "fault:KV-8", "rules": ["KV-8", "STEP-2"]}
    parts = [soak_part({**given, "start": start, "end": start + 20}, lambda: None) for start in (40, 60)]
    check = Check(name="fault:KV-8", factory=factory("KV-8"), seed=0, depth=soak(1.0), only=frozenset(given["rules"]))
    merge_parts(check, parts)
    told = report_of(check)
    assert told["runs"] == sum(part["runs"] for part in parts)
    for rule in ("KV-8", "STEP-2"):
        assert told["rules"][rule]["exercised"] == sum(part["exercised"].get(rule, 0) for part in parts)
    assert (told["rules"]["KV-8"]["verdict"], told["exit_status"]) == ("fail", 1)
    smallest = min(tuple(part["examples"]["KV-8"]["size"]) for part in parts if part["examples"])
    assert check.findings.sizes["KV-8"] == smallest
    assert check.findings.failures["KV-8"].messages < 20


def compared(model: str, seeds: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """In one piece, and in parts."""
    wrong = f"vllm-v1-wrong:{model}" if model else "vllm-v1"
    subject = WRONG[model] if model else vllm_v1.make
    whole, merged = (Parity(subject, vllm_v1.make, seeds, 0, {"prefix_caching": False}) for _ in range(2))
    whole.run()
    given = {**SAME, "subject": wrong, "model": "vllm-v1", "seeds": seeds, "settings": ["prefix_caching=false"]}
    parts = [compare_part({**given, "name": n, "start": s, "end": e}, lambda: None) for n, s, e in merged.parts()]
    merged.merge(parts)
    told = [as_json(run, wrong, "vllm-v1") for run in (whole, merged)]
    for one in told:
        del one["seconds"]
    return told[0], told[1]


def test_parts_of_a_parity_run_say_the_same_as_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedspec.conformance.parity.PER_PART", 2)
    whole, merged = compared("", 3)
    assert merged == whole
    assert merged["equal"]


def test_the_first_difference_is_the_first_of_the_parts() -> None:
    whole, merged = compared(next(iter(WRONG)), 2)
    assert merged == whole


def test_a_case_that_was_looked_at_elsewhere_is_the_same() -> None:
    plain = next(case for case in exhausted.read() if case["name"] == "preempted for nothing")
    given = {"case": plain, "manner": {"timeout_s": None, "calls": 5}}
    beats: list[None] = []
    here = run_case(Case(**plain), factory_of(plain["subject"]), TRUSTED)
    there = exhaust_case(given, lambda: beats.append(None))
    assert beats, "whoever is silent for long is taken for hung"
    found = found_again(there)
    assert found.case.plain | {"seconds": 0} == here.case.plain | {"seconds": 0}
    assert found.stories == {name: list(lines) for name, lines in here.stories.items()}


def factory_of(name: str) -> Any:
    from schedspec.commands.subjects import builtin_subjects

    return builtin_subjects()[name] if name != "reference" else make


def test_claims_that_were_seen_as_often_are_told_by_name() -> None:
    """Sets of names come in another order in each process, and a report is the same wherever parts were made."""
    told = []
    for names in (("watermark", "fcfs", "early"), ("early", "watermark", "fcfs")):
        coverage = Coverage()
        coverage.claims.update(dict.fromkeys(names, 1) | {"break": 2})
        assert list(coverage.claims.most_common(1)) == [("break", 2)]
        told.append(list(coverage.as_json({}, {})["claims"]))
    assert told == [["break", "early", "fcfs", "watermark"]] * 2
