"""Siblings about the line, and about what a place in it costs; all but the first were found in issues of other engines.

The directed scenarios of `scenarios_of_lines.py` were written for these kinds.
"""

from collections.abc import Sequence

from schedspec.reference import Scheduler
from schedspec.reference.decide import Room
from schedspec.reference.job import Job
from schedspec.reference.prefixes import Prefixes
from schedspec.reference.state import Admission
from schedspec.spec.vocabulary import Delta, Settings

from .registry import sibling


class OfTokensAlone(Prefixes):
    def root_of(self, job: Job) -> int:
        return 0


@sibling("B59", "adapters are no part of what a cached block is found by", rules=("KV-2", "KV-12", "KV-14"))
class SharesBetweenAdapters(Scheduler):
    """As in https://github.com/vllm-project/vllm/issues/3264."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        self.state.prefixes = OfTokensAlone(settings, self.state.pool)


@sibling("B37", "tokens of who is cancelled stay in the account of the queue", rules=("ADMIT-3",))
class CountsTokensOfTheCancelled(Scheduler):
    """As in https://github.com/kubernetes-sigs/gateway-api-inference-extension/pull/2103."""

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        gate, job = self.state.gate, self.state.jobs.get(request_id)
        waits = gate is not None and job is not None and request_id in gate.queue
        deltas = super().cancel(request_id, now_ns)
        if waits and gate is not None and job is not None:
            gate.queued.tokens += job.request.declared_tokens
        return deltas


@sibling("B37", "whose wait is over enters where there is room in that very call", rules=("ADMIT-4",))
class EntersWhenItsWaitIsOver(Scheduler):
    """As in https://github.com/llm-d/llm-d-router/pull/2649."""

    def expire(self) -> None:
        if self.state.running or self.state.queue.size != 1:
            super().expire()


@sibling("B20", "the slot of an adapter is taken before memory is asked for", rules=("LIVE-7", "LIVE-8"))
class TakesItsAdapterFirst(Scheduler):
    """As in https://github.com/sgl-project/sglang/pull/16067, where it is the slot of a state."""

    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        admission = super().fit(job, room, anything_runs=anything_runs)
        if admission is None:
            self.state.adapters.enter(job)
        return admission
