"""Who is parked, and until when."""

from attrs import Factory, define

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

    def overdue(self, now_ns: int) -> list[Job]:
        """All may be parked for equally long, so the first is over first."""
        first = next(iter(self.parked.values()), now_ns)
        return [job for job, until_ns in self.parked.items() if until_ns < now_ns] if first < now_ns else []
