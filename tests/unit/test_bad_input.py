"""Bad input: one clear sentence that names message, field and value, exit status 2, and what was seen is kept."""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner, Result

from schedspec.cli import cli
from schedspec.conformance.driver import replay
from schedspec.conformance.script import Script, cancel, rounds, submit
from schedspec.reference import Scheduler
from schedspec.reference.faults import factory
from schedspec.reference.job import Job
from schedspec.spec.trace import TraceWriter
from schedspec.spec.vocabulary import Delta, Plan, Settings


class Raises(Scheduler):
    def step(self, now_ns: int) -> Plan:
        if self.state.step == 2:
            raise KeyError("no such block")
        return super().step(now_ns)


class Hangs(Scheduler):
    def step(self, now_ns: int) -> Plan:
        if self.state.step == 2:
            time.sleep(30)
        return super().step(now_ns)


class Exits(Scheduler):
    def step(self, now_ns: int) -> Plan:
        sys.exit(3)


class _Plans(Scheduler):
    """Adds one row to each plan."""

    ended: Sequence[str] = ()

    def end(self, job: Job, event: Delta) -> None:
        self.ended = (*self.ended, job.id)
        super().end(job, event)

    def row(self, plan: Plan) -> tuple[str, Any, Any, int] | None:
        raise NotImplementedError

    def step(self, now_ns: int) -> Plan:
        plan = super().step(now_ns)
        row = self.row(plan)
        if row is None:
            return plan
        request, start, tokens, samples = row
        return evolve(
            plan,
            request=[*plan.request, request],
            start=[*plan.start, start],
            tokens=[*plan.tokens, tokens],
            samples=[*plan.samples, samples],
        )


class PlansUnknown(_Plans):
    def row(self, plan: Plan) -> tuple[str, Any, Any, int]:
        return "ghost", 0, 1, 0


class PlansFinished(_Plans):
    def row(self, plan: Plan) -> tuple[str, Any, Any, int] | None:
        return (self.ended[-1], 0, 1, 0) if self.ended else None


class PlansTwice(_Plans):
    def row(self, plan: Plan) -> tuple[str, Any, Any, int] | None:
        return (plan.request[0], plan.start[0], plan.tokens[0], plan.samples[0]) if plan.request else None


class PlansNegative(_Plans):
    def row(self, plan: Plan) -> tuple[str, Any, Any, int] | None:
        return (plan.request[0], 0, -1, 0) if plan.request else None


class PlansFloats(_Plans):
    def row(self, plan: Plan) -> tuple[str, Any, Any, int] | None:
        return (plan.request[0], 0, 1.5, 0) if plan.request else None


class AnswersNothing(Scheduler):
    def cancel(self, request_id: str, now_ns: int) -> Any:
        super().cancel(request_id, now_ns)


class CannotBeMade:
    def __init__(self, settings: Settings, seed: int) -> None:
        raise RuntimeError("no GPU here")


def check(tmp_path: Path, name: str, *more: str) -> tuple[Result, dict[str, Any]]:
    folder = tmp_path / "report"
    arguments = ["check", name, "--workload", "none", "--timeout-s", "0.3", "--report", str(folder), "--json", *more]
    result = CliRunner().invoke(cli, arguments)
    report = folder / "report.json"
    return result, json.loads(report.read_text()) if report.exists() else {}


@pytest.mark.parametrize(
    ("subject", "sentence"),
    [
        (Raises, "step raised KeyError: 'no such block'"),
        (Hangs, "step gave no answer within 0.3 s"),
        (Exits, "step raised SystemExit: 3"),
        (PlansUnknown, "step: plan.request is 'ghost', but was never submitted"),
        (PlansFinished, "has ended: the plan must not name it any more"),
        (PlansTwice, "but the plan lists request"),
        (PlansNegative, "is -1, but must be an integer of at least 0"),
        (PlansFloats, "is 1.5, but must be an integer"),
        (AnswersNothing, "cancel: deltas is None"),
    ],
)
def test_a_broken_adapter_is_void_with_one_sentence(subject: type, sentence: str, tmp_path: Path) -> None:
    result, report = check(tmp_path, f"{__name__}:{subject.__name__}")
    assert result.exit_code == 2
    assert any(sentence in fault for fault in report["faults"]), report["faults"]
    assert all("\n" not in fault for fault in report["faults"])
    assert "Traceback" not in result.output
    assert (tmp_path / "report" / "failures" / "void.jsonl").exists()


@pytest.mark.parametrize(("subject", "rule"), [(PlansFinished, "STEP-5"), (PlansTwice, "STEP-3")])
def test_what_also_breaks_a_rule_is_red(subject: type, rule: str, tmp_path: Path) -> None:
    _, report = check(tmp_path, f"{__name__}:{subject.__name__}")
    assert report["rules"][rule]["verdict"] == "fail"


def test_what_was_judged_before_is_kept(tmp_path: Path) -> None:
    _, report = check(tmp_path, f"{__name__}:PlansFinished")
    assert report["rules"]["LIFE-2"]["exercised"] > 0


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("no_such_module:make", "there is no module 'no_such_module'"),
        ("json:make", "json has no attribute 'make'"),
        ("referense", "did you mean 'reference'?"),
        ("fault:KV-99", "there is no subject 'fault:KV-99'"),
        ("exec:./no-such-program", "no-such-program"),
        (f"{__name__}:CannotBeMade", "configure raised RuntimeError: no GPU here"),
    ],
)
def test_a_subject_that_cannot_be_had(name: str, sentence: str, tmp_path: Path) -> None:
    result, _ = check(tmp_path, name)
    assert result.exit_code == 2
    assert sentence in " ".join(result.output.split()), result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--setting", "blocks=many"], "setting blocks is 'many', but must be an integer"),
        (["--setting", "bloks=3"], "'bloks=3' is no setting"),
        (["--setting", "blocks=0"], "blocks is 0, but must be an integer of at least 1"),
        (["--rule", "KV-77"], "there is no rule 'KV-77'"),
        (["--workload", "azur:x"], "did you mean"),
        (["--workload", "azure:no-such-file.csv"], "no-such-file.csv"),
        (["--workload", "azure", "--rate", "0"], "rate is 0, but must be greater than 0"),
    ],
)
def test_wrong_arguments(arguments: list[str], sentence: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "report")
    result = CliRunner().invoke(cli, ["check", "reference", "--report", folder, "--workload", "none", *arguments])
    assert result.exit_code == 2
    assert sentence in " ".join(result.output.split()), result.output


def test_settings_report_all_faults_at_once() -> None:
    with pytest.raises(ValueError, match=r"blocks is 0.*seats is -1.*policy is 'lifo'"):
        Settings(blocks=0, seats=-1, policy="lifo")  # type: ignore[arg-type]


# --- traces ----------------------------------------------------------------------------------------------------


@pytest.fixture
def lines(tmp_path: Path) -> list[str]:
    """A good trace, of a bad scheduler."""
    ops = [submit("a", 3, 2), *rounds(1), cancel("a")]
    driver = replay(factory("KV-7"), Script(Settings(blocks=4, block_size=2), 0, ops))
    file = tmp_path / "good.jsonl"
    with file.open("w") as stream:
        writer = TraceWriter(stream, driver.header)
        for message in driver.messages:
            writer.write(message)
    return file.read_text().splitlines()


def judge(tmp_path: Path, lines: list[str], end: str = "\n") -> Result:
    file = tmp_path / "run.jsonl"
    file.write_text("\n".join(lines) + end)
    return CliRunner().invoke(cli, ["trace", str(file), "--json", "--report", str(tmp_path / "judged")])


def sentence_of(result: Result) -> str:
    try:
        return str(json.loads(result.output)["faults"][0])
    except json.JSONDecodeError:
        return " ".join(result.output.split())


def test_the_good_trace_fails_in_its_rule(tmp_path: Path, lines: list[str]) -> None:
    result = judge(tmp_path, lines)
    assert result.exit_code == 1
    assert json.loads(result.output)["rules"]["KV-7"]["verdict"] == "fail"


def test_a_trace_with_a_broken_line(tmp_path: Path, lines: list[str]) -> None:
    result = judge(tmp_path, [lines[0], "{not json", *lines[2:]])
    assert result.exit_code == 2
    assert "run.jsonl:2" in sentence_of(result)


def test_a_trace_that_is_cut_off(tmp_path: Path, lines: list[str]) -> None:
    result = judge(tmp_path, [*lines[:-1], lines[-1][:-20]], end="")
    assert result.exit_code == 2
    assert "cut off" in sentence_of(result)


def test_a_trace_of_another_version(tmp_path: Path, lines: list[str]) -> None:
    result = judge(tmp_path, [lines[0], lines[1].replace("schedspec/1", "schedspec/7"), *lines[2:]])
    assert result.exit_code == 2
    assert "schema is 'schedspec/7'" in sentence_of(result)


def test_a_trace_in_which_time_goes_back(tmp_path: Path, lines: list[str]) -> None:
    first = json.loads(lines[1]) | {"now_ns": 5}
    result = judge(tmp_path, [lines[0], json.dumps(first), *lines[2:]])
    assert result.exit_code == 2
    assert "now_ns" in sentence_of(result)


def test_a_trace_without_a_submit(tmp_path: Path, lines: list[str]) -> None:
    result = judge(tmp_path, [line for line in lines if json.loads(line).get("type") != "submit"])
    assert result.exit_code == 2
    assert "never submitted" in sentence_of(result)


def test_a_failure_file_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text('{"subject": "reference"}')
    for name, sentence in ((str(file), "lacks 'rule'"), (str(tmp_path / "no.json"), "there is no file")):
        result = CliRunner().invoke(cli, ["replay-failure", name])
        assert result.exit_code == 2
        assert sentence in " ".join(result.output.split())
