"""The frame of reproductions: verdicts by tolerance, a table, exit status; not the numbers themselves."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from schedspec.cli import cli
from schedspec.reference import reproduce as package
from schedspec.reference.reproduce import REPRODUCTIONS, Constant, Reproduction, Row, Run, Target, reproduce, results

RATIO = Target("ratio", 2.0, "figure 1", within_percent=25)
SHARE = Target("share", 40.0, "figure 2", within_points=5, unit="%")
BOUND = Target("bound", 10.0, "section 6", at_least=True, directional=True)


def made(ours: Mapping[str, float]) -> Reproduction:
    def measure(run: Run) -> Mapping[str, float]:
        for _ in run.stages("measuring", ours):
            pass
        run.note("from nowhere")
        return ours

    constants = (Constant("pool_tokens", 64, "table 1"),)
    targets = (RATIO, SHARE, BOUND)
    return Reproduction(
        name="toy", title="a toy", source="a paper", constants=constants, targets=targets, measure=measure
    )


@pytest.mark.parametrize(
    ("target", "met", "missed"),
    [
        (RATIO, (1.5, 2.0, 2.5), (1.49, 2.51)),
        (SHARE, (35.0, 45.0), (34.9, 45.1)),
        (BOUND, (10.0, 99.0), (9.9,)),
        (Target("most", 1.2, "7.3", at_most=True), (0.0, 1.2), (1.21,)),
        (Target("rank", 3, "table 4", within_points=0), (3,), (4, 2)),
    ],
)
def test_a_target_is_met_within_its_tolerance_and_not_beyond(
    target: Target, met: tuple[float, ...], missed: tuple[float, ...]
) -> None:
    assert [Row(target, ours).verdict for ours in (*met, *missed)] == ["met"] * len(met) + ["missed"] * len(missed)


@pytest.mark.parametrize("more", [{}, {"within_percent": 5.0, "at_least": True}])
def test_a_target_has_one_tolerance(more: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="target x: give exactly one of"):
        Target("x", 1.0, "nowhere", **more)  # type: ignore[arg-type]


def test_what_is_not_measured_is_not_met_and_what_is_no_target_is_refused() -> None:
    assert [row.verdict for row in reproduce(made({"ratio": 2.0}), Run()).rows] == ["met", *["not measured"] * 2]
    with pytest.raises(ValueError, match="toy measured rattio, but has no target of that name"):
        reproduce(made({"rattio": 2.0}), Run())


def ask(monkeypatch: pytest.MonkeyPatch, ours: Mapping[str, float], *words: str) -> Result:
    monkeypatch.setattr(package, "REPRODUCTIONS", {"toy": made(ours)})
    return CliRunner().invoke(cli, ["reproduce", *words])


def test_a_numeric_target_that_is_missed_is_the_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(monkeypatch, {"ratio": 2.1, "share": 40.0, "bound": 1.0}, "toy").exit_code == 0
    missed = ask(monkeypatch, {"ratio": 1.0, "share": 40.0, "bound": 11.0})
    assert missed.exit_code == 1
    words = " ".join(missed.output.split())
    assert "ratio 2 1 0.50 ±25 % missed" in words
    assert "bound 10 11 1.10 at least, directional met" in words
    assert "from nowhere toy: 2 met, 1 missed; seed 0" in words


def test_json_has_constants_with_their_source_and_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    (run,) = json.loads(ask(monkeypatch, {"ratio": 2.0}, "--json", "--sample").output)["runs"]
    assert run["constants"] == [{"name": "pool_tokens", "value": 64, "source": "table 1"}]
    assert (run["sample"], run["rows"][0]["ratio"], run["rows"][1]["verdict"]) == (True, 1.0, "not measured")
    listed = json.loads(ask(monkeypatch, {}, "--list", "--json").output)
    assert listed["reproductions"][0]["targets"] == ["ratio", "share", "bound"]


def test_a_name_that_is_none_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ask(monkeypatch, {}, "tou")
    assert asked.exit_code == 2
    assert "there is no reproduction 'tou': did you mean 'toy'?" in " ".join(asked.output.split())


def test_a_file_of_results_keeps_what_was_not_run_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "RESULTS.md"
    asked = ask(monkeypatch, {"ratio": 1.0, "share": 40.0}, "--write", str(file))
    assert asked.exit_code == 1
    first = file.read_text()
    assert "| ratio | 2 | 1 | 0.50 | ±25 % | **missed** | figure 1 |" in first
    assert "| bound | 10 |  |  | at least, directional | not measured | section 6 |" in first
    assert "`schedspec reproduce toy --seed 0`" in first
    file.write_text(first.replace("## toy: a toy", "## other: another\n\n## toy: a toy"))
    monkeypatch.setattr(package, "REPRODUCTIONS", {"other": made({}), "toy": made({"ratio": 2.0})})
    CliRunner().invoke(cli, ["reproduce", "toy", "--write", str(file)])
    assert results.sections(file.read_text())["other"] == "## other: another"
    assert "| ratio | 2 | 2 | 1.00 | ±25 % | met | figure 1 |" in file.read_text()
    assert ask(monkeypatch, {}, "--write", str(file), "--sample").exit_code == 2


def test_the_results_that_are_committed_are_of_these_targets() -> None:
    """Whoever changes a target, or what is measured, runs it again."""
    text = Path(results.__file__).with_name("RESULTS.md").read_text(encoding="utf-8")
    found = results.sections(text)
    assert list(found) == list(REPRODUCTIONS)
    for name, reproduction in REPRODUCTIONS.items():
        rows = [line.split(" | ") for line in found[name].splitlines() if line.startswith("| ")][2:]
        assert [row[0].removeprefix("| ") for row in rows] == [target.name for target in reproduction.targets]
        assert [row[4].split(",")[0] for row in rows] == [target.tolerance for target in reproduction.targets]
        assert all("not measured" not in row[5] for row in rows)
