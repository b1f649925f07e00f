"""The command line as a person meets it: output, files, exit status."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click import Argument
from click.testing import CliRunner, Result
from tests.bench.recording import Recorder, requests

from schedspec.cli import cli
from schedspec.commands.subjects import builtin_subjects
from schedspec.conformance.subjects.resolve import UnknownSubject
from schedspec.conformance.testing import subject_named
from schedspec.spec.catalogue import registry
from schedspec.spec.fleets.rules import RULES as FLEET
from schedspec.spec.trace import TraceWriter
from schedspec.spec.vocabulary import Message, Settings


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def plain(result: Result) -> str:
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def fault_report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    folder = tmp_path_factory.mktemp("report")
    arguments = ["check", "fault:KV-7", "--depth", "quick", "--workload", "none", "--report", str(folder)]
    return CliRunner().invoke(cli, arguments), folder


def test_a_broken_must_is_status_1_with_the_proof(fault_report: tuple[Result, Path]) -> None:
    result, _ = fault_report
    assert result.exit_code == 1
    for word in ("KV-7", "Let", "Then", "However", "✗", "replay-failure"):
        assert word in result.output


def test_the_page_in_the_folder_is_the_one_that_was_printed(fault_report: tuple[Result, Path]) -> None:
    result, folder = fault_report
    page = (folder / "failures" / "KV-7.md").read_text().splitlines()
    assert len(page) <= 40
    assert max(map(len, page)) <= 120
    for word in ("Subject", "Let", "Then", "However", "Instead", "Why"):
        (line,) = (line for line in page if line.startswith(f"- **{word}**"))
        assert " ".join(line.split()[2:8]) in plain(result)


def test_the_report_folder_has_all_files(fault_report: tuple[Result, Path]) -> None:
    _, folder = fault_report
    names = {path.name for path in (folder / "failures").iterdir()}
    assert {"KV-7.md", "KV-7.json", "KV-7.jsonl", "KV-7_test.py"} <= names
    report = json.loads((folder / "report.json").read_text())
    rule = report["rules"]["KV-7"]
    assert {"verdict", "level", "needs", "examples", "exercised", "messages"} <= set(rule)
    assert rule["verdict"] == "fail"
    assert rule["messages"] <= 20
    assert set(report["rules"]) == set(registry.rules)
    assert {"subject", "version", "profile", "seed", "seconds", "mode", "depth"} <= set(report)


def test_the_stored_failure_fails_again_and_not_on_the_reference(fault_report: tuple[Result, Path]) -> None:
    file = str(fault_report[1] / "failures" / "KV-7.json")
    again = run("replay-failure", file)
    assert again.exit_code == 1
    assert "KV-7 still fails" in plain(again)
    assert "However KV-7.1 asks that" in plain(again)
    mended = run("replay-failure", file, "--subject", "reference")
    assert mended.exit_code == 0
    assert "KV-7 holds in this run now" in plain(mended)


def test_the_stored_trace_fails_again(fault_report: tuple[Result, Path], tmp_path: Path) -> None:
    result = run("trace", str(fault_report[1] / "failures" / "KV-7.jsonl"), "--report", str(tmp_path))
    assert result.exit_code == 1
    assert "KV-7" in result.output


def test_the_pasted_test_fails(fault_report: tuple[Result, Path], tmp_path: Path) -> None:
    """As it is, of a subject that has a name."""
    file = tmp_path / "test_pasted.py"
    file.write_text((fault_report[1] / "failures" / "KV-7_test.py").read_text())
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(file)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 1, done.stdout
    assert "KV-7" in done.stdout
    assert "RuleBroken" in done.stdout


def test_every_subject_with_a_name_is_found_by_a_pasted_test() -> None:
    builtins = builtin_subjects()
    for name, factory in builtins.items():
        if not hasattr(factory, "prepare"):  # others are not installed everywhere
            assert type(subject_named(name)) is type(factory), name
    with pytest.raises(UnknownSubject, match="did you mean 'reference'"):
        subject_named("refrence")


def test_a_broken_should_is_status_0_and_3_when_strict(tmp_path: Path) -> None:
    common = ["--depth", "smoke", "--workload", "none", "--report", str(tmp_path), "--json"]
    arguments = ["check", "reference", "--rule", "LIVE-11", *common]
    assert run(*arguments).exit_code == 0
    strict = run(*arguments, "--strict")
    assert strict.exit_code == 3
    rules = json.loads(strict.output)["rules"]
    assert rules["LIVE-11"]["verdict"] == "fail"


def test_rules_and_explain_speak_of_every_rule() -> None:
    cards: dict[str, Any] = json.loads(run("rules", "--json").output)
    assert set(cards) == {*registry.rules, *FLEET}
    for rule, card in cards.items():
        shown = run("explain", rule)
        assert shown.exit_code == 0
        assert card["statement"].split()[0] in shown.output
        assert json.loads(run("explain", rule, "--json").output) == card


def test_validate_adapter_says_what_it_tried() -> None:
    good = run("validate-adapter", "reference", "--json")
    assert good.exit_code == 0
    assert json.loads(good.output)["ok"] is True
    assert run("validate-adapter", "schedspec.cli:main").exit_code == 2


# --- trace: with and without numpy ---------------------------------------------------------------------------


def _trace(tmp_path: Path, *, broken: bool) -> Path:
    """So many requests that the entries of a step are judged together where numpy is."""
    recorder = Recorder(Settings(blocks=2_000, block_size=4, seats=120, token_budget=600))
    messages: list[Message] = []
    recorder.fill(requests(1, (3, 9), (12, 12)), 120, messages.append)
    while recorder.live:
        messages += recorder.round()
    if broken:
        place = next(n for n, m in enumerate(messages) if n > 130 and m.kind == "step" and len(m.answer.request) > 100)
        plan = messages[place].answer
        messages[place] = evolve(messages[place], answer=evolve(plan, tokens=(2, *plan.tokens[1:])))
    file = tmp_path / "run.jsonl"
    with file.open("w") as opened:
        writer = TraceWriter(opened, recorder.header)
        for message in (*messages, Message("end", recorder.now_ns)):
            writer.write(message)
    return file


@pytest.mark.parametrize("broken", [False, True])
def test_numpy_changes_nothing_that_is_found(tmp_path: Path, broken: bool) -> None:
    pytest.importorskip("numpy")
    file = _trace(tmp_path, broken=broken)
    told = {}
    for more in ((), ("--plain",)):
        result = run("trace", str(file), "--json", "--report", str(tmp_path / "report"), *more)
        assert result.exit_code == (1 if broken else 0)
        told[more] = json.loads(result.output)
        told[more].pop("seconds")
    assert [found.pop("monitor") for found in told.values()] == ["bulk", "plain"]
    assert told[()] == told["--plain",]


def test_a_trace_is_judged_without_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedspec.commands.recorded.find_spec", lambda name: None)
    file = _trace(tmp_path, broken=False)
    result = run("trace", str(file), "--json", "--report", str(tmp_path / "report"))
    assert (result.exit_code, json.loads(result.output)["monitor"]) == (0, "plain")


def test_the_list_of_commands_cuts_none_off() -> None:
    lines = CliRunner().invoke(cli, ["--help"], terminal_width=80).output.splitlines()
    listed = {line.split()[0]: line for line in lines if re.match(r"^  [a-z][a-z-]+  +\S", line)}
    assert listed.keys() == {name for name, command in cli.commands.items() if not command.hidden}
    assert [line for line in listed.values() if line.endswith("...")] == []


@pytest.mark.parametrize("name", [name for name, one in cli.commands.items() if isinstance(one.params[0], Argument)])
def test_a_name_that_is_nowhere_is_one_sentence(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = cli.commands[name]
    arguments = ["nowhere" for one in command.params if isinstance(one, Argument)]
    result = CliRunner().invoke(cli, [name, *arguments], input="")
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    assert re.search(r"nowhere|unexpected|pip install", " ".join(result.output.split()))
