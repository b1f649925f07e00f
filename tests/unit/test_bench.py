"""The benches run, and say what they have measured.  How fast anything is, no test asks."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.bench import beside_vllm, bulk, curves, run, searches, simulation
from tests.bench.floors import Change, looked_at
from tests.bench.measure import Skipped
from tests.bench.rounds import OfArrays

from schedspec.reference import make
from schedspec.spec.vocabulary import Policy, Request, Settings
from schedspec.spec.vocabulary import to_json as plain_of
from schedspec.spec.workloads import Incoming

ROOT = Path(__file__).parents[2]
RUN = ROOT / "tests" / "bench" / "run.py"
FIELDS = {"figure", "unit", "asked", "ratio"}
ASKED = {
    "monitor": {"monitor.decode", "monitor.decode.content", "monitor.decode.prefix_cache.content"},
    "bulk": {"bulk.decode.96.arrays", "bulk.decode.96.file", "bulk.decode.96.decisions.file"},
    "reference": {"reference.decode.4", "reference.decode.4.recorded", "reference.decode.4.recorded.waiting_10"},
    "optimized": {"optimized.waiting.vtc"},
    "curves": set(),
    "policies": {"policies.vtc", "policies.drr", "policies.lanes"},
    "search": {"search", "search.soak"},
    "campaign": {"campaign.two_processes", "campaign.two_processes.processor_time"},
    "trace": {"trace.memory"},
}


def bench(*arguments: str) -> str:
    command = [sys.executable, str(RUN), "--tiny", *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True, timeout=120).stdout


@pytest.mark.parametrize("name", ASKED)
def test_a_bench_says_what_it_measured(name: str, tmp_path: Path) -> None:
    out = tmp_path / "build" / "bench.json"
    printed = json.loads(bench("--only", name, "--json", "--out", str(out)))
    assert printed == json.loads(out.read_text(encoding="utf-8"))
    assert all(key.split(".")[0] == name and value.keys() >= FIELDS for key, value in printed.items())
    assert all(value["figure"] > 0 for value in printed.values())
    assert {key for key, value in printed.items() if value["asked"] is not None} >= ASKED[name]
    assert all((value["asked"] is None) == (value["ratio"] is None) for value in printed.values())


def test_every_policy_is_measured(tmp_path: Path) -> None:
    found = json.loads(bench("--only", "policies", "--json", "--out", str(tmp_path / "bench.json")))
    assert set(found) == {f"policies.{policy}" for policy in get_args(Policy)}


def test_less_time_is_a_better_ratio(tmp_path: Path) -> None:
    found = json.loads(bench("--only", "reference", "--json", "--out", str(tmp_path / "bench.json")))
    for value in found.values():
        if value["asked"] is not None:
            assert value["ratio"] == pytest.approx(value["asked"] / value["figure"])


def test_the_table_has_a_row_for_each_figure(tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    lines = bench("--only", "search", "--out", str(out)).splitlines()
    assert lines[0].split() == ["figure", "asked", "ratio"]
    assert [line.split()[0] for line in lines[1:-1]] == list(json.loads(out.read_text(encoding="utf-8")))


def test_without_vllm_one_sentence_says_what_is_skipped_and_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(beside_vllm, "PYTHON", tmp_path / "none")
    with pytest.raises(Skipped, match="nothing was measured against vLLM: `make vllm` installs it"):
        list(beside_vllm.elsewhere(tiny=True))


def test_without_vidur_one_sentence_says_what_is_skipped_and_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(simulation, "PYTHON", tmp_path / "none")
    with pytest.raises(Skipped, match="nothing was measured against Vidur: `make vidur` installs it"):
        list(simulation.bench(simulation.TINY))


def test_two_simulators_that_do_other_work_are_not_compared() -> None:
    work = [Incoming(now_ns=0, request=Request(id="a", prompt_ids=(1, 2), max_output_tokens=3), output_tokens=3)]
    ours = simulation.simulated("optimized", work, 20, with_metrics=True)
    assert (ours["steps"], ours["tokens"], ours["end_s"]) == (3, 4, 0.06)
    simulation.must_be_alike(ours, ours | {"seconds": 1.0})
    for change in ({"steps": 4}, {"tokens": 5}, {"end_s": 0.08}):
        with pytest.raises(RuntimeError, match="did not do the same work"):
            simulation.must_be_alike(ours, ours | change)


def test_a_skipped_bench_stops_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(beside_vllm, "PYTHON", tmp_path / "none")
    figures = run.measure(["vllm", "search"], tiny=True, as_json=True, file=tmp_path / "bench.json")
    assert list(figures) == ["search", "search.soak", *(f"search.large.{part}" for part in searches.PARTS)]
    assert capsys.readouterr().err.startswith("vllm: there is no .venv-vllm here, so nothing was measured")


def test_two_that_plan_other_numbers_of_tokens_are_not_compared() -> None:
    ours, theirs = (OfArrays.of(Settings()) for _ in range(2))
    for runs, length in ((ours, 3), (theirs, 4)):
        runs.submit(Request(id="a", prompt_ids=tuple(range(length)), max_output_tokens=2))
        runs.round()
    with pytest.raises(RuntimeError, match="did not do the same work"):
        beside_vllm.must_be_alike(ours, theirs)


def test_a_change_is_counted_as_it_is_made() -> None:
    runs = OfArrays.of(Settings(blocks=8, block_size=4, seats=4))
    for name, length, output in (("a", 4, 9), ("b", 7, 1), ("c", 3, 9)):
        runs.submit(Request(id=name, prompt_ids=tuple(range(length)), max_output_tokens=output))
    runs.round()
    runs.submit(Request(id="d", prompt_ids=tuple(range(5)), max_output_tokens=9))
    change, calls = looked_at(runs)  # b ends and gives 2, a takes a second one, d 2; c has room
    assert change == Change(running=3, ended=1, admitted=1, taken=3, given=2)
    assert (change.numbers, change.operations) == (9 + 10 + 8, 12 + 5 + 2)
    assert min(calls.python, calls.built_in) > 10


def test_the_table_of_the_readme_is_written_between_its_marks(tmp_path: Path) -> None:
    figures = run.measure(["curves"], tiny=True, as_json=True, file=tmp_path / "bench.json")
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{curves.BEGIN}\nold\n{curves.END}\nbehind\n", encoding="utf-8")
    curves.write(curves.table(figures, run.about()), readme)
    written = readme.read_text(encoding="utf-8")
    assert written.startswith("before\n")
    assert written.endswith("behind\n")
    assert "old" not in written
    assert "| `change_1.4` |" in written
    assert "numpy" in written


def test_a_soak_in_parts_does_again_what_the_whole_did() -> None:
    """The reference alone answers as it did, and the monitor alone counts what it counted."""
    recorded = searches.recorded(searches.checked(), searches.TINY.in_parts[0])
    again: list[Any] = []
    subject = make(recorded.driver.settings, recorded.driver.seed)
    for method in ("submit", "cancel", "notify", "step", "complete", "observe"):
        setattr(subject, method, _noting(getattr(subject, method), again))
    searches.asked_again(subject, recorded.messages)
    told = [plain_of(m.answer) for m in recorded.messages if m.kind != "end"]
    assert plain_of(again) == told
    assert len(told) > 100
    assert (
        searches.judged_again(recorded.driver.header, recorded.messages).exercised()
        == recorded.driver.monitor.exercised()
    )


def _noting(method: Callable[..., Any], answers: list[Any]) -> Callable[..., Any]:
    def noted(*given: Any) -> Any:
        answers.append(method(*given))
        return answers[-1]

    return noted


def test_the_table_of_a_soak_has_a_row_for_each_part() -> None:
    value = {"figure": 1234.4, "percent": 12.4}
    names = ["search.soak", *(f"search.large.{part}" for part in searches.PARTS)]
    rows = searches.table(dict.fromkeys(names, value), "about").splitlines()
    assert rows[0] == "about"
    assert len(rows) == 4 + len(names)
    assert all("1,234 | 12 % |" in row for row in rows[4:])


def test_what_was_measured_is_written_and_nothing_else(tmp_path: Path) -> None:
    value = {
        "figure": 9.0,
        "asked": 10.0,
        "best": 9.5,
        "plain": 3.0,
        "over_plain": 3.0,
        "readings": 20.0,
        "floor": 50.0,
    }
    readme = tmp_path / "README.md"
    parts = (curves.BEGIN, "curves", curves.END, bulk.BEGIN, "old", curves.END, "behind")
    readme.write_text("\n".join(parts), encoding="utf-8")
    run.write({"bulk.decode.8.arrays": value}, readme)
    written = readme.read_text(encoding="utf-8")
    assert written.startswith("\n".join(parts[:4]))
    assert written.endswith("\n".join(parts[5:]))
    assert "| `decode.8.arrays` | 10 | 9 | 10 | 3 | 3.0 | 20 | 50 |" in written


def test_a_figure_has_the_floor_of_the_curve_that_does_the_same() -> None:
    figures = {"curves.decode.16": {"floor_us": 0.5}, "curves.change_16.1024": {"floor_us": 2.0}}
    names = (
        "vllm.decode.fcfs.16",
        "optimized.messages.decode.fcfs.16",
        "optimized.mixed.vtc.1024",
        "optimized.waiting.vtc",
    )
    assert [curves.floor_of(name, figures) for name in names] == [0.5, 0.5, 2.0, None]


def test_the_readme_has_the_marks() -> None:
    text = (ROOT / "optimized" / "README.md").read_text(encoding="utf-8")
    marks = [line for line in text.splitlines() if line in (curves.BEGIN, bulk.BEGIN, curves.END)]
    assert marks == [curves.BEGIN, curves.END, bulk.BEGIN, curves.END]
