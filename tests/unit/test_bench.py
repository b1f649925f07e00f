"""The benches run, and say what they have measured.  How fast anything is, no test asks."""

import json
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from schedspec.spec.vocabulary import Policy

ROOT = Path(__file__).parents[2]
RUN = ROOT / "tests" / "bench" / "run.py"
FIELDS = {"figure", "unit", "asked", "ratio"}
ASKED = {
    "monitor": {"monitor.decode", "monitor.decode.content", "monitor.decode.prefix_cache.content"},
    "bulk": {"bulk.decode.32.arrays", "bulk.decode.32.file", "bulk.decode.32.decisions.file"},
    "reference": {"reference.decode.4", "reference.decode.4.recorded", "reference.decode.4.recorded.waiting_10"},
    "optimized": {"optimized.waiting.vtc"},
    "policies": {"policies.vtc", "policies.drr", "policies.lanes"},
    "search": {"search"},
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
