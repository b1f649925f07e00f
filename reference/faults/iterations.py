"""Schedulers that break what systems of the literature promise of an iteration."""

from attrs import evolve

from ...spec.vocabulary import Settings
from ..job import Job
from ..scheduler import Scheduler
from .base import WithOtherSettings, fault


@fault("STEP-13")
class RunsTheNewestFirst(Scheduler):
    """The budget goes to whoever was admitted last: it is nearest to its first token."""

    def compose(self, jobs: list[Job]) -> tuple[list[tuple[Job, int]], int, int]:
        return super().compose(jobs[::-1])


@fault("STEP-16")
class MixesAllTheSame(WithOtherSettings):
    """What is left of the budget of a prefill goes to decodes."""

    def otherwise(self, settings: Settings) -> Settings:
        return evolve(settings, batch_mix="hybrid")


@fault("STEP-17")
class PlansAheadOfResults(WithOtherSettings):
    """A placeholder for the token in flight will do."""

    def otherwise(self, settings: Settings) -> Settings:
        return evolve(settings, disjoint_steps=False)


@fault("STEP-18")
class HalvesPrompts(Scheduler):
    """A long prompt is taken in halves, which is meant to be fair."""

    def chunk(self, job: Job, start: int) -> int:
        tokens = super().chunk(job, start)
        splits = self.state.settings.chunked_prefill and start < job.request.prompt_tokens and tokens > 4
        return tokens // 2 if splits else tokens


@fault("STEP-20")
class PlansPastTheEnd(Scheduler):
    """The length of an output is looked at when its token comes."""

    def waits_for_results(self, job: Job) -> bool:
        return self.is_under_way(job)


@fault("PRE-12")
class ReservesThePrompt(Scheduler):
    """Output is reserved when it comes."""

    def reserved_tokens(self, job: Job, first: int) -> int:
        return min(super().reserved_tokens(job, first), job.known)
