"""Schedulers in which somebody gets nowhere, though each of their steps looks reasonable.  No single step breaks a
rule; exhaustive search finds the cycle."""

from ..job import Job
from ..scheduler import Scheduler
from ..state import Decision


class HoldsAndWaits(Scheduler):
    """Nobody is preempted: who lacks a block keeps what it has, and waits until somebody gives one back."""

    def decide(self) -> Decision:
        going: list[Job] = []
        for job in self.state.running.values():
            _, need, _ = self.compose([*going, job])
            if need <= self.state.pool.available:
                going.append(job)
        growth, need, budget = self.compose(going)
        return Decision([], None, growth, budget, self.admit(budget, self.state.pool.available - need))


class PrefillFirst(Scheduler):
    """Whatever prompt there is goes first, those that wait included; who decodes waits for a step without any."""

    def decide(self) -> Decision:
        prefilling = [job for job in self.state.running.values() if job.issued < job.prefill_end]
        growth, need, budget = self.compose(prefilling)
        if need <= self.state.pool.available:
            admissions = self.admit(budget, self.state.pool.available - need)
            if growth or admissions:
                return Decision([], None, growth, budget, admissions)
        return super().decide()
