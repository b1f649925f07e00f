"""Who has waited so long that it is preferred: counted in admissions, not in time."""

from collections import deque
from collections.abc import Iterator

from attrs import Factory, define

from ..job import Job


@define(eq=False)
class Patience:
    """Waiting requests in the order in which they began to wait: the oldest come of age first, so an admission costs
    only those who do.  After `picks` admissions a request is aged; 0 is never."""

    picks: int
    admissions: int = 0
    line: deque[tuple[int, Job]] = Factory(deque)
    since: dict[str, int] = Factory(dict)
    aged: set[str] = Factory(set)

    def begins(self, job: Job) -> None:
        if self.picks:
            self.since[job.id] = self.admissions
            self.line.append((self.admissions, job))

    def ends(self, job: Job) -> bool:
        """It waits no longer; whether it was aged."""
        self.since.pop(job.id, None)
        if job.id not in self.aged:
            return False
        self.aged.remove(job.id)
        return True

    def admitted(self) -> Iterator[Job]:
        """One more admission; who is aged by it."""
        self.admissions += 1
        while self.line and self.line[0][0] + self.picks <= self.admissions:
            began, job = self.line.popleft()
            if self.since.get(job.id) == began:
                self.aged.add(job.id)
                yield job
