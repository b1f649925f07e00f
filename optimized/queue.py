"""Who of the waiting is next: one queue in the order of a key, a heap."""

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count

from attrs import Factory, define, field

from ..spec.queueing import NEVER_NS, expected_left, mlfq_level
from ..spec.settings import AGING_ARRIVALS, SJF_ARRIVALS, Settings
from .arrays import Rows
from .ints import Ints
from .job import Job

Key = Callable[[Job], int]


class Queue:
    """What a queue is asked and told.  Where clients are charged, service counts; else it says nothing."""

    size: int
    keeps_order = True
    """Who is next stays so while nobody comes, goes or is admitted, whatever is served meanwhile."""
    hears_who_leaves = False
    """Whether it makes a difference that somebody was `released` or has `ended`."""

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

    @property
    def has_caps(self) -> bool:
        """Whether anybody is ever told that it `may` not."""
        return False

    def may(self, job: Job) -> bool:
        """Whether the caps of its client and lane let it run."""
        return True

    def picked(self, job: Job) -> None:
        """It is admitted."""

    def released(self, job: Job) -> None:
        """It has left the running set."""

    def ended(self, job: Job) -> None:
        """No more outputs of it will come."""

    @property
    def hears_of_chunks(self) -> bool:
        """Whether it wants to know which positions are scheduled."""
        return False

    def ran(self, job: Job, end: int) -> None:
        """Its positions up to `end` are scheduled."""

    def seated(self, rows: Rows, which: Ints, jobs: Sequence[Job]) -> None:
        """They run from now on, in these rows, where what is of clients and service has its columns."""

    def served(self, rows: Rows, which: Ints) -> None:
        """Each of these rows got an output."""

    def may_tick(self, running: int, ticks: int) -> bool:
        """Whether service can be counted by a clock while so many get an output at each of so many ticks."""
        return True

    def join_clock(self, rows: Rows, which: Ints) -> None:
        """From now on these get an output at each tick, too."""

    def leave_clock(self, rows: Rows, which: Ints) -> None:
        """These no longer do."""

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
    stands in its job; others are dropped when they surface.  Queues of the same jobs share `numbers`."""

    key: Key
    numbers: Iterator[int]
    heap: list[tuple[int, int, int, Job]] = Factory(list)
    size: int = 0

    def push(self, job: Job) -> None:
        job.entry = next(self.numbers)
        heapq.heappush(self.heap, (self.key(job), job.arrival, job.entry, job))
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


@define(eq=False)
class Spell:
    """A time of waiting: its number, and how many admissions there had been when it began.  `is_next`: it has seen so
    many that its job goes before all who have not; `is_out`: its job is to be picked or put back."""

    number: int
    admissions_before: int
    is_next: bool = False
    is_out: bool = False


@define(eq=False)
class GuardedQueue(Queue):
    """Whoever saw `max_overtaken` admissions since it began to wait is next; among such, who began earlier.  `young`
    has the others in the order in which they began."""

    order: KeyQueue
    max_overtaken: int
    next: KeyQueue = field(init=False)
    spells: dict[Job, Spell] = Factory(dict)
    young: deque[tuple[Job, Spell]] = Factory(deque)
    begun: int = 0
    admissions: int = 0

    def __attrs_post_init__(self) -> None:
        self.next = KeyQueue(lambda job: self.spells[job].number, self.order.numbers)

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.order.size + self.next.size

    def push(self, job: Job) -> None:
        self.begun += 1
        spell = self.spells[job] = Spell(self.begun, self.admissions)
        self.young.append((job, spell))
        self.order.push(job)

    def pop(self) -> Job | None:
        self._look_at_the_young()
        job = self.next.pop() or self.order.pop()
        if job is not None:
            self.spells[job].is_out = True
        return job

    def put_back(self, job: Job) -> None:
        spell = self.spells[job]
        spell.is_out, spell.is_next = False, self._has_seen_enough(spell)
        self._queue_of(spell).push(job)

    def left(self, job: Job) -> None:
        self._queue_of(self.spells.pop(job)).left(job)

    def picked(self, job: Job) -> None:
        del self.spells[job]
        self.admissions += 1

    def _look_at_the_young(self) -> None:
        while self.young and self._has_seen_enough(self.young[0][1]):
            job, spell = self.young.popleft()
            if job in self.spells and not (spell.is_out or spell.is_next):  # of an older spell it was taken out
                self.order.left(job)
                self.next.push(job)
                spell.is_next = True

    def _has_seen_enough(self, spell: Spell) -> bool:
        return self.admissions - spell.admissions_before >= self.max_overtaken

    def _queue_of(self, spell: Spell) -> KeyQueue:
        return self.next if spell.is_next else self.order


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


def one_queue(settings: Settings) -> Queue:
    queue = KeyQueue(ORDERS[settings.policy](settings), count(1))
    return GuardedQueue(queue, settings.max_overtaken) if settings.max_overtaken else queue
