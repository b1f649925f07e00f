"""Siblings of the bugs of progress."""

from collections.abc import Sequence

from attrs import evolve

from schedspec.reference import Scheduler
from schedspec.reference.decide import Room
from schedspec.reference.job import PARKED, Job
from schedspec.reference.state import Admission
from schedspec.spec.vocabulary import Delta, Observation, Outcome, Plan, Settings

from .progress import NeverLooksAtTheSecondQueue
from .registry import sibling

LOST = ("LIFE-1", "LIVE-1", "LIVE-2", "LIVE-4", "LIVE-8", "LIVE-9")


@sibling(
    "B08",
    "a victim comes back when a block more is free than it needs, which may be never",
    rules=("LIVE-1", "LIVE-2", "LIVE-6", "LIVE-9"),
)
class WantsASpareBlock(Scheduler):
    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        if job.was_preempted and not room.staying:
            needed = -(-(job.known + 1) // self.state.settings.block_size)
            if needed + 1 > self.state.settings.blocks:
                return None
        return super().fit(job, room, anything_runs=anything_runs)


@sibling(
    "B08",
    "a prompt waits between two chunks until all of it fits, and holds what it has",
    rules=("LIVE-1", "LIVE-6", "STEP-8"),
)
class HoldsBetweenChunks(Scheduler):
    """Who is in prefill is left out of a step that has no block for all the rest of its prompt, if it is not alone."""

    def compose(self, jobs: list[Job]) -> tuple[list[tuple[Job, int]], int, int]:
        size, free = self.state.settings.block_size, self.state.pool.available

        def may(job: Job) -> bool:
            missing = -(-job.known // size) - len(job.table)
            return job.issued >= job.prefill_end or missing <= free

        return super().compose([job for job in jobs if may(job) or len(jobs) == 1])


@sibling("B10", "each step sets the timer of those who wait for a tool again")
class StepsResetTheTimer(Scheduler):
    def step(self, now_ns: int) -> Plan:
        parking = self.state.parking
        for job in parking.parked:
            if job.outputs:
                parking.parked[job] = now_ns + parking.timeout_ns
        return super().step(now_ns)


@sibling("B10", "whoever is parked a second time has no timer")
class SetsOneTimer(Scheduler):
    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        self.timed: set[str] = set()

    def pause(self, job: Job, dependency: str) -> None:
        super().pause(job, dependency)
        if job.state == PARKED and job.id in self.timed:
            del self.state.parking.parked[job]
            self.state.parking.parked[job] = 1 << 60
        self.timed.add(job.id)


@sibling("B13", "that something failed is looked at where there is a seat")
class FailsWhoHasASeat(Scheduler):
    def hear(self, job: Job, dependency: str, is_there: bool) -> None:
        if is_there or len(self.state.running) < self.state.settings.seats or job.outputs:
            super().hear(job, dependency, is_there)
        else:
            job.answers.setdefault(dependency, is_there)


@sibling("B13", "who is woken while a victim waits is forgotten until it has gone")
class WakesAfterVictims(Scheduler):
    def unpark(self, job: Job) -> None:
        if not any(other.was_preempted for other in self.state.live() if other.state == "waiting"):
            super().unpark(job)

    def admit(self, budget: int, blocks: int) -> list[Admission]:
        for job in list(self.state.parking.parked):
            if not job.dependencies:
                self.unpark(job)
        return super().admit(budget, blocks)


@sibling("B26", "the second queue is counted with those who wait, and no loop visits it", rules=LOST)
class CountsTheSecondQueue(NeverLooksAtTheSecondQueue):
    """And shown with them, so that nothing is missing but progress."""

    def observe(self) -> Observation:
        shown, skipped = Scheduler.observe(self), len(self.skipped)
        return evolve(shown, counters={**shown.counters, "waiting": shown.counters["waiting"] + skipped})


@sibling("B26", "who is preempted a second time goes to a queue that nobody visits", rules=LOST)
class LosesWhoIsPreemptedTwice(Scheduler):
    def preempt(self, job: Job, requester: Job) -> None:
        super().preempt(job, requester)
        if job.epoch == 2:
            self.state.queue.left(job)
            self.state.queue.size += 1


@sibling("B27", "who finds no seat is tried again when somebody ends; a victim that leaves is no end")
class WakesAtAnEnd(Scheduler):
    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        self.sleeps = False

    def admit(self, budget: int, blocks: int) -> list[Admission]:
        if self.sleeps:
            return []
        admissions = super().admit(budget, blocks)
        self.sleeps = not admissions and self.state.queue.size > 1 and len(self.state.running) > 0
        return admissions

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        deltas = super().complete(outcome, now_ns)
        self.sleeps = self.sleeps and not any(delta[0] == "finished" for delta in deltas)
        return deltas
