"""Known failures: they do not count, what is new does, and nothing that a person wrote is lost."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner, Result

from schedspec.cli import cli
from schedspec.conformance import baseline as module
from schedspec.conformance import check as suite
from schedspec.conformance import files
from schedspec.conformance.baseline import BaselineError, Entry, Standing, as_text, read_baseline, stand
from schedspec.conformance.check import Findings, Known
from schedspec.conformance.driver import replay
from schedspec.conformance.script import STEP, Script, cancel, submit, to_json
from schedspec.reference import Scheduler, make
from schedspec.reference.faults import factory
from schedspec.spec.vocabulary import Plan, Settings

LEAK = Script(Settings(blocks=4, block_size=2), 0, [submit("a", 3, 2), STEP, cancel("a")])
TOY = "schedspec.conformance.examples.toy_scheduler:Scheduler"
ENTRY = {"rule": "KV-7", "reason": "we know", "script": to_json(LEAK)}

Runs = Callable[..., Result]


class _Raises(Scheduler):
    def step(self, now_ns: int) -> Plan:
        raise KeyError("no such block")


def raises(settings: Settings, seed: int) -> Scheduler:
    return _Raises(settings, seed)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """`check` in a folder of its own; scenarios find what is planted here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(suite.DEPTHS, "smoke", evolve(suite.DEPTHS["smoke"], search_s=0.0, examples=0))

    def check(subject: str, *arguments: str) -> Result:
        options = ["--workload", "none", "--depth", "smoke", "--baseline", "known.json", *arguments]
        return CliRunner().invoke(cli, ["check", subject, *options])

    return check


def stored() -> list[dict[str, Any]]:
    known: list[dict[str, Any]] = json.loads(Path("known.json").read_text())["known"]
    return known


def write(*entries: Any) -> str:
    text = json.dumps({"known": entries})
    Path("known.json").write_text(text)
    return text


def report(subject: str) -> dict[str, Any]:
    folder = "".join(c if c.isalnum() or c in "-." else "_" for c in subject)
    plain: dict[str, Any] = json.loads((Path("build/report") / folder / "report.json").read_text())
    return plain


def said(result: Result) -> str:
    return " ".join(result.output.split())


# --- what is known does not count --------------------------------------------------------------------------


@pytest.mark.parametrize("subject", ["fault:KV-7", "fault:KV-12", "fault:KV-16", "fault:PRE-5", "fault:STEP-11"])
def test_what_was_written_is_known_the_next_time(run: Runs, subject: str) -> None:
    first = run(subject, "--update-baseline")
    assert first.exit_code == 0
    assert "now write the reasons" in said(first)
    entries = [entry | {"reason": "an old bug", "link": "https://example.org/1"} for entry in stored()]
    assert entries
    write(*entries)
    again = run(subject)
    assert again.exit_code == 0, again.output
    rule = report(subject)["rules"][entries[0]["rule"]]
    assert (rule["verdict"], rule["reason"], rule["link"]) == ("known", "an old bug", "https://example.org/1")
    assert f"known {entries[0]['rule']}: an old bug (https://example.org/1)" in said(again)


ELSEWHERE = """
import os
from schedspec.reference.scheduler import Scheduler


class Backwards(Scheduler):
    def compose(self, jobs):
        elsewhere = os.environ.get("PYTHONHASHSEED") in ("271828", "31415")
        return super().compose(jobs[::-1] if elsewhere else jobs)
"""


def test_a_failure_between_processes_can_be_known(run: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(suite.DEPTHS, "smoke", evolve(suite.DEPTHS["smoke"], reruns=True))
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    Path("differs_elsewhere.py").write_text(ELSEWHERE)
    subject = "differs_elsewhere:Backwards"
    assert run(subject).exit_code == 2  # there is no file yet
    assert run(subject, "--update-baseline").exit_code == 0
    assert {entry["conjunct"] for entry in stored()} == {"DET-1.run"}
    again = run(subject)
    assert again.exit_code == 0, again.output


def test_a_new_failure_counts(run: Runs) -> None:
    write()
    assert run("fault:KV-7").exit_code == 1
    assert stored() == []


def test_another_conjunct_is_news() -> None:
    broken = replay(factory("KV-7"), LEAK)
    findings = Findings(known={"KV-7": [Known(frozenset({"KV-7.2"}), "preemption leaks")]})
    findings.add(broken, "here")
    assert findings.broken == {"KV-7"}
    findings = Findings(known={"KV-7": [Known(frozenset(v.conjunct for v in broken.broken), "cancel leaks")]})
    findings.add(broken, "here")
    assert findings.broken == set()


def test_what_a_known_failure_explains_is_known() -> None:
    script = Script(Settings(blocks=2, block_size=1, token_budget=1), 0, [submit("a", 1, 1), submit("b", 1, 1), STEP])
    broken = replay(factory("KV-16"), script)
    assert {v.rule for v in broken.broken} == {"KV-5", "KV-16"}
    known = [v.conjunct for v in broken.broken if v.rule == "KV-16"]
    findings = Findings(known={"KV-16": [Known(frozenset(known), "half an allocation")]})
    findings.add(broken, "here")
    assert findings.broken == set()
    assert suite.results(findings)["KV-5"].verdict == "known"


def test_a_script_may_stand_in_a_file(run: Runs) -> None:
    Path("sub").mkdir()
    Path("sub/KV-7.json").write_text(json.dumps({"subject": "x", "rule": "KV-7", "script": to_json(LEAK)}))
    write(ENTRY | {"script": "sub/KV-7.json"})
    assert run("fault:KV-7").exit_code == 0
    assert run("fault:KV-7", "--update-baseline").exit_code == 0
    assert [entry["script"] for entry in stored()] == ["sub/KV-7.json"]


# --- what is stale -----------------------------------------------------------------------------------------


def test_what_passes_now_is_an_error_until_it_is_removed(run: Runs) -> None:
    text = write(ENTRY)
    result = run("reference")
    assert result.exit_code == 1
    assert "KV-7 passes now: remove it, or run with --update-baseline" in said(result)
    assert report("reference")["stale"]
    assert Path("known.json").read_text() == text
    assert run("reference", "--update-baseline").exit_code == 0
    assert stored() == []
    assert run("reference").exit_code == 0


def test_settings_that_are_refused_are_an_error(run: Runs) -> None:
    write(ENTRY | {"script": to_json(evolve(LEAK, settings=Settings(prefix_caching=True, reserve="declared")))})
    result = run(TOY)
    assert result.exit_code == 1
    assert "KV-7 cannot be tried any more (setting prefix_caching=True" in said(result)


def test_a_failure_that_moved_is_an_error_and_keeps_its_reason(run: Runs) -> None:
    write(ENTRY | {"conjunct": "KV-7.2"})
    result = run("fault:KV-7")
    assert result.exit_code == 1
    assert "KV-7.2 fails in KV-7.1" in said(result)
    assert run("fault:KV-7", "--update-baseline").exit_code == 0
    assert [(entry["conjunct"], entry["reason"]) for entry in stored()] == [("KV-7.1", "we know")]


def test_words_of_those_that_stay_are_kept(run: Runs) -> None:
    stays = ENTRY | {"reason": 'they say "soon" ✓', "link": "https://example.org/7"}
    goes = ENTRY | {"rule": "KV-1", "reason": "gone by now"}
    write(stays, goes)
    result = run("fault:KV-7", "--update-baseline")
    assert result.exit_code == 0
    assert "1 kept, 0 added, 1 removed: KV-1 (gone by now)" in said(result)
    assert [(entry["reason"], entry["link"]) for entry in stored()] == [('they say "soon" ✓', "https://example.org/7")]


def test_entries_of_another_mode_are_left_alone(run: Runs) -> None:
    write(ENTRY | {"mode": "raw"})
    assert run("reference").exit_code == 0
    assert run("reference", "--update-baseline").exit_code == 0
    assert [entry["mode"] for entry in stored()] == ["raw"]


def test_a_broken_should_is_known_only_where_it_counts(run: Runs) -> None:
    assert run("reference", "--update-baseline").exit_code == 0
    assert stored() == []
    assert run("reference", "--update-baseline", "--strict").exit_code == 3  # something was not exercised
    assert [entry["rule"] for entry in stored()] == ["LIVE-11"]
    assert run("reference").exit_code == 0
    assert report("reference")["rules"]["LIVE-11"]["verdict"] == "known"


# --- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "known.json is not JSON"),
        ("[" * 100_000, "known.json is not JSON"),
        ("[]", "must be an object with a list 'known'"),
        ('{"known": [7]}', "known[0] is 7, but must be an object"),
        ([ENTRY | {"rule": "kv-77"}], "known[0]: there is no rule 'kv-77': did you mean 'KV-7'?"),
        ([ENTRY, ENTRY | {"resaon": ""}], "known[1] has a field 'resaon': did you mean 'reason'?"),
        ([ENTRY | {"reason": 3}], "known[0]: reason is 3, but must be a text"),
        ([ENTRY | {"reason": " "}], "known[0]: KV-7 has an empty reason"),
        ([{"rule": "KV-7", "reason": "x"}], "known[0] lacks 'script'"),
        ([ENTRY | {"conjunct": "KV-8.1"}], "conjunct is 'KV-8.1', but must be one of KV-7"),
        ([ENTRY | {"subject": "mine:Other"}], "known[0] is of 'mine:Other', but 'fault:KV-7' is checked"),
        ([ENTRY | {"script": "no.json"}], "known[0]: there is no file no.json"),
        ([ENTRY | {"script": {"ops": []}}], "known[0]: its script cannot be read"),
        ([ENTRY | {"script": [1]}], "known[0]: its script cannot be read"),
    ],
)
def test_bad_input_runs_nothing_and_loses_nothing(run: Runs, text: Any, sentence: str) -> None:
    text = text if isinstance(text, str) else json.dumps({"known": text})
    Path("known.json").write_text(text)
    for more in ((), ("--update-baseline",)):
        result = run("fault:KV-7", *more)
        assert result.exit_code == 2
        assert sentence in said(result)
        assert "Traceback" not in result.output
        assert Path("known.json").read_text() == text
        assert not Path("build").exists()


def test_a_missing_file_is_one_sentence(run: Runs) -> None:
    result = run("reference")
    assert result.exit_code == 2
    assert "there is no baseline known.json: --update-baseline makes one" in said(result)
    alone = CliRunner().invoke(cli, ["check", "reference", "--update-baseline"])
    assert alone.exit_code == 2
    assert "--update-baseline needs --baseline FILE" in said(alone)


@pytest.mark.parametrize(
    ("place", "sentence"),
    [("file/known.json", "the baseline file/known.json cannot be read"), (".", "cannot be read")],
)
def test_a_place_that_cannot_be_written_is_found_before(run: Runs, place: str, sentence: str) -> None:
    Path("file").write_text("not a folder")
    result = run("reference", "--baseline", place, "--update-baseline")
    assert result.exit_code == 2
    assert sentence in said(result)
    assert not Path("build").exists()


# --- nothing is lost ---------------------------------------------------------------------------------------


def test_an_interrupt_leaves_the_file(run: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    text = write(ENTRY)

    def interrupted(check: suite.Check) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(suite.Check, "_search", interrupted)
    result = run("reference", "--update-baseline")
    assert result.exit_code == 130
    assert "was interrupted, so the baseline known.json is left as it is" in said(result)
    assert Path("known.json").read_text() == text


def test_a_void_run_leaves_the_file(run: Runs) -> None:
    text = write(ENTRY)
    assert run(f"{__name__}:raises", "--update-baseline").exit_code == 2
    assert Path("known.json").read_text() == text


def test_who_edited_it_meanwhile_is_not_overwritten(run: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    write(ENTRY)
    edited = "{}"

    def edits(check: suite.Check) -> None:
        Path("known.json").write_text(edited)

    monkeypatch.setattr(suite.Check, "_search", edits)
    result = run("fault:KV-7", "--update-baseline")
    assert result.exit_code == 2
    assert "has changed since it was read" in said(result)
    assert Path("known.json").read_text() == edited
    assert report("fault:KV-7")["rules"]["KV-7"]["verdict"] == "known"


def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    file = tmp_path / "known.json"
    file.write_text("old")
    with pytest.raises(OSError, match="No space left"):
        files.replace_file(file, "new")
    assert [path.name for path in tmp_path.iterdir()] == ["known.json"]
    assert file.read_text() == "old"


# --- the file ----------------------------------------------------------------------------------------------


def test_what_is_written_is_read(tmp_path: Path) -> None:
    hostile = 'a "quoted" \\ \n \x00 \x7f \u2028 reason'
    entries = [
        Entry(rule="KV-7", conjunct="KV-7.1", subject="s", reason=hostile, link="x", script=LEAK),
        Entry(rule="KV-1", subject="s", mode="raw", reason="r", script=LEAK),
    ]
    file = tmp_path / "b.json"
    for some in (entries, entries[:1], []):
        file.write_text(as_text(some), encoding="utf-8")
        assert list(read_baseline(file, "s").entries) == some


def test_standings_say_what_the_counterexample_does(tmp_path: Path) -> None:
    entries = [
        Entry(rule="KV-7", reason="r", script=LEAK),
        Entry(rule="KV-7", conjunct="KV-7.2", reason="r", script=LEAK),
        Entry(rule="KV-1", reason="r", script=LEAK),
        Entry(rule="KV-1", reason="r", script=LEAK, mode="raw"),
    ]
    baseline = module.Baseline(path=tmp_path / "b.json", entries=entries, text=None)

    def states(subject: Any) -> list[str]:
        found: list[Standing] = list(stand(baseline, subject, mode="shipped", rerun=[], timeout_s=10.0))
        return [standing.state for standing in found]

    assert states(factory("KV-7")) == ["known", "moved", "passes", "other mode"]
    assert states(make) == ["passes", "passes", "passes", "other mode"]


def test_a_baseline_error_is_bad_input() -> None:
    assert issubclass(BaselineError, ValueError)
