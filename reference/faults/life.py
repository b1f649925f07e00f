"""Schedulers that break a rule of LIFE."""

from collections.abc import Sequence

from attrs import evolve

from ...spec.vocabulary import (
    Delta,
    Outcome,
    Receipt,
    Request,
)
from ..job import ENDED, WAITING, Job
from ..scheduler import Scheduler
from ..state import Entry
from .base import fault


@fault("LIFE-1")
class LosesARequest(Scheduler):
    """A request that arrives when three wait goes to a queue that nobody visits."""

    def submit(self, request: Request, now_ns: int) -> Receipt:
        crowded = self.state.queue.size >= 3
        receipt = super().submit(request, now_ns)
        if crowded and receipt.verdict == "accepted":
            job = self.state.jobs.pop(request.id)
            job.state = "forgotten"
            self.state.queue.left(job)
        return receipt


@fault("LIFE-2")
class AdmitsTwice(Scheduler):
    """The first decode of a request announces its admission again."""

    def issue(self, job: Job, tokens: int) -> Entry:
        if job.outputs == 1 and job.known - job.issued == 1 and not self.state.settings.watermark_blocks:
            self.state.deltas.append(("admitted", job.id, job.issued))
        return super().issue(job, tokens)


@fault("LIFE-3")
class EndsTwice(Scheduler):
    """Cancelling a request that has finished reports its end again."""

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        deltas = super().cancel(request_id, now_ns)
        if deltas or request_id not in self.state.seen:
            return deltas
        return [("cancelled", request_id)]


@fault("LIFE-4")
class LosesAToken(Scheduler):
    """Of two requests that end in one step, the second one's last token is not delivered."""

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        deltas = list(super().complete(outcome, now_ns))
        ended = [delta[1] for delta in deltas if delta[0] == "finished"]
        if len(ended) < 2:
            return deltas
        return [self._without(delta, ended[1]) if delta[0] == "delivered" else delta for delta in deltas]

    @staticmethod
    def _without(delta: Delta, request: str) -> Delta:
        kept = [(r, token) for r, token in zip(delta[1], delta[2], strict=True) if r != request]
        return ("delivered", [r for r, _ in kept], [token for _, token in kept])


@fault("LIFE-5")
class IgnoresStops(Scheduler):
    """A request runs to its declared length, whatever the model says."""

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        return super().complete(evolve(outcome, stop=[False] * len(outcome.stop)), now_ns)


@fault("LIFE-6")
class CannotCancelAPrefill(Scheduler):
    """A request between two chunks of its prompt is not found by cancel."""

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        job = self.state.jobs.get(request_id)
        if job is not None and 0 < job.issued < job.request.prompt_tokens:
            return []
        return super().cancel(request_id, now_ns)


@fault("LIFE-10")
class FindsOnlyWhoWaits(Scheduler):
    """A request whose client is gone is looked for in the queue."""

    def disconnect(self, request_id: str) -> None:
        job = self.state.jobs.get(request_id)
        if job is not None and job.state == WAITING:
            super().disconnect(request_id)


@fault("LIFE-7")
class UsesLateResults(Scheduler):
    """A result is delivered though its request has been cancelled since."""

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        entries = self.state.in_flight.get(outcome.step, [])
        late = {entry.job.id for entry in entries if entry.job.state == ENDED}
        deltas = list(super().complete(outcome, now_ns))
        rows = [(r, t) for r, t in zip(outcome.request, outcome.token, strict=True) if r in late]
        if rows:
            deltas.append(("delivered", [r for r, _ in rows], [token for _, token in rows]))
        return deltas


@fault("LIFE-8")
class KeepsPlaceholders(Scheduler):
    """A preemption takes back what was known but leaves the count of tokens in flight."""

    def preempt(self, job: Job, requester: Job) -> None:
        in_flight = job.in_flight
        super().preempt(job, requester)
        job.in_flight = in_flight


@fault("LIFE-9")
class FailsInsteadOfPausing(Scheduler):
    """Who would be preempted fails."""

    def preempt(self, job: Job, requester: Job) -> None:
        self.end(job, ("failed", job.id, "out of blocks"))
