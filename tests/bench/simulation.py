"""Simulated steps a second beside Vidur: the same arrivals, the same policy, every step as long, in turn.

Both do the same work or there is no figure: as many steps, as many tokens, and the same end.  Vidur's time is that of
`Simulator.run`; ours is that of `Simulation.run`; reading, and making of requests, is outside for both.  `metrics` is
Vidur as it comes (its metrics on, its plots off) against ours with all metrics; `plain` is both without.
"""

import csv
import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from schedspec import optimized
from schedspec.reference import make
from schedspec.reference.simulation import DEFAULT, PROFILES, Simulation, default_settings, metrics
from schedspec.reference.simulation.costs import EqualSteps
from schedspec.spec.vocabulary import Settings, SubjectFactory
from schedspec.spec.workloads import Incoming, MissingWorkload, parse_workload, to_requests

from .measure import Result, Skipped, median, process_seconds, quiet

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-vidur" / "bin" / "python"
HERE = Path(__file__).with_name("vidur_run.py")
NO_VIDUR = "there is no .venv-vidur here, so nothing was measured against Vidur: `make vidur` installs it"
SETTINGS = Settings(blocks=40_000, block_size=16, seats=256, token_budget=2_048)
ASKED = {"reference": 1.0, "optimized": 10.0}
SUBJECTS: dict[str, SubjectFactory] = {"reference": make, "optimized": optimized.make}


@frozen(kw_only=True)
class Size:
    """The step of 20 ms is asked about: that of the default cost model with a few decodes."""

    requests: int = 1_000
    asked_ms: int = 20
    step_ms: tuple[int, ...] = (5, 20, 50)
    rounds: int = 3


TINY = Size(requests=30, asked_ms=20, step_ms=(20,), rounds=1)


def bench(size: Size) -> Iterator[Result]:
    if not PYTHON.exists():
        raise Skipped(NO_VIDUR)
    try:
        arrivals = list(islice(parse_workload("azure").arrivals(), size.requests))
    except MissingWorkload as missing:
        raise Skipped(str(missing)) from None
    work = list(to_requests(arrivals, 0))
    for step_ms in size.step_ms:
        for with_metrics in (True, False):
            yield from beside(size, work, step_ms, with_metrics=with_metrics)


@frozen(kw_only=True)
class Hour:
    """Of it so many requests, all by default: 19,366."""

    requests: int | None = None
    rounds: int = 3


TINY_HOUR = Hour(requests=30, rounds=1)
ASKED_HOUR_S = 30


def hour(size: Hour) -> Iterator[Result]:
    """The Azure conversation trace of 2023, an hour, on the default model and device: simulated, with all metrics."""
    try:
        arrivals = list(islice(parse_workload("azure").arrivals(), size.requests))
    except MissingWorkload as missing:
        raise Skipped(str(missing)) from None
    work, profile = list(to_requests(arrivals, 0)), PROFILES[DEFAULT]
    settings = evolve(SETTINGS, **default_settings(profile))  # type: ignore[arg-type]
    for name, make_subject in SUBJECTS.items():
        taken, steps = [], 0
        for _ in range(size.rounds):
            simulation = Simulation(make_subject(settings, 0), profile.cost)
            with quiet():
                taken.append(process_seconds(lambda ready=simulation: metrics(ready.run(work))))
            steps = simulation.log.steps
        asked = ASKED_HOUR_S if size.requests is None else None
        unit = f"s for {len(work):,} requests, {steps:,} steps"
        yield Result(name=f"simulation.hour.{name}", figure=median(taken), unit=unit, asked=asked, best="least")


def beside(size: Size, work: Sequence[Incoming], step_ms: int, *, with_metrics: bool) -> Iterator[Result]:
    taken: dict[str, list[float]] = {name: [] for name in ("vidur", *SUBJECTS)}
    steps = 0
    for _ in range(size.rounds):
        theirs = vidur(work, step_ms, with_metrics=with_metrics)
        taken["vidur"].append(theirs["seconds"])
        for name in SUBJECTS:
            ours = simulated(name, work, step_ms, with_metrics=with_metrics)
            must_be_alike(ours, theirs)
            taken[name].append(ours["seconds"])
            steps = ours["steps"]
    vidur_s = median(taken["vidur"])
    for name in SUBJECTS:
        asked = ASKED[name] if step_ms == size.asked_ms and with_metrics else None
        seconds = median(taken[name])
        rates = f"{steps / seconds:,.0f} steps/s, Vidur {steps / vidur_s:,.0f}, {steps:,} steps"
        kind = "metrics" if with_metrics else "plain"
        figure = vidur_s / seconds
        yield Result(
            name=f"simulation.{name}.{step_ms}_ms.{kind}", figure=figure, unit=f"times as fast: {rates}", asked=asked
        )


def simulated(name: str, work: Sequence[Incoming], step_ms: int, *, with_metrics: bool) -> dict[str, Any]:
    simulation = Simulation(SUBJECTS[name](SETTINGS, 0), EqualSteps(step_ms * 1_000_000))

    def go() -> None:
        log = simulation.run(work)
        if with_metrics:
            metrics(log)

    with quiet():
        seconds = process_seconds(go)
    log = simulation.log
    end_ns = max(record.ended_ns or 0 for record in log.records.values())
    return {"steps": log.steps, "tokens": log.run_tokens, "end_s": end_ns / 1e9, "seconds": seconds}


def vidur(work: Sequence[Incoming], step_ms: int, *, with_metrics: bool) -> dict[str, Any]:
    settings = {
        "step_ns": step_ms * 1_000_000,
        "seats": SETTINGS.seats,
        "token_budget": SETTINGS.token_budget,
        "block_size": SETTINGS.block_size,
        "blocks": SETTINGS.blocks,
        "max_tokens": max(one.request.prompt_tokens + one.output_tokens for one in work),
        "write_metrics": with_metrics,
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "arrivals.csv"
        write(work, file)
        command = [str(PYTHON), str(HERE), str(file), json.dumps(settings)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skipped(f"Vidur did not run: {done.stderr.strip().splitlines()[-1]}")
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def write(work: Sequence[Incoming], file: Path) -> None:
    with file.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["Date", "Time", "PromptTokenCount", "CompletionTokenCount"])
        for one in work:
            rows.writerow(["1970-01-01", one.now_ns / 1e9, one.request.prompt_tokens, one.output_tokens])


def must_be_alike(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    same = all(ours[name] == theirs[name] for name in ("steps", "tokens"))
    if not same or abs(ours["end_s"] - theirs["end_s"]) > 1e-3:
        raise RuntimeError(f"the two simulators did not do the same work: ours {ours}, Vidur {theirs}")
