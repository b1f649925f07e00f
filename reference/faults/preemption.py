"""Schedulers that break a rule of PRE."""

from attrs import evolve

from ...spec.vocabulary import (
    Plan,
)
from ..decide import Room
from ..job import Job
from ..scheduler import Scheduler
from ..state import Decision
from .base import fault


@fault("PRE-1")
class PreemptsForNothing(Scheduler):
    """Somebody is preempted as soon as no block is free after the step, not when one is missing."""

    def decide(self) -> Decision:
        jobs = list(self.state.running.values())
        _, need, _ = self.compose(jobs)
        if len(jobs) < 2 or self.state.pool.available != need:
            return super().decide()
        growth, _, left = self.compose(jobs[:-1])
        return Decision([jobs[-1]], jobs[0], growth, left)


@fault("PRE-2")
class PreemptsTheMostUrgent(Scheduler):
    """The sign of the priority is wrong."""

    def next_victim(self, jobs: list[Job]) -> Job:
        if self.state.settings.victim == "lowest_priority":
            return min(jobs, key=lambda job: (job.request.priority, -job.admission))
        return super().next_victim(jobs)


@fault("PRE-3")
class FreesAllAtOnce(Scheduler):
    """Blocks of all victims go back before the first one leaves: preempting the second frees nothing any more."""

    def release(self, decision: Decision) -> None:
        for job in decision.victims:
            self.give_all(job)
        super().release(decision)


@fault("PRE-4")
class PreemptsForAnAdmission(Scheduler):
    """A head that does not fit evicts the newest running request."""

    def decide(self) -> Decision:
        decision = super().decide()
        jobs = list(self.state.running.values())
        if decision.victims or decision.admissions or len(jobs) < 2:
            return decision
        head = self.state.queue.pop()
        if head is None:
            return decision
        growth, need, left = self.compose(jobs[:-1])
        blocks = self.state.pool.available + self.freed_by(jobs[-1:]) - need
        admission = self.fit(head, Room(1, left, blocks, set()), anything_runs=True) if left else None
        if admission is None:
            self.state.queue.put_back(head)
            return decision
        self.state.queue.picked(head)
        return Decision(jobs[-1:], head, growth, left, [admission])


@fault("PRE-5")
class PreemptsTheOldest(Scheduler):
    """The victim is taken from the wrong end of the list."""

    def next_victim(self, jobs: list[Job]) -> Job:
        if self.state.settings.victim == "newest":
            return jobs[0]
        return super().next_victim(jobs)


@fault("PRE-6")
class PreemptsEverybody(Scheduler):
    """When one request cannot grow, all are thrown out and start over."""

    def decide(self) -> Decision:
        decision = super().decide()
        if decision.victims:
            jobs = list(self.state.running.values())
            return Decision(jobs[::-1], None, [], 0)
        return decision


@fault("PRE-7")
class SendsVictimsToTheBack(Scheduler):
    """A victim queues up like a new arrival."""

    def preempt(self, job: Job, requester: Job) -> None:
        self.state.arrivals += 1
        job.arrival = self.state.arrivals
        super().preempt(job, requester)


@fault("PRE-8")
class ForgetsOutputs(Scheduler):
    """Recompute covers the prompt and samples behind it, as if nothing had been generated."""

    def charge(self, decision: Decision) -> Plan:
        plan = super().charge(decision)
        tokens, samples = list(plan.tokens), list(plan.samples)
        for row, request in enumerate(plan.request):
            job = self.state.jobs[request]
            prompt = job.request.prompt_tokens
            if job.outputs and plan.start[row] < prompt < plan.start[row] + tokens[row]:
                tokens[row] = prompt - plan.start[row]
                samples[row] = 1
        return evolve(plan, tokens=tokens, samples=samples)
