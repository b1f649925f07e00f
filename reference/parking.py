"""Requests that depend on something, and are parked until it is there.

A request that names dependencies is parked at the door, one that calls a tool in the middle of its output.  Who is
parked has no seat and holds no block; what it computed may be leased in the prefix cache for a while.  It waits again
when all that it depends on is there, and ends if something fails, or does not come in time.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import Factory, define

from ..spec.vocabulary import DEPENDENCY_FAILED, RESOLVED
from .job import PARKED, Job


@define(eq=False)
class Parking:
    """Who is parked, in that order, and until when.  The world may answer before somebody depends on it: the first
    answer about a dependency counts, and is kept in its job."""

    timeout_ns: int
    parked: dict[Job, int] = Factory(dict)

    def park(self, job: Job, dependencies: set[str], now_ns: int) -> None:
        job.state = PARKED
        job.dependencies = dependencies
        self.parked[job] = now_ns + self.timeout_ns

    def leave(self, job: Job) -> None:
        job.dependencies = set()
        self.parked.pop(job, None)

    def overdue(self, now_ns: int) -> Iterator[Job]:
        return iter([job for job, until_ns in self.parked.items() if until_ns < now_ns])


def answer_in(event: Mapping[str, Any]) -> tuple[str, bool] | None:
    """What an event says of a dependency: its name, and whether it is there."""
    kind, dependency = event.get("type"), event.get("dependency")
    if kind not in (RESOLVED, DEPENDENCY_FAILED) or not isinstance(dependency, str):
        return None
    return dependency, kind == RESOLVED
