"""Exports for Perfetto: valid by the trace event format, whatever the run was, and true to it."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner

from schedspec.cli import cli
from schedspec.conformance.driver import Driver, replay
from schedspec.conformance.folder import write_trace
from schedspec.conformance.perfetto import MEMORY, REQUESTS, SCHEDULER, STEP_US, clock_of, write_perfetto
from schedspec.conformance.script import COMPLETE, STEP, Op, Script, cancel, rounds, submit
from schedspec.conformance.walks import walk
from schedspec.reference import make
from schedspec.reference.faults import factory
from schedspec.spec.vocabulary import Header, Message, Plan, Settings

PHASES = {"M": set(), "X": {"dur"}, "i": {"s"}, "C": {"args"}}
"""Phase -> what it needs beside what all have."""


def check_events(file: Path) -> list[dict[str, Any]]:
    """All events, which are as the format has them, and whose slices are nested or apart in each track."""
    plain = json.loads(file.read_text(encoding="utf-8"))
    assert set(plain) == {"displayTimeUnit", "otherData", "traceEvents"}
    assert plain["displayTimeUnit"] in ("ms", "ns")
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    events: list[dict[str, Any]] = plain["traceEvents"]
    for event in events:
        assert {"ph", "name", "pid", "tid", "ts"} | PHASES[event["ph"]] <= set(event)
        assert isinstance(event["name"], str)
        assert type(event["pid"]) is int
        assert type(event["tid"]) is int
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
            tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        if event["ph"] == "i":
            assert event["s"] in ("g", "p", "t")
        if event["ph"] == "C":
            assert all(type(count) is int and count >= 0 for count in event["args"].values())
    for spans in tracks.values():
        open_until: list[float] = []
        for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            assert not open_until or end <= open_until[-1], "slices of a track overlap"
            open_until.append(end)
    return events


def exported(path: Path, header: Header, messages: list[Message], **broken: int) -> list[dict[str, Any]]:
    places = {message: rule.replace("_", "-") for rule, message in broken.items()}
    count = write_perfetto(path, header, messages, clock_of(messages), places)
    events = check_events(path)
    assert len(events) == count
    return events


def test_an_export_has_steps_requests_and_blocks(tmp_path: Path) -> None:
    ops = [submit("a", 3, 2), submit("<b>", 5, 3), *rounds(1), STEP, cancel("a")]
    driver = replay(factory("KV-7"), Script(Settings(blocks=8, block_size=2, token_budget=4), 0, ops))
    events = exported(tmp_path / "x.json", driver.header, driver.messages, KV_7=len(driver.messages) - 1)
    spans = [event for event in events if event["ph"] == "X"]
    steps = [event for event in spans if event["pid"] == SCHEDULER]
    assert [(e["name"], e["ts"], e["dur"]) for e in steps] == [("step 1", 0, STEP_US), ("step 2", STEP_US, STEP_US)]
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name" and e["pid"] == REQUESTS}
    assert threads == {1: "a", 2: "<b>"}
    ran = [(threads[e["tid"]], e["name"], e["args"]) for e in spans if e["pid"] == REQUESTS and "step" in e["args"]]
    assert ("a", "prefill", {"step": 1, "start": 0, "tokens": 3, "samples": 1}) in ran
    assert ("a", "decode", {"step": 2, "start": 3, "tokens": 1, "samples": 1}) in ran
    last = [e for e in events if e["ph"] == "C" and e["name"] == "blocks" and e["pid"] == MEMORY][-1]["args"]
    assert last["held"] + last["free"] == 8
    assert last["held"] == 4, "the two of a, which leaked, and those of b"
    (instant,) = (e for e in events if e["ph"] == "i" and e["s"] == "g")
    assert instant["name"] == "KV-7 is broken"
    about = json.loads((tmp_path / "x.json").read_text())["otherData"]["ts"]
    assert about.startswith("ts counts steps: one step is 1,000 µs")


def test_where_the_clock_moves_ts_is_its_time(tmp_path: Path) -> None:
    ops = [submit("a", 3, 2), STEP, Op("tick", ns=25_000), COMPLETE, Op("tick", ns=5_000), STEP, COMPLETE]
    driver = replay(make, Script(Settings(blocks=8, block_size=2), 0, ops))
    events = exported(tmp_path / "x.json", driver.header, driver.messages)
    spans = [(e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X" and e["pid"] == SCHEDULER]
    assert spans == [("step 1", 0, 25), ("step 2", 30, 0)]
    assert json.loads((tmp_path / "x.json").read_text())["otherData"]["ts"] == "ts is the time of the run, in µs"


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_any_run_is_exported(tmp_path: Path, seed: int, moves: bool) -> None:
    script = walk(seed, ("fcfs", "priority"))
    driver = Driver.start(make, script.settings, 0)
    driver.run(script.ops)
    messages = [evolve(m, now_ns=1_000 * n) for n, m in enumerate(driver.messages)] if moves else driver.messages
    events = exported(tmp_path / "x.json", driver.header, list(messages))
    entries = sum(len(m.answer.request) for m in messages if m.kind == "step")
    assert sum(e["ph"] == "X" and e["pid"] == REQUESTS and "step" in e["args"] for e in events) <= entries


def test_a_run_that_lies_is_exported(tmp_path: Path) -> None:
    driver = replay(make, Script(Settings(blocks=4, block_size=2), 0, [submit("a", 3, 2), STEP]))
    deltas = [("took", "a", [9, 9, -3]), ("gave", "ghost", [0]), ("finished", "a", "stop"), ("finished", "a", "stop")]
    lie = Plan(step=1, request=["a", "ghost"], start=[0, 0], tokens=[7, 7], samples=[0, 0], deltas=deltas)
    exported(tmp_path / "x.json", driver.header, [*driver.messages, Message("step", 5, None, lie)] * 2)


def test_a_recorded_run_is_exported_whole(tmp_path: Path) -> None:
    driver = replay(
        factory("KV-7"), Script(Settings(blocks=4, block_size=2), 0, [submit("a", 3, 2), STEP, cancel("a")])
    )
    write_trace(tmp_path / "run.jsonl", driver.header, driver.messages)
    out, whole, badge = tmp_path / "out", tmp_path / "p.json", tmp_path / "b.json"
    options = [f"--to={out}", f"--perfetto={whole}", f"--badge={badge}"]
    done = CliRunner().invoke(cli, ["report", str(tmp_path / "run.jsonl"), *options], catch_exceptions=False)
    assert done.exit_code == 0
    assert any(event["name"] == "KV-7 is broken" for event in check_events(tmp_path / "p.json"))
    assert check_events(tmp_path / "out/failures/KV-7.perfetto.json")
    assert json.loads((tmp_path / "b.json").read_text())["color"] == "red"
    folder = CliRunner().invoke(cli, ["report", str(tmp_path / "out"), "--perfetto", str(tmp_path / "p.json")])
    assert folder.exit_code == 2
    assert "--perfetto needs a TRACE" in folder.output
