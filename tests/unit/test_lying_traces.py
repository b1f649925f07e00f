"""Traces that lie, or are no traces: a sentence with the place, the right exit status, little memory, no traceback; and
whoever judges them says the same."""

import gzip
import importlib.util
import json
import tracemalloc
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.bench.recording import Recorder, requests

from schedspec.cli import cli
from schedspec.conformance.archives import read_recorded
from schedspec.conformance.recorded import judge
from schedspec.optimized.monitor import BulkMonitor
from schedspec.spec import trace
from schedspec.spec.monitor import Monitor
from schedspec.spec.pooled import PooledMonitor
from schedspec.spec.trace import TraceError
from schedspec.spec.trace_columns import convert_trace
from schedspec.spec.vocabulary import (
    COLOCATED,
    Capabilities,
    Header,
    Message,
    Pools,
    Receipt,
    Request,
    Settings,
)

from .lies import LIES, Lines, as_lines, by_each, lied, recorded, write

WALKS = (2, 7, 11, 17, 18, 35, 101)
RUNS = 12
"""Of each kind of run, so many lies."""


@cache
def large() -> Lines:
    """More run at once than a column needs to be judged as one."""
    recorder = Recorder(Settings(blocks=1_200, block_size=2, seats=110, token_budget=400))
    messages: list[Any] = []
    recorder.fill(requests(1, (2, 6), (3, 6)), 110, messages.append)
    for _ in range(4):
        messages += recorder.round()
    return as_lines(recorder.header, messages)


GOOD: dict[str, Callable[[], Lines]] = {f"walk {seed}": partial(recorded, seed) for seed in WALKS} | {"large": large}


# --- lies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GOOD)
def test_all_monitors_say_the_same_of_a_lie(name: str, tmp_path: Path) -> None:
    good, statuses = GOOD[name](), Counter[int]()
    for number in range(RUNS):
        seed = f"{name} {number}"
        write(tmp_path / "run.jsonl", lied(Random(seed), good))
        found = by_each(tmp_path / "run.jsonl")
        assert found["bulk"] == found["plain"], seed
        assert found["bulk from one"] == found["plain"], seed
        statuses[found["plain"]["status"]] += 1
    assert statuses[1] + statuses[2] >= RUNS // 3, f"hardly a lie was noticed: {statuses}"


@pytest.mark.parametrize("name", GOOD)
def test_what_is_changed_is_good(name: str, tmp_path: Path) -> None:
    write(tmp_path / "run.jsonl", GOOD[name]())
    assert by_each(tmp_path / "run.jsonl")["plain"]["status"] == 0


@pytest.mark.parametrize("lie", dict.fromkeys(LIES))
def test_a_lie_has_a_page_or_a_sentence(lie: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the command, with its report: exit status 2 comes with the line."""
    monkeypatch.chdir(tmp_path)
    good = recorded(WALKS[0])
    for number in range(2):
        lines = json.loads(json.dumps(good))
        lie(Random(number), lines)
        write(Path("run.jsonl"), lines)
        result = command()
        assert result.exit_code in (0, 1, 2)
        if result.exit_code == 2:
            assert "run.jsonl:" in "".join(result.output.split())


def command(*options: str, file: str = "run.jsonl") -> Result:
    result = CliRunner().invoke(cli, ["trace", file, "--report", "report", *options])
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    return result


def test_what_the_monitor_refuses_has_its_line(tmp_path: Path) -> None:
    """Blank lines count as lines; a file of columns has messages."""
    unknown = {"type": "cancel", "now_ns": 0, "request_id": "x", "deltas": [["cancelled", "x"]]}
    write(tmp_path / "run.jsonl", [json.loads(HEAD), {"schema": "schedspec/1", **unknown}])
    convert_trace(tmp_path / "run.jsonl", tmp_path / "run.columns")
    text = (tmp_path / "run.jsonl").read_text()
    (tmp_path / "run.jsonl").write_text(text.replace("\n", "\n\n"))
    assert str(judge(tmp_path / "run.jsonl").fault).startswith(f"{tmp_path}/run.jsonl:3: cancel: deltas.cancelled")
    assert str(judge(tmp_path / "run.columns").fault).startswith(f"{tmp_path}/run.columns: message 1: cancel: deltas")


@pytest.mark.parametrize("seed", WALKS)
def test_a_snapshot_that_shows_nothing_says_nothing(seed: int, tmp_path: Path) -> None:
    """Of one pool and of two; it is none that was taken."""
    lines = recorded(seed)
    for line in lines:
        if line["type"] == "observe":
            line["observation"] = None
    write(tmp_path / "run.jsonl", lines)
    assert by_each(tmp_path / "run.jsonl")["plain"]["status"] == 0
    assert judge(tmp_path / "run.jsonl").findings.snapshots == 0


@pytest.mark.parametrize("seed", WALKS)
def test_a_plan_of_no_tokens_and_blocks_that_are_given_instead_of_taken(seed: int, tmp_path: Path) -> None:
    """Positions before the first, of which nobody knows the content."""
    lines = recorded(seed)
    plans = [line["plan"] for line in lines if line["type"] == "step" and line["plan"]["request"]]
    for column in ("tokens", "samples"):
        plans[0][column][0] = 0
    moved = [delta for plan in plans for delta in plan["deltas"] if delta[0] in ("took", "shared")]
    moved[-1][0] = "gave"
    write(tmp_path / "run.jsonl", lines)
    found = by_each(tmp_path / "run.jsonl")
    assert found["plain"]["status"] == 1
    assert found["plain"] == found["bulk"] == found["bulk from one"]


# --- what is no trace --------------------------------------------------------------------------------------------

SUBMIT = '{"schema":"schedspec/1","type":"submit","now_ns":0,"request":{"id":"a","prompt_ids":[1],'
SUBMIT += '"max_output_tokens":1},"receipt":{"verdict":"accepted"}}\n'
NOTIFY = '{"schema":"schedspec/1","type":"notify","now_ns":0,"event":{"x":%s},"deltas":[]}\n'
NO_TRACE: dict[str, tuple[str | bytes, str]] = {
    "a name twice": (SUBMIT.replace('"now_ns":0', '"now_ns":0,"now_ns":1'), "the line has 'now_ns' twice in an object"),
    "a name twice, within": (NOTIFY % '{"y":1,"y":2}', "the line has 'y' twice in an object"),
    "NaN": (NOTIFY % "NaN", "the line has NaN, which is no number of JSON"),
    "-Infinity": (NOTIFY % "-Infinity", "the line has -Infinity, which is no number of JSON"),
    "1e400": (NOTIFY % "1e400", "the line has 1e400, which is too large a number"),
    "10,000 digits": (SUBMIT.replace(":0", ":" + "9" * 10_000, 1), "the line has an integer of more than 4,300 digits"),
    "deep": (NOTIFY % ("[" * 100_000 + "]" * 100_000), "the line is not JSON: it is nested too deeply"),
    "deep and open": ("[" * 100_000 + "\n", "the line is not JSON: it is nested too deeply"),
    "no UTF-8": (SUBMIT.encode().replace(b'"a"', b'"\xff"'), "the line is not JSON: byte 69 is no UTF-8"),
    "UTF-16": (SUBMIT.encode("utf-16-le"), "the line is not JSON"),
    "NUL bytes": ("\0" * 4_000 + "\n", "the line is not JSON"),
    "a mark of byte order within": ("\ufeff" + SUBMIT, "the line is not JSON"),
    "cut in the middle": (SUBMIT[:-9], "the last line is cut off"),
    "true for 1": (SUBMIT.replace('"now_ns":0', '"now_ns":true'), "submit: now_ns is True, but must be an integer"),
    "2.0 for 2": (SUBMIT.replace("[1]", "[2.0]"), "submit: prompt_ids[0] is 2.0, but must be an integer"),
    "a negative token": (SUBMIT.replace("[1]", "[-1]"), "submit: prompt_ids[0] is -1, but must be an integer"),
}
HEAD = '{"schema":"schedspec/1","type":"header","settings":{},"capabilities":{}}\n'


@pytest.mark.parametrize("options", [(), ("--plain",)], ids=["bulk", "plain"])
@pytest.mark.parametrize("name", NO_TRACE)
def test_what_is_no_trace(name: str, options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bad, sentence = NO_TRACE[name]
    Path("run.jsonl").write_bytes(HEAD.encode() + b"\n" + (bad.encode() if isinstance(bad, str) else bad))
    result = command(*options)
    assert result.exit_code == 2
    assert f"run.jsonl:3: {sentence}" in " ".join(result.output.split())


@pytest.mark.parametrize("begin", ["\ufeff", ""])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n", "\n \t\n"])
def test_how_editors_write_lines_says_nothing(begin: str, end: str, tmp_path: Path) -> None:
    text = "".join(json.dumps(line) + end for line in recorded(WALKS[0]))
    (tmp_path / "run.jsonl").write_text(begin + text, encoding="utf-8", newline="")
    found = by_each(tmp_path / "run.jsonl")
    assert {said["status"] for said in found.values()} == {0}


def test_ids_may_be_anything_that_json_can_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a pair of UTF-16, a megabyte, HTML: in a page too."""
    monkeypatch.chdir(tmp_path)
    for odd in ("\ud800", "x" * 1_000_000, "<script>alert(1)</script>", "\x1b[31m\0", "\u202e"):
        submit = json.loads(SUBMIT) | {"type": "submit"}
        submit["request"]["id"] = odd
        cancel = {"schema": "schedspec/1", "type": "cancel", "now_ns": 0, "request_id": odd, "deltas": []}
        write(Path("run.jsonl"), [json.loads(HEAD), submit, cancel])
        assert command().exit_code == 1
        assert "<script>alert" not in Path("report/report.html").read_text()


# --- memory ------------------------------------------------------------------------------------------------------

MIB = 1 << 20


def packed(kind: str, path: Path, parts: Any) -> None:
    if kind == "gzip":
        with gzip.open(path, "wb") as file:
            for part in parts:
                file.write(part)
        return
    from zstandard import ZstdCompressor

    with path.open("wb") as raw, ZstdCompressor(level=3).stream_writer(raw) as stream:
        for part in parts:
            stream.write(part)


KINDS = ["gzip", *(["zstd"] if importlib.util.find_spec("zstandard") else [])]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fill", [b" ", b"0", b"["])
def test_a_small_archive_of_a_long_line_is_refused(
    kind: str, fill: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 MiB of one letter: no more is held than a line may have."""
    monkeypatch.setattr(trace, "LONGEST_LINE", MIB)
    path = tmp_path / "run.jsonl.packed"
    packed(kind, path, [HEAD.encode(), *[fill * MIB] * 200])
    assert path.stat().st_size < MIB
    tracemalloc.start()
    with pytest.raises(TraceError, match=r":2: the line has 1,048,576 bytes or more, longer than any message"):
        list(read_recorded(path)[1])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * MIB  # a thousand packed bytes stand for up to 32 MiB


@pytest.mark.parametrize("kind", KINDS)
def test_a_small_archive_of_many_lines_is_read_in_little_memory(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl.packed"
    line = (NOTIFY % '"y"').encode()
    packed(kind, path, [HEAD.encode(), *[line * 20_000] * 4])
    tracemalloc.start()
    count = sum(1 for _ in read_recorded(path)[1])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 80_000
    assert peak < 40 * MIB


def test_a_line_of_megabytes_is_read(tmp_path: Path) -> None:
    submit = json.loads(SUBMIT)
    submit["request"]["prompt_ids"] = list(range(400_000))
    write(tmp_path / "run.jsonl", [json.loads(HEAD), submit])
    assert judge(tmp_path / "run.jsonl").fault is None


@pytest.mark.parametrize("make", [Monitor, BulkMonitor, PooledMonitor])
def test_who_comes_and_goes_between_two_steps_is_forgotten(make: Any) -> None:
    """Clients of their own, whom nobody ever serves."""
    pools = (
        Pools(decode_blocks=4, decode_seats=2, decode_token_budget=4, transfer_ns=1)
        if make is PooledMonitor
        else COLOCATED
    )
    monitor = make(Header(settings=Settings(pools=pools), capabilities=Capabilities(ordered=True)), horizon=20)
    for number in range(200):
        request = Request(id=f"r{number}", prompt_ids=(1, 2), max_output_tokens=1, client=f"c{number}")
        monitor.feed(Message("submit", 0, request, Receipt(verdict="accepted")))
        monitor.feed(Message("cancel", 0, request.id, [("cancelled", request.id)]))
    known = list(monitor.pools.values()) if make is PooledMonitor else [monitor]
    assert all(len(one.tracks) <= 21 for one in known)
