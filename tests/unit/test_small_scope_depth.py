"""Small scopes as a depth of a check: the same report, and no pass where time was up."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from schedspec.cli import cli
from schedspec.commands.exhaust import clean_cases
from schedspec.conformance.check import Check, exit_status, results, small_scope
from schedspec.conformance.examples.toy_scheduler import Scheduler as Toy
from schedspec.conformance.small_scope.cases import Case
from schedspec.conformance.small_scope.depth import SmallScope
from schedspec.reference import make
from schedspec.reference.faults import factory

TINY = Case(
    name="two come",
    says="one block of one token each",
    subject="reference",
    settings={"blocks": 2, "block_size": 1, "seats": 2, "token_budget": 2},
    kinds=[{"prompt": 1, "output": 1}],
    requests=2,
    clients=1,
    arrivals=2,
)


def new(subject: Any = make, *, seconds: float = 60.0, cases: Any = (TINY,), **options: Any) -> Check:
    return Check(name="it", factory=subject, seed=0, depth=small_scope(seconds), cases=cases, **options)


def test_all_of_a_scope_is_looked_at() -> None:
    check = new()
    findings = check.run()
    told = findings.searched
    assert told["whole"]
    assert told["states"] > 10
    assert told["cases"][0]["outcome"] == "exhausted"
    verdicts = results(findings)
    assert verdicts["KV-7"].verdict == "pass"
    assert verdicts["KV-7"].examples == findings.runs
    assert exit_status(findings) == 0
    assert findings.coverage.calls["submit: accepted", "step"]


def test_where_time_was_up_nothing_passes() -> None:
    check = new(seconds=0.0)
    findings = check.run()
    assert not findings.searched["whole"]
    assert "pass" not in {result.verdict for result in results(findings).values()}
    assert exit_status(findings) == 3


def test_what_breaks_is_shortened_and_explained() -> None:
    check = new(factory("KV-7"))
    findings = check.run()
    failure = findings.failures["KV-7"]
    assert failure.stage == "small scope: two come"
    assert failure.messages == 3
    assert exit_status(findings) == 1


def test_a_subject_that_cannot_be_copied_is_replayed_from_the_start() -> None:
    """The toy says nothing of its state, and refuses to give memory on demand."""
    check = new(Toy)
    SmallScope(check, [TINY], 60.0, calls=3).run()
    told = check.findings.searched
    assert told["cases"][0]["outcome"] == "all runs of 3 calls"
    assert told["runs"] > 5
    assert "reserve=on_demand" in check.findings.refused_settings
    assert results(check.findings)["STEP-1"].verdict == "pass"


def test_a_rule_alone(tmp_path: Path) -> None:
    check = new(factory("KV-7"), only=frozenset({"STEP-1"}))
    findings = check.run()
    assert not findings.broken
    assert set(results(findings)) == {"STEP-1"}


def test_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedspec.commands.check.clean_cases", lambda: [TINY])
    arguments = ["check", "reference", "--depth", "small-scope", "--report", str(tmp_path)]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert "small scopes: 1 case of 1" in result.output
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["searched"]["states"] > 10
    assert report["depth"] == "small-scope"


def test_cheap_cases_come_first() -> None:
    states = [case.states for case in clean_cases()]
    assert states == sorted(states)
    assert len(states) > 20
