"""Traces of many engines: files of all packings, rules over engines, and what is wrong with files."""

import gzip
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import threading
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from click.testing import CliRunner, Result
from tests.unit import browser as browsers

from schedspec.cli import cli
from schedspec.conformance.archives import read_recorded
from schedspec.conformance.fleet_page import INSTEAD, engine_folder
from schedspec.reference.faults import factory
from schedspec.reference.faults.routers import FLEETS, ROUTERS
from schedspec.reference.fleet import STEP_NS, Fleet, arrivals, flooded, new_fleet
from schedspec.reference.router import Dealer, Router
from schedspec.spec.fleets import rules as fleet_rules
from schedspec.spec.fleets.judge import Fleet as Records
from schedspec.spec.fleets.judge import FleetVerdict, judge_fleet
from schedspec.spec.fleets.router_log import RouterEvent, RouterLog, read_router_log
from schedspec.spec.fleets.rules import EDGES, RULES
from schedspec.spec.fleets.stays import Witness
from schedspec.spec.monitor import Monitor
from schedspec.spec.trace import TraceError

WINDOW_NS = 2 * STEP_NS


def judged(fleet: Fleet) -> FleetVerdict:
    """As `schedspec trace` does it, without files; no engine breaks a MUST."""
    parts: dict[str, list[dict[str, Any]]] = {}
    for engine in fleet.engines.values():
        monitor, witness = Monitor(engine.header), Witness(WINDOW_NS)
        witness.begin(monitor)
        for message in engine.messages:
            assert {violation.rule for violation in monitor.feed(message)} <= {"LIVE-11"}
            witness.see(message)
        parts[engine.name] = [witness.plain]
    lines = (line.encode() for line in fleet.router_lines())
    return judge_fleet(Records(parts, read_router_log("router", lines), 0, WINDOW_NS))


def fleet_under(rule: str | None, seed: int) -> Fleet:
    """With its fault, or (None) without any."""
    if rule == "FLEET-4":
        return flooded(3, ROUTERS[rule], seed, each=80)
    router = ROUTERS.get(rule or "", Router)
    fleet = new_fleet(3, seed, router=router, fleet=FLEETS.get(rule or "", Fleet), patience_ns=8 * STEP_NS)
    fleet.run(arrivals(80, seed, gap_ns=STEP_NS * 2 // 5, keys=10))
    return fleet


def test_every_rule_of_a_fleet_has_a_fault() -> None:
    assert ROUTERS.keys() | FLEETS.keys() == set(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_a_fault_is_caught_by_its_rule_and_breaks_only_what_is_declared(rule: str) -> None:
    found = judged(fleet_under(rule, seed=2))
    assert found.verdicts[rule] == "fail"
    assert set(found.breaks) <= {rule} | {edge.also for edge in EDGES if edge.rule == rule}


@pytest.mark.parametrize("seed", [2])
def test_a_right_router_breaks_nothing_and_exercises_all(seed: int) -> None:
    plain, shared = judged(fleet_under(None, seed)), judged(flooded(3, Dealer, seed, each=80))
    assert not plain.breaks
    assert not shared.breaks
    passed = {rule for found in (plain, shared) for rule, verdict in found.verdicts.items() if verdict == "pass"}
    assert passed == set(RULES)


def stay(
    request: str, begin_ns: int, end_ns: int | None, how: str | None = "finished", key: str | None = None
) -> list[Any]:
    return [request, "c", key, begin_ns, end_ns, how]


def records(**engines: list[list[Any]]) -> Records:
    told = {"begin_ns": 0, "end_ns": 99, "has_end": True, "retain_ns": 10, "service": None}
    return Records({name: [{**told, "stays": stays}] for name, stays in engines.items()})


@pytest.mark.parametrize(
    ("there", "conjuncts"),
    [
        (records(a=[stay("r", 0, 5, "cancelled")], b=[stay("r", 5, 9)]), []),
        (records(a=[stay("r", 0, 5)], b=[stay("r", 6, 9, "cancelled")]), ["FLEET-1.after"]),
        (records(a=[stay("r", 0, 5)], b=[stay("r", 4, 9)]), ["FLEET-1.twice", "FLEET-3.two"]),
        (records(a=[stay("r", 0, None, None)]), ["FLEET-1.never"]),
        (records(a=[stay("r", 0, 5, key="k")], b=[stay("s", 14, 20, key="k")]), ["FLEET-2.second"]),
        (records(a=[stay("r", 0, 5, key="k")], b=[stay("s", 15, 20, key="k")]), []),
        (records(a=[stay("r", 0, 5, "failed", key="k")], b=[stay("s", 6, 20, key="k")]), []),
    ],
)
def test_edges_of_the_rules(there: Records, conjuncts: list[str]) -> None:
    assert [one.conjunct for one in judge_fleet(there).broken] == conjuncts


def told(kind: Any, request: str, now_ns: int, detail: str) -> RouterEvent:
    return RouterEvent(kind, now_ns, request, detail=detail)


@pytest.mark.parametrize(
    ("events", "conjuncts"),
    [
        ([told("ended", "r", 6, "finished")], []),
        ([told("ended", "r", 6, "finished"), told("ended", "r", 7, "finished")], ["FLEET-1.told_twice"]),
        ([], ["FLEET-1.lost"]),
        ([told("ended", "r", 6, "finished"), told("ended", "s", 7, "finished")], ["FLEET-1.unheard"]),
    ],
)
def test_edges_of_what_a_router_says(events: list[RouterEvent], conjuncts: list[str]) -> None:
    log = RouterLog(("a",), events=[told("arrived", "r", 0, "accepted"), *events, RouterEvent("end", 9)])
    there = Records(records(a=[stay("r", 0, 5)]).engines, log)
    assert [one.conjunct for one in judge_fleet(there).broken] == conjuncts


@pytest.mark.parametrize(
    ("engines", "conjuncts"),
    [
        (("a",), []),
        (("b", "a"), []),
        (("b",), ["FLEET-1.unsent"]),
        (("c", "a"), ["FLEET-1.nowhere"]),
        ((), []),
    ],
)
def test_a_request_is_where_the_router_sent_it(engines: tuple[str, ...], conjuncts: list[str]) -> None:
    """Of who was never sent the log says nothing; c is no engine of the fleet."""
    sent = [RouterEvent("sent", 0, "r", engine=engine) for engine in engines]
    ends = [told("ended", "r", 6, "finished"), RouterEvent("end", 9)]
    log = RouterLog(("a", "b"), events=[told("arrived", "r", 0, "accepted"), *sent, *ends])
    there = Records(records(a=[stay("r", 0, 5)], b=[]).engines, log)
    assert [one.conjunct for one in judge_fleet(there).broken] == conjuncts


def test_clocks_may_be_apart() -> None:
    there = records(a=[stay("r", 0, 5, "cancelled")], b=[stay("r", 3, 9)])
    assert judge_fleet(there).breaks == {"FLEET-3": 1}
    assert not judge_fleet(Records(there.engines, None, skew_ns=2)).breaks


def test_an_engine_that_is_missing_leaves_open_who_has_ended() -> None:
    there = Records(records(a=[stay("r", 0, None, None)]).engines, RouterLog(("a", "b")))
    assert not judge_fleet(there).breaks
    shared = Records(there.engines, RouterLog(("a", "b"), frozenset({"fleet_share"})))
    assert judge_fleet(shared).verdicts["FLEET-4"] == "not observable"


# --- files ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three engines, the second of which breaks KV-8, and their router."""
    folder = tmp_path_factory.mktemp("recorded")
    fleet = new_fleet(3, 1, router=Router, factories={1: factory("KV-8")}, patience_ns=3 * STEP_NS)
    fleet.run(arrivals(12, 1, gap_ns=STEP_NS // 5))
    fleet.write(folder)
    return folder


@pytest.fixture
def logs(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(recorded, tmp_path / "logs")
    monkeypatch.chdir(tmp_path)
    return Path("logs")


def trace(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["trace", *arguments])


def report_of(*arguments: str) -> dict[str, Any]:
    result = trace(*arguments, "--json", "--report", "out")
    found: dict[str, Any] = json.loads(result.stdout)
    assert found["exit_status"] == result.exit_code
    return found


def test_a_fleet_says_which_rule_at_which_engine_and_when(logs: Path) -> None:
    found = report_of("logs/**/*.jsonl")
    assert found["exit_status"] == 1
    broken = found["rules"]["KV-8"]
    assert (broken["verdict"], broken["engines"], broken["first_engine"]) == ("fail", ["e001"], "e001")
    assert broken["breaks"] >= 1
    assert found["fleet"]["FLEET-1"]["verdict"] == "pass"
    page = Path("out/engines/e001/failures/KV-8.md").read_text()
    assert page.startswith("KV-8: ")
    (again,) = re.findall(r"Again +schedspec (trace \S+)", trace("logs", "--report", "out").stdout)
    assert trace(*again.split()[1:], "--report", "again").exit_code == 1


def test_files_may_be_named_from_here_and_from_the_root(logs: Path) -> None:
    result = trace("logs/e000.jsonl", str(Path("logs/e002.jsonl").absolute()))
    assert (result.exit_code, "2 engines" in result.stdout) == (0, True)


@pytest.mark.deep
def test_one_process_and_several_write_the_same_bytes(logs: Path) -> None:
    for name, where in (("one", "one"), ("two", "local:2")):
        assert trace("logs", "--report", name, "--on", where).exit_code == 1
    assert tree("one") == tree("two")


def tree(name: str) -> dict[str, bytes]:
    """All files but the journal, whose lines stand in the order in which units ended."""
    files = (path for path in Path(name).rglob("*") if path.is_file() and "campaign" not in path.parts)
    return {path.relative_to(name).as_posix(): path.read_bytes() for path in files}


def test_packed_files_say_the_same(logs: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    plain = report_of("logs")
    first, second = logs / "e000.jsonl", logs / "e001.jsonl"
    Path(f"{first}.gz").write_bytes(gzip.compress(first.read_bytes()[:1000]) + gzip.compress(first.read_bytes()[1000:]))
    Path(f"{second}.zst").write_bytes(zstandard.ZstdCompressor().compress(second.read_bytes()))
    first.unlink()
    second.unlink()
    packed = report_of("logs")
    for engine in (*plain["engines"], *packed["engines"]):
        del engine["file"]
    assert packed == plain
    assert trace("logs/e000.jsonl.gz").exit_code == 0


def cut(logs: Path) -> str:
    packed = gzip.compress((logs / "e000.jsonl").read_bytes())
    (logs / "e000.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    (logs / "e000.jsonl").unlink()
    return "the archive is cut off"


def damaged(logs: Path) -> str:
    packed = bytearray(gzip.compress((logs / "e000.jsonl").read_bytes()))
    packed[len(packed) // 2] ^= 0xFF
    (logs / "e000.jsonl.gz").write_bytes(packed)
    (logs / "e000.jsonl").unlink()
    return "e000.jsonl.gz:"


def copied(logs: Path) -> str:
    (logs / "more").mkdir()
    shutil.copy(logs / "e000.jsonl", logs / "more" / "copy.jsonl")
    return "e000.jsonl both claim engine e000 at now_ns 0: leave one of them out if it is a copy"


def empty(logs: Path) -> str:
    (logs / "e000.jsonl").write_text("")
    return "the trace is empty"


def unreadable(logs: Path) -> str:
    """It is there and can be opened, but reading it fails, as on a disk that is broken."""
    (logs / "e000.jsonl").unlink()
    (logs / "e000.jsonl").symlink_to("/proc/self/mem")
    return "e000.jsonl cannot be read: "


def half_a_router(logs: Path) -> str:
    text = (logs / "router.jsonl").read_text()
    (logs / "router.jsonl").write_text(text[:-20])
    return "the last line is cut off"


@pytest.mark.parametrize("spoil", [cut, damaged, copied, empty, unreadable, half_a_router])
def test_what_is_wrong_with_a_file_is_said_and_nothing_else_is_lost(logs: Path, spoil: Any) -> None:
    sentence = spoil(logs)
    found = report_of("logs")
    assert found["exit_status"] == 2
    assert len(found["faults"]) == 1
    assert sentence in found["faults"][0]
    assert found["rules"]["KV-8"]["engines"] == ["e001"]


def test_parts_of_one_engine_may_follow_each_other(logs: Path) -> None:
    lines = [json.loads(line) for line in (logs / "e000.jsonl").read_text().splitlines()]
    later = max(line.get("now_ns", 0) for line in lines) + 1
    for line in lines[1:]:
        line["now_ns"] += later
        if line["type"] == "submit":
            line["request"]["id"] += "-later"
    text = "".join(json.dumps(line) + "\n" for line in lines).replace('"r', '"r')
    assert not report_of("logs")["faults"]
    (logs / "e000-later.jsonl").write_text(text)
    assert not any("claim engine" in fault for fault in report_of("logs")["faults"])


def test_two_routers_are_one_too_many(logs: Path) -> None:
    shutil.copy(logs / "router.jsonl", logs / "other.jsonl")
    result = trace("logs")
    assert (result.exit_code, "a fleet has one" in result.stderr) == (2, True)


def test_a_file_that_grows_is_not_read_for_ever(logs: Path) -> None:
    path = logs / "e000.jsonl"
    messages = read_recorded(path)[1]
    next(messages)
    with path.open("a") as file:
        file.write('{"schema":"schedspec/1","type":"end","now_ns":')
    with pytest.raises(TraceError, match=r"judge it when nobody writes to it any more"):
        list(messages)


def test_a_folder_without_traces_is_one_sentence(tmp_path: Path) -> None:
    result = trace(str(tmp_path))
    assert (result.exit_code, "there is no recorded run there" in result.stderr) == (2, True)


@pytest.mark.deep
def test_a_campaign_goes_on_where_it_was(logs: Path) -> None:
    assert trace("logs", "--report", "whole").exit_code == 1
    done = Path("whole/campaign/done.jsonl")
    before = tree("whole")
    lines = done.read_text().splitlines(keepends=True)
    done.write_text(lines[2])
    assert trace("logs", "--resume", "whole", "--on", "local:1").exit_code == 1
    assert tree("whole") == before
    assert sorted(done.read_text().splitlines(keepends=True)) == sorted(lines)


# --- a large directory ---------------------------------------------------------------------------------------

PLANTED = {17: "KV-8", 101: "STEP-2", 163: "STEP-3"}


@pytest.mark.deep
def test_of_two_hundred_engines_the_three_with_faults_are_named_whoever_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers are killed at random moments; the report is that of one process, byte for byte."""
    monkeypatch.chdir(tmp_path)
    fleet = new_fleet(200, 1, router=Router, factories={number: factory(rule) for number, rule in PLANTED.items()})
    fleet.run(arrivals(1_000, 1, gap_ns=STEP_NS // 100))
    fleet.write(Path("logs"))
    stop = threading.Event()
    killer = threading.Thread(target=kill_now_and_then, args=(Path("local/campaign/done.jsonl"), stop))
    killer.start()
    try:
        local = trace("logs", "--report", "local", "--on", "local:2")
    finally:
        stop.set()
        killer.join()
    one = trace("logs", "--report", "one")
    assert (local.exit_code, one.exit_code) == (1, 1), local.stderr[-400:]
    assert "is run again" in local.stderr
    assert tree("local") == tree("one")
    broken = {engine["engine"]: set(engine["broken"]) for engine in json.loads(tree("one")["report.json"])["engines"]}
    assert {name for name, rules in broken.items() if rules} == {f"e{number:03d}" for number in PLANTED}
    assert all(rule in broken[f"e{number:03d}"] for number, rule in PLANTED.items())


def kill_now_and_then(done: Path, stop: threading.Event) -> None:
    """Twice, by what is done and not by the clock: a unit whose worker dies a third time is given up."""
    draws = random.Random(0)
    for kill_at in (30, 110):
        while not stop.wait(0.02):
            units = len(done.read_bytes().splitlines()) if done.exists() else 0
            workers = multiprocessing.active_children()
            if units >= kill_at and workers:
                os.kill(draws.choice(workers).pid or 0, signal.SIGKILL)
                break


def test_a_link_that_leads_nowhere_is_no_engine_that_is_left_out(logs: Path) -> None:
    (logs / "e007.jsonl").symlink_to("nothing.jsonl")
    result = trace("logs")
    assert (result.exit_code, "e007.jsonl is a link that leads nowhere" in result.stderr) == (2, True)


HOSTILE = (
    "..",
    "../../evil",
    "/etc",
    ".",
    "",
    "a/../../b",
    "<b>e</b>",
    "e\x00",
    "a\u202eb",
    "x" * 300,
    "x" * 301,
    "a/" * 500_000,
    "\udcff",
)


def test_folders_of_engines_are_inside_of_the_report_and_each_its_own() -> None:
    folders = [engine_folder(name) for name in HOSTILE]
    assert len(set(folders)) == len(HOSTILE)
    for folder in folders:
        assert folder.parts[0] == "engines"
        assert len(folder.parts) > 1
        assert set(folder.parts).isdisjoint({"..", "."})
        assert all(len(part) < 80 for part in folder.parts)
    assert engine_folder("rack-1/e0") == Path("engines/rack-1/e0")


def test_the_report_of_a_fleet_is_told_from_others(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(json.dumps({"rules": {}, "engines": []}))
    result = CliRunner().invoke(cli, ["report", str(tmp_path)])
    assert result.exit_code == 2
    assert "is no report of a fleet of this version" in result.output


# --- pages -----------------------------------------------------------------------------------------------------


def page_of(folder: str) -> str:
    return (Path(folder) / "report.html").read_text(encoding="utf-8")


def test_a_fleet_has_a_page_that_leads_to_each_failure(logs: Path) -> None:
    found = report_of("logs")
    text = page_of("out")
    assert "1 MUST broken: KV-8 at 1 engine" in text
    (href, breaks) = re.findall(r'<a href="(engines/[^"]*)">(\d+)×</a>', text)[0]
    assert href == "engines/e001/failures/KV-8.html"
    assert int(breaks) == found["rules"]["KV-8"]["breaks"]
    failure = (Path("out") / href).read_text(encoding="utf-8")
    back = re.findall(r'<a href="([^"]*)">All engines</a>', failure)
    assert [(Path("out") / href).parent.joinpath(one).resolve() for one in back] == [Path("out/report.html").resolve()]
    assert "found in message" in failure
    assert json.loads(Path("out/badge.json").read_text())["color"] == "red"
    Path("out/report.html").unlink()
    assert CliRunner().invoke(cli, ["report", "out"]).exit_code == 0
    assert page_of("out") == text


def test_failures_of_engines_are_printed_as_those_of_a_check(logs: Path) -> None:
    said = trace("logs", "--report", "out").stdout
    assert re.search(r"^  Instead \S", said, re.MULTILINE)
    assert re.search(r"^✗ +\d+  \S", said, re.MULTILINE)
    assert not re.search(r"\*\*|```", said)


@pytest.mark.parametrize("rule", RULES)
def test_what_a_fleet_breaks_says_what_would_have_been_right(rule: str) -> None:
    places = set(re.findall(rf'"{rule}", (?:place=)?"(\w+)"', Path(fleet_rules.__file__).read_text()))
    assert places
    assert {f"{rule}.{place}" for place in places} == {one for one in INSTEAD if one.startswith(f"{rule}.")}


def test_of_two_files_of_one_engine_the_first_break_is_told(logs: Path) -> None:
    lines = [json.loads(line) for line in (logs / "e001.jsonl").read_text().splitlines()]
    later = max(line.get("now_ns", 0) for line in lines) + 1
    for line in lines[1:]:
        line["now_ns"] += later
    before = report_of("logs")["rules"]["KV-8"]
    (logs / "e001-later.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    both = report_of("logs")["rules"]["KV-8"]
    assert (both["breaks"], both["first_ns"]) == (2 * before["breaks"], before["first_ns"])
    assert "of e001.jsonl" in Path("out/engines/e001/failures/KV-8.md").read_text()


def test_a_disk_that_is_full_is_a_sentence_after_what_was_found(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device", "report.json")

    monkeypatch.setattr("schedspec.conformance.fleet.replace_file", full)
    result = trace("logs", "--report", "out")
    assert result.exit_code == 2
    assert re.search(r"^KV-8 +fail", result.stdout, re.MULTILINE)
    assert "the report in out is not complete: No space left on device: report.json" in result.stderr


def test_pages_of_an_earlier_run_are_gone(logs: Path) -> None:
    report_of("logs")
    (logs / "e001.jsonl").unlink()
    Path("out/engines/e001/mine.html").write_text("mine")
    report_of("logs")
    assert [path.name for path in Path("out/engines").rglob("*") if path.is_file()] == ["mine.html"]
    assert "KV-8.html" not in page_of("out")


NAMES = (
    "<script>document.title='owned'</script>",
    "a\u202eb\x1b[31m",
    '"><img src=x onerror=alert(1)>',
    "\udcff",
    "x" * 10**6,
)


def test_names_of_engines_and_requests_are_text(logs: Path) -> None:
    """In the pages and on the terminal; what cannot be encoded is escaped, what is long is short."""
    for name, path in zip(NAMES, sorted(logs.glob("e*.jsonl")) * 2, strict=False):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        lines[0] |= {"engine": name, "subject": name}
        Path(logs / f"more{NAMES.index(name)}.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    result = trace("logs", "--report", "out")
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert len(result.output) < 100_000
    assert not re.search(r"[\x1b\u202e]", result.output)
    for page in (Path("out/report.html"), *Path("out/engines").rglob("*.html")):
        text = page.read_text(encoding="utf-8")
        assert len(text) < 300_000
        assert not re.search(r"<img|<script>d|[\x1b\u202e]", text)
    for page in Path("out").rglob("*.md"):
        unfenced = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.search(r"(?<!\\)<(?=img|script)|[\x1b\u202e]", unfenced)


@pytest.mark.browser
def test_a_browser_runs_nothing_of_a_fleet_and_finds_its_pages(logs: Path) -> None:
    if browsers.PATH is None:
        pytest.skip("no Chromium is installed: what a browser makes of the pages was not tested")
    test_names_of_engines_and_requests_are_text(logs)
    browser = browsers.Browser.start()
    try:
        for page in (Path("out/report.html"), *Path("out/engines").rglob("*.html")):
            browser.open(page, 400)
            assert browser.problems() == []
            assert browser.requested() == [page.absolute().as_uri()]
            assert browser.eval("document.title") != "owned"
            assert browser.eval("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls to the side"
        browser.open(Path("out/report.html"))
        for href in browser.eval("[...document.querySelectorAll('table.fleet a')].map(link => link.href)"):
            assert Path(unquote(href.removeprefix("file://"))).exists()
    finally:
        browser.close()
