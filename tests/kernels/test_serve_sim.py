"""`schedspec serve-sim`: real lengths, a real model, a trace that passes."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the engine needs torch: `make kernels` installs it")
pytest.importorskip("triton", reason="the engine needs triton: `make kernels` installs it")
pytest.importorskip("safetensors", reason="checkpoints need safetensors: `make kernels` installs it")

from click.testing import CliRunner

from schedspec.cli import cli
from schedspec.optimized.engine import sampling
from schedspec.optimized.engine.tables import Tables
from schedspec.optimized.engine.weights import random_tensors, save_checkpoint

from .served import CONFIG

FEW = ("--first-s", "2", "--size", "1/60", "--kernels", "plain")
TIGHT = ("--setting", "blocks=48", "--setting", "block_size=4", "--setting", "prefix_caching=true")


def test_a_checkpoint_serves_real_lengths_and_its_trace_passes(tmp_path: Path) -> None:
    model = tmp_path / "model"
    save_checkpoint(model, CONFIG, random_tensors(CONFIG, 1))
    report = tmp_path / "report"
    arguments = ["serve-sim", str(model), "fitted:azure-conv", *FEW, *TIGHT, "--rate", "3", "--temperature", "0.7"]
    told = CliRunner().invoke(cli, [*arguments, "--report", str(report), "--json"])
    assert told.exit_code == 0, told.output
    run, trace = (json.loads(told.stdout)[name] for name in ("run", "trace"))
    assert min(run["steps"], run["outputs"], run["alone"]["tokens"]) > 5
    assert run["alone"]["findings"] == []
    results = trace["rules"]
    passed = {rule for rule, result in results.items() if result["verdict"] == "pass"}
    assert passed >= {"KV-1", "KV-3", "KV-12", "KV-17", "OUT-1", "OUT-2", "LIFE-1", "OBS-3"}
    again = CliRunner().invoke(cli, ["trace", str(report / "run.jsonl"), "--report", str(tmp_path / "again")])
    assert again.exit_code == 0, again.output


@pytest.mark.parametrize(
    ("model", "more", "says"),
    [
        ("nowhere", (), "nowhere has no config.json: give the folder of a checkpoint"),
        ("random:x", (), "random:x is no model: write random:0, or another seed, or the folder of a checkpoint"),
        (
            "random:0",
            ("--device", "cuda"),
            "the plain twins run on a CPU, not on cuda: leave --kernels or --device out",
        ),
        (
            "random:0",
            ("--kernels", "triton", "--device", "toaster"),
            "device is toaster, but must be cpu, cuda, or one",
        ),
        ("random:0", ("--kernels", "triton", "--device", "cuda:99"), "there is no cuda:99 here, torch sees"),
        (
            "random:0",
            ("--kernels", "triton", "--device", "cpu"),
            "Triton's kernels need a CUDA device: leave --kernels",
        ),
        (
            "random:0",
            ("--setting", "max_model_tokens=9999"),
            "max_model_tokens is 9999, but the model has 4096 positions",
        ),
        ("random:0", ("--setting", "blocks=200000000"), "GiB free: ask for fewer blocks"),
        ("random:0", ("--temperature", "-1"), "temperature is -1.0, but must be 0 (greedy) or more"),
    ],
)
def test_bad_input_is_one_sentence(
    model: str, more: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    arguments = ["serve-sim", model, "fitted:azure-conv", *FEW, *more, "--report", str(tmp_path)]
    told = CliRunner().invoke(cli, arguments)
    assert told.exit_code == 2, told.output
    assert says in " ".join(told.stderr.split())


def test_a_fault_of_the_engine_breaks_its_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is not told of a request's second block, and noise that follows the call."""
    arguments = ["serve-sim", "random:0", "fitted:azure-conv", *FEW, *TIGHT, "--temperature", "0.7", "--json"]
    append, noise, calls = Tables._append, sampling.gumbel, iter(range(1 << 30))

    def forgetful(self: Tables, request: str, blocks: Any) -> None:
        append(self, request, [0 if self.of(request) else block for block in blocks])

    for place, name, change, rule in (
        (Tables, "_append", forgetful, "KV-17"),
        (sampling, "gumbel", lambda seed, position, count: noise(seed, next(calls), count), "OUT-1"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, change)
            told = CliRunner().invoke(cli, [*arguments, "--report", str(tmp_path)])
        assert told.exit_code == 1, told.output
        assert json.loads(told.stdout)["trace"]["rules"][rule]["verdict"] == "fail"
