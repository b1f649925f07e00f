"""The soak: a run is its number and the seed, what fails is kept at once, and the search goes on after it."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner

from schedspec.cli import cli
from schedspec.conformance import soak
from schedspec.conformance.check import Check, Depth, Failure, Findings
from schedspec.conformance.crowds import LARGE, MEDIUM, crowd
from schedspec.conformance.driver import Driver, replay
from schedspec.conformance.report import write_report
from schedspec.conformance.script import STEP, Script, cancel, rounds, submit
from schedspec.conformance.soak import KINDS, PERIOD, Soak, kind_of, script_of
from schedspec.reference import make
from schedspec.reference.faults import factory
from schedspec.reference.faults.steps import OverfillsTheSeats
from schedspec.spec.catalogue import registry
from schedspec.spec.vocabulary import Delta, Settings

SOAK = Depth(name="soak", search_s=0.0, workload_s=0.0, shrink_s=0.2, examples=0, reruns=False)


def new(name: str = "reference", **options: Any) -> Check:
    subject = make if name == "reference" else factory(name)
    return Check(name=name, factory=subject, seed=3, depth=SOAK, **options)


def test_every_kind_of_run_comes_round() -> None:
    assert {kind_of(number) for number in range(PERIOD)} == set(KINDS)
    assert kind_of(0) == "tiny"


def test_a_run_is_its_number_and_the_seed() -> None:
    for number in (0, 5, PERIOD - 1):
        assert script_of(3, number, ()) == script_of(3, number, ())
        assert script_of(3, number, ()) != script_of(4, number, ())
    scripts = [script_of(3, number, ()) for number in (0, 1, 2)]
    assert scripts[0] != scripts[1] != scripts[2]


def test_worlds_of_a_size_have_it() -> None:
    medium, large = crowd(1, MEDIUM), crowd(1, LARGE)
    assert medium.settings.seats in MEDIUM.seats
    assert large.settings.seats in LARGE.seats
    assert len(large.ops) > len(medium.ops) > 20


@pytest.mark.deep
def test_the_reference_breaks_no_must_in_medium_worlds() -> None:
    for seed in range(3):
        script = crowd(seed, MEDIUM)
        driver = Driver.start(make, script.settings, 0, keep_messages=False)
        driver.run(script.ops)
        driver.drain()
        assert not driver.broken, f"crowd {seed}: {driver.broken[0]}"
        assert driver.ear.pairs > driver.ear.steps / 2


def test_a_run_alone_is_the_run_that_it_was() -> None:
    """Of the run that failed first, without those before it."""
    check = new("KV-7")
    there = Soak(check)
    for number in range(6):
        there.run_one(number)
    number = there.first["KV-7.1"]
    alone = Soak(new("KV-7"))
    alone.run_alone(number)
    assert alone.failed["KV-7.1"] == 1
    before = Soak(new("KV-7"))
    before.run_alone(number - 1)
    assert not before.failed["KV-7.1"]


@pytest.mark.deep
def test_what_fails_is_kept_once_and_counted_often() -> None:
    kept: list[Failure] = []
    there = Soak(new("KV-7", keep=kept.append))
    for number in range(12):
        there.run_one(number)
    assert [failure.rule for failure in kept].count("KV-7") == 1
    assert there.failed["KV-7.1"] > 1
    assert kept[0].run is not None


def test_a_rule_that_ends_run_after_run_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "RUNS_UNTIL_PASSED_OVER", 1)
    monkeypatch.setattr(soak, "SHRINK_BEHIND_S", 0.2)
    check = new("KV-7")
    check.depth = evolve(SOAK, shrink_s=0.1)
    there = Soak(check)
    for number in range(12):
        there.run_one(number)
    assert "KV-7" in there.as_json()["passed_over"]
    assert there._passed_over(12) >= registry.closure("KV-7")
    assert not there._passed_over(13)
    assert check.findings.broken <= {"KV-7", "LIVE-11"}, "what follows from a leak is no news"


class TwoFaults(OverfillsTheSeats):
    """Its cancel leaks as well, which ends nearly every run before anything else is seen."""

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        if job := self.state.jobs.get(request_id):
            job.table = []
        return super().cancel(request_id, now_ns)


def test_what_breaks_behind_a_broken_rule_counts_if_it_breaks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "SHRINK_BEHIND_S", 0.3)
    ops = [submit("a", 1, 3), STEP, cancel("a"), submit("b", 3, 2), submit("c", 3, 2), *rounds(4)]
    check = Check(name="two", factory=TwoFaults, seed=0, depth=SOAK)
    settings = Settings(blocks=16, block_size=2, seats=1)
    behind = frozenset({"KV-1", "KV-3", "KV-6", "KV-7"})  # those that it finds to follow, and the one that often breaks
    first, past = (replay(TwoFaults, Script(settings, 0, ops), ignored=i) for i in (frozenset(), behind))
    assert {violation.rule for violation in first.broken} == {"KV-7"}
    assert past.went_past
    assert {violation.rule for violation in past.broken} == {"STEP-2"}
    there = Soak(check)
    for _ in range(3):
        there._look_behind(
            replay(TwoFaults, Script(settings, 0, ops), ignored=frozenset({"KV-7"})), frozenset({"KV-7"})
        )
    assert check.findings.broken == set(), "what follows from a leak is no news"
    there.ended["KV-7"] = soak.RUNS_UNTIL_PASSED_OVER
    assert there._passed_over(0) == behind
    there._look_behind(past, behind)
    assert check.findings.broken == {"STEP-2"}
    assert all(op.kind != "cancel" for op in check.findings.examples_of["STEP-2"].script.ops)


def test_an_interrupt_keeps_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what there was no time to shorten."""
    check = new("KV-7")

    def interrupted(self: Soak, seconds: float) -> None:
        monkeypatch.setattr(Check, "shorten_new", lambda self: None)
        for number in range(6):
            self.run_one(number)
        raise KeyboardInterrupt

    monkeypatch.setattr(Check, "run_scenarios", lambda self: None)
    monkeypatch.setattr(Soak, "run", interrupted)
    findings: Findings = check.run()
    assert findings.interrupted
    write_report(tmp_path, check)
    assert (tmp_path / "failures" / "KV-7.json").exists()
    assert "KV-7" in (tmp_path / "failures" / "KV-7.md").read_text()


def test_a_number_without_a_soak_is_bad_input() -> None:
    result = CliRunner().invoke(cli, ["check", "reference", "--run", "3"])
    assert result.exit_code == 2
    assert "--depth soak" in result.output


def test_one_run_from_the_command_line(tmp_path: Path) -> None:
    arguments = ["check", "reference", "--depth", "soak", "--run", "5", "--workload", "none", "--json"]
    result = CliRunner().invoke(cli, [*arguments, "--report", str(tmp_path)])
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    assert told["runs"] == 1
    assert told["searched"]["sizes"]["medium"]["runs"] == 1
    covered = told["covered"]
    assert covered["pairs"] == told["searched"]["pairs"] > 0
    assert covered["settings"]["seats"]
    assert covered["calls"]["the beginning"]


def test_sigterm_leaves_a_report(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "schedspec", "check", "reference", "--depth", "soak", "--seconds", "60"]
    command += ["--workload", "none", "--report", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "failures").exists() and process.poll() is None:
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert json.loads((tmp_path / "report.json").read_text())["interrupted"]


def test_what_was_never_seen_has_a_reason() -> None:
    check = new()
    check.run_script(script_of(3, 0, ()), "walk")
    exercised = {rule: check.findings.exercised[rule] for rule in check.findings.bound}
    unmet = {one.rule: one for one in check.findings.coverage.unmet(exercised, {})}
    assert unmet
    assert all(one.condition for one in unmet.values())
    assert any("scenario" in one.hint for one in unmet.values())


def test_settings_with_many_values_take_little_room() -> None:
    findings = Findings()
    for blocks in range(2, 90):
        findings.coverage._count_value("blocks", Settings(blocks=blocks).blocks)
    assert len(findings.coverage.settings["blocks"]) == 41
    assert findings.coverage.settings["blocks"]["others"] == 48
