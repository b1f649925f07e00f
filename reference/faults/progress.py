"""Schedulers in which somebody gets nowhere, or late, though each of their steps looks reasonable: must-fail twins of
the reference for exhaustive search."""

from ..job import Job
from ..scheduler import Scheduler
from ..state import Admission, Decision
from .base import fault


@fault("LIVE-6")
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


class AdmitsEverySecondTime(Scheduler):
    """While something runs, every second round of admissions is left out, and nothing declares that."""

    rests = False

    def admit(self, budget: int, blocks: int) -> list[Admission]:
        self.rests = bool(self.state.running) and not self.rests
        return [] if self.rests else super().admit(budget, blocks)
