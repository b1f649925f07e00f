"""The page of a replay: what it shows, what it says is missing, and that it is the same for the same run."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from schedspec.cli import cli
from schedspec.reference import Scheduler
from schedspec.simulation_report import write_page
from schedspec.simulation_report.page import missing, ms, rendered
from schedspec.simulation_report.pictures import pictures
from schedspec.spec.vocabulary import Outcome

INTERVALS = "None: they need numpy, and at least 100 requests."
PICTURES = {"load", *(f"load_{load}-{what}" for load in ("0.5", "2") for what in ("cdf", "kv", "service"))}
TIGHT = ["--setting", "blocks=40", "--setting", "seats=3"]


def replay(folder: Path, *arguments: str) -> Result:
    rows = [f"2023-11-16 18:00:0{n // 10}.{n % 10}000000,{40 + 13 * n},{5 + n}" for n in range(20)]
    trace = folder / "small_conv.csv"
    trace.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]) + "\n")
    return CliRunner().invoke(cli, ["replay", f"azure:{trace}", *arguments, "--report", str(folder / "report")])


def told(folder: Path) -> Any:
    return json.loads((folder / "report" / "replay.json").read_text())


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("done")
    systems = ["--system", "reference", "--system", "optimized:policy=vtc"]
    ran = replay(folder, *systems, *TIGHT, "--load", "0.5,2", "--price-per-hour", "3.6")
    assert ran.exit_code == 0, ran.output
    assert "at load 0.5" in ran.output
    return folder


def test_a_run_for_each_system_at_each_load(done: Path) -> None:
    runs = told(done)["runs"]
    systems = ["reference", "optimized:policy=vtc"]
    assert [(run["system"], run["load"]) for run in runs] == [(s, load) for load in ("0.5", "2") for s in systems]
    spans = [run["metrics"]["engine"]["span_ns"] for run in runs]
    assert spans[0] > 1.5 * spans[2]  # the same requests, coming four times as fast
    waits = [run["metrics"]["ttft_ns"]["p95"] for run in runs]
    assert waits[0] < waits[2]


def test_no_panel_of_a_picture_reaches_into_another(done: Path) -> None:
    """With its labels, and with some room: what stands below a panel does not touch the title of the next."""
    for name, _, figure in pictures(told(done)):
        figure.set_dpi(100)
        figure.draw_without_rendering()
        boxes = [axes.get_tightbbox() for axes in figure.axes]
        for one, other in combinations(boxes, 2):
            assert one is not None
            assert other is not None
            assert not one.padded(6).overlaps(other.padded(6)), name


def test_the_page_needs_no_other_file_and_has_every_picture(done: Path) -> None:
    page = (done / "report" / "report.html").read_text()
    assert page.count("<img ") == page.count('src="data:image/svg+xml;base64,') == len(PICTURES)
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "missing" not in page.partition("</style>")[2]
    assert INTERVALS in page  # of twenty requests
    for name in PICTURES:
        root = ElementTree.parse(done / "report" / "pictures" / f"{name}.svg").getroot()
        assert root.tag.endswith("svg")
        assert (done / "report" / "pictures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_runs_give_the_same_pictures(done: Path, tmp_path: Path) -> None:
    some = told(done)
    some["runs"] = [run for run in some["runs"] if run["load"] == "2"]
    write_page(some, tmp_path)
    drawn = sorted((tmp_path / "pictures").iterdir())
    assert len(drawn) == 6
    for picture in drawn:
        assert picture.read_bytes() == (done / "report" / "pictures" / picture.name).read_bytes()


def test_a_price_is_that_of_the_time_of_the_machine(done: Path) -> None:
    """3.60 an hour is a thousandth a second: a million outputs of so many seconds each cost a thousand times that."""
    for run in told(done)["runs"]:
        cost, tokens = run["metrics"]["cost"], run["metrics"]["tokens"]
        seconds = cost["machine_ns"] / 1e9
        assert cost["price_per_million_useful_outputs"] == pytest.approx(1_000 * seconds / tokens["useful_outputs"])
        assert cost["machine_ns_per_useful_token"] == cost["machine_ns"] // tokens["useful"]


def test_names_are_shown_and_never_run(done: Path) -> None:
    mean = told(done) | {"workload": "<script>alert(1)</script>"}
    page = rendered(mean, [])
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_times_from_ten_seconds_on_are_seconds() -> None:
    assert [ms(value) for value in (None, 1_500_000, 83_000_000, 12_345_000_000)] == ["–", "1.5", "83", "12.3 s"]


# --- what is kept --------------------------------------------------------------------------------------------


class Interrupts(Scheduler):
    def complete(self, outcome: Outcome, now_ns: int) -> Any:
        raise KeyboardInterrupt


def test_an_interrupt_keeps_the_runs_that_are_done_and_the_page_names_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = {"reference": Scheduler, "other": Interrupts}
    monkeypatch.setattr("schedspec.commands.replay.subject_of", lambda name, timeout_s: kinds[name])
    ran = replay(tmp_path, "--system", "reference", "--system", "other", "--load", "1,2")
    assert ran.exit_code == 130
    left = [("other", "1"), ("reference", "2"), ("other", "2")]
    assert [(run["system"], run["load"]) for run in told(tmp_path)["runs"]] == [("reference", "1")]
    assert missing(told(tmp_path)) == left
    page = (tmp_path / "report" / "report.html").read_text()
    assert "3 of 4 runs are missing" in page
    assert all(f"<li>{system} at load {load}</li>" in page for system, load in left)


def test_without_matplotlib_the_table_is_there_and_a_sentence_says_how_to_get_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedspec.simulation_report.find_spec", lambda name: None if name == "matplotlib" else name)
    ran = replay(tmp_path)
    assert ran.exit_code == 0
    assert "matplotlib is not installed: pip install 'schedspec[report]'" in ran.output
    assert "TTFT" in ran.output
    assert not (tmp_path / "report" / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--load", "1,x"], "--load is 'x', but must be a number such as 2, 0.5 or 1/3"),
        (["--load", "1,0"], "--load is 0, but must be greater than 0"),
        (["--load", "0.5,1/2"], "--load 0.5,1/2 has a number twice"),
        (["--load", ""], "--load is '', but must be a number"),
        (["--price-per-hour", "nan"], "--price-per-hour is 'nan', but must be a number"),
    ],
)
def test_bad_numbers_are_one_sentence(tmp_path: Path, arguments: list[str], says: str) -> None:
    ran = replay(tmp_path, *arguments)
    assert ran.exit_code == 2
    assert says in " ".join(ran.output.split())
    assert not (tmp_path / "report").exists()


def test_figures_of_enough_requests_have_intervals(tmp_path: Path) -> None:
    command = ["replay", "fitted:azure-conv", "--system", "optimized", "--first-s", "40", "--rate", "2"]
    ran = CliRunner().invoke(cli, [*command, "--report", str(tmp_path)])
    assert ran.exit_code == 0, ran.output
    (run,) = json.loads((tmp_path / "replay.json").read_text())["runs"]
    found, figures = run["intervals"], run["metrics"]
    assert found["requests"] == figures["requests"] >= 100
    for name in ("ttft_ns", "itl_ns"):
        low, high = found[name]["p95"]
        assert low <= figures[name]["p95"] <= high
    low, high = found["goodput_share"]
    assert low <= figures["goodput"]["share"] <= high
    assert f"({found['blocks']} blocks of consecutive requests)" in " ".join(ran.output.split())
    assert INTERVALS not in (tmp_path / "report.html").read_text()
