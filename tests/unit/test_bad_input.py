"""Bad input: one clear sentence that names message, field and value, exit status 2, and what was seen is kept."""

import json
import re
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner, Result

from schedspec.cli import cli
from schedspec.conformance.driver import replay
from schedspec.conformance.script import Script, cancel, rounds, submit
from schedspec.conformance.walks import walk
from schedspec.reference import Scheduler
from schedspec.reference.faults import factory
from schedspec.reference.job import Job
from schedspec.spec.trace import TraceWriter
from schedspec.spec.vocabulary import Delta, Lane, Plan, Request, Settings, hybrid


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


class RefusesInSilence(Scheduler):
    def submit(self, request: Request, now_ns: int) -> Any:
        receipt = super().submit(request, now_ns)
        return receipt if receipt.verdict != "refused" else None


class RefusesWithoutAReason(Scheduler):
    def submit(self, request: Request, now_ns: int) -> Any:
        receipt = super().submit(request, now_ns)
        return receipt if receipt.verdict != "refused" else {"verdict": "refused"}


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
    result, report = check(tmp_path, f"{__name__}:{subject.__name__}", "--depth", "smoke")
    assert result.exit_code == 2
    assert any(sentence in fault for fault in report["faults"]), report["faults"]
    assert all("\n" not in fault for fault in report["faults"])
    assert "Traceback" not in result.output
    assert (tmp_path / "report" / "failures" / "void.jsonl").exists()


@pytest.mark.parametrize(
    ("subject", "rule"),
    [
        (PlansFinished, "STEP-5"),
        (PlansTwice, "STEP-3"),
        (RefusesInSilence, "LIFE-3"),
        (RefusesWithoutAReason, "ADMIT-5"),
    ],
)
def test_what_also_breaks_a_rule_is_red(subject: type, rule: str, tmp_path: Path) -> None:
    _, report = check(tmp_path, f"{__name__}:{subject.__name__}", "--depth", "smoke")
    assert report["rules"][rule]["verdict"] == "fail"


def test_what_was_judged_before_is_kept(tmp_path: Path) -> None:
    _, report = check(tmp_path, f"{__name__}:PlansFinished", "--depth", "smoke")
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
    own = [line for line in result.output.splitlines() if line.lstrip().startswith("File ")]
    assert all(Path(__file__).name in line for line in own), "its traceback is the subject's, not ours"
    assert bool(own) == name.endswith("CannotBeMade")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--setting", "blocks=many"], "setting blocks is 'many', but must be an integer"),
        (["--setting", "bloks=3"], "'bloks=3' is no setting"),
        (["--setting", "blocks=0"], "blocks is 0, but must be an integer of at least 1"),
        (["--setting", "lanes=[{]"], "setting lanes is '[{]', but must be JSON"),
        (["--setting", "lanes=3"], "setting: lanes is 3, but must be a list"),
        (["--setting", 'lanes=[{"name": "chat"}]'], "setting: lanes[0].share_percent is missing, but Lane needs it"),
        (
            ["--setting", 'lanes=[{"name": "chat", "share_percent": 170}]'],
            "share_percent is 170, but must be at most 100",
        ),
        (["--setting", 'lanes=[{"name": "chat", "share_percent": 70}]'], "write policy='lanes'"),
        (["--setting", 'prices={"a": 2}'], "prices is given, but policy 'fcfs' has no queues of clients"),
        (["--setting", "policy=vtc", "--setting", 'prices={"a": 0}'], "the price of client 'a' is 0, but must be"),
        (["--setting", "policy=vtc", "--setting", "prices=[1]"], "setting: prices[0] is 1, but must be a list"),
        (["--setting", "policy=vtc", "--setting", "max_overtaken=2"], "has a queue per client: use aging_picks"),
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


CHAT = Lane(name="chat", share_percent=70)
REST = Lane(name="rest", share_percent=30)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"quantum": 0}, "quantum is 0, but must be an integer of at least 1"),
        ({"input_weight": -1}, "input_weight is -1, but must be an integer of at least 0"),
        ({"output_weight": 2.0}, "output_weight is 2.0, but must be an integer of at least 0"),
        ({"seats": True}, "seats is True, but must be an integer of at least 1"),
        ({"seats": "8"}, "seats is '8', but must be an integer of at least 1"),
        ({"prefix_caching": 1}, "prefix_caching is 1, but must be one of False, True"),
        ({"charge_prompt": "picks"}, "charge_prompt is 'picks', but must be one of pick, chunk"),
        ({"policy": "fifo"}, "policy is 'fifo', but must be one of fcfs, priority,"),
        ({"watermark_blocks": 64}, "watermark_blocks is 64, but the pool has 64 blocks"),
        ({"input_weight": 0, "output_weight": 0}, "all weights are 0: no service would ever count"),
        ({"policy": "vtc", "aging_picks": 3}, "aging_picks is 3 and aging_credit 0"),
        ({"policy": "vtc", "aging_credit": 3}, "aging_picks is 0 and aging_credit 3"),
        ({"client_seats": 2}, "client_seats is given, but policy 'fcfs' has no queues of clients"),
        ({"policy": "vtc", "client_seats": 9}, "client_seats is 9, but there are 8 seats in all"),
        (
            {"policy": "vtc", "client_resident_tokens": 9, "resident_tokens": 8},
            "client_resident_tokens is 9, but resident_tokens allows all clients together 8",
        ),
        ({"policy": "round_robin", "charge_prediction": True}, "policy 'round_robin' has no counters of service"),
        ({"policy": "vtc", "preempt_lower_class": True}, "policy 'vtc' has no classes: priority, edf,"),
        ({"policy": "drr", "max_overtaken": 2}, "max_overtaken is given, but policy 'drr' has a queue per client"),
        ({"policy": "vtc", "prices": ["a"]}, "prices is ['a'], but must be a mapping from client to price"),
        ({"policy": "vtc", "prices": {"a": 1.5}}, "the price of client 'a' is 1.5, but must be an integer"),
        ({"policy": "vtc", "prices": {"a": -1}}, "the price of client 'a' is -1, but must be an integer"),
        ({"policy": "vtc", "prices": {1: 2}}, "prices has client 1, but a client is a string"),
        ({"policy": "vtc", "prices": [("a", 1), ("a", 2)]}, "prices has client 'a' 2 times"),
        ({"lanes": [CHAT, REST]}, "lanes are given, but policy is 'fcfs': write policy='lanes'"),
        (
            {"policy": "lanes", "seats": 2, "lanes": [evolve(CHAT, objective_steps=7, load_tokens=9), REST]},
            "lane 'chat': objective_steps is 7, but requests of another lane may keep every seat for 512 steps: "
            "give at least 512, or a smaller max_output_tokens",
        ),
        ({"policy": "lanes", "lanes": "chat"}, "lanes is 'chat', but must be a list of Lane"),
        ({"policy": "lanes", "lanes": [{"name": "chat"}]}, "but must be a list of Lane"),
        ({"policy": "lanes", "lanes": [CHAT, evolve(REST, name="chat")]}, "lanes has lane 'chat' 2 times"),
        ({"policy": "lanes", "lanes": [CHAT, evolve(REST, share_percent=31)]}, "lanes are 70 + 31 = 101 percent"),
        ({"policy": "lanes", "lanes": [evolve(CHAT, by_shape=False)]}, "no lane takes a request of every shape"),
        ({"policy": "lanes", "lanes": [evolve(CHAT, max_prompt_tokens=9)]}, "no lane takes a request of every shape"),
    ],
)
def test_settings_that_make_no_sense(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^settings: [^;]*{re.escape(sentence)}[^;]*$"):
        Settings(**asked)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": ""}, "a lane has name '', but must have one"),
        ({"name": 3}, "a lane has name 3, but must have one"),
        ({"share_percent": 0}, "lane 'chat': share_percent is 0, but must be an integer of at least 1"),
        ({"share_percent": True}, "lane 'chat': share_percent is True, but must be an integer of at least 1"),
        ({"share_percent": 70.0}, "lane 'chat': share_percent is 70.0, but must be an integer of at least 1"),
        ({"maximum_percent": 60}, "maximum_percent is 60, but must be between its share_percent of 70 and 100"),
        ({"maximum_percent": 101}, "maximum_percent is 101, but must be between its share_percent of 70 and 100"),
        ({"order": "lifo"}, "lane 'chat': order is 'lifo', but must be one of fifo, vtc"),
        ({"by_shape": 1}, "lane 'chat': by_shape is 1, but must be one of False, True"),
        ({"burst": -1}, "lane 'chat': burst is -1, but must be an integer of at least 0"),
        ({"max_prompt_tokens": 0}, "lane 'chat': max_prompt_tokens is 0, but must be an integer of at least 1"),
        ({"max_output_tokens": "4"}, "lane 'chat': max_output_tokens is '4', but must be an integer of at least 1"),
        ({"objective_steps": 3}, "lane 'chat': objective_steps is 3 and load_tokens 0"),
        ({"load_tokens": 3}, "lane 'chat': objective_steps is 0 and load_tokens 3"),
    ],
)
def test_lanes_that_make_no_sense(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^settings: [^;]*{re.escape(sentence)}[^;]*$"):
        Settings(policy="lanes", lanes=[evolve(CHAT, **changes), REST])


def test_all_faults_of_lanes_and_prices_come_at_once() -> None:
    with pytest.raises(ValueError, match="quantum is 0") as error:
        Settings(policy="lanes", quantum=0, prices={"a": 0}, lanes=[CHAT, evolve(CHAT, burst=-1)], client_seats=99)
    for part in ("quantum is 0", "price of client 'a' is 0", "burst is -1", "'chat' 2 times", "70 + 70 = 140 percent"):
        assert part in str(error.value)


def test_hybrid_makes_sense_whatever_the_pool_is() -> None:
    assert hybrid(blocks=1, block_size=1).client_resident_tokens == 1
    assert hybrid(blocks=64, seats=1).client_resident_tokens == 256
    assert hybrid(client_resident_tokens=7).client_resident_tokens == 7
    assert sum(lane.share_percent for lane in hybrid().lanes) == 100


EQUAL = '[{"name": "a", "share_percent": 50}, {"name": "b", "share_percent": 50}]'


def test_two_lanes_that_promise_the_same_are_told_in_one_line(tmp_path: Path, lines: list[str]) -> None:
    told = "warning: lanes 'a' and 'b' promise the same: one lane is easier to reason about"
    header = json.loads(lines[0])
    header["settings"] |= {"policy": "lanes", "lanes": json.loads(EQUAL)}
    (tmp_path / "run.jsonl").write_text("\n".join([json.dumps(header), *lines[1:]]) + "\n")
    asked = ["--workload", "none", "--setting", "policy=lanes", "--setting", f"lanes={EQUAL}"]
    for arguments in (["trace", str(tmp_path / "run.jsonl")], ["check", f"{__name__}:CannotBeMade", *asked]):
        result = CliRunner().invoke(cli, [*arguments, "--report", str(tmp_path / "report")])
        assert [line for line in result.stderr.splitlines() if "promise the same" in line] == [told]
        assert "settings.py" not in result.output


def test_drawn_settings_warn_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(200):
            walk(seed)


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
