"""A campaign on two processes against one: the same traces of a fleet, judged once each way."""

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
    engines: int = 16
    requests: int = 6_000


TINY = Size(2, 20)
ASKED = 1.5


def bench(size: Size) -> Iterator[Result]:
    """By the wall clock, since that is what a second process is for: what else the machine does counts."""
    with TemporaryDirectory() as folder:
        fleet = new_fleet(size.engines, 1, router=Router)
        fleet.run(arrivals(size.requests, 1, gap_ns=STEP_NS // (2 * size.engines)))
        fleet.write(Path(folder) / "logs")
        paths = sorted((Path(folder) / "logs").glob("e*.jsonl"))
        given = [{"file": str(path), "engine": path.stem, "plain": False, "window_ns": STEP_NS} for path in paths]
        units = [Unit(str(one["engine"]), "schedspec.commands.units:judge_engine", one) for one in given]
        seconds = {jobs: _seconds(units, jobs, Path(folder) / str(jobs)) for jobs in (1, 2)}
        yield Result(
            name="campaign.two_processes",
            figure=seconds[1] / seconds[2],
            unit=f"times as fast as one: {seconds[2]:.1f} s and {seconds[1]:.1f} s for {len(units)} engines",
            asked=ASKED,
        )


def _seconds(units: list[Unit], jobs: int, folder: Path) -> float:
    begun = time.monotonic()
    run_campaign(units, executor_of(f"local:{jobs}"), Journal(folder, units, resume=False), Watch())
    return time.monotonic() - begun
