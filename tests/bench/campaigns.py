"""A campaign on two processes against one: the same traces of a fleet, judged once each way."""

import resource
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import frozen

from schedspec.campaigns import Journal, Unit, Watch, executor_of, run_campaign
from schedspec.reference.fleet import STEP_NS, arrivals, new_fleet
from schedspec.reference.router import Router

from .measure import Result


@frozen
class Size:
    """Long enough that what a process needs to begin is a small part, as in a campaign that one spreads."""

    engines: int = 16
    requests: int = 9_600


TINY = Size(2, 20)
ASKED = 1.5


def bench(size: Size) -> Iterator[Result]:
    """By the wall clock, since that is what a second process is for: what else the machine does counts.  And by the
    processor time of the workers, where it does not."""
    with TemporaryDirectory() as folder:
        fleet = new_fleet(size.engines, 1, router=Router)
        fleet.run(arrivals(size.requests, 1, gap_ns=STEP_NS // (2 * size.engines)))
        fleet.write(Path(folder) / "logs")
        paths = sorted((Path(folder) / "logs").glob("e*.jsonl"))
        given = [{"file": str(path), "engine": path.stem, "plain": False, "window_ns": STEP_NS} for path in paths]
        units = [Unit(str(one["engine"]), "schedspec.commands.units:judge_engine", one) for one in given]
        one, two = (_run(units, jobs, Path(folder) / str(jobs)) for jobs in (1, 2))
        yield Result(
            name="campaign.two_processes",
            figure=one.wall_s / two.wall_s,
            unit=f"times as fast as one: {two.wall_s:.1f} s and {one.wall_s:.1f} s for {len(units)} engines",
            asked=ASKED,
        )
        yield Result(
            name="campaign.two_processes.processor_time",
            figure=one.cpu_s / (two.cpu_s / 2),
            unit=f"times as fast, had both a core of their own: {two.cpu_s:.1f} s in two, {one.cpu_s:.1f} s in one",
            asked=ASKED,
        )


@frozen
class Run:
    """`cpu_s`: of all its processes, start-up included."""

    wall_s: float
    cpu_s: float


def _run(units: list[Unit], jobs: int, folder: Path) -> Run:
    begun, before = time.monotonic(), _children_s()
    run_campaign(units, executor_of(f"local:{jobs}"), Journal(folder, units, resume=False), Watch())
    return Run(time.monotonic() - begun, _children_s() - before)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
