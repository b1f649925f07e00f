"""Siblings of the bugs of one step."""

from schedspec.reference import Scheduler
from schedspec.reference.decide import Room
from schedspec.reference.faults.progress import PrefillFirst
from schedspec.reference.job import Job
from schedspec.reference.state import Admission

from .registry import sibling

sibling(
    "B11",
    "prompts that wait are admitted first; who decodes waits for a step without any",
    rules=("STEP-8", "STEP-9", "STEP-10"),
)(PrefillFirst)


@sibling("B11", "decodes sit out a step in which two prompts enter", rules=("STEP-8", "STEP-9", "STEP-10"))
class DecodesMakeRoom(Scheduler):
    def admit(self, budget: int, blocks: int) -> list[Admission]:
        admissions = super().admit(budget, blocks)
        self.are_out = len(admissions) > 1
        return admissions

    def decide_turn(self, victims: list[Job]):  # type: ignore[no-untyped-def]
        self.are_out = False
        decision = super().decide_turn(victims)
        if self.are_out:
            decision.growth = [(job, tokens) for job, tokens in decision.growth if job.issued < job.prefill_end]
        return decision


@sibling("B17", "what a victim computes again is not counted")
class RecomputesForFree(Scheduler):
    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        left = room.budget
        if job.was_preempted and not job.is_swapped and left:
            room.budget = max(left, self.chunk(job, self.start(job)))
            admission = super().fit(job, room, anything_runs=anything_runs)
            room.budget = max(0, left - (admission.tokens if admission else 0))
            return admission
        return super().fit(job, room, anything_runs=anything_runs)


@sibling("B17", "the budget is looked at before a prompt is cut, and not after")
class CutsToTheWholeBudget(Scheduler):
    """The second prompt of a step is cut to the budget of a step, not to what is left of it."""

    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        left = room.budget
        if len(room.entering) == 2 and self.state.settings.chunked_prefill and left:
            room.budget = self.state.settings.token_budget
            admission = super().fit(job, room, anything_runs=anything_runs)
            room.budget = max(0, left - (admission.tokens if admission else 0))
            return admission
        return super().fit(job, room, anything_runs=anything_runs)


@sibling("B18", "cached tokens are taken off the charge of a chunk that does not have them any more")
class DiscountsTwice(Scheduler):
    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        before = room.budget
        admission = super().fit(job, room, anything_runs=anything_runs)
        if admission is not None and admission.cached_blocks:
            room.budget = min(before, room.budget + admission.start)
        return admission
