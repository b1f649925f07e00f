"""One queue for everybody, in an order that a key gives: smaller is earlier, and among equals who arrived earlier.

`Guarded` bounds how often somebody is overtaken, `ByAdapter` passes those whose adapter cannot be loaded, and
`LongestPrefix` chooses among the first few.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

from attrs import Factory, define, field

from ...spec.queueing import expected_left, mlfq_level
from ...spec.settings import AGING_ARRIVALS, LPM_WINDOW, SJF_ARRIVALS, Settings
from ..adapters import Adapters
from ..job import Job
from ..prefixes import Prefixes

Key = Callable[[Job], int]


class OneQueue:
    """What a queue is asked and told."""

    size: int

    def push(self, job: Job) -> None:
        """It waits from now on: a new arrival, or the victim of a preemption."""
        raise NotImplementedError

    def pop(self) -> Job | None:
        """Who is next; then it is either `picked` or `put_back`."""
        raise NotImplementedError

    def put_back(self, job: Job) -> None:
        """It did not fit, and stands where it stood."""
        raise NotImplementedError

    def left(self, job: Job) -> None:
        """A job that stands in the queue waits no longer."""
        raise NotImplementedError

    def is_before(self, job: Job, other: Job) -> bool:
        """Whether somebody who waits would stand before one who runs, if that one waited too."""
        return False

    def may_replace(self, job: Job, other: Job) -> bool:
        """Whether one that waits may take the place of one that runs, of a lower class: it would stand behind."""
        return self.is_before(job, other)

    def may(self, job: Job) -> bool:
        """Whether the caps of its client and lane let it run."""
        return True

    def is_aged(self, job: Job) -> bool:
        """Whether it is next because it has waited long."""
        return False

    def picked(self, job: Job) -> None:
        """It is admitted."""

    def ran(self, job: Job, end: int) -> None:
        """Its positions up to `end` are scheduled, or were found in the cache."""

    def served(self, job: Job) -> None:
        """An output token of it was delivered."""

    def released(self, job: Job) -> None:
        """It has left the running set."""

    def ended(self, job: Job) -> None:
        """No more tokens of it will come."""

    def counters(self) -> dict[str, int]:
        """What a snapshot shows of clients."""
        return {}

    def out_of_reach(self) -> Iterator[Job]:
        """Those who wait in it and whom `pop` passes, the first of each kind."""
        return iter(())


@define(eq=False)
class WaitingQueue(OneQueue):
    """Waiting requests by their place: a heap, from which those who stand there no longer are dropped when they
    surface.  `standing`: the number of the entry that counts."""

    key: Key
    heap: list[tuple[int, int, int, Job]] = Factory(list)
    standing: dict[Job, int] = Factory(dict)
    size: int = 0
    entries: int = 0

    def push(self, job: Job) -> None:
        self.entries += 1
        self.standing[job] = self.entries
        heapq.heappush(self.heap, (self.key(job), job.arrival, self.entries, job))
        self.size += 1

    def pop(self) -> Job | None:
        if self.head() is None:
            return None
        job = heapq.heappop(self.heap)[-1]
        self.left(job)
        return job

    def head(self) -> tuple[int, int] | None:
        """The place of who is next."""
        while self.heap:
            key, arrival, entry, job = self.heap[0]
            if self.standing.get(job) == entry:
                return key, arrival
            heapq.heappop(self.heap)
        return None

    def put_back(self, job: Job) -> None:
        self.push(job)

    def left(self, job: Job) -> None:
        del self.standing[job]
        self.size -= 1

    def is_before(self, job: Job, other: Job) -> bool:
        return (self.key(job), job.arrival) < (self.key(other), other.arrival)


@define(eq=False)
class ByAdapter(OneQueue):
    """A queue for each adapter, so that those whose adapter cannot be loaded hold up nobody, and cost nothing."""

    key: Key
    adapters: Adapters
    queues: dict[str | None, WaitingQueue] = Factory(dict)
    size: int = 0

    def push(self, job: Job) -> None:
        adapter = job.request.adapter
        if adapter not in self.queues:
            self.queues[adapter] = WaitingQueue(self.key)
        self.queues[adapter].push(job)
        self.size += 1

    def pop(self) -> Job | None:
        """The first of those who need no adapter, or one that is loaded; while another can be loaded, of all."""
        usable = self.queues if self.adapters.has_room else (None, *self.adapters.users)
        heads = [(head, queue) for name in usable if (queue := self.queues.get(name)) and (head := queue.head())]
        if not heads:
            return None
        _, queue = min(heads, key=lambda entry: entry[0])
        job = queue.pop()
        assert job is not None
        self.size -= 1
        self._drop_if_empty(job)
        return job

    def put_back(self, job: Job) -> None:
        self.push(job)

    def left(self, job: Job) -> None:
        self.queues[job.request.adapter].left(job)
        self.size -= 1
        self._drop_if_empty(job)

    def is_before(self, job: Job, other: Job) -> bool:
        return (self.key(job), job.arrival) < (self.key(other), other.arrival)

    def out_of_reach(self) -> Iterator[Job]:
        for adapter, queue in self.queues.items():
            is_usable = adapter is None or adapter in self.adapters.users or self.adapters.has_room
            if not is_usable and queue.head() is not None:
                yield queue.heap[0][-1]

    def _drop_if_empty(self, job: Job) -> None:
        if not self.queues[job.request.adapter].size:
            del self.queues[job.request.adapter]


@define(eq=False)
class LongestPrefix(OneQueue):
    """Among the first that wait, in order of arrival, who has the longest cached prefix; among equals, who came
    first."""

    order: OneQueue
    prefixes: Prefixes
    size: int = 0

    def push(self, job: Job) -> None:
        self.order.push(job)
        self.size += 1

    def pop(self) -> Job | None:
        window: list[Job] = []
        while len(window) < LPM_WINDOW and (job := self.order.pop()):
            window.append(job)
        chosen = max(window, key=lambda job: len(self.prefixes.cached_blocks(job)), default=None)
        for job in window:
            if job is not chosen:
                self.order.put_back(job)
        self.size -= chosen is not None
        return chosen

    def put_back(self, job: Job) -> None:
        self.push(job)

    def left(self, job: Job) -> None:
        self.order.left(job)
        self.size -= 1

    def out_of_reach(self) -> Iterator[Job]:
        return self.order.out_of_reach()


@define(eq=False)
class Spell:
    """A time of waiting: its number, how many admissions there had been when it began, whether it has seen so many
    that its job is next, and whether its job is out of the queue, to be picked or put back."""

    number: int
    admissions_before: int
    is_next: bool = False
    is_out: bool = False


@define(eq=False)
class Guarded(OneQueue):
    """Whoever saw `max_overtaken` admissions since it began to wait goes before everybody who has not; among such, who
    began earlier.  So nobody is overtaken more often by those who come later.

    Whoever is admitted so keeps its place against a better class while it runs, and takes nobody's place whom it would
    not stand before otherwise: else two may evict each other for ever, one as the better class, the other as it grows.

    `young` has the spells in the order in which they began, until they have seen that many; `promoted` are the running
    requests that had.
    """

    order: OneQueue
    new_queue: Callable[[Key], OneQueue]
    max_overtaken: int
    next: OneQueue = field(init=False)
    spells: dict[Job, Spell] = Factory(dict)
    young: deque[tuple[Job, Spell]] = Factory(deque)
    promoted: set[Job] = Factory(set)
    size: int = 0
    begun: int = 0
    admissions: int = 0

    def __attrs_post_init__(self) -> None:
        self.next = self.new_queue(self._number_of)

    def push(self, job: Job) -> None:
        self.begun += 1
        spell = self.spells[job] = Spell(self.begun, self.admissions)
        self.young.append((job, spell))
        self.order.push(job)
        self.size += 1

    def pop(self) -> Job | None:
        self._look_at_the_young()
        job = self.next.pop() or self.order.pop()
        if job is not None:
            self.spells[job].is_out = True
            self.size -= 1
        return job

    def put_back(self, job: Job) -> None:
        spell = self.spells[job]
        spell.is_out = False
        spell.is_next = self._has_seen_enough(spell)
        self._queue_of(spell).put_back(job)
        self.size += 1

    def left(self, job: Job) -> None:
        self._queue_of(self.spells.pop(job)).left(job)
        self.size -= 1

    def is_aged(self, job: Job) -> bool:
        return self._has_seen_enough(self.spells[job])

    def picked(self, job: Job) -> None:
        if self._has_seen_enough(self.spells.pop(job)):
            self.promoted.add(job)
        self.admissions += 1

    def released(self, job: Job) -> None:
        self.promoted.discard(job)

    def may_replace(self, job: Job, other: Job) -> bool:
        return other not in self.promoted and self.order.is_before(job, other)

    def is_before(self, job: Job, other: Job) -> bool:
        return self.spells[job].is_next or self.order.is_before(job, other)

    def out_of_reach(self) -> Iterator[Job]:
        yield from self.next.out_of_reach()
        yield from self.order.out_of_reach()

    def _look_at_the_young(self) -> None:
        while self.young and self._has_seen_enough(self.young[0][1]):
            job, spell = self.young.popleft()
            if self.spells.get(job) is spell and not (spell.is_out or spell.is_next):
                self.order.left(job)
                self.next.push(job)
                spell.is_next = True

    def _has_seen_enough(self, spell: Spell) -> bool:
        return self.admissions - spell.admissions_before >= self.max_overtaken

    def _number_of(self, job: Job) -> int:
        return self.spells[job].number

    def _queue_of(self, spell: Spell) -> OneQueue:
        return self.next if spell.is_next else self.order


# --- keys --------------------------------------------------------------------------------------------------


def by_arrival(job: Job) -> int:
    return 0


def by_priority(job: Job) -> int:
    return job.request.priority


def by_deadline(job: Job) -> int:
    deadline = job.request.deadline_ns
    return NEVER_NS if deadline is None else min(deadline, NEVER_NS)


def by_length(job: Job) -> int:
    """Shortest expected output first; so many later arrivals weigh as much as a token, so nobody starves."""
    return job.request.expected_output_tokens * SJF_ARRIVALS + job.arrival


def by_what_is_left(job: Job) -> int:
    """Shortest expected rest of the output first; arrivals weigh as in `by_length`."""
    request = job.request
    left = expected_left(request.expected_output_tokens, request.max_output_tokens, job.outputs)
    return left * SJF_ARRIVALS + job.arrival


def by_age(job: Job) -> int:
    """Priority, but so many later arrivals weigh as much as a class."""
    return job.request.priority * AGING_ARRIVALS + job.arrival


def by_level(quantum: int) -> Key:
    """Skip-join multi-level feedback queue (FastServe, https://arxiv.org/abs/2305.05920): a request joins the level
    whose quantum covers its prompt, and comes back at the level of its service so far."""
    return lambda job: mlfq_level(job.request.prompt_tokens + job.outputs, quantum)


NEVER_NS = 1 << 64
"""After every deadline."""

ORDERS: dict[str, Callable[[Settings], Key]] = {
    "fcfs": lambda settings: by_arrival,
    "priority": lambda settings: by_priority,
    "edf": lambda settings: by_deadline,
    "sjf": lambda settings: by_length,
    "srpt": lambda settings: by_what_is_left,
    "aging": lambda settings: by_age,
    "mlfq": lambda settings: by_level(settings.quantum),
    "lpm": lambda settings: by_arrival,
}
"""Policy of one queue -> its key."""


def one_queue(settings: Settings, prefixes: Prefixes, adapters: Adapters) -> OneQueue:
    """The queue of a policy, with as much around it as the settings ask for."""
    new_queue = partial(ByAdapter, adapters=adapters) if settings.adapter_slots else WaitingQueue
    queue: OneQueue = new_queue(ORDERS[settings.policy](settings))
    if settings.policy == "lpm":
        queue = LongestPrefix(queue, prefixes)
    return Guarded(queue, new_queue, settings.max_overtaken) if settings.max_overtaken else queue
