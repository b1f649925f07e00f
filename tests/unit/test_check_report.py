"""The pages of a check: what is on them, what a browser makes of them, what names from anybody cannot do."""

import html.parser
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from attrs import evolve
from click.testing import CliRunner, Result
from tests import reports_index
from tests.unit import browser as browsers
from tests.unit.browser import Browser

from schedspec import check_report
from schedspec.check_report import page
from schedspec.check_report.drawing import Drawer
from schedspec.cli import cli
from schedspec.conformance import recorded, report, shown
from schedspec.conformance.badge import badge
from schedspec.conformance.check import Check, Depth, Failure
from schedspec.conformance.determinism import Difference
from schedspec.conformance.driver import Driver, replay
from schedspec.conformance.folder import write_trace
from schedspec.conformance.names import Names
from schedspec.conformance.page import Case
from schedspec.conformance.project import Shortening
from schedspec.conformance.script import BEGIN_TRANSFER, COMPLETE, STEP, Op, Script, cancel, rounds, submit
from schedspec.conformance.timeline import Timeline, histories
from schedspec.conformance.walks import walk
from schedspec.reference import Scheduler, make
from schedspec.reference.faults import factory
from schedspec.spec import trace
from schedspec.spec.vocabulary import Message, Plan, Pools, Settings

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads(Path(trace.__file__).with_name("report.schema.json").read_text(encoding="utf-8"))
OWNS = "document.title='owned';alert(1)"
HOSTILE = (
    f"<script>{OWNS}</script>",
    f'"\'><img src=x onerror="{OWNS}">',
    f"</title></style></script><svg onload={OWNS}>",
    "{{7*7}}{% raw %}",
    "日本語🙂",
    "a\u202eb\x1b[31m\n",
    "1 MB " * 200_000,
    "",
)


def run_of(ops: list[Op], settings: Settings, rule: str | None = "KV-7") -> Driver:
    driver = Driver.start(factory(rule) if rule else make, settings, 0, name="mine:S", explain=True)
    driver.run(ops)
    return driver


def hostile_run() -> Driver:
    settings = Settings(blocks=64, block_size=2, prefix_caching=True)
    ops = [submit(name, 3, 2, client=name) for name in HOSTILE]
    return run_of([*ops, *rounds(1), STEP, cancel(HOSTILE[0])], settings)


def long_run(steps: int) -> Driver:
    """A request after the other, and one that is cancelled at the end."""
    settings = Settings(blocks=12, block_size=2, seats=2, token_budget=6)
    driver = Driver.start(factory("KV-7"), settings, 0, name="mine:S", explain=True)
    for number in range(steps):
        driver.run([submit(f"r{number}", 3, 4)] if number % 3 == 0 else [])
        driver.run([STEP, COMPLETE])
    driver.run([STEP, *(cancel(track.id) for track in list(driver.monitor.tracks.values()) if not track.ended)])
    assert {v.rule for v in driver.broken} == {"KV-7"}
    return driver


def written(path: Path, driver: Driver) -> Path:
    write_trace(path, driver.header, driver.messages)
    return path


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reports of recorded runs: a leak, hostile names, a long one, and a clean one."""
    folder = tmp_path_factory.mktemp("pages")
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(recorded, "BY_TIME", Shortening(0.0))
    leak = run_of(
        [submit("a", 3, 2), submit("b", 5, 3), *rounds(1), STEP, cancel("a")], Settings(blocks=8, block_size=2)
    )
    clean = run_of([submit("a", 3, 2), *rounds(4)], Settings(blocks=8, block_size=2), None)
    for name, driver in {"leak": leak, "hostile": hostile_run(), "long": long_run(160), "clean": clean}.items():
        judged = recorded.judge(written(folder / f"{name}.jsonl", driver))
        if name in ("hostile", "long"):  # as it is, not shortened
            violation = evolve(driver.broken[0], message=len(driver.messages))
            judged.shortened = [(violation, driver.messages)]
        told = recorded.result_json(judged)
        recorded.write_recorded(folder / name, judged)
        beginning = shown.beginning(judged.path, judged.messages) if name == "clean" else None
        assert (
            check_report.write_pages(folder / name, told, recorded.shown_cases(judged, folder / name), beginning)
            is None
        )
    monkeypatch.undo()
    return folder


class Elements(html.parser.HTMLParser):
    """Names of elements, and attributes that load or run something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.dangerous: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.dangerous += [a for a in attrs if a[0].startswith("on") or a[0] in ("src", "srcset", "data", "action")]


# --- what is on a page -------------------------------------------------------------------------------------


def test_a_page_has_everything_that_an_engineer_needs(folder: Path) -> None:
    text = (folder / "leak/failures/KV-7.html").read_text(encoding="utf-8")
    for word in ("Let", "Then", "However", "Instead", "Subject", "Why"):
        assert re.search(rf"<dt[^>]*>{word}</dt>", text)
    rows = re.findall(r'<tr class="bad"[^>]*>.*?</tr>', text, re.DOTALL)
    assert "cancel a" in rows[0]
    assert re.search(r'<th scope="col" class="[^"]*bad"', text)
    assert "held by a" in text
    assert "prefill, positions 0 to 2, and samples a token" in text
    assert f"schedspec trace {folder}/leak/failures/KV-7.jsonl" in text


def test_the_whole_report_has_the_verdicts_and_each_failure(folder: Path) -> None:
    text = (folder / "leak/report.html").read_text(encoding="utf-8")
    told = json.loads((folder / "leak/report.json").read_text())
    assert text.count('<td class="verdict ') == len(told["rules"])
    assert '<section class="failure" id="KV-7"' in text
    clean = (folder / "clean/report.html").read_text(encoding="utf-8")
    assert "The beginning of the run" in clean
    assert 'class="failure"' not in clean


def test_names_from_anybody_are_text(folder: Path) -> None:
    for file in ("hostile/report.html", "hostile/failures/KV-7.html"):
        text = (folder / file).read_text(encoding="utf-8")
        found = Elements(text)
        assert found.names.count("script") == 1
        assert {"img", "svg", "iframe", "object", "link"}.isdisjoint(found.names)
        assert found.dangerous == []
        assert "日本語🙂" in text
        assert "{{7*7}}" in text
        assert "(1,000,000 characters)" in text
        assert len(text) < 400_000
        assert "\u202e" not in text
        assert "\x1b" not in text


def test_the_page_of_a_stored_report_is_the_same(folder: Path, tmp_path: Path) -> None:
    first = (folder / "leak/failures/KV-7.html").read_text(encoding="utf-8")
    done = call("report", folder / "leak", "--to", tmp_path / "again")
    assert done.exit_code == 0, done.output
    again = (tmp_path / "again/failures/KV-7.html").read_text(encoding="utf-8")
    assert [line for line in again.splitlines() if "<dd>" not in line] == [
        line for line in first.splitlines() if "<dd>" not in line
    ]


def test_a_check_and_its_stored_folder_have_the_test_to_paste(tmp_path: Path) -> None:
    pools = Pools(decode_blocks=4, decode_seats=1, decode_token_budget=4, transfer_ns=100)
    script = Script(
        Settings(blocks=8, block_size=2, pools=pools), 0, [submit("a", 4, 4), STEP, COMPLETE, BEGIN_TRANSFER]
    )
    run = replay(factory("XFER-2"), script, name="fault:XFER-2", explain=True)
    (broken, *_) = run.breaks_of("XFER-2")
    depth = Depth(name="none", search_s=0.0, workload_s=None, shrink_s=0.0, examples=0)
    check = Check(name="fault:XFER-2", factory=factory("XFER-2"), seed=0, depth=depth, command="typed <b>")
    check.findings.only = frozenset({"XFER-2"})
    check.findings.add(run, "scenario: <i>")
    failure = Failure(rule="XFER-2", conjunct=broken.conjunct, stage="walk", script=script, also=[], run=run)
    failure.violation, failure.messages = broken, 4
    check.findings.failures["XFER-2"] = failure
    report.write_report(tmp_path, check)
    check_report.write_pages(tmp_path, report.as_json(check), report.shown_failures(check, tmp_path))
    for file in (tmp_path / "report.html", tmp_path / "failures/XFER-2.html"):
        text = file.read_text(encoding="utf-8")
        assert "STEP, COMPLETE, BEGIN_TRANSFER]" in text
        assert "found in walk, then shortened" in text
        assert "decode pool" in text
        file.unlink()
    assert json.loads((tmp_path / "badge.json").read_text())["message"] == "0 of 1 rules pass, 1 fails"
    jsonschema.validate(json.loads((tmp_path / "report.json").read_text()), SCHEMA)
    assert call("report", tmp_path).exit_code == 0
    assert "STEP, COMPLETE, BEGIN_TRANSFER]" in (tmp_path / "failures/XFER-2.html").read_text(encoding="utf-8")
    assert "typed &lt;b&gt;" in (tmp_path / "report.html").read_text(encoding="utf-8")
    compile((tmp_path / "failures/XFER-2_test.py").read_text(), "pasted.py", "exec")


def broken_protocol(settings: Settings, seed: int) -> Any:
    scheduler: Any = make(settings, seed)
    scheduler.step = lambda now_ns: {"step": 1, "request": ["<b>"], "start": [0], "tokens": [1]}
    return scheduler


def test_a_broken_protocol_has_a_page(tmp_path: Path) -> None:
    depth = Depth(name="none", search_s=0.0, workload_s=None, shrink_s=0.0, examples=0)
    check = Check(name="mine:S", factory=broken_protocol, seed=0, depth=depth)
    run = replay(broken_protocol, Script(Settings(), 0, [submit("a", 4, 4), STEP]))
    assert run.fault is not None
    check.findings.add(run, "walk")
    report.write_report(tmp_path, check)
    told = report.as_json(check)
    check_report.write_pages(tmp_path, told, report.shown_failures(check, tmp_path))
    live = (tmp_path / "failures/void.html").read_text(encoding="utf-8")
    assert "the subject broke the protocol" in live
    bad = r'<tr class="bad"[^>]*><td>✗ 2</td><td[^>]*>step</td><td>step: samples is'
    assert re.search(bad, live)
    assert call("report", tmp_path).exit_code == 0
    assert re.search(bad, (tmp_path / "failures/void.html").read_text(encoding="utf-8"))
    assert badge(told)["color"] == "critical"


class Crashes(Scheduler):
    def cancel(self, request_id: str, now_ns: int) -> Any:
        return self.deeper()

    def deeper(self, left: int = 40) -> Any:
        if not left:
            raise LookupError("<i>\x1b[31m\u202e\0" * 500)
        return self.deeper(left - 1)


def test_a_crash_is_the_last_row_with_its_traceback_and_the_other_rules_are_judged(tmp_path: Path) -> None:
    folder, name = tmp_path / "report", f"{__name__}:Crashes"
    result = call("check", name, "--depth", "smoke", "--workload", "none", "--report", folder)
    assert result.exit_code == 2
    assert not re.search(r"[\x1b\u202e\0]", result.output)
    told = json.loads((folder / "report.json").read_text())
    verdicts = {rule: one["verdict"] for rule, one in told["rules"].items()}
    assert verdicts["KV-1"] == "pass"
    assert verdicts["LIFE-6"] == "void"
    assert verdicts["XFER-1"] == "not claimed"
    stored = json.loads((folder / "failures/void.json").read_text())
    call_of_it = stored["unanswered"]
    assert call_of_it.startswith("cancel ")
    assert 5 < len(stored["told"]) <= 41
    assert all(len(line) <= 201 and line.isprintable() for line in stored["told"])
    assert sum("in deeper" in line for line in stored["told"]) < 40
    for _ in range(2):
        page = (folder / "report.html").read_text(encoding="utf-8")
        assert re.search(
            rf'<tr class="bad"[^>]*><td>✗ \d+</td><td[^>]*>{call_of_it}</td><td>cancel raised LookupError', page
        )
        assert "in deeper" in page
        assert "LookupError: &lt;i&gt;\\x1b[31m\\u202e\\x00&lt;i&gt;" in page
        assert not {"<i>", "\x1b", "\u202e", "\0"} & set(re.findall(r"<i>|[\x1b\u202e\0]", page.split("<body>")[1]))
        assert call("report", folder).exit_code == 0
    again = call("replay-failure", folder / "failures/void.json")
    assert again.exit_code == 2
    assert "in deeper" in again.output
    assert re.search(rf"✗ +\d+  {call_of_it} +cancel raised", again.output)


# --- in a browser ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if browsers.PATH is None:
        pytest.skip("no Chromium is installed: what a browser makes of the pages was not tested")
    browser = Browser.start()
    yield browser
    browser.close()


SEEN = """(selector => { const box = document.querySelector(selector).getBoundingClientRect();
  const view = document.querySelector(selector).closest('.scroller').getBoundingClientRect();
  return box.width > 0 && box.left >= view.left && box.right <= view.right + 1; })"""


@pytest.mark.parametrize("name", ["leak", "hostile", "long"])
def test_a_browser_runs_nothing_and_loads_nothing(folder: Path, browser: Browser, name: str) -> None:
    for file in (folder / name / "report.html", folder / name / "failures/KV-7.html"):
        browser.open(file)
        assert browser.problems() == []
        assert browser.requested() == [file.as_uri()]
        assert browser.eval("document.title") != "owned"
        assert browser.eval(f"{SEEN}('table.run th.bad')"), "the column of the break is in view"
        assert browser.eval("document.querySelector('table.steps tr.bad').offsetHeight > 0")
        assert (
            browser.eval("[...document.querySelectorAll('td')].filter(cell => cell.innerHTML.includes('<b>')).length")
            == 0
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_it_is_legible_on_a_phone_and_in_the_dark(folder: Path, browser: Browser, width: int, scheme: str) -> None:
    browser.open(folder / "long/failures/KV-7.html", width, 800, scheme)
    assert browser.eval("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls to the side"
    ground, ink = (
        sum(map(int, re.findall(r"\d+", browser.eval(f"getComputedStyle(document.body).{name}"))[:3]))
        for name in ("backgroundColor", "color")
    )
    assert (ground > 600 and ink < 200) if scheme == "light" else (ground < 120 and ink > 600)


def test_a_long_run_is_folded_and_unfolds(folder: Path, browser: Browser) -> None:
    browser.open(folder / "long/failures/KV-7.html")
    columns = "[...document.querySelectorAll('table.run thead th')].filter(head => head.offsetParent).length"
    folded = browser.eval(columns)
    assert 20 < folded < 60
    browser.eval("document.querySelector('.columns').click()")
    assert browser.eval(columns) > 300
    rows = "[...document.querySelectorAll('table.steps tr')].filter(row => row.offsetParent).length"
    assert browser.eval(rows) < 50
    browser.eval("document.querySelector('.unfold').click()")
    assert browser.eval(rows) > 300


def test_cells_are_told_to_the_keyboard(folder: Path, browser: Browser) -> None:
    browser.open(folder / "leak/failures/KV-7.html")
    told = "document.querySelector('.told').textContent"
    browser.eval("document.querySelector('table.run td[tabindex=\"0\"]').focus()")
    assert browser.eval(told).startswith("a, after step 2 (cancel a): cancelled a")
    browser.press("ArrowLeft")
    assert browser.eval(told).startswith("a, step 2: ")
    browser.press("ArrowDown")
    assert browser.eval(told).startswith("b, step 2: ")
    browser.eval("document.querySelector('button[data-copy]').click()")
    assert browser.eval("document.querySelector('button[data-copy]').hidden") is False


# --- bounds and bad input ----------------------------------------------------------------------------------


def test_a_late_break_is_shown_with_what_came_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "LONGEST_TO_SHORTEN", 50)
    driver = long_run(60)
    judged = recorded.judge(written(tmp_path / "run.jsonl", driver))
    (case,) = judged.far
    assert len(case.messages) + case.before <= len(driver.messages)
    near = shown.neighbourhoods(judged.path, [judged.first["KV-7"]], around=12)
    assert [len(one.messages) for one in near] == [12]
    view = page.view_of(shown.shown(near[0]))
    calls = [m for m in driver.messages if m.kind not in ("observe", "end")]
    assert view.rows[-1].number == len(calls)
    assert view.rows[-1].is_bad
    assert view.drawing.heads[-1].is_bad
    assert dict(view.proof)["Then"].startswith("cancel ")
    assert any("finished" in spot.says or "decodes" in spot.says for row in view.drawing.requests for spot in row.spots)


def test_memory_of_a_timeline_does_not_grow_with_the_run() -> None:
    driver = long_run(200)
    timeline = Timeline(driver.header, most=20)
    for message in driver.messages:
        timeline.feed(message)
    assert len(timeline.columns) == 20
    assert len(timeline.known) <= 3
    assert timeline.left_out > 300
    whole = Timeline(driver.header)
    for message in driver.messages:
        whole.feed(message)
    tail = {place: row[-20:] for place, row in histories(whole).items() if any(row[-20:])}
    assert {place: row for place, row in histories(timeline).items() if any(row)} == tail


def test_a_run_that_lies_is_drawn_as_it_says(tmp_path: Path) -> None:
    driver = run_of([submit("a", 3, 2), STEP], Settings(blocks=4, block_size=2), None)
    deltas = [
        ("took", "a", [10**9]),
        ("gave", "ghost", [3, 3]),
        ("unindexed", [77]),
        ("preempted", "a", "swap", "ghost"),
    ]
    lie = Plan(
        step=2,
        request=["a", "ghost"],
        start=[3, 7],
        tokens=[1, 9],
        samples=[1, 0],
        deltas=deltas,
    )
    messages = [*driver.messages, Message("step", 0, None, lie)]
    file = tmp_path / "lies.jsonl"
    write_trace(file, driver.header, messages)
    done = call("report", file, "--to", tmp_path / "out")
    assert done.exit_code == 0, done.output
    drawn = shown.watched(driver.header, messages)[0]
    drawing = Drawer(drawn, len(messages), frozenset(), Names(messages), int).drawing()
    assert any("1000000000; the pool has 0 to 3" in note for note in drawing.notes)
    assert (tmp_path / "out/report.html").exists()


def test_drafts_and_a_second_run_that_differs_are_shown(tmp_path: Path) -> None:
    driver = run_of([submit("a", 3, 3), STEP, COMPLETE], Settings(blocks=4, block_size=2), None)
    drafts = Plan(step=2, request=["a"], start=[3], tokens=[1], samples=[1], drafts={"a": 2})
    drawn = shown.watched(driver.header, [*driver.messages, Message("step", 0, None, drafts)])[0]
    (row,) = page.picture_of(drawn).requests
    assert row.spots[-1].text == "~2"
    assert row.spots[-1].says == "decodes, position 3, and samples a token, and verifies 2 drafts"
    difference = Difference(driver.script, 2)
    case = Case(rule="DET-1", header=driver.header, messages=driver.messages, difference=difference)
    view = page.view_of(shown.shown(case))
    assert [row.number for row in view.rows if row.is_bad] == [2]
    assert [head.label for head in view.drawing.heads if head.is_bad] == ["1"]


def test_a_folder_that_cannot_be_written_is_a_sentence_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    file = written(tmp_path / "run.jsonl", long_run(5))
    for command in (("trace", file, "--report"), ("report", file, "--to"), ("check", "reference", "--report")):
        done = call(*command, tmp_path / "file/folder")
        assert done.exit_code == 2
        assert "no report can be written to" in " ".join(done.output.split())

    def full(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device", "report.json")

    monkeypatch.setattr("schedspec.conformance.recorded.write_recorded", full)
    done = call("trace", file, "--report", tmp_path / "out")
    assert done.exit_code == 2
    assert "KV-7.1 asks that" in " ".join(done.output.split())
    assert "is not complete: No space left on device: report.json" in " ".join(done.output.split())


def test_without_the_extra_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_report, "find_spec", lambda name: None)
    file = written(tmp_path / "run.jsonl", long_run(5))
    done = call("trace", file, "--report", tmp_path / "out")
    assert done.exit_code == 1
    assert done.output.count("pip install 'schedspec[report]'") == 1
    assert not (tmp_path / "out/report.html").exists()
    assert (tmp_path / "out/failures/KV-7.md").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "there is no file"),
        ("{", "is not JSON"),
        ('{"rules": 7}', "is no report"),
        ('{"rules": {"KV-7": 1}}', "KV-7"),
    ],
)
def test_a_folder_that_is_no_report_is_a_sentence(tmp_path: Path, text: str | None, says: str) -> None:
    if text is not None:
        (tmp_path / "report.json").write_text(text)
    done = call("report", tmp_path)
    assert done.exit_code == 2
    assert says in " ".join(done.output.split())


# --- what else is written ----------------------------------------------------------------------------------


def test_reports_keep_their_schema(folder: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    files = [*folder.glob("*/report.json"), *(ROOT / "tests/reports").rglob("report.json")]
    assert len(files) > 10
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for file in files:
        assert [str(error) for error in validator.iter_errors(json.loads(file.read_text(encoding="utf-8")))] == []
    assert not validator.is_valid({**json.loads(files[0].read_text()), "verdict": "pass"})


def results(**counts: int) -> dict[str, Any]:
    verdicts = [name.replace("_", " ") for name, count in counts.items() for _ in range(count)]
    return {"rules": {f"X-{n}": {"verdict": v, "level": "MUST"} for n, v in enumerate(verdicts)}}


@pytest.mark.parametrize(
    ("told", "message", "color"),
    [
        (results(**{"pass": 41, "fail": 3, "not_claimed": 43}), "41 of 87 rules pass, 3 fail", "red"),
        (results(**{"pass": 3, "not_exercised": 1}), "3 of 4 rules pass", "green"),
        (results(**{"pass": 3, "known": 1}), "3 of 4 rules pass, 1 known", "yellow"),
        (results(not_claimed=4), "0 of 4 rules pass", "lightgrey"),
        ({**results(**{"pass": 3}), "faults": ["x"]}, "void: the subject broke the protocol", "critical"),
        ({**results(**{"pass": 2, "unknown": 1}), "interrupted": True}, "2 of 3 rules pass, interrupted", "lightgrey"),
        ({**results(**{"pass": 2}), "stale": ["x"]}, "2 of 2 rules pass, 1 stale in the baseline", "red"),
    ],
)
def test_a_badge_counts_what_was_judged(told: dict[str, Any], message: str, color: str) -> None:
    assert badge(told) == {"schemaVersion": 1, "label": "schedspec", "message": message, "color": color}


@pytest.mark.parametrize("seed", range(12))
def test_blocks_are_drawn_as_the_scheduler_shows_them(seed: int) -> None:
    """What the pictures follow by deltas is what snapshots say, call by call."""
    script: Script = walk(seed, ("fcfs", "priority"))
    try:
        driver = Driver.start(make, script.settings, 0)
    except Exception:
        pytest.skip("the reference refuses these settings")
    driver.run(script.ops)
    timeline = Timeline(driver.header)
    looked = 0
    for message in driver.messages:
        timeline.feed(message)
        if message.kind != "observe":
            continue
        looked += 1
        holding = {place[1]: held for place, held in timeline.holdings.holding.items() if not place[0]}
        tables = {block for table in message.answer.tables.values() for block in table}
        assert {b for b, h in holding.items() if h.state in ("held", "cached")} == tables
        aside = {block for block, _, why in message.answer.obligations if why != "write"}
        assert {b for b, h in holding.items() if h.state == "aside"} == aside - tables
        loose = {b for b, h in holding.items() if h.state == "evictable"}
        assert loose == set(message.answer.evictable) - aside
        running = {request for request, view in message.answer.requests.items() if view.state == "running"}
        assert {request for request, known in timeline.known.items() if known.doing == "runs"} == running
    assert looked


def test_the_index_of_stored_reports_is_of_what_is_there() -> None:
    assert reports_index.lost() == []
    assert (ROOT / "tests/reports/README.md").read_text(encoding="utf-8") == reports_index.page()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (folder,) = re.findall(r"^vllm_reports := (.*)$", makefile, re.MULTILINE)
    assert (ROOT / folder / "known.json").exists()
