"""`schedspec replay` as a person meets it: table, file, what is kept, and bad input."""

import json
import signal
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from schedspec.campaigns import Unit
from schedspec.campaigns.run import Event, Here
from schedspec.cli import cli
from schedspec.reference import Scheduler
from schedspec.spec.vocabulary import Outcome

COLUMNS = "TIMESTAMP,ContextTokens,GeneratedTokens"


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """`test_simulation_report.py` is about those."""
    monkeypatch.setattr("schedspec.simulation_report.write_page", lambda told, folder: "")


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """Twenty requests of two seconds."""
    rows = [f"2023-11-16 18:00:0{n // 10}.{n % 10}000000,{40 + 13 * n},{5 + n}" for n in range(20)]
    path = tmp_path / "small_conv.csv"
    path.write_text("\n".join([COLUMNS, *rows]) + "\n")
    return f"azure:{path}"


@pytest.fixture
def replayed(trace: str, tmp_path: Path) -> Any:
    def run(*arguments: str) -> Result:
        report = ["--report", str(tmp_path / "report")]
        return CliRunner().invoke(cli, ["replay", trace, *arguments, *report])

    return run


def told(tmp_path: Path) -> Any:
    return json.loads((tmp_path / "report" / "replay.json").read_text())


class Breaks(Scheduler):
    def complete(self, outcome: Outcome, now_ns: int) -> Any:
        raise KeyError("no such block")


class Interrupts(Scheduler):
    def complete(self, outcome: Outcome, now_ns: int) -> Any:
        raise KeyboardInterrupt


def test_a_table_for_each_system_and_a_file_beside_it(replayed: Any, tmp_path: Path) -> None:
    second = "optimized:policy=vtc,seats=1"
    done = replayed("--system", "reference", "--system", second)
    assert done.exit_code == 0, done.output
    assert done.output.count("TTFT 50/95/99 %") == 2
    assert second in done.output
    runs = told(tmp_path)["runs"]
    assert [run["system"] for run in runs] == ["reference", second]
    assert (runs[1]["settings"]["policy"], runs[1]["settings"]["seats"]) == ("vtc", 1)
    for run in runs:
        assert run["metrics"]["finished"] == run["metrics"]["requests"] == 20
        assert run["metrics"]["ttft_ns"]["count"] == 20
    assert runs[0]["metrics"] != runs[1]["metrics"]


def test_the_pool_is_that_of_the_device_unless_it_is_set(replayed: Any, tmp_path: Path) -> None:
    assert replayed("--cost", "vtc-llama2-7b-a10g", "--setting", "seats=7").exit_code == 0
    (run,) = told(tmp_path)["runs"]
    assert (run["settings"]["blocks"], run["settings"]["seats"]) == (10_000 // 16, 7)


def test_a_system_of_the_literature_brings_its_own_settings(replayed: Any, tmp_path: Path) -> None:
    assert replayed("--system", "vtc", "--system", "vllm-2023:sarathi", "--setting", "seats=7").exit_code == 0
    vtc, other = (run["settings"] for run in told(tmp_path)["runs"])
    assert (vtc["policy"], vtc["seats"], other["reserve"], other["seats"]) == ("vtc", 7, "known", 7)


def test_a_table_that_goes_into_a_file_has_the_whole_names(tmp_path: Path) -> None:
    names = [f"a tenant with a name that is longer than any column and number {number}" for number in range(2)]
    rows = ["arrival_s,prompt_tokens,output_tokens,client", *(f"0,9,2,{name}" for name in names)]
    (tmp_path / "w.csv").write_text("\n".join(rows) + "\n")
    done = CliRunner().invoke(cli, ["replay", f"csv:{tmp_path / 'w.csv'}", "--report", str(tmp_path / "report")])
    assert all(f"client {name} " in done.output for name in names)


def test_the_same_bytes_step_by_step_and_again(replayed: Any, tmp_path: Path) -> None:
    files = []
    for more in ([], [], ["--step-by-step"]):
        assert replayed("--system", "optimized", *more).exit_code == 0
        files.append((tmp_path / "report" / "replay.json").read_bytes())
    assert files[0] == files[1] == files[2]


def test_json_is_what_the_file_has(replayed: Any, tmp_path: Path) -> None:
    done = replayed("--json")
    assert json.loads(done.stdout) == told(tmp_path)


@pytest.mark.parametrize(("kind", "status", "word"), [(Breaks, 2, "no such block"), (Interrupts, 130, "interrupted")])
def test_what_is_done_is_kept(
    replayed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Scheduler], status: int, word: str
) -> None:
    monkeypatch.setattr(
        "schedspec.commands.replay.subject_of", lambda name, timeout_s: Scheduler if name == "reference" else kind
    )
    done = replayed("--system", "reference", "--system", "other")
    assert done.exit_code == status
    assert word in done.output
    assert done.output.count("TTFT 50/95/99 %") == 1
    assert [run["system"] for run in told(tmp_path)["runs"]] == ["reference"]


class InterruptedAfterOne(Here):
    def run(self, units: Sequence[Unit], todo: Sequence[int]) -> Generator[Event, None, None]:
        yield from super().run(units, todo[:1])
        raise KeyboardInterrupt


def test_a_campaign_that_is_interrupted_shows_what_is_done_and_says_once_how_to_go_on(
    replayed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--system", "reference", "--system", "optimized"]
    replayed(*options)
    whole = (tmp_path / "report" / "replay.json").read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr("schedspec.commands.campaign.executor_of", lambda where, patience_s: InterruptedAfterOne())
        done = replayed(*options, "--on", "local:1")
    assert done.exit_code == 130
    assert [run["system"] for run in told(tmp_path)["runs"]] == ["reference"]
    assert " ".join(done.output.split()).count("error: interrupted: 1 of 2 units are done; the same command") == 1
    assert done.output.count("interrupted") == 1
    assert replayed(*options, "--resume", str(tmp_path / "report")).exit_code == 0
    assert (tmp_path / "report" / "replay.json").read_bytes() == whole


def test_who_interrupts_while_the_page_is_written_has_it_whole(
    replayed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_page(told: Any, folder: Path) -> str:
        signal.raise_signal(signal.SIGINT)
        (folder / "report.html").write_text("whole")
        return ""

    monkeypatch.setattr("schedspec.simulation_report.write_page", write_page)
    assert replayed().exit_code == 130
    assert (tmp_path / "report" / "report.html").read_text() == "whole"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--cost", "niyama"], "there is no cost model 'niyama'"),
        (["--system", "refrence"], "did you mean 'reference'?"),
        (["--system", "reference:seats=many"], "setting seats is 'many', but must be an integer"),
        (["--system", "reference:seat=4"], "is no setting"),
        (["--system", "reference:seats=0"], "seats is 0, but must be an integer of at least 1"),
        (["--system", "optimized:prefix_caching=true"], "setting prefix_caching=True is not supported"),
        (["--rate", "0"], "rate is 0, but must be greater than 0"),
        (["--rate", "1e99"], "rate must be at most 1,000,000"),
        (["--load", "1e99"], "--load is 1e99, but must be at most 1,000,000"),
        (
            ["--setting", "door.queue_request=1", "--setting", "seat=4"],
            "'queue_request': did you mean 'queue_requests'?; 'seat=4' is",
        ),
        (["--system", "vtc:policy=fcfs"], "setting policy='fcfs' is not supported: ask for policy=vtc"),
        (["--system", "distserve"], "ask for two, as in --setting 'pools={"),
    ],
)
def test_bad_options_are_one_sentence(replayed: Any, arguments: list[str], says: str) -> None:
    done = replayed(*arguments)
    assert done.exit_code == 2
    assert says in " ".join(done.output.split())
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("TIMESTAMP,ContextTokens\n", "has no column GeneratedTokens"),
        (f"{COLUMNS}\n2023-11-16 18:00:00.0,nan,3\n", ":2: ContextTokens is 'nan', but must be an integer"),
        (f"{COLUMNS}\n2023-11-16 18:00:01.0,4,3\n2023-11-16 18:00:00.0,4,3\n", "is not in order of time"),
        (f"{COLUMNS}\n", "has no requests"),
        ("", "is empty"),
        (f"{COLUMNS}\n2023-11-16 18:00:00.0,4,0\n", ":2: GeneratedTokens is 0, but must be at least 1"),
        (
            f"{COLUMNS}\n2023-11-16 18:00:00.0,900000,3\n",
            ":2: needs KV of 900,002 tokens (900,000 of its prompt)",
        ),
    ],
)
def test_a_bad_file_is_told_before_anything_runs(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    done = CliRunner().invoke(cli, ["replay", f"azure:{path}", "--report", str(tmp_path / "report")])
    assert done.exit_code == 2
    assert says in " ".join(done.output.split())
    assert not (tmp_path / "report").exists()


def test_a_workload_is_needed() -> None:
    done = CliRunner().invoke(cli, ["replay", "none"])
    assert done.exit_code == 2
    assert "replay needs a workload" in done.output


def test_settings_of_a_system_may_be_json() -> None:
    from schedspec.commands.replay import split_system

    lanes = 'lanes=[{"name": "chat", "share_percent": 70, "burst": 4}]'
    assert split_system(f"reference:policy=lanes,{lanes}") == ("reference", ["policy=lanes", lanes])
    assert split_system("fault:KV-7") == ("fault:KV-7", [])
    assert split_system("my.module:make:seats=3") == ("my.module:make", ["seats=3"])
    assert split_system("exec:./adapter a:b=1") == ("exec:./adapter a:b=1", [])


def test_going_on_with_what_was_no_campaign_leaves_it_alone(tmp_path: Path) -> None:
    done = tmp_path / "replay.json"
    done.write_text("what is done")
    result = CliRunner().invoke(cli, ["replay", "hostile:bursts", "--first-s", "1", "--resume", str(tmp_path)])
    assert result.exit_code == 2
    assert "no campaign was begun there" in result.output
    assert done.read_text() == "what is done"
