"""Who of the waiting is next: one queue in the order of a key, a heap."""

import heapq
from collections.abc import Callable, Mapping

from attrs import Factory, define

from ..spec.queueing import NEVER_NS, expected_left, mlfq_level
from ..spec.settings import AGING_ARRIVALS, SJF_ARRIVALS, Settings
from .arrays import Ints, Rows
from .job import Job

Key = Callable[[Job], int]


class Queue:
    """What a queue is asked and told.  Where clients are charged, service counts; else it says nothing."""

    size: int

    def push(self, job: Job) -> None:
        """It waits from now on."""
        raise NotImplementedError

    def pop(self) -> Job | None:
        """Who is next; then it is either `picked` or `put_back`."""
        raise NotImplementedError

    def put_back(self, job: Job) -> None:
        raise NotImplementedError

    def left(self, job: Job) -> None:
        """It stands in the queue, and waits no longer."""
        raise NotImplementedError

    def picked(self, job: Job) -> None:
        """It is admitted."""

    def served(self, rows: Rows, which: Ints) -> None:
        """Each of these rows got an output."""

    def may_tick(self, rows: Rows, order: Ints, steps: int) -> bool:
        """Whether service can be counted by a clock while all of these get an output in each of so many steps."""
        return True

    def start_clock(self, rows: Rows, order: Ints) -> None:
        """From now on all of these get an output at each tick."""

    def tick(self) -> None:
        """Each of those got an output."""

    def stop_clock(self) -> None:
        """What the clock stands for is written down."""

    def counters(self) -> dict[str, int]:
        """What a snapshot shows of clients."""
        return {}


@define(eq=False)
class KeyQueue(Queue):
    """The smallest key first, and among equals who arrived earlier.  An entry counts if its number is the one that
    stands in its job; others are dropped when they surface."""

    key: Key
    heap: list[tuple[int, int, int, Job]] = Factory(list)
    size: int = 0
    entries: int = 0

    def push(self, job: Job) -> None:
        self.entries += 1
        job.entry = self.entries
        heapq.heappush(self.heap, (self.key(job), job.arrival, self.entries, job))
        self.size += 1

    put_back = push

    def pop(self) -> Job | None:
        while self.heap:
            _, _, entry, job = heapq.heappop(self.heap)
            if job.entry == entry:
                self.left(job)
                return job
        return None

    def left(self, job: Job) -> None:
        job.entry = 0
        self.size -= 1


def _deadline(job: Job) -> int:
    deadline = job.request.deadline_ns
    return NEVER_NS if deadline is None else min(deadline, NEVER_NS)


def _rest(job: Job) -> int:
    return expected_left(job.request.expected_output_tokens, job.declared, job.outputs)


ORDERS: Mapping[str, Callable[[Settings], Key]] = {
    "fcfs": lambda settings: lambda job: 0,
    "priority": lambda settings: lambda job: job.request.priority,
    "edf": lambda settings: _deadline,
    "sjf": lambda settings: lambda job: job.request.expected_output_tokens * SJF_ARRIVALS + job.arrival,
    "srpt": lambda settings: lambda job: _rest(job) * SJF_ARRIVALS + job.arrival,
    "aging": lambda settings: lambda job: job.request.priority * AGING_ARRIVALS + job.arrival,
    "mlfq": lambda settings: lambda job: mlfq_level(job.known, settings.quantum),
}
"""Policy -> its key.  Keys are Python's integers: none is too large."""
