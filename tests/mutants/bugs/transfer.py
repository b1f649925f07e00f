"""Bugs between a prefill pool and a decode pool: transfers that fail, stay silent, or are given up by both sides."""

from schedspec.reference import Scheduler
from schedspec.reference.faults.transfers import of_two_pools
from schedspec.reference.job import Job
from schedspec.reference.systems.distserve import Disaggregated
from schedspec.reference.transfer import Transfer

from .registry import bug, sibling


class WithoutDeadline(Disaggregated):
    """Transfers that are not asked how long they have taken."""

    def has_deadline(self, transfer: Transfer) -> bool:
        return False

    def begin_call(self, now_ns: int) -> None:
        for transfer in self.link.standing.values():
            if not self.has_deadline(transfer):
                transfer.deadline_ns = now_ns + 1
        super().begin_call(now_ns)


@bug(
    "B48",
    rules=("LIVE-4", "LIVE-5", "XFER-5"),
    kind="transfer",
    where="transfer",
    title="The decode side waits for ever for a transfer that failed",
    url="https://github.com/vllm-project/vllm/issues/35943",
)
@of_two_pools
class HearsNoFailure(WithoutDeadline):
    """The field for a deadline is never set, and an error is not reported."""

    def hear(self, transfer: Transfer, told: object) -> None:
        if told != "transfer_failed":
            super().hear(transfer, told)


@sibling("B48", "a failure is heard until the link begins to write")
@of_two_pools
class HearsEarlyFailures(Disaggregated):
    def hear(self, transfer: Transfer, told: object) -> None:
        if told != "transfer_failed" or not transfer.is_written:
            super().hear(transfer, told)


@sibling("B48", "a deadline is set once the link has begun")
@of_two_pools
class CountsFromTheFirstByte(WithoutDeadline):
    def has_deadline(self, transfer: Transfer) -> bool:
        return transfer.is_written


@sibling("B48", "one that waits at the door of its pool for KV is told that it failed, and is parked on")
class WaitsForWhatFailed(Scheduler):
    """Bad news is for whoever runs."""

    def hear(self, job: Job, dependency: str, is_there: bool) -> None:
        if is_there or job.outputs:
            super().hear(job, dependency, is_there)


@bug(
    "B61",
    rules=("KV-9", "XFER-5"),
    kind="transfer",
    where="transfer",
    title="Both sides abort, so the signal that would release the blocks that are held never comes",
    url="https://github.com/vllm-project/vllm/pull/46289",
)
@of_two_pools
class HoldsUntilItIsTold(WithoutDeadline):
    """What the link writes to is set aside until it tells; who was aborted is in no list that is looked through for
    those that take too long."""

    def has_deadline(self, transfer: Transfer) -> bool:
        return transfer.is_wanted


@sibling("B61", "the prefill side releases, the decode side waits for the signal")
@of_two_pools
class ReleasesOneSide(Disaggregated):
    def lose(self, transfer: Transfer, outcome: str) -> None:
        if transfer.is_wanted or outcome != "timeout":
            super().lose(transfer, outcome)
        else:
            self.over(transfer, outcome)


@sibling("B61", "when time is up what is still written to is free", rules=("KV-9", "XFER-5", "KV-12"))
@of_two_pools
class ReclaimsTooEarly(Disaggregated):
    """An aborted request has half the time."""

    def begin_call(self, now_ns: int) -> None:
        super().begin_call(now_ns)
        half = self.settings.pools.transfer_ns // 2
        for transfer in self.link.overdue(now_ns + half):
            if not transfer.is_wanted:
                self.lose(transfer, "timeout")
