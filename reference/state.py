"""State of the reference scheduler, in small classes grouped by scope: one request, the queue, a step, all of it."""

import heapq
from collections.abc import Iterator

from attrs import Factory, define

from ..spec.vocabulary import Delta, Request, Settings
from .pool import Pool

WAITING, RUNNING, ENDED = "waiting", "running", "ended"


@define(eq=False)
class Job:
    """A request inside the scheduler.

    `issued` ≤ `known`: positions scheduled so far, and positions whose token is there or in flight.  `epoch` counts
    how often it left the running set: a result of an earlier epoch is not its own any more.  `keys` name its full
    blocks by their token prefix.
    """

    request: Request
    arrival: int
    known: int
    tokens: list[int]
    id: str = ""
    state: str = WAITING
    issued: int = 0
    computed: int = 0
    outputs: int = 0
    in_flight: int = 0
    table: list[int] = Factory(list)
    indexed_blocks: int = 0
    keys: list[int] = Factory(list)
    epoch: int = 0
    admission: int = 0
    was_preempted: bool = False

    @classmethod
    def of(cls, request: Request, arrival: int) -> "Job":
        return cls(request, arrival, request.prompt_tokens, list(request.prompt_ids), request.id)

    @property
    def is_sure_to_end(self) -> bool:
        """With what is in flight it reaches its declared length: nothing more to schedule."""
        return self.outputs + self.in_flight >= self.request.max_output_tokens


@define(eq=False)
class WaitingQueue:
    """Waiting requests by their place: a heap, from which those who wait no longer are dropped when they surface."""

    by_priority: bool = False
    heap: list[tuple[int, int, Job]] = Factory(list)
    size: int = 0

    def push(self, job: Job) -> None:
        heapq.heappush(self.heap, (*self.place(job), job))
        self.size += 1

    def pop(self) -> Job | None:
        while self.heap:
            job = heapq.heappop(self.heap)[2]
            if job.state == WAITING:
                self.size -= 1
                return job
        return None

    def left(self) -> None:
        """A job that is still in the heap waits no longer."""
        self.size -= 1

    def place(self, job: Job) -> tuple[int, int]:
        return (job.request.priority if self.by_priority else 0, job.arrival)


@define(eq=False)
class Entry:
    """One row of a step: the job runs `tokens` positions from `start`, and samples after the last known one."""

    job: Job
    start: int
    tokens: int
    samples: int
    epoch: int


@define(eq=False)
class Admission:
    """Who enters, with which cached blocks, from which position, how many tokens in this step, and how many positions
    it reserves blocks for."""

    job: Job
    cached_blocks: list[int]
    start: int
    tokens: int
    reserved_tokens: int


@define(eq=False)
class Decision:
    """What DECIDE hands to the other phases; no table has been touched."""

    victims: list[Job]
    requester: Job | None
    growth: list[tuple[Job, int]]
    budget_left: int
    admissions: list[Admission] = Factory(list)


@define(eq=False)
class State:
    settings: Settings
    pool: Pool
    queue: WaitingQueue
    jobs: dict[str, Job] = Factory(dict)
    running: dict[str, Job] = Factory(dict)
    seen: set[str] = Factory(set)
    in_flight: dict[int, list[Entry]] = Factory(dict)
    deltas: list[Delta] = Factory(list)
    step: int = 0
    arrivals: int = 0
    admissions: int = 0

    @classmethod
    def of(cls, settings: Settings) -> "State":
        return cls(settings, Pool.of(settings.blocks), WaitingQueue(settings.policy == "priority"))

    def live(self) -> Iterator[Job]:
        return (job for job in self.jobs.values() if job.state != ENDED)
