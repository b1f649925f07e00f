"""Siblings of the bugs of the life of a request."""

from collections.abc import Sequence

from schedspec.reference import Scheduler
from schedspec.reference.faults.transfers import of_two_pools
from schedspec.reference.job import ENDED, WAITING
from schedspec.reference.systems.distserve import Disaggregated
from schedspec.reference.transfer import Transfer
from schedspec.spec.vocabulary import Delta, Outcome, Receipt, Request

from .registry import sibling

LOST = ("LIFE-1", "LIFE-3", "LIVE-1", "LIVE-2", "LIVE-9", "OBS-3")


@sibling("B28", "a full queue drops whoever comes, and says that it was accepted", rules=LOST)
class DropsInSilence(Scheduler):
    def submit(self, request: Request, now_ns: int) -> Receipt:
        receipt = super().submit(request, now_ns)
        is_full = receipt.verdict == "refused" and receipt.reason == "queue_requests"
        return Receipt(verdict="accepted", deltas=receipt.deltas) if is_full else receipt


@sibling("B28", "who is refused for a rate is not told the limit", rules=("ADMIT-5",))
class RefusesWithoutALimit(Scheduler):
    def submit(self, request: Request, now_ns: int) -> Receipt:
        receipt = super().submit(request, now_ns)
        if receipt.verdict == "refused" and receipt.reason in ("rate_requests", "client_tokens"):
            return Receipt(verdict="refused", reason=receipt.reason, retry_after_ns=receipt.retry_after_ns)
        return receipt


@sibling("B30", "a request that stops with its last token ends twice", rules=("LIFE-3",))
class EndsForBothReasons(Scheduler):
    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        jobs = dict(self.state.jobs)
        deltas = list(super().complete(outcome, now_ns))
        for request, stop in zip(outcome.request, outcome.stop, strict=True):
            job = jobs.get(request)
            if stop and job is not None and job.state == ENDED and self.is_at_its_length(job):
                deltas.append(("finished", request, "length"))
        return deltas


@sibling(
    "B30", "who is cancelled while a result of it is under way ends again with the result", rules=("LIFE-3", "LIFE-7")
)
class EndsAgainWithItsResult(Scheduler):
    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        entries = self.state.in_flight.get(outcome.step, [])
        late = [entry.job.id for entry in entries if entry.job.state == ENDED and entry.samples]
        deltas = list(super().complete(outcome, now_ns))
        return [*deltas, *(("finished", request, "length") for request in late)]


@sibling("B30", "news of a transfer that comes twice releases it twice", rules=("XFER-4",))
@of_two_pools
class HearsTwice(Disaggregated):
    last: Transfer | None = None

    def over(self, transfer: Transfer, outcome: str) -> None:
        super().over(transfer, outcome)
        self.last = transfer

    def notify(self, event, now_ns):  # type: ignore[no-untyped-def]
        last = self.last
        deltas = super().notify(event, now_ns)
        if last is not None and event.get("transfer") == last.number and event.get("type") == "transfer_done":
            return [*deltas, ("released", last.id, list(last.source))]
        return deltas


@sibling("B32", "abort does not look at those who were preempted", rules=("KV-7", "LIFE-6"))
class CannotCancelAVictim(Scheduler):
    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        job = self.state.jobs.get(request_id)
        if job is not None and job.state == WAITING and job.was_preempted:
            return []
        return super().cancel(request_id, now_ns)


@sibling("B32", "abort does not look at those whose KV is under way", rules=("KV-7", "LIFE-6"))
@of_two_pools
class CannotCancelWhatIsUnderWay(Disaggregated):
    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        transfer = self.link.of(request_id)
        if transfer is not None and transfer.is_written:
            return []
        return super().cancel(request_id, now_ns)


@sibling("B32", "a client that leaves is not noticed while its prompt is read", rules=("LIFE-6", "LIFE-10"))
class DoesNotNoticeInPrefill(Scheduler):
    def disconnect(self, request_id: str) -> None:
        job = self.state.jobs.get(request_id)
        if job is None or not 0 < job.issued < job.prefill_end:
            super().disconnect(request_id)
