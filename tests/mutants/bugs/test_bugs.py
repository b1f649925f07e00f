"""A sample of the bugs is found; `make mutants` looks for all of them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from schedspec.conformance.check import DEPTHS, Depth
from schedspec.reference import make
from schedspec.spec.catalogue import registry

from . import CATALOGUE, Bug, hunt
from .__main__ import main
from .table import MOST_MESSAGES, as_json, as_text, line, misses

SAMPLE = ("B01", "B07", "B08", "B24", "B32")
"""One of a kind, and quick."""

IN_A_HURRY = Depth(name="hurry", search_s=0.0, workload_s=0.0, shrink_s=2.0, examples=0, reruns=False)
CLEAN = Bug(id="B01", title="nothing", url="", kind="none", rules=("KV-7",), factory=make)


@pytest.mark.parametrize("id", SAMPLE)
def test_a_bug_is_found(id: str) -> None:
    found = hunt(CATALOGUE[id], 0, DEPTHS["quick"])
    assert found.rule in CATALOGUE[id].rules
    assert found.messages is not None
    assert found.messages <= MOST_MESSAGES
    assert 0 < found.found_s <= found.seconds


@pytest.mark.parametrize("bug", [bug for bug in CATALOGUE.values() if not bug.of], ids=lambda bug: bug.id)
def test_cards_name_the_bugs_that_their_rules_find(bug: Bug) -> None:
    assert any(bug.id in registry.rules[rule].bugs for rule in bug.rules)


def test_where_there_is_nothing_nothing_is_found() -> None:
    missed = hunt(CLEAN, 0, IN_A_HURRY)
    assert (missed.rule, missed.messages, misses([missed])) == (None, None, [missed])
    assert "MISSED" in line(missed)
    assert "missed: B01" in as_text([missed])
    assert json.loads(as_json([missed], "hurry"))["missed"] == ["B01"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--only", "B999"], "there is no bug 'B999'"),
        (["--seeds", "a"], "must be whole numbers"),
        (["--json", "/"], "the result cannot be written to /: it is a folder"),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], sentence: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert sentence in result.output


def test_the_command_writes_what_it_found(tmp_path: Path) -> None:
    path, page = tmp_path / "mutants.json", tmp_path / "page.md"
    how = ["--seeds", "0", "--depth", "smoke", "--json", str(path), "--page", str(page)]
    result = CliRunner().invoke(main, ["--only", "B24", *how])
    assert result.exit_code == 0
    assert f"[B24]({CATALOGUE['B24'].url}) | PRE-6 | scenario |" in page.read_text()
    (search,) = json.loads(path.read_text())["searches"]
    assert (search["bug"], search["seed"], search["mode"]) == ("B24", 0, "scenario")
