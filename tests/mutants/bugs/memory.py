"""Bugs of memory: blocks that are lost, given back twice, written to by others, or promised twice."""

from schedspec.reference import Scheduler
from schedspec.reference.decide import Room
from schedspec.reference.job import Job
from schedspec.reference.state import Admission, Decision
from schedspec.spec.vocabulary import Delta, Plan, blocks_for

from .registry import REFERENCE, bug, reused


@bug(
    "B01",
    rules=("KV-7",),
    kind="block-leak",
    title="A queued request that is aborted keeps the memory that was reserved for it",
    url="https://github.com/sgl-project/sglang/pull/8587",
)
class UnlinksWhoIsNotDecoding(Scheduler):
    """Whoever has no token yet owns nothing, thinks the way out of a cancel; its prompt has had its blocks for long."""

    def end(self, job: Job, event: Delta) -> None:
        if event[0] == "cancelled" and not job.outputs:
            job.table = []
        super().end(job, event)


@bug(
    "B03",
    rules=("KV-1", "KV-3", "KV-8"),
    kind="double-free/ownership",
    title="Two ways out both free the decode slot that a request got for the step after its last",
    url="https://github.com/sgl-project/sglang-jax/pull/994",
)
class FreesTheSlotAheadTwice(Scheduler):
    """A request that stops while its next step is under way has a slot too many, which the output path frees."""

    def end(self, job: Job, event: Delta) -> None:
        ahead = job.table[-1:] if event[0] == "finished" and job.in_flight else []
        super().end(job, event)
        if ahead:
            self.state.pool.free.extend(ahead)
            self.state.deltas.insert(-1, ("gave", job.id, ahead))


reused(
    "B04",
    REFERENCE["KV-9"],
    rules=("KV-2", "KV-9"),
    kind="double-free/ownership",
    title="Aborting a request while its KV is still arriving frees blocks that the transfer goes on writing",
    url="https://github.com/vllm-project/vllm/pull/32255",
    where="transfer",
)


class RetractsWhoGotNone(Scheduler):
    """Whoever passes the admission test and then gets no blocks, the newest, loses its place in the same step."""

    def allocate(self, decision: Decision) -> None:
        self.unplaced: list[Admission] = []
        super().allocate(decision)

    def place(self, admission: Admission) -> None:
        job, size = admission.job, self.state.settings.block_size
        if blocks_for(admission.reserved_tokens, size) - len(job.table) > self.state.pool.available:
            self.unplaced.append(admission)
            self.seat(job, admission.start)
            self.preempt(job, job)
            return
        super().place(admission)

    def charge(self, decision: Decision) -> Plan:
        decision.admissions = [one for one in decision.admissions if one not in self.unplaced]
        return super().charge(decision)


@bug(
    "B05",
    rules=("KV-10",),
    kind="over-commit",
    title="The admission test counts tokens, and what is charged after it are whole blocks",
    url="https://github.com/sgl-project/sglang/pull/22495",
)
class TestsInTokens(RetractsWhoGotNone):
    """Of several that enter at once the last blocks are counted as if they were packed."""

    def blocks_of(self, admission: Admission, room: Room) -> int:
        size = self.state.settings.block_size
        before = sum(self.new_tokens(entering) for entering in room.entering)
        packed = blocks_for(before + self.new_tokens(admission), size) - blocks_for(before, size)
        return packed + len(self.revived(admission, room))

    def new_tokens(self, admission: Admission) -> int:
        return admission.reserved_tokens - len(admission.cached_blocks) * self.state.settings.block_size


@bug(
    "B07",
    rules=("LIFE-9",),
    kind="over-commit",
    title="When the shared cache runs out all generations are killed, also those that would have fitted",
    url="https://github.com/ggml-org/llama.cpp/issues/23652",
)
class KillsEverybody(Scheduler):
    def release(self, decision: Decision) -> None:
        if not decision.victims:
            super().release(decision)
            return
        for job in list(self.state.running.values()):
            self.end(job, ("failed", job.id, "the context is full"))
        decision.growth = []
