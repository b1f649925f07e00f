"""Schedulers that do something wrong with whoever depends on something, or holds what others wait for.

`KINDS` has more of them than one for each rule: the ways in which released engines got it wrong.
"""

from collections.abc import Callable, Sequence

from attrs import evolve

from ...spec.vocabulary import Delta, Outcome, Request, Settings
from ..decide import Room
from ..job import PARKED, Job
from ..scheduler import Scheduler
from ..state import Admission
from .base import fault

KINDS: dict[str, tuple[str, type[Scheduler]]] = {}
"""What is wrong, in a few words -> the rule that has to name it, and the scheduler."""


def kind(says: str, rule: str) -> Callable[[type[Scheduler]], type[Scheduler]]:
    def register(cls: type[Scheduler]) -> type[Scheduler]:
        KINDS[says] = rule, cls
        return cls

    return register


@fault("LIVE-4")
class WakesOnlyWhoFits(Scheduler):
    """Whether somebody's dependencies are there is looked at where there are seats and budget for it."""

    def unpark(self, job: Job) -> None:
        if len(self.state.running) < self.state.settings.seats:
            super().unpark(job)

    def admit(self, budget: int, blocks: int) -> list[Admission]:
        if budget > 0 and len(self.state.running) < self.state.settings.seats:
            for job in [job for job in self.state.parking.parked if not job.dependencies]:
                super().unpark(job)
        return super().admit(budget, blocks)


@kind("parked for ever after a failure", "LIVE-4")
class IgnoresFailures(Scheduler):
    """That something failed is noted, and nobody looks at the note."""

    def hear(self, job: Job, dependency: str, is_there: bool) -> None:
        if is_there:
            super().hear(job, dependency, is_there)
        else:
            job.answers.setdefault(dependency, is_there)


@fault("LIVE-5")
class NeverLooksAtTheClock(Scheduler):
    """There is a timeout, and nobody sets it."""

    def expire(self) -> None:
        parked, self.state.parking.parked = self.state.parking.parked, {}
        super().expire()
        self.state.parking.parked = parked


@kind("an answer that comes before the question is lost", "LIVE-5")
class ForgetsEarlyAnswers(Scheduler):
    """News about a request that is not parked is about nothing."""

    def hear(self, job: Job, dependency: str, is_there: bool) -> None:
        if job.state == PARKED:
            super().hear(job, dependency, is_there)


@kind("resumed twice", "LIVE-5")
class WakesTwice(Scheduler):
    """Each answer wakes its request, the same one too."""

    def hear(self, job: Job, dependency: str, is_there: bool) -> None:
        heard = dependency in job.answers and job.outputs > 0
        super().hear(job, dependency, is_there)
        if heard:
            self.unpark(job)


@kind("whose time is over goes on", "LIVE-5")
class GoesOnWithoutIt(Scheduler):
    """Who has waited long enough goes on without what it waits for."""

    def expire(self) -> None:
        for job in self.state.parking.overdue(self.state.now_ns):
            self.unpark(job)
        super().expire()


@kind("runs on while its tool does", "LIVE-5")
class RunsOn(Scheduler):
    """A call is taken for a token like any other."""

    def pause(self, job: Job, dependency: str) -> None:
        """Nothing."""


@kind("one of two dependencies is enough", "LIVE-5")
class WaitsForOne(Scheduler):
    """Whoever waits for two things goes on with the first."""

    def hear(self, job: Job, dependency: str, is_there: bool) -> None:
        if dependency in job.dependencies:
            job.dependencies = {dependency}
        super().hear(job, dependency, is_there)


@kind("who is parked holds its seat", "LIVE-8")
class KeepsItsSeat(Scheduler):
    """Seats count everybody who has begun."""

    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        begun = sum(other.outputs > 0 for other in self.state.parking.parked)
        if begun and room.seats <= begun and anything_runs:
            return None
        return super().fit(job, room, anything_runs=anything_runs)


@kind("what was dropped is believed to be computed", "KV-12")
class BelievesItIsThere(Scheduler):
    """Where a request stood when it was parked, it goes on."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        self.stood: dict[str, int] = {}

    def pause(self, job: Job, dependency: str) -> None:
        computed = job.computed
        super().pause(job, dependency)
        if job.state == PARKED:
            self.stood[job.id] = computed

    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        admission = super().fit(job, room, anything_runs=anything_runs)
        if admission is not None and self.stood.get(job.id, 0) > admission.start:
            admission.start = self.stood.pop(job.id)
            admission.tokens = 1
            admission.reserved_tokens = job.known
        return admission


@kind("cancel does not find who is parked", "LIFE-6")
class CannotCancelTheParked(Scheduler):
    """It is neither in the queue nor in the running set."""

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        job = self.state.jobs.get(request_id)
        if job is not None and job.state == PARKED:
            return []
        return super().cancel(request_id, now_ns)


@kind("a tool fails its request though it is there", "LIVE-5")
class FailsThem(Scheduler):
    """An answer to somebody who is parked in the middle is taken for bad news."""

    def hear(self, job: Job, dependency: str, is_there: bool) -> None:
        super().hear(job, dependency, is_there and not (job.state == PARKED and job.outputs))


@fault("KV-15")
class EvictsTheOldest(Scheduler):
    """The oldest block that nobody holds is evicted, leased or not."""

    def grow(self, job: Job, positions: int) -> None:
        pool = self.state.pool
        if not pool.free and pool.leased:
            oldest = next(iter(pool.leased))
            del pool.leased[oldest]
            pool.evictable = {oldest: None} | pool.evictable
        super().grow(job, positions)


@kind("a lease of blocks that are not its prefix", "KV-15")
class LeasesBackwards(Scheduler):
    """The last block first."""

    def lease(self, job: Job, blocks: list[int]) -> None:
        super().lease(job, blocks[::-1])


@kind("a lease that is too long", "KV-15")
class LeasesAsLongAsItIsParked(Scheduler):
    """Kept for as long as its request may be parked, whatever was asked for."""

    def lease(self, job: Job, blocks: list[int]) -> None:
        settings = self.state.settings
        if settings.hold_ns:
            self.state.settings = evolve(settings, hold_ns=settings.park_timeout_ns)
        super().lease(job, blocks)
        self.state.settings = settings


@kind("a lease outlives its request", "KV-15")
class LeavesLeasesBehind(Scheduler):
    """A lease is given up by whoever runs again, and by nobody else."""

    def end_lease(self, request: str, cause: str) -> None:
        if cause != "ended":
            super().end_lease(request, cause)


@kind("a lease outlasts its time", "KV-15")
class HoldsForEver(Scheduler):
    """Leases end with a resumption or for memory, and no clock is asked."""

    def end_lease(self, request: str, cause: str) -> None:
        if cause != "expired":
            super().end_lease(request, cause)


@kind("a lease that is given up at once", "KV-15")
class GivesUpLeases(Scheduler):
    """Whoever needs a block ends leases first."""

    def grow(self, job: Job, positions: int) -> None:
        if self.state.leases.blocks and len(job.table) * self.state.settings.block_size < positions:
            self.end_lease(self.state.leases.first(), "memory")
        super().grow(job, positions)


@fault("LIVE-9")
class RetriesWhenSomebodyEnds(Scheduler):
    """Who did not fit is tried again when somebody ends or comes; a cancel is no end."""

    sleeps = False

    def admit(self, budget: int, blocks: int) -> list[Admission]:
        if self.sleeps:
            return []
        admissions = super().admit(budget, blocks)
        self.sleeps = not admissions and self.state.queue.size > 0
        return admissions

    def accept(self, request: Request) -> None:
        self.sleeps = False
        super().accept(request)

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        deltas = super().complete(outcome, now_ns)
        self.sleeps = self.sleeps and not any(delta[0] == "finished" for delta in deltas)
        return deltas
