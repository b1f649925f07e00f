"""What a member of a queue keeps its requests in: those of one client by arrival, or a queue of clients again."""

import heapq
from typing import Protocol

from attrs import Factory, define

from ..job import WAITING, Job


class Line(Protocol):
    """Who of one client, or lane, is next, and what it is told."""

    @property
    def size(self) -> int: ...

    def push(self, job: Job) -> None:
        """It waits from now on."""

    def first(self) -> Job | None:
        """Who is next, if anybody may be."""

    def pop(self) -> Job | None: ...

    def put_back(self, job: Job) -> None: ...

    def picked(self, job: Job) -> None: ...

    def left(self, job: Job) -> None:
        """One that is still in line waits no longer."""

    def charge(self, job: Job, amount: int) -> None: ...

    def refund(self, job: Job, amount: int) -> None: ...

    def review(self, client: str) -> None:
        """What a client has running has changed."""


@define(eq=False)
class Arrivals:
    """Requests of one client by arrival: a heap, from which those who wait no longer are dropped when they surface."""

    heap: list[tuple[int, Job]] = Factory(list)
    size: int = 0

    def push(self, job: Job) -> None:
        heapq.heappush(self.heap, (job.arrival, job))
        self.size += 1

    put_back = push

    def first(self) -> Job | None:
        while self.heap and self.heap[0][1].state != WAITING:
            heapq.heappop(self.heap)
        return self.heap[0][1] if self.heap else None

    def pop(self) -> Job | None:
        job = self.first()
        if job is not None:
            heapq.heappop(self.heap)
            self.size -= 1
        return job

    def picked(self, job: Job) -> None:
        """It is admitted."""

    def left(self, job: Job) -> None:
        self.size -= 1

    def charge(self, job: Job, amount: int) -> None:
        """One client has no shares within it."""

    refund = charge

    def review(self, client: str) -> None:
        """Nobody in it is held by itself."""
