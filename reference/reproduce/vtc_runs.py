"""Measured runs of VTC's artefact that somebody has, each beside the same requests under the model of its program.

Nothing is known of them before they are read: what was measured is the target, with the tolerances of the published
table and of the medians of clients.  A run is a file in one of the two forms of the artefact's results:

    WORKLOAD__SCHEDULER.csv                              req_time_s, client, prompt_len, output_len, ttft_s, latency_s
    SCHEDULER/all_results_WORKLOAD.jsonl                 as the artefact wrote it; LShare/rpm5 is LShare_rpm5

Constants are those of all other comparisons with it: the A10G, and its pool of 10,000 tokens.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import lcm
from pathlib import Path
from statistics import median

from attrs import frozen

from ...spec.hints import did_you_mean
from ...spec.vocabulary import NS_PER_S
from ...spec.workloads.arrival import MissingWorkload, WorkloadError
from ...spec.workloads.vtc import Seen, read_seen
from ..systems.vtc_artifact import PredictingArtifact
from .framework import Constant, Reproduction, Run, Target
from .vtc import (
    COMMON,
    SCHEDULERS,
    SHIPPED,
    WAITS,
    Scheduler,
    clients_saw,
    incoming,
    medians,
    near,
    served,
    simulated,
)
from .vtc_metric import Served, service_difference, tokens_per_s

PROFILED = {
    "request_weight": 114_601_454,
    "input_weight": 21_001_891,
    "output_weight": 10_075_395,
    "product_weight": 398_680,
    "square_weight": 324_733,
}
"""Hundred millionths of the artefact's `cost_func_profile`: 0.21001891 p + 0.10075395 q + 0.0039868 p q + 0.00324733 q²
+ 1.14601454."""
WEIGHTS = (1, 2, 3, 4)
OTHERS = (
    Scheduler("vtc_profile", "VTC_profile", "vtc", weights=PROFILED),
    Scheduler("vtc_oracle_profile", "VTC_oracle_profile", "vtc", predicts=True, weights=PROFILED),
    Scheduler("vtc_predict_profile", "VTC_predict_profile", "vtc", PredictingArtifact, predicts=True, weights=PROFILED),
    Scheduler(
        "wvtc", "WVTC", "vtc", prices={str(client): lcm(*WEIGHTS) // weight for client, weight in enumerate(WEIGHTS)}
    ),
)
"""Of whom no table here tells: costs that were profiled, and clients 0 to 3 of weights 1 to 4."""
KNOWN: Mapping[str, Scheduler] = {one.file: one for one in (*SCHEDULERS, *OTHERS)}
MINUTE_S = 60
LEAST_MINUTES = 2
WITHIN_PERCENT = 15


@frozen
class Measured:
    """A run, what its clients saw, and for how long requests came, in whole minutes."""

    name: str
    scheduler: Scheduler
    run: tuple[Seen, ...]
    seconds: int

    def __str__(self) -> str:
        return self.name

    @property
    def seen(self) -> list[Served]:
        return clients_saw(self.run)


def runs_of(place: Path) -> tuple[list[Measured], list[str]]:
    """All runs in a folder, or of one file; and what was left out, and why.  Raises WorkloadError."""
    if not place.exists():
        raise MissingWorkload(f"there is nothing at {place}: name a folder of runs of VTC's artefact, or one of them")
    paths = [place] if place.is_file() else sorted(_files(place))
    named = {path: name for path in paths if (name := _name_of(path)) is not None}
    if not named:
        raise WorkloadError(
            f"{place} has no runs: they are called WORKLOAD__SCHEDULER.csv or SCHEDULER/all_results_WORKLOAD.jsonl"
        )
    known = {path: name for path, name in named.items() if name[1] in KNOWN}
    left_out = [
        f"{path.name} is left out: of the scheduler {name[1]} there is no model here"
        for path, name in named.items()
        if path not in known
    ]
    if not known:
        scheduler = next(iter(named.values()))[1]
        raise WorkloadError(
            f"{place}: there is no model of the scheduler {scheduler}: {did_you_mean(scheduler, KNOWN)}"
        )
    return [_measured(path, *name) for path, name in known.items()], left_out


def _files(folder: Path) -> Iterator[Path]:
    yield from folder.rglob("*__*.csv")
    yield from folder.rglob("all_results_*.jsonl")


def _name_of(path: Path) -> tuple[str, str] | None:
    """Workload and scheduler."""
    if path.suffix == ".jsonl" and path.stem.startswith("all_results_"):
        above = path.absolute().parent
        scheduler = f"{above.parent.name}_{above.name}" if above.parent.name == "LShare" else above.name
        return path.stem.removeprefix("all_results_"), scheduler
    workload, between, scheduler = path.stem.partition("__")
    return (workload, scheduler) if path.suffix == ".csv" and between else None


def _measured(path: Path, workload: str, scheduler: str) -> Measured:
    run = tuple(read_seen(path))
    if not clients_saw(run):
        raise WorkloadError(f"{path}: everybody was refused, so there is nothing to compare: latencies are all -1")
    for before, one in pairwise(run):
        if one.arrival.now_ns < before.arrival.now_ns:
            raise WorkloadError(f"{one.arrival.place}: comes before the request above it: is it two runs?")
    last_s = run[-1].arrival.now_ns / NS_PER_S
    minutes = round(last_s / MINUTE_S)
    if minutes < LEAST_MINUTES:
        raise WorkloadError(
            f"{path}: requests come for {last_s:.0f} s, but service is compared from {LEAST_MINUTES} minutes on"
        )
    return Measured(f"{workload} {scheduler}", KNOWN[scheduler], run, minutes * MINUTE_S)


def of_runs(place: Path) -> Reproduction:
    """The comparison of all that is there.  Raises WorkloadError."""
    runs, left_out = runs_of(place)

    def measure(run: Run) -> Mapping[str, float]:
        for sentence in left_out:
            run.note(sentence)
        ours: dict[str, float] = {}
        for one in run.stages("runs", runs):
            ours |= _ours(run, one)
        return ours

    return Reproduction(
        name="vtc-runs",
        title=f"measured runs of VTC's artefact in {place}",
        source=SHIPPED + "fair_bench, or whoever ran it",
        constants=(
            *COMMON,
            Constant("profiled cost", PROFILED, SHIPPED + "cost_func_profile; of VTC_profile and others"),
        ),
        targets=tuple(target for one in runs for target in _targets(one)),
        measure=measure,
    )


def _targets(one: Measured) -> Iterator[Target]:
    source = f"measured: {len(one.seen):,} of {len(one.run):,} requests served, in {one.seconds} s"
    for what, value in _numbers(one.seen, one.seconds).items():
        unit = "" if what == "tokens_per_s" else "tokens/s"
        yield Target(f"{one.name}: {what}", value, source, within_percent=WITHIN_PERCENT, unit=unit)
    for what in WAITS:
        yield Target(f"{one.name}: {what}_clients", 100, source, within_points=0, unit="%")


def _numbers(seen: list[Served], seconds: int) -> dict[str, float]:
    difference = service_difference(seen, seconds)
    return {"max": difference.maximum, "avg": difference.average, "tokens_per_s": tokens_per_s(seen)}


def _ours(run: Run, one: Measured) -> dict[str, float]:
    workload = incoming(seen.arrival for seen in one.run)
    mine = served(simulated(one.scheduler.factory, one.scheduler.settings(), workload).records.values())
    ours = {f"{one.name}: {what}": value for what, value in _numbers(mine, one.seconds).items()}
    for what, of in WAITS.items():
        theirs, own = medians(one.seen, of), medians(mine, of)
        ours[f"{one.name}: {what}_clients"] = near(own, theirs)
        middle = median(own[client] / theirs[client] for client in theirs.keys() & own.keys())
        run.note(f"{one.name}: {what} over the measured one, the median client's: {middle:.2f}")
    return ours
