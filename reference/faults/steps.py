"""Schedulers that break a rule of STEP."""

from collections.abc import Mapping
from typing import ClassVar

from attrs import evolve

from ...spec.vocabulary import (
    Delta,
    Plan,
    Settings,
)
from ..job import Job
from ..scheduler import Scheduler
from ..state import Decision
from .base import Claims, WithOtherSettings, fault


@fault("STEP-1")
class OverrunsTheBudget(WithOtherSettings):
    """The budget is compared before the last token is added."""

    def otherwise(self, settings: Settings) -> Settings:
        return evolve(settings, token_budget=settings.token_budget + 1)


@fault("STEP-2")
class OverfillsTheSeats(WithOtherSettings):
    """`<=` where `<` is meant."""

    def otherwise(self, settings: Settings) -> Settings:
        return evolve(settings, seats=settings.seats + 1)


@fault("STEP-3")
class ListsARequestTwice(Scheduler):
    """A chunk that crosses a block edge becomes two entries."""

    def charge(self, decision: Decision) -> Plan:
        plan = super().charge(decision)
        rows = []
        for row in zip(plan.request, plan.start, plan.tokens, plan.samples, strict=True):
            request, start, tokens, samples = row
            first = self.state.settings.block_size - start % self.state.settings.block_size
            if first < tokens:
                rows += [(request, start, first, 0), (request, start + first, tokens - first, samples)]
            else:
                rows.append(row)
        columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
        return evolve(plan, request=columns[0], start=columns[1], tokens=columns[2], samples=columns[3])


@fault("STEP-4")
class SkipsAPosition(Scheduler):
    """A further chunk of a prompt starts one position late."""

    def charge(self, decision: Decision) -> Plan:
        plan = super().charge(decision)
        start, tokens = list(plan.start), list(plan.tokens)
        for row, samples in enumerate(plan.samples):
            if start[row] > 0 and tokens[row] >= 2 and not samples:
                start[row] += 1
                tokens[row] -= 1
        return evolve(plan, start=start, tokens=tokens)


@fault("STEP-5")
class RunsTheHeadOfTheQueue(Scheduler):
    """Where the step has room left, the head of the queue runs a token without having been admitted."""

    def charge(self, decision: Decision) -> Plan:
        plan = super().charge(decision)
        head = self.state.queue.pop()
        if head is None:
            return plan
        self.state.queue.put_back(head)
        full = sum(plan.tokens) >= self.state.settings.token_budget
        if full or head.known < 2 or head.was_preempted or not plan.request:
            return plan
        return evolve(
            plan,
            request=[*plan.request, head.id],
            start=[*plan.start, 0],
            tokens=[*plan.tokens, 1],
            samples=[*plan.samples, 0],
        )


@fault("STEP-6")
class SamplesTooEarly(Scheduler):
    """A first chunk that is not the last samples already."""

    def charge(self, decision: Decision) -> Plan:
        plan = super().charge(decision)
        samples = [1 if tokens >= 2 else some for tokens, some in zip(plan.tokens, plan.samples, strict=True)]
        return evolve(plan, samples=samples)


@fault("STEP-7")
class ResumesAVictimAtOnce(Scheduler):
    """Admissions go on in a step that preempted, so the victim comes back in the same pass."""

    def release(self, decision: Decision) -> None:
        super().release(decision)
        if decision.victims:
            need = sum(self.new_blocks(job, tokens) for job, tokens in decision.growth)
            decision.admissions = self.admit(decision.budget_left, self.state.pool.available - need)


@fault("STEP-8")
class StopsAfterAnAllocation(Scheduler):
    """The loop over running requests ends with the first that needs a block."""

    def compose(self, jobs: list[Job]) -> tuple[list[tuple[Job, int]], int, int]:
        growth, _, left = super().compose(jobs)
        cut = next((n + 1 for n, (job, tokens) in enumerate(growth) if self.new_blocks(job, tokens)), len(growth))
        left += sum(tokens for _, tokens in growth[cut:])
        return growth[:cut], sum(self.new_blocks(job, tokens) for job, tokens in growth[:cut]), left


@fault("STEP-9")
class PrefillFirst(Claims):
    """The budget goes to prompts first."""

    more: ClassVar[frozenset[str]] = frozenset({"stall_free"})

    def compose(self, jobs: list[Job]) -> tuple[list[tuple[Job, int]], int, int]:
        return super().compose(sorted(jobs, key=lambda job: job.issued >= job.prefill_end))


@fault("STEP-10")
class PrefillFirstForever(PrefillFirst):
    """Prompts first, for two steps at most, it says; and it stops nowhere."""

    more: ClassVar[frozenset[str]] = frozenset({"mixes_prefill"})
    less: ClassVar[frozenset[str]] = frozenset({"hybrid", "stall_free"})
    constants: ClassVar[Mapping[str, int]] = {"prefill_only_steps": 2}


@fault("STEP-11")
class DropsAPosition(Scheduler):
    """The last chunk of a prompt starts one position late."""

    def charge(self, decision: Decision) -> Plan:
        plan = super().charge(decision)
        start, tokens = list(plan.start), list(plan.tokens)
        for row, samples in enumerate(plan.samples):
            if start[row] > 0 and tokens[row] >= 2 and samples:
                start[row] += 1
                tokens[row] -= 1
        return evolve(plan, start=start, tokens=tokens)


@fault("STEP-12")
class TakesItAll(Scheduler):
    """A prompt gets as much of the budget as there is."""

    def chunk(self, job: Job, start: int) -> int:
        return job.known - start


@fault("STEP-19")
class UnloadsWithTheFirst(Scheduler):
    """Whoever leaves takes its adapter along, though others run with it."""

    def stand_up(self, job: Job) -> None:
        super().stand_up(job)
        self.state.adapters.users.pop(job.request.adapter or "", None)

    def end(self, job: Job, event: Delta) -> None:
        super().end(job, event)
        self.state.adapters.users.pop(job.request.adapter or "", None)


@fault("STEP-15")
class LetsThemIn(WithOtherSettings):
    """Nobody counts the prompts that are in prefill."""

    def otherwise(self, settings: Settings) -> Settings:
        return evolve(settings, prefilling_requests=0)
