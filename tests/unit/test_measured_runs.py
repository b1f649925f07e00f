"""`reproduce --runs`: measured runs of somebody's own, in both forms of VTC's artefact, and what is wrong in them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from schedspec.cli import cli
from schedspec.reference.reproduce import Run
from schedspec.reference.reproduce.vtc_metric import Served, service_difference
from schedspec.reference.reproduce.vtc_runs import runs_of
from schedspec.spec.workloads.arrival import WorkloadError

HEAD = "req_time_s,client,prompt_len,output_len,ttft_s,latency_s\n"
ROWS = [(5.0 * number, number % 2, 40, 6, 0.08, 0.20) for number in range(25)]


def rows(path: Path, *, ttft: float = 0.08, last: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{at},{client},{prompt},{output},{ttft},{latency}\n" for at, client, prompt, output, _, latency in ROWS]
    path.write_text(HEAD + "".join(lines) + last)
    return path


def responses(path: Path) -> None:
    names = ("req_time", "adapter_dir", "prompt_len", "output_len", "first_token_latency", "request_latency")
    found = [dict(zip(names, row, strict=True)) | {"adapter_dir": f"dummy-lora-7b-rank-8-{row[1]}"} for row in ROWS]
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"config": {}, "result": {"responses": found}}) + "\n")


def ask(*words: str) -> Result:
    return CliRunner().invoke(cli, ["reproduce", *words])


def test_both_forms_are_read_and_what_has_no_model_is_told(tmp_path: Path) -> None:
    rows(tmp_path / "mine__VTC.csv", last="121,1,40,6,-1,-1\n")
    responses(tmp_path / "LShare" / "rpm5" / "all_results_mine.jsonl")
    rows(tmp_path / "mine__VTC_pred_50.csv")
    runs, left_out = runs_of(tmp_path)
    assert sorted(one.name for one in runs) == ["mine LShare_rpm5", "mine VTC"]
    assert {len(one.seen) for one in runs} == {25}
    assert [len(one.run) for one in sorted(runs, key=lambda one: one.name)] == [25, 26]
    assert left_out == ["mine__VTC_pred_50.csv is left out: of the scheduler VTC_pred_50 there is no model here"]


def test_what_was_measured_is_the_target(tmp_path: Path) -> None:
    asked = ask("--runs", str(rows(tmp_path / "mine__VTC.csv")), "--json")
    (run,) = json.loads(asked.output)["runs"]
    found = {row["target"]: row for row in run["rows"]}
    assert found["mine VTC: ttft_clients"]["ours"] == 100
    assert (found["mine VTC: tokens_per_s"]["verdict"], run["name"]) == ("met", "vtc-runs")
    assert found["mine VTC: max"]["published"] >= 0
    slow = ask("--runs", str(rows(tmp_path / "slow__VTC.csv", ttft=0.19)), "--json")
    (run,) = json.loads(slow.output)["runs"]
    assert {row["target"]: row["verdict"] for row in run["rows"]}["slow VTC: ttft_clients"] == "missed"
    assert slow.exit_code == 1


def test_windows_of_a_shorter_run_lie_within_it() -> None:
    served = [Served("a", 0.0, 0.0, 240.0, 2_400, 0), Served("b", 0.0, 0.0, 240.0, 4_800, 0)]
    assert service_difference(served, 240.0).maximum == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("mine__VTC.csv", HEAD + "0,a,4,4,soon,1\n", r":2: ttft_s is 'soon', but must be seconds, or -1 of who was"),
        ("mine__VTC.csv", HEAD + "0,a,4,4,1,-2\n", r":2: latency_s is '-2', but must be seconds, or -1 of who was"),
        ("mine__VTC.csv", HEAD[:-11] + "\n0,a,4,4,1\n", r":1: has no column latency_s: a measured run of VTC has req"),
        ("mine__VTC.csv", HEAD + "0,a,4,4,-1,-1\n", "everybody was refused, so there is nothing to compare"),
        ("mine__VTC.csv", HEAD + "9,a,4,4,1,2\n", "requests come for 9 s, but service is compared from 2 minutes on"),
        ("mine__VTC.csv", HEAD + "9,a,4,4,1,2\n8,a,4,4,1,2\n", r":3: comes before the request above it: is it two"),
        ("mine__VTCC.csv", HEAD + "0,a,4,4,1,2\n", "there is no model of the scheduler VTCC: did you mean 'VTC'"),
        ("mine.csv", HEAD, "has no runs: they are called WORKLOAD__SCHEDULER.csv or SCHEDULER/all_results_WORKLOAD"),
    ],
)
def test_what_is_wrong_is_a_sentence(name: str, text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(WorkloadError, match=says):
        runs_of(tmp_path)
    asked = ask("--runs", str(tmp_path))
    assert (asked.exit_code, "Traceback" in asked.output) == (2, False)


def test_what_makes_no_sense_beside_runs_is_refused(tmp_path: Path) -> None:
    nowhere = ask("--runs", str(tmp_path / "nowhere"))
    assert (nowhere.exit_code, "there is nothing at" in nowhere.output) == (2, True)
    named = ask("vtc-real", "--runs", str(tmp_path))
    assert (named.exit_code, "leave a NAME out" in named.output) == (2, True)


def test_other_lengths_are_no_result_and_only_for_who_takes_them(tmp_path: Path) -> None:
    lengths = tmp_path / "mine.csv"
    lengths.write_text("prompt_tokens,output_tokens\n" + "64,16\n" * 40 + "4000,100\n")
    run = Run(lengths=f"csv:{lengths}")
    assert {one.prompt_tokens for one in run.workload("sharegpt", "sharegpt", 2_048).arrivals()} == {64}
    assert "in place of the publication's, so its numbers are no targets here" in run.notes[0]
    with pytest.raises(WorkloadError, match=r"mine.csv: no request has 32 tokens or fewer, which the model holds"):
        run.others(32)
    for words, says in (
        (("orca",), "orca has requests of its own: --lengths is for vllm and sarathi"),
        (("vllm", "--write", str(tmp_path / "x.md")), "--lengths is for a look, here: leave --write"),
    ):
        asked = ask(*words, "--lengths", f"csv:{lengths}")
        assert (asked.exit_code, says in asked.output) == (2, True)
    assert ask("vllm", "--sample", "--lengths", "cvs:x").exit_code == 2


def test_a_timed_trace_gives_its_lengths_at_one_a_second(tmp_path: Path) -> None:
    trace = tmp_path / "mine.csv"
    rows = "".join(f"{at / 10},64,16\n" for at in range(200))
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n" + rows)
    times = [one.now_ns for one in Run(lengths=f"csv:{trace}").others(2_048).arrivals()]
    assert (times[-1] - times[0]) / (len(times) - 1) == pytest.approx(1e9, rel=0.01)
