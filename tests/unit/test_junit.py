"""JUnit XML: what CI makes of each verdict, counts that add up, and names that come from anybody."""

from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from attrs import evolve
from click.testing import CliRunner, Result

from schedspec.cli import cli
from schedspec.conformance import check as suite
from schedspec.conformance.check import Check, Depth, Failure, Known
from schedspec.conformance.driver import Driver
from schedspec.conformance.junit import as_xml
from schedspec.conformance.script import STEP, Script, cancel, submit
from schedspec.reference import make
from schedspec.reference.faults import factory
from schedspec.spec.catalogue import registry
from schedspec.spec.errors import ProtocolError
from schedspec.spec.vocabulary import Settings, SubjectFactory

NOTHING = Depth(name="none", search_s=0.0, workload_s=None, shrink_s=0.0, examples=0, reruns=False)
HOSTILE = '<a> & "b" \x1b[31m\x00 \ud800 ]]> ￾'


def cannot_be_made(settings: Settings, seed: int) -> None:
    raise RuntimeError("no GPU here")


def check(subject: SubjectFactory = make, name: str = "mine:Scheduler") -> Check:
    return Check(name=name, factory=subject, seed=0, depth=NOTHING)


def broken(rule: str, id: str = "a", name: str = "mine:Scheduler") -> Check:
    """A check that found one failure, without a search."""
    run = check(factory(rule), name)
    script = Script(Settings(blocks=4, block_size=2), 0, [submit(id, 3, 2), STEP, cancel(id)])
    driver = Driver.start(run.factory, script.settings, 0, name=name, explain=True)
    driver.run(script.ops)
    run.findings.add(driver, "here")
    seen = driver.breaks_of(rule)
    failure = Failure(rule=rule, conjunct=seen[0].conjunct, stage="here", script=script, also=[], run=driver)
    failure.violation = seen[0]
    run.findings.failures[rule] = failure
    return run


def suite_of(run: Check, *, strict: bool = False) -> ET.Element:
    text = as_xml(run, Path("build/report/x"), strict=strict)
    root = ET.fromstring(text.encode("utf-8"))
    assert root.tag == "testsuites"
    (found,) = root.findall("testsuite")
    counts = Counter(part.tag for case in found.findall("testcase") for part in case)
    for element in (root, found):
        assert int(element.attrib["tests"]) == len(found.findall("testcase"))
        assert int(element.attrib["failures"]) == counts["failure"]
        assert int(element.attrib["errors"]) == counts["error"]
        assert int(element.attrib["skipped"]) == counts["skipped"]
        assert float(element.attrib["time"]) >= 0
    for case in found.findall("testcase"):
        assert case.attrib["classname"].startswith("schedspec.")
        assert case.attrib["name"]
        assert {part.tag for part in case} <= {"failure", "error", "skipped", "system-out"}
    return found


def case(found: ET.Element, rule: str) -> ET.Element:
    (one,) = (c for c in found.findall("testcase") if c.attrib["name"].startswith(f"{rule}:"))
    return one


def message(found: ET.Element, rule: str, kind: str) -> str:
    said = case(found, rule).find(kind)
    assert said is not None
    return said.attrib["message"]


def test_there_is_a_case_for_every_rule() -> None:
    found = suite_of(check())
    assert len(found.findall("testcase")) == len(registry.rules)
    names = {p.attrib["name"]: p.attrib["value"] for p in found.iter("property")}
    assert {"subject", "version", "mode", "seed", "depth"} <= names.keys()


def test_a_broken_must_is_a_failure_with_its_page() -> None:
    found = suite_of(broken("KV-7"))
    failure = case(found, "KV-7").find("failure")
    assert failure is not None
    assert failure.attrib["message"].startswith("KV-7: A request that ended")
    assert "However KV-7.1 asks that" in str(failure.text)
    assert list(case(found, "LIFE-6")) == []


def test_what_was_not_judged_is_skipped_with_its_reason() -> None:
    run = check()
    run.run()
    found = suite_of(run)
    assert message(found, "DET-1", "skipped").startswith("not exercised")
    toy = check(lambda settings, seed: make(settings, seed))
    toy.findings.missing["KV-14"] = {"not claimed"}
    assert message(suite_of(toy), "KV-14", "skipped") == "not claimed: it binds who claims prefix_cache"


def test_a_broken_should_is_advice_unless_strict() -> None:
    run = check()
    run.run()
    assert "LIVE-11" in run.findings.failures
    assert message(suite_of(run), "LIVE-11", "skipped").startswith("advice: ")
    out = case(suite_of(run), "LIVE-11").find("system-out")
    assert out is not None
    assert "However LIVE-11.idle" in str(out.text)
    assert message(suite_of(run, strict=True), "LIVE-11", "failure").startswith("LIVE-11: ")


def test_what_is_known_is_skipped_with_reason_and_link() -> None:
    run = check()
    run.findings.known["KV-7"] = [Known(frozenset({"KV-7.1"}), "an old bug", "https://example.org/1")]
    assert message(suite_of(run), "KV-7", "skipped") == "known: an old bug (https://example.org/1)"


def test_void_and_stale_are_seen() -> None:
    run = check()
    run.findings.faults.append(ProtocolError("step", "plan.step", 0, "steps are numbered from 1"))
    run.findings.stale.append("KV-7.1 passes now")
    found = suite_of(run)
    assert message(found, "KV-1", "error").startswith("void")
    assert {"the protocol is kept", "KV-7.1 passes now"} <= {c.attrib["name"] for c in found.findall("testcase")}


def test_names_from_anybody_make_no_broken_xml() -> None:
    run = broken("KV-7", id=HOSTILE.replace("\ud800", ""), name=HOSTILE)
    run.findings.faults.append(ProtocolError("step", "plan.request", HOSTILE, HOSTILE))
    run.findings.known["KV-1"] = [Known(frozenset({"KV-1.1"}), HOSTILE, HOSTILE)]
    found = suite_of(run)
    assert found.attrib["name"].startswith('<a> & "b" \\x1b[31m\\x00 \\ud800 ]]> \\ufffe')
    assert message(found, "KV-1", "skipped").startswith('known: <a> & "b" \\x1b')


# --- the command -------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(suite.DEPTHS, "smoke", evolve(suite.DEPTHS["smoke"], search_s=0.0, examples=0))
    return tmp_path


def run(subject: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["check", subject, "--workload", "none", "--depth", "smoke", *arguments])


def test_the_command_writes_it(here: Path) -> None:
    result = run("fault:KV-7", "--junit", "new/folder/junit.xml")
    assert result.exit_code == 1
    root = ET.parse(here / "new/folder/junit.xml").getroot()
    assert root.attrib["failures"] == "1"
    assert [path.name for path in (here / "new/folder").iterdir()] == ["junit.xml"]


def test_a_subject_that_cannot_be_made_is_an_error_in_it(here: Path) -> None:
    assert run(f"{__name__}:cannot_be_made", "--junit", "junit.xml").exit_code == 2
    assert int(ET.parse(here / "junit.xml").getroot().attrib["errors"]) > 0


@pytest.mark.parametrize(
    ("place", "sentence"), [("file/junit.xml", "cannot be written to file/junit.xml: "), ("folder", "it is a folder")]
)
def test_a_place_that_cannot_be_written_is_found_before(here: Path, place: str, sentence: str) -> None:
    (here / "file").write_text("not a folder")
    (here / "folder").mkdir()
    result = run("fault:KV-7", "--junit", place)
    assert result.exit_code == 2
    assert sentence in " ".join(result.output.split())
    assert not (here / "build").exists()
