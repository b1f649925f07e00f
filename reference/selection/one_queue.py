"""One queue for everybody, in an order that a key gives: smaller is earlier, and among equals who arrived earlier."""

import heapq
from collections.abc import Callable

from attrs import Factory, define

from ...spec.settings import AGING_ARRIVALS, SJF_ARRIVALS
from ..job import WAITING, Job

Key = Callable[[Job], int]


@define(eq=False)
class WaitingQueue:
    """Waiting requests by their place: a heap, from which those who wait no longer are dropped when they surface."""

    key: Key
    heap: list[tuple[int, int, Job]] = Factory(list)
    size: int = 0

    def push(self, job: Job) -> None:
        """It waits from now on: a new arrival, or the victim of a preemption."""
        heapq.heappush(self.heap, (self.key(job), job.arrival, job))
        self.size += 1

    def pop(self) -> Job | None:
        """Who is next; then it is either `picked` or `put_back`."""
        while self.heap:
            job = heapq.heappop(self.heap)[2]
            if job.state == WAITING:
                self.size -= 1
                return job
        return None

    def put_back(self, job: Job) -> None:
        """It did not fit, and stands where it stood."""
        self.push(job)

    def picked(self, job: Job) -> None:
        """It is admitted."""

    def left(self, job: Job) -> None:
        """A job that is still in the heap waits no longer."""
        self.size -= 1

    def ran(self, job: Job, end: int) -> None:
        """Its positions up to `end` are scheduled."""

    def served(self, job: Job) -> None:
        """An output token of it was delivered."""

    def released(self, job: Job) -> None:
        """It has left the running set."""

    def ended(self, job: Job) -> None:
        """No more tokens of it will come."""

    def counters(self) -> dict[str, int]:
        """What a snapshot shows of clients."""
        return {}


def by_arrival(job: Job) -> int:
    return 0


def by_priority(job: Job) -> int:
    return job.request.priority


def by_deadline(job: Job) -> int:
    deadline = job.request.deadline_ns
    return NEVER_NS if deadline is None else min(deadline, NEVER_NS)


def by_length(job: Job) -> int:
    """Shortest declared output first; so many later arrivals weigh as much as a token, so nobody starves."""
    return job.request.expected_output_tokens * SJF_ARRIVALS + job.arrival


def by_age(job: Job) -> int:
    """Priority, but so many later arrivals weigh as much as a class."""
    return job.request.priority * AGING_ARRIVALS + job.arrival


NEVER_NS = 1 << 64
"""After every deadline."""
