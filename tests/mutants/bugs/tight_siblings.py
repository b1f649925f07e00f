"""Siblings about the very edge of a limit, who counts towards it, and orders that are taken from names.

The directed scenarios of `scenarios_of_edges.py` were written for these kinds.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from attrs import define, evolve

from schedspec.reference import Scheduler
from schedspec.reference.admission import Gate
from schedspec.reference.alternatives import Refusal
from schedspec.reference.job import WAITING, Job
from schedspec.reference.selection.one_queue import WaitingQueue
from schedspec.spec.vocabulary import OPEN, Capabilities, Delta, Door, Outcome, Receipt, Request, Settings, Unsupported

from .registry import sibling


class CountsOtherwise(Scheduler):
    """The door looks at accounts in which victims count otherwise."""

    def miscount(self, gate: Gate, victims: list[Job], sign: int) -> None:
        raise NotImplementedError

    def refusal_at_the_gate(self, request: Request) -> Refusal | None:
        gate = self.state.gate
        if gate is None:
            return None
        with self._miscounted(gate):
            return super().refusal_at_the_gate(request)

    @contextmanager
    def _miscounted(self, gate: Gate) -> Iterator[None]:
        victims = [job for job in self.state.jobs.values() if job.state == WAITING and job.was_preempted]
        self.miscount(gate, victims, 1)
        try:
            yield
        finally:
            self.miscount(gate, victims, -1)


@sibling("B37", "who was preempted counts in the queue once more", rules=("ADMIT-3",))
class CountsVictimsInTheQueue(CountsOtherwise):
    """As the depth of a queue is often that of one list, in which victims wait too."""

    def miscount(self, gate: Gate, victims: list[Job], sign: int) -> None:
        gate.queued.requests += sign * len(victims)


@sibling("B37", "a client may have one more for each of it that was preempted", rules=("ADMIT-7",))
class ForgetsVictimsOfTheClient(CountsOtherwise):
    def miscount(self, gate: Gate, victims: list[Job], sign: int) -> None:
        for job in victims:
            gate.clients[job.request.client].requests -= sign


@sibling("B37", "tokens that were delivered are no part of what a client has under way", rules=("ADMIT-7",))
class ForgetsWhatWasDelivered(Scheduler):
    def refusal_at_the_gate(self, request: Request) -> Refusal | None:
        gate = self.state.gate
        if gate is None or request.client not in gate.clients:
            return super().refusal_at_the_gate(request)
        use = gate.clients[request.client]
        delivered = sum(job.outputs for job in self.state.jobs.values() if job.request.client == request.client)
        use.tokens -= delivered
        try:
            return super().refusal_at_the_gate(request)
        finally:
            use.tokens += delivered


@sibling("B37", "the queue has one place more, of a door that has no other limit", rules=("ADMIT-3",))
class HasOnePlaceMore(Scheduler):
    """Whoever honours one limit of the door refuses doors that have others."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        if evolve(settings.door, queue_requests=0) != OPEN:
            raise Unsupported("door", settings.door)
        places = settings.door.queue_requests
        super().__init__(evolve(settings, door=Door(queue_requests=places + 1 if places else 0)), seed, record=record)


@sibling("B27", "who has waited just as long as it may has expired", rules=("ADMIT-4",))
class ExpiresAtTheEdge(Scheduler):
    def expire(self) -> None:
        gate, now_ns = self.state.gate, self.state.now_ns
        super().expire()
        for job in gate.overdue(now_ns + 1) if gate is not None else ():
            self.end(job, ("expired", job.id))


@sibling("B27", "a victim expires for the age that it has", rules=("ADMIT-4",))
class ExpiresVictims(Scheduler):
    """It came long ago, and waits."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        self.came_ns: dict[str, int] = {}

    def submit(self, request: Request, now_ns: int) -> Receipt:
        self.came_ns.setdefault(request.id, now_ns)
        return super().submit(request, now_ns)

    def expire(self) -> None:
        super().expire()
        age_ns = self.state.settings.door.queue_age_ns
        victims = [job for job in self.state.jobs.values() if job.state == WAITING and job.was_preempted]
        for job in victims if age_ns else ():
            if self.state.now_ns - self.came_ns[job.id] > age_ns:
                self.end(job, ("expired", job.id))


@sibling("B27", "a result that comes twice is a call in which somebody expires", rules=("LIFE-7",))
class ExpiresWhenNothingChanges(Scheduler):
    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        if outcome.step in self.state.in_flight:
            return super().complete(outcome, now_ns)
        self.begin_call(now_ns)
        return self.state.deltas


@sibling("B27", "a prompt that is as long as the budget is too long for it", rules=("LIVE-1", "LIVE-8", "LIVE-9"))
class NeedsATokenMore(Scheduler):
    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        if settings.chunked_prefill:
            raise Unsupported("chunked_prefill", True)
        super().__init__(settings, seed, record=record)

    def chunk(self, job: Job, start: int) -> int:
        left = super().chunk(job, start)
        return left - 1 if start == 0 and left == self.state.settings.token_budget > 1 else left


@define(eq=False)
class ByName(WaitingQueue):
    """Among equals the first name is next."""

    def push(self, job: Job) -> None:
        arrival, job.arrival = (
            job.arrival,
            sum(byte << 8 * (7 - place) for place, byte in enumerate(job.id.encode()[:8])),
        )
        super().push(job)
        job.arrival = arrival


class OrdersOtherwise(Scheduler):
    """A queue of one order, with another one."""

    def of(self, queue: WaitingQueue) -> WaitingQueue:
        raise NotImplementedError

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        if type(self.state.queue) is WaitingQueue:
            self.state.queue = self.of(self.state.queue)


@sibling("B27", "of two that came at the same time the first name is next", rules=("LANE-4", "PRE-7"))
class TakesTheFirstName(OrdersOtherwise):
    def of(self, queue: WaitingQueue) -> WaitingQueue:
        return ByName(queue.key)


@sibling("B27", "a class below 0 is as far from the best as one above", rules=("LANE-4", "PRE-7"))
class TakesTheClassNearestToNone(OrdersOtherwise):
    def of(self, queue: WaitingQueue) -> WaitingQueue:
        key: Callable[[Job], int] = queue.key
        return WaitingQueue(lambda job: abs(key(job)))


@sibling("B13", "whoever is small goes past a victim, though victims are promised to be first", rules=("PRE-7",))
class GoesPastVictims(Scheduler):
    def capabilities(self) -> Capabilities:
        shown, settings = super().capabilities(), self.state.settings
        keeps_order = settings.policy in ("fcfs", "priority", "edf") and settings.at_blocked_head == "skip"
        is_plain = not (settings.adapter_slots or settings.max_overtaken or settings.preempt_lower_class)
        return evolve(shown, claims=shown.claims | {"resume_order"}) if keeps_order and is_plain else shown
