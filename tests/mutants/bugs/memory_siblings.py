"""Siblings of the bugs of memory: the same kinds of fault in other places, and under conditions that are rare."""

from schedspec.reference import Scheduler
from schedspec.reference.decide import Room
from schedspec.reference.faults.transfers import of_two_pools
from schedspec.reference.job import Job
from schedspec.reference.state import Admission, Decision
from schedspec.reference.systems.distserve import DecodePool, Disaggregated
from schedspec.reference.transfer import Transfer
from schedspec.spec.vocabulary import Delta, blocks_for

from .memory import RetractsWhoGotNone
from .registry import sibling


@sibling("B01", "a request that the model stops keeps its last block")
class KeepsTheLastBlockOfTheStopped(Scheduler):
    def end(self, job: Job, event: Delta) -> None:
        if event[-1] == "stop" and len(job.table) > 2:
            job.table.pop()
        super().end(job, event)


@sibling("B01", "a victim keeps the blocks that it shares with others", rules=("KV-7", "KV-16"))
class KeepsWhatItShares(Scheduler):
    def stand_up(self, job: Job) -> None:
        job.table = [block for block in job.table if self.state.pool.refs[block] == 1]
        super().stand_up(job)


@sibling("B01", "cancelled in the step after it was resumed it keeps all but its first block")
class KeepsWhatAResumedOneGot(Scheduler):
    def end(self, job: Job, event: Delta) -> None:
        if event[0] == "cancelled" and job.epoch and job.outputs and job.issued == job.prefill_end:
            del job.table[1:]
        super().end(job, event)


@sibling("B01", "cancelled between its arrival and its first decode it keeps what arrived", rules=("KV-9", "XFER-5"))
@of_two_pools
class KeepsWhatArrived(Disaggregated):
    def abandon(self, transfer: Transfer) -> None:
        if self.link.arrived.pop(transfer.id, None) is None:
            super().abandon(transfer)


@sibling("B03", "cancelled while a step of it is under way its last block is free twice, and no delta says so")
class FreesTwiceInSilence(Scheduler):
    def end(self, job: Job, event: Delta) -> None:
        last = job.table[-1:] if event[0] == "cancelled" and job.issued > job.computed else []
        super().end(job, event)
        self.state.pool.free.extend(block for block in last if block in self.state.pool.free)


@sibling("B03", "a victim that shares blocks is the last holder of each, it thinks", rules=("KV-1", "KV-2", "KV-3"))
class FreesWhatOthersHold(Scheduler):
    def preempt(self, job: Job, requester: Job) -> None:
        shared = [block for block in job.table if self.state.pool.refs[block] > 1]
        super().preempt(job, requester)
        for block in shared:
            self.state.pool.free.append(block)


@sibling("B04", "blocks of whom a step in flight may still write to are free at once", rules=("KV-19",))
class FreesWhenAVictimLeaves(Scheduler):
    """Those who are cancelled are waited for, those who stop are not."""

    def end(self, job: Job, event: Delta) -> None:
        self.is_over = event[0] == "finished"
        super().end(job, event)

    def defer_frees(self, job: Job) -> None:
        if not self.is_over:
            super().defer_frees(job)


class _TakesWhatIsWritten(DecodePool):
    def preempt(self, job: Job, requester: Job) -> None:
        """Who needs blocks takes those that wait for KV of somebody who has left."""
        super().preempt(job, requester)
        for transfer in list(self.owner.link.standing.values()):
            if not transfer.is_wanted:
                self.owner.lose(transfer, "dropped")


@sibling("B04", "a transfer that was given up gives its blocks back while the link still writes")
@of_two_pools
class GivesUpWhatIsWritten(Disaggregated):
    decode_pool = _TakesWhatIsWritten


@sibling("B05", "cached blocks that nobody holds are counted twice, as cached and as free")
class CountsCachedBlocksTwice(RetractsWhoGotNone):
    def blocks_of(self, admission: Admission, room: Room) -> int:
        size = self.state.settings.block_size
        return blocks_for(admission.reserved_tokens, size) - len(admission.cached_blocks)


@sibling("B05", "the test forgets the block that a prompt at the edge of a block needs for its first output")
class ForgetsTheNextBlock(RetractsWhoGotNone):
    """Where all that is known is reserved, it is so for one token less."""

    def blocks_of(self, admission: Admission, room: Room) -> int:
        asked = super().blocks_of(admission, room)
        return asked - 1 if admission.reserved_tokens % self.state.settings.block_size == 1 and asked > 1 else asked


@sibling("B07", "who cannot grow while the host is full fails, though it would be computed again")
class FailsWhereTheHostIsFull(Scheduler):
    def preempt(self, job: Job, requester: Job) -> None:
        host = self.state.host
        if self.state.settings.host_blocks and not host.free:
            self.end(job, ("failed", job.id, "no room to swap"))
        else:
            super().preempt(job, requester)


@sibling("B07", "of several victims the last one fails")
class FailsTheLastOfSeveral(Scheduler):
    def release(self, decision: Decision) -> None:
        if len(decision.victims) > 1:
            last = decision.victims.pop()
            self.end(last, ("failed", last.id, "out of memory"))
        super().release(decision)
