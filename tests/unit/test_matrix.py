"""The matrix: combinations, what each check printed, the table."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from schedspec.cli import cli
from schedspec.conformance.matrix import Cell, Outcome, cells, exit_status, only_raw, read_over, row, run_matrix


def outcome(subject: str, *fails: str, status: int = 1) -> Outcome:
    rules = {rule: {"verdict": "fail", "level": "MUST", "messages": 3} for rule in fails}
    return Outcome(Cell(subject, ()), status, {"rules": rules, "faults": [], "runs": 10, "seconds": 1.0})


def test_every_combination_once() -> None:
    todo = cells(["a", "b"], [("policy", ["fcfs", "priority"]), ("overlap_depth", ["1", "2"])])
    assert len(todo) == len(set(todo)) == 8
    assert len({cell.folder for cell in todo}) == 8
    assert todo[0].settings == ("policy=fcfs", "overlap_depth=1")


@pytest.mark.parametrize("text", ["policy", "=1,2", "policy=", "policy=fcfs,,priority"])
def test_a_range_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="is no range of a setting"):
        read_over(text)


def test_what_fails_raw_only() -> None:
    outcomes = [outcome("x", "KV-1"), outcome("x-raw", "KV-1", "ADMIT-1"), outcome("y-raw", "KV-2")]
    assert list(only_raw(outcomes)) == [("x-raw", ["ADMIT-1"])]


def test_the_worst_status_counts() -> None:
    good, broken, void = outcome("x", status=0), outcome("x", "KV-1"), outcome("x", status=2)
    assert exit_status([good, broken]) == 1
    assert exit_status([good, broken, void]) == 2
    assert exit_status([good]) == 0


def test_a_row_names_rules_with_the_length_of_their_trace() -> None:
    assert row(outcome("x", "KV-1"))[1] == "KV-1 (3)"


def test_a_check_that_cannot_run_is_void_with_its_sentence(tmp_path: Path) -> None:
    check = [sys.executable, "-m", "schedspec", "check"]
    (only,) = run_matrix(cells(["nobody"], []), check, tmp_path, jobs=1)
    assert only.status == 2
    assert "there is no subject 'nobody'" in " ".join(row(only))


def test_the_command_judges_each_combination_and_says_so(tmp_path: Path) -> None:
    over = ["--over", "policy=fcfs,priority", "--depth", "smoke", "--report", str(tmp_path)]
    result = CliRunner().invoke(cli, ["matrix", "fault:KV-7", *over])
    assert result.exit_code == 1
    plain = json.loads((tmp_path / "matrix.json").read_text())
    assert [cell["settings"] for cell in plain["cells"]] == [["policy=fcfs"], ["policy=priority"]]
    for cell in plain["cells"]:
        assert any(rule.startswith("KV-7") for rule in cell["must"])
        assert (tmp_path / cell["folder"] / "report.json").exists()
    assert "KV-7" in (tmp_path / "matrix.md").read_text()
