"""Bugs of classes: a better one waits for a worse one, or all wait for one that has failed."""

from schedspec.reference import Scheduler
from schedspec.reference.decide import Room
from schedspec.reference.job import Job
from schedspec.reference.state import Admission, Decision

from .registry import bug, sibling


@bug(
    "B49",
    rules=("LIVE-10",),
    kind="priority inversion",
    title="A better class takes the place of others for memory, and waits for a seat",
    url="https://github.com/vllm-project/vllm/issues/40004",
)
class EvictsForBlocksOnly(Scheduler):
    """With all seats taken the loop over those who wait just ends."""

    def replaceable(self, job: Job, room: Room) -> list[Job]:
        return super().replaceable(job, room) if room.seats > 0 else []


@sibling("B49", "one victim is tried, though it takes two")
class TriesOneVictim(Scheduler):
    def replaceable(self, job: Job, room: Room) -> list[Job]:
        return super().replaceable(job, room)[:1]


@sibling("B49", "for seats, and not for memory")
class EvictsForSeatsOnly(Scheduler):
    def replaceable(self, job: Job, room: Room) -> list[Job]:
        return super().replaceable(job, room) if room.seats <= 0 else []


@sibling("B49", "whoever has begun to answer is not disturbed")
class SparesWhoAnswers(Scheduler):
    def replaceable(self, job: Job, room: Room) -> list[Job]:
        return [other for other in super().replaceable(job, room) if not other.outputs]


def up_to_the_first(decision: Decision, gone: list[Job]) -> None:
    """Nobody runs who stands behind one of these."""
    first = min(job.admission for job in gone)
    decision.growth = [(job, tokens) for job, tokens in decision.growth if job.admission < first]


@bug(
    "B62",
    rules=("STEP-8",),
    kind="head of line",
    title="One request that gets no memory ends the loop over those who run, for all who come after it",
    url="https://github.com/vllm-project/vllm/pull/36390",
)
class BreaksAtTheFirstFailure(Scheduler):
    """After its own preemption, too."""

    def decide_turn(self, victims: list[Job]) -> Decision:
        decision = super().decide_turn(victims)
        if decision.victims:
            up_to_the_first(decision, decision.victims)
        return decision


@sibling("B62", "one of which all is under way ends the loop")
class BreaksWhereNothingIsLeft(Scheduler):
    def compose(self, jobs: list[Job]) -> tuple[list[tuple[Job, int]], int, int]:
        ending = next((place for place, job in enumerate(jobs) if job.is_sure_to_end), len(jobs))
        return super().compose(jobs[:ending])


@sibling("B62", "a head that does not fit ends the loop over the last who runs, too")
class LeavesOutTheLast(Scheduler):
    def admit(self, budget: int, blocks: int) -> list[Admission]:
        admissions = super().admit(budget, blocks)
        self.has_failed = bool(self.state.queue.size) and not admissions and bool(blocks)
        return admissions

    def decide_turn(self, victims: list[Job]) -> Decision:
        self.has_failed = False
        decision = super().decide_turn(victims)
        if self.has_failed and len(decision.growth) > 1 and not decision.victims:
            decision.growth.pop()
        return decision
