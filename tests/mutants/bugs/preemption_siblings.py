"""Siblings of the bugs of preemption."""

from schedspec.reference import Scheduler
from schedspec.reference.decide import Room
from schedspec.reference.job import Job
from schedspec.reference.state import Decision

from .preemption import AdmitsByPreempting, LeavesVictimsInTheBatch
from .registry import sibling


@sibling("B21", "a victim between two chunks of its prompt stays in the batch")
class LeavesPromptsInTheBatch(LeavesVictimsInTheBatch):
    def release(self, decision: Decision) -> None:
        victims = [job for job in decision.victims if job.issued < job.prefill_end]
        growth, *_ = self.compose(victims)
        rows = [(job.id, job.issued, tokens, int(job.issued + tokens == job.known)) for job, tokens in growth]
        Scheduler.release(self, decision)
        self.rows = rows


@sibling("B21", "what a victim would have used of the budget is not given back", rules=("STEP-7", "STEP-8"))
class KeepsTheBudgetOfVictims(Scheduler):
    def release(self, decision: Decision) -> None:
        growth, *_ = self.compose(decision.victims)
        spent = sum(tokens for _, tokens in growth)
        super().release(decision)
        left = self.state.settings.token_budget - spent if decision.victims else self.state.settings.token_budget
        kept = []
        for job, tokens in decision.growth:
            if tokens <= left:
                kept.append((job, tokens))
                left -= tokens
        decision.growth = kept or decision.growth[:1]


@sibling("B23", "whoever is of the same class gives way, too")
class TakesThePlaceOfEquals(Scheduler):
    def replaceable(self, job: Job, room: Room) -> list[Job]:
        lower = super().replaceable(job, room)
        if lower or not self.has_classes() or self.waits_for_budget(job, room):
            return lower
        return [one for one in room.staying if one.request.priority == job.request.priority][-1:]


@sibling("B23", "who was preempted comes back in the place of whoever came later")
class ResumesByPreempting(AdmitsByPreempting):
    def in_place_of(self, victims: list[Job], staying: list[Job], head: Job) -> Decision | None:
        later = all(victim.arrival > head.arrival for victim in victims)
        return super().in_place_of(victims, staying, head) if head.was_preempted and later else None


@sibling("B24", "two lose their place where one would do", rules=("PRE-1", "PRE-3", "PRE-6"))
class PreemptsOneMore(Scheduler):
    def decide_turn(self, victims: list[Job]) -> Decision:
        decision = super().decide_turn(victims)
        staying = [job for job in self.state.running.values() if job not in decision.victims]
        if decision.victims and len(staying) > 2:
            decision.victims.append(self.next_victim(staying))
            staying.remove(decision.victims[-1])
            decision.growth, _, decision.budget_left = self.compose(staying)
        return decision


@sibling("B24", "whoever is alone and has no block left starts over", rules=("PRE-1", "PRE-3", "PRE-6"))
class StartsOverWhenTheLastBlockIsTaken(Scheduler):
    def decide_turn(self, victims: list[Job]) -> Decision:
        jobs = list(self.state.running.values())
        if len(jobs) == 1 and not self.state.pool.available and self.state.queue.size and jobs[0].outputs == 2:
            return Decision(jobs, None, [], 0)
        return super().decide_turn(victims)
