"""A subject that never stops writing, names of a megabyte, and reports that cannot be written: one sentence, bounded
memory, and nothing runs in vain."""

import json
import sys
import tracemalloc
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from schedspec.cli import cli
from schedspec.conformance.driver import Driver
from schedspec.conformance.script import STEP, submit
from schedspec.conformance.subjects.stdio import StdioFactory
from schedspec.reference import Scheduler
from schedspec.spec.errors import ProtocolError
from schedspec.spec.vocabulary import Settings

MEGABYTE = "x" * (1 << 20)
SENTENCE = 1_000
"""No sentence is longer, whatever is quoted in it."""


class _Answers(Scheduler):
    """Something else in place of its deltas of a step."""

    deltas: Any = ()

    def step(self, now_ns: int) -> Any:
        plan = super().step(now_ns)
        shown = {name: getattr(plan, name) for name in ("step", "request", "start", "tokens", "samples")}
        return shown | {"deltas": self.deltas}


class WritesForEver(_Answers):
    @property
    def deltas(self) -> Iterator[Any]:
        return (["took", "a", [block]] for block in count())


class NamesADeltaAtLength(_Answers):
    deltas = ([MEGABYTE, "a", [1]],)


class NamesARequestAtLength(_Answers):
    deltas = (["took", MEGABYTE, [1]],)


class NamesAFieldAtLength(Scheduler):
    def step(self, now_ns: int) -> Any:
        return {"step": 1, MEGABYTE: 1}


class RaisesAtLength(Scheduler):
    def step(self, now_ns: int) -> Any:
        raise RuntimeError(MEGABYTE)


AT_LENGTH = [WritesForEver, NamesADeltaAtLength, NamesARequestAtLength, NamesAFieldAtLength, RaisesAtLength]


@pytest.mark.parametrize("subject", AT_LENGTH)
def test_what_is_too_long_is_void_in_a_sentence(subject: type[Scheduler]) -> None:
    run = Driver.start(subject, Settings(blocks=8), 0, timeout_s=2.0)
    run.do(submit("a", 2, 2))
    tracemalloc.start()
    run.do(STEP)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert run.fault is not None or run.broken
    assert len(str(run.fault or run.broken[0])) < SENTENCE
    assert most < 64 << 20


CHATTER = """
import sys
for line in sys.stdin:
    while True:
        {writes}
"""


@pytest.mark.parametrize(
    "writes",
    ["sys.stdout.write('x' * 65536)", "sys.stdout.write('{}\\n' * 4096)", "sys.stderr.write('x' * 65536)"],
)
def test_a_process_that_never_stops_writing(writes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedspec.conformance.subjects.stdio.LONGEST_LINE_BYTES", 1 << 20)
    program = tmp_path / "chatter.py"
    program.write_text(CHATTER.format(writes=writes))
    tracemalloc.start()
    with StdioFactory(f"{sys.executable} {program}", 1.0, 1.0) as factory, pytest.raises(ProtocolError) as error:
        factory(Settings(), 0)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(str(error.value)) < SENTENCE
    assert most < 32 << 20


# --- reports ---------------------------------------------------------------------------------------------------


def check_into(folder: Path, *more: str) -> Any:
    asked = ["check", "reference", "--depth", "smoke", "--workload", "none", "--report", str(folder), *more]
    return CliRunner().invoke(cli, asked)


@pytest.mark.parametrize("obstacle", ["a file", "failures", "report.json", "report.md"])
def test_a_folder_that_cannot_have_the_report_is_told_before_anything_runs(obstacle: str, tmp_path: Path) -> None:
    folder = tmp_path / "report"
    if obstacle == "a file":
        folder.write_text("something else")
    elif obstacle == "failures":
        folder.mkdir()
        (folder / "failures").write_text("something else")
    else:
        (folder / obstacle).mkdir(parents=True)
    result = check_into(folder)
    assert result.exit_code == 2
    assert "no report can be written to" in result.output
    assert "--report" in " ".join(result.output.split())
    assert "scenarios" not in result.output


# --- traces ----------------------------------------------------------------------------------------------------


def trace_with(id: str, tmp_path: Path) -> Any:
    header = {
        "schema": "schedspec/1",
        "type": "header",
        "settings": {"blocks": 8, "block_size": 2, "reserve": "declared"},
        "capabilities": {"name": "mine", "observes": "tables", "ordered": True, "claims": []},
    }
    request = {"id": id, "prompt_ids": [1, 2, 3], "max_output_tokens": 2}
    plan = {"step": 1, "request": [id], "start": [0], "tokens": [3], "samples": [1]}
    plan["deltas"] = [["took", id, [7]], ["admitted", id, 0]]
    lines = [
        header,
        {
            "schema": "schedspec/1",
            "type": "submit",
            "now_ns": 0,
            "request": request,
            "receipt": {"verdict": "accepted"},
        },
        {"schema": "schedspec/1", "type": "step", "now_ns": 0, "plan": plan},
    ]
    file = tmp_path / "run.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    return CliRunner().invoke(cli, ["trace", str(file), "--report", str(tmp_path / "report")])


@pytest.mark.parametrize("id", ["größe-🦊-数", "<script>alert(1)</script>", "[bold]a[/]", MEGABYTE])
def test_a_strange_id_is_shown_and_never_executed(id: str, tmp_path: Path) -> None:
    """One block holds two positions, not three."""
    result = trace_with(id, tmp_path)
    assert result.exit_code == 1, result.output[:SENTENCE]
    assert "KV-4" in result.output
    assert len(result.output) < 100_000
    page = tmp_path / "report" / "report.html"
    if page.exists():
        assert "<script>alert(1)" not in page.read_text(encoding="utf-8")
    if len(id) < 100:
        assert id in result.output
