"""A subject that never stops writing, names of a megabyte, and reports that cannot be written: one sentence, bounded
memory, and nothing runs in vain."""

import json
import re
import sys
import tracemalloc
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from schedspec.cli import cli
from schedspec.conformance.driver import Driver
from schedspec.conformance.folder import write_trace
from schedspec.conformance.script import COMPLETE, STEP, submit
from schedspec.conformance.subjects.stdio import StdioFactory
from schedspec.reference import Scheduler, make
from schedspec.spec.errors import ProtocolError
from schedspec.spec.trace import read_trace
from schedspec.spec.vocabulary import Settings

STRANGE = "</script>--><img src=x onerror=alert(1)>\"'\n\x1b[31m\u202e\0\ud800"
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


class NamesAFieldStrangely(Scheduler):
    def step(self, now_ns: int) -> Any:
        return {"step": 1, STRANGE: 1}


class RaisesStrangely(Scheduler):
    def step(self, now_ns: int) -> Any:
        raise RuntimeError(STRANGE)


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


HALF_A_LINE = """
import sys, time
for line in sys.stdin:
    sys.stdout.write('{"id": 1, "res')
    sys.stdout.flush()
    time.sleep(60)
"""


def test_a_process_that_writes_half_a_line_and_hangs_is_told_what_came(tmp_path: Path) -> None:
    program = tmp_path / "half.py"
    program.write_text(HALF_A_LINE)
    with StdioFactory(f"{sys.executable} {program}", 1.0, 1.0) as factory, pytest.raises(ProtocolError) as error:
        factory(Settings(), 0)
    assert 'no answer within 1 s: what came is no whole line, \'{"id": 1, "res\'' in str(error.value)


@pytest.mark.parametrize("subject", [NamesAFieldStrangely, RaisesStrangely])
def test_what_no_file_can_hold_is_written_as_its_escape(subject: type[Scheduler], tmp_path: Path) -> None:
    folder, junit = tmp_path / "report", tmp_path / "junit.xml"
    asked = ["check", f"{__name__}:{subject.__name__}", "--depth", "smoke", "--workload", "none"]
    result = CliRunner().invoke(cli, [*asked, "--report", str(folder), "--junit", str(junit)])
    assert result.exit_code == 2
    assert "error:" not in result.output
    assert ElementTree.parse(junit).getroot().tag == "testsuites"
    assert not re.search(r"[\x1b\u202e\0]", result.output)
    written = [path for path in folder.rglob("*") if path.suffix in (".md", ".html", ".json")]
    assert {path.name for path in written} >= {"report.json", "report.md", "report.html", "void.md", "void.html"}
    for path in written:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"[\x1b\u202e\0\ud800]", text)
        unfenced = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        assert path.suffix == ".json" or not re.search(r"(?<!\\)<img", unfenced)


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


def test_a_name_of_a_megabyte_is_held_once_however_often_a_trace_says_it(tmp_path: Path) -> None:
    """Each of 12 requests is named nine times."""
    run = Driver.start(make, Settings(blocks=8, block_size=2), 0)
    run.run([op for place in range(12) for op in (submit(f"{MEGABYTE}{place}", 3, 1), STEP, COMPLETE)])
    write_trace(tmp_path / "run.jsonl", run.header, run.messages)
    del run
    tracemalloc.start()
    _, messages = read_trace(tmp_path / "run.jsonl")
    kept = list(messages)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(kept) > 36
    assert held < 2 * 12 << 20
