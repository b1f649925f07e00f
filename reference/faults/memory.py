"""Schedulers that break a rule of KV."""

from collections.abc import Mapping, Sequence

from ...spec.vocabulary import (
    Delta,
    Plan,
)
from ..decide import Room
from ..job import Job
from ..scheduler import Scheduler
from ..state import Admission, Decision, Entry
from .base import Claims, fault


@fault("KV-1")
class LosesABlock(Scheduler):
    """The last block of a request that ends never reaches the free list."""

    def end(self, job: Job, event: Delta) -> None:
        before = list(self.state.pool.free)
        super().end(job, event)
        if len(self.state.pool.free) > len(before):
            self.state.pool.free.pop()


@fault("KV-2")
class HandsOutABlockTwice(Scheduler):
    """A second request that grows in the same step gets the block that the first one got."""

    def grow(self, job: Job, positions: int) -> None:
        held = len(job.table)
        super().grow(job, positions)
        taken = [delta for delta in self.state.deltas if delta[0] == "took"]
        if len(taken) >= 2 and len(job.table) == held + 1:
            job.table[-1] = taken[0][2][-1]
            self.state.deltas[-1] = ("took", job.id, [job.table[-1]])


@fault("KV-3")
class MiscountsSharers(Scheduler):
    """Sharing a block that is held does not count the new holder."""

    def share(self, job: Job, blocks: list[int]) -> None:
        refs = self.state.pool.refs
        held = [block for block in blocks if block in refs]
        super().share(job, blocks)
        for block in held:
            refs[block] -= 1


@fault("KV-4")
class AllocatesOneTooFew(Scheduler):
    """Growth counts the positions before the new token."""

    def grow(self, job: Job, positions: int) -> None:
        super().grow(job, positions - 1 if job.table else positions)


@fault("KV-5")
class HoardsABlock(Scheduler):
    """Growth takes a block in advance when there is one."""

    def grow(self, job: Job, positions: int) -> None:
        spare = self.state.settings.block_size if len(self.state.pool.free) > len(self.state.running) + 2 else 0
        super().grow(job, positions + spare)


@fault("KV-6")
class ShufflesATable(Scheduler):
    """A result that arrives reverses the table of its request."""

    def settle(self, entry: Entry, tokens: Mapping[str, int]) -> bool:
        if len(entry.job.table) >= 2:
            entry.job.table.reverse()
        return super().settle(entry, tokens)


@fault("KV-7")
class LeaksAtCancel(Scheduler):
    """A cancelled request keeps its blocks."""

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        job = self.state.jobs.get(request_id)
        if job is not None:
            job.table = []
        return super().cancel(request_id, now_ns)


@fault("KV-8")
class FreesTwice(Scheduler):
    """A request that reaches its length is released by the output path and by the generic one."""

    def end(self, job: Job, event: Delta) -> None:
        blocks = job.table[-1:]
        super().end(job, event)
        if event[-1] == "length" and blocks:
            self.state.deltas.insert(-1, ("gave", job.id, blocks))


@fault("KV-10")
class AdmitsButDoesNotRun(Scheduler):
    """The second admission of a step passes the test and is then left out of the step."""

    def charge(self, decision: Decision) -> Plan:
        del decision.admissions[1:2]
        return super().charge(decision)


@fault("KV-11")
class IgnoresTheWatermark(Scheduler):
    """Admissions may use the reserve."""

    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        return super().fit(job, room, anything_runs=False)


@fault("KV-12")
class SkipsAToken(Scheduler):
    """The first token of a prompt is taken for cached."""

    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        admission = super().fit(job, room, anything_runs=anything_runs)
        if admission is not None and admission.tokens >= 2 and not admission.start:
            admission.start += 1
            admission.tokens -= 1
            room.budget += 1
        return admission


@fault("KV-13")
class WritesASharedBlock(Scheduler):
    """A prompt that is cached whole shares its last block too, and computes its last token in there."""

    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        size = self.state.settings.block_size
        cached = self.state.pool.find(self.keys_of(job, job.known // size))
        may_be = self.state.settings.prefix_caching and not job.is_swapped
        whole = cached and len(cached) * size == job.known and may_be
        if not whole or any(block in self.state.pool.evictable for block in cached):
            return super().fit(job, room, anything_runs=anything_runs)
        room.seats -= 1
        room.budget -= 1
        return Admission(job, cached, job.known - 1, 1, job.known)


@fault("KV-14")
class KeepsAStaleEntry(Scheduler):
    """Evicting a block does not take it out of the index."""

    def grow(self, job: Job, positions: int) -> None:
        super().grow(job, positions)
        self.state.deltas[:] = [delta for delta in self.state.deltas if delta[0] != "unindexed"]


@fault("KV-16")
class LeavesATrace(Scheduler):
    """A head that does not fit keeps the block that it got before it failed."""

    def allocate(self, decision: Decision) -> None:
        super().allocate(decision)
        head = self.state.queue.pop()
        if head is None:
            return
        self.state.queue.put_back(head)
        seat = len(self.state.running) < self.state.settings.seats
        if seat and not head.table and self.state.pool.free and not decision.victims and decision.budget_left:
            self.grow(head, 1)


@fault("KV-18")
class CallsReservingOnDemand(Claims):
    """It reserves what it is asked to reserve, and says that it takes blocks on demand."""

    more = frozenset({"on_demand_reserve"})
