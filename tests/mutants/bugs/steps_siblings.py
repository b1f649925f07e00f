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


class CutsToAnotherBudget(Scheduler):
    """Where something is left of the budget of a step some prompts are cut to another one."""

    def budget_of(self, job: Job, room: Room) -> int | None:
        """None: what is left."""
        raise NotImplementedError

    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        left = room.budget
        other = self.budget_of(job, room) if left else None
        if other is None:
            return super().fit(job, room, anything_runs=anything_runs)
        room.budget = other
        admission = super().fit(job, room, anything_runs=anything_runs)
        room.budget = max(0, left - (admission.tokens if admission else 0))
        return admission


@sibling("B17", "what a victim computes again is not counted")
class RecomputesForFree(CutsToAnotherBudget):
    def budget_of(self, job: Job, room: Room) -> int | None:
        is_victim = job.was_preempted and not job.is_swapped
        return max(room.budget, self.chunk(job, self.start(job))) if is_victim else None


@sibling("B17", "the budget is looked at before a prompt is cut, and not after")
class CutsToTheWholeBudget(CutsToAnotherBudget):
    """The second prompt of a step is cut to the budget of a step, not to what is left of it."""

    def budget_of(self, job: Job, room: Room) -> int | None:
        settings = self.state.settings
        return settings.token_budget if len(room.entering) == 2 and settings.chunked_prefill else None


@sibling("B18", "cached tokens are taken off the charge of a chunk that does not have them any more")
class DiscountsTwice(Scheduler):
    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        before = room.budget
        admission = super().fit(job, room, anything_runs=anything_runs)
        if admission is not None and admission.cached_blocks:
            room.budget = min(before, room.budget + admission.start)
        return admission
