"""`schedspec tune`: one control at a time, each run compared with the start."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from schedspec.cli import cli
from schedspec.reference.simulation.tuning import applied, control, default_controls, shared, value_of
from schedspec.simulation_report.rows import MEASURES, does_nothing, effects, standing
from schedspec.spec.settings import HYBRID, Settings

TIGHT = ["--setting", "blocks=400", "--setting", "seats=8", "--first-s", "24", "--rate", "12"]


def tune(folder: Path, *arguments: str) -> Result:
    command = ["tune", "fitted:vtc-real", *TIGHT, *arguments, "--report", str(folder)]
    return CliRunner().invoke(cli, command, catch_exceptions=False)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    folder = tmp_path_factory.mktemp("tuned")
    varied = ["token_budget=256,1024", "door.queue_requests=0,2", "chunk_tokens=9000", "prefilling_requests=1"]
    return folder, tune(folder, *[part for text in varied for part in ("--vary", text)])


def told(folder: Path) -> Any:
    return json.loads((folder / "tune.json").read_text())


def test_each_value_is_one_run_and_the_start_is_run_once(done: tuple[Path, Result]) -> None:
    folder, result = done
    assert result.exit_code == 0, result.output
    runs = [(run["control"], run["value"]) for run in told(folder)["runs"]]
    assert runs[0] == (None, None)
    assert runs[1:] == [
        *(("token_budget", value) for value in (256, 1024)),
        ("door.queue_requests", 2),
        ("chunk_tokens", 9000),
        ("prefilling_requests", 1),
    ]


def test_a_queue_cap_trades_refusals_for_waiting(done: tuple[Path, Result]) -> None:
    """And the optimized twin, which has no door, does not stand for the reference there."""
    start, *others = told(done[0])["runs"]
    capped = next(run for run in others if run["control"] == "door.queue_requests")
    assert capped["metrics"]["refused"] > 0 == start["metrics"]["refused"]
    assert capped["metrics"]["queue_age_ns"]["p95"] < start["metrics"]["queue_age_ns"]["p95"]


def test_the_table_marks_the_start_and_says_what_does_nothing(done: tuple[Path, Result]) -> None:
    output = done[1].output
    assert "2048 *" in output
    assert "door.queue_requests" in output
    assert "Nothing changes with chunk_tokens (0, 9000)" in output.replace("\n", " ")


def test_the_page_needs_no_other_file(done: tuple[Path, Result]) -> None:
    page = (done[0] / "report.html").read_text()
    controls = [file.stem for file in sorted((done[0] / "pictures").glob("*.svg"))]
    assert "control-door.queue_requests" in controls
    assert "control-chunk_tokens" not in controls
    assert page.count("<img ") == page.count('src="data:image/svg+xml;base64,') == len(controls)
    assert "missing" not in page.partition("</style>")[2]
    assert "Nothing changes with chunk_tokens (0, 9000)." in " ".join(page.split())
    assert "<h2>All controls</h2>" in page


def test_the_same_again_has_the_same_bytes(done: tuple[Path, Result], tmp_path: Path) -> None:
    assert tune(tmp_path, "--vary", "token_budget=256").exit_code == 0
    again, before = told(tmp_path)["runs"], told(done[0])["runs"]
    assert again == before[:2]


def test_an_interrupt_keeps_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from schedspec.reference import simulation

    plain, calls = simulation.replay, []

    def replay(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return plain(*arguments)

    monkeypatch.setattr(simulation, "replay", replay)
    result = tune(tmp_path, "--vary", "token_budget=256,512")
    assert result.exit_code == 130
    assert [run["value"] for run in told(tmp_path)["runs"]] == [None, 256]
    assert "1 runs are missing" in (tmp_path / "report.html").read_text()
    assert "not run" in result.output


def test_what_a_subject_refuses_is_a_line_and_not_the_end(tmp_path: Path) -> None:
    result = tune(tmp_path, "--system", "optimized", "--vary", "victim=lowest_priority", "--vary", "reserve=peak")
    assert result.exit_code == 0
    refused = [run["control"] for run in told(tmp_path)["runs"] if "refused" in run]
    assert refused == ["reserve"]
    assert "reserve" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--vary", "token_budgets=1"], "token_budgets is no control"),
        (["--vary", "door.queue=1"], "door.queue is no control"),
        (["--vary", "share.chat=1"], "share.LANE where --setting policy=lanes"),
        (["--vary", "token_budget"], "has no values"),
        (["--vary", "token_budget=few"], "must be an integer"),
        (["--vary", "door.queue_requests=few"], "must be an integer"),
        (["--vary", "seats=1", "--vary", "seats=2"], "names a control twice"),
        (["--cost", "h100"], "there is no cost model"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    result = tune(tmp_path, *arguments)
    assert result.exit_code == 2
    assert sentence in " ".join(result.output.split())


def test_contradictions_are_told_where_they_arise(tmp_path: Path) -> None:
    result = tune(tmp_path, "--vary", "watermark_blocks=5000")
    assert result.exit_code == 0
    (refused,) = (run["refused"] for run in told(tmp_path)["runs"] if "refused" in run)
    assert "watermark_blocks" in refused


def test_the_usual_controls_are_around_the_start_and_can_be_applied() -> None:
    for start in (Settings(blocks=4_000, seats=64, token_budget=512), Settings(policy="lanes")):
        for one in default_controls(start):
            assert one.start == value_of(start, one.name)
            assert one.start in one.values
            assert len(one.values) > 1
            for value in one.values:
                try:
                    changed = applied(start, one.name, value)
                except ValueError:
                    continue
                assert value_of(changed, one.name) == value


@pytest.mark.parametrize("percent", [1, 20, 60, 97])
def test_the_other_lanes_share_the_rest(percent: int) -> None:
    lanes = shared(HYBRID, "interactive", percent)
    assert lanes[0].share_percent == percent
    assert sum(lane.share_percent for lane in lanes) == 100
    assert control(Settings(policy="lanes"), "share.offline", [5]).values == (5, 15)


def run_of(p95_ms: int, ends_ms: list[int] | None) -> dict[str, Any]:
    times = dict.fromkeys(("p50", "p95", "p99"), p95_ms * 1_000_000)
    names = ("ttft_ns", "itl_ns", "queue_age_ns", "end_to_end_ns")
    metrics: dict[str, Any] = dict.fromkeys(names, times)
    metrics |= {"goodput": {"share": 1.0}, "engine": {"span_ns": 1}, "tokens": {"useful_outputs": 1}}
    metrics |= {"difference_per_s": None}
    return {"metrics": metrics, "intervals": {"ttft_ns": {"p95": ends_ms}} if ends_ms else None}


def test_of_a_control_the_best_and_the_worst_are_shown_with_the_value_that_does_it() -> None:
    ttft, start = MEASURES[1], run_of(100, [90, 110])
    lines = [
        (1, start),
        (2, run_of(50, [40, 60])),
        (3, run_of(150, [130, 170])),
        (4, run_of(105, [95, 115])),
        (5, None),
    ]
    shown = [(one.value, round(one.change, 2), one.standing) for one in effects(ttft, lines, start)]
    assert shown == [(2, -0.5, "better"), (3, 0.5, "worse")]
    assert [one.value for one in effects(ttft, [lines[0], lines[2], lines[3]], start)] == [3]
    assert effects(ttft, lines[:1], start) == effects(ttft, [(1, start), (2, run_of(100, None))], start) == []


def test_a_change_counts_only_beyond_the_intervals() -> None:
    ttft = MEASURES[1]
    start = run_of(100, [90, 110])
    assert standing(ttft, run_of(50, [40, 60]), start) == "better"
    assert standing(ttft, run_of(150, [130, 170]), start) == "worse"
    assert standing(ttft, run_of(115, [105, 125]), start) == standing(ttft, run_of(500, None), start) == ""
    assert does_nothing([(1, start), (2, run_of(100, None))], start)
    assert not does_nothing([(1, start), (2, run_of(101, None))], start)
    assert not does_nothing([(1, start), (2, None)], start)
