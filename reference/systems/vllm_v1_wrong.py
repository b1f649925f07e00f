"""Wrong models of the V1 scheduler of vLLM: each the model with one thing misunderstood, as a subject
`vllm-v1-wrong:NAME`.

They show that parity can fail: each must be told from the model by a few random workloads.
"""

from collections.abc import Callable, Mapping

from attrs import define

from ...spec.vocabulary import Settings, blocks_for
from ..job import Job
from ..selection import WaitingQueue
from ..state import Entry
from .vllm_v1 import Batch, BlockPool, VllmV1

WRONG: dict[str, type[VllmV1]] = {}
"""Name -> the model that is wrong."""


def wrong(name: str) -> Callable[[type[VllmV1]], type[VllmV1]]:
    def register(cls: type[VllmV1]) -> type[VllmV1]:
        WRONG[name] = cls
        cls.name = f"vllm-v1-wrong:{name}"
        return cls

    return register


# --- victims -----------------------------------------------------------------------------------------------


@wrong("victim-by-admission")
class VictimByAdmission(VllmV1):
    """Among requests of one priority the victim is who was admitted last, not who arrived last."""

    def victim(self) -> Job:
        if self.state.settings.policy == "fcfs":
            return super().victim()
        return max(self.state.running.values(), key=lambda job: (job.request.priority, job.admission))


@wrong("victim-from-the-tail")
class VictimFromTheTail(VllmV1):
    """Under priority, too, the victim is the last of the running list."""

    def victim(self) -> Job:
        return list(self.state.running.values())[-1]


@wrong("victim-keeps-tokens")
class VictimKeepsTokens(VllmV1):
    """Tokens that a victim was given in this step do not go back to the budget."""

    def make_room(self, job: Job, positions: int, batch: Batch) -> bool:
        budget = batch.budget
        try:
            return super().make_room(job, positions, batch)
        finally:
            batch.budget = budget


@wrong("self-preemption-ends-the-round")
class SelfPreemptionEndsTheRound(VllmV1):
    """Under priority, too, nobody runs behind a request that preempted itself."""

    def is_last_try(self, job: Job) -> bool:
        return True


@wrong("back-to-its-arrival")
class BackToItsArrival(VllmV1):
    """Under fcfs a preempted request goes back to its place by arrival, not to the very front."""

    def preempt(self, job: Job, requester: Job) -> None:
        arrival = job.arrival
        super().preempt(job, requester)
        job.arrival = arrival
        queue = self.state.queue
        assert isinstance(queue, WaitingQueue)
        queue.heap = [(queue.key(waiting), waiting.arrival, entry, waiting) for *_, entry, waiting in queue.heap]
        queue.heap.sort(key=lambda entry: entry[:2])


# --- admissions --------------------------------------------------------------------------------------------


@wrong("admits-after-preemption")
class AdmitsAfterPreemption(VllmV1):
    """A step that preempted goes on to admissions."""

    def schedule_running(self, batch: Batch) -> None:
        super().schedule_running(batch)
        batch.has_preempted = False


@wrong("skips-a-blocked-head")
class SkipsABlockedHead(VllmV1):
    """Admissions go past a request that does not fit."""

    def admit_waiting(self, job: Job, batch: Batch) -> bool:
        if super().admit_waiting(job, batch):
            return True
        behind = self.state.queue.pop()
        admitted = behind is not None and self.admit_waiting(behind, batch)
        if behind is not None and not admitted:
            self.state.queue.push(behind)
        elif behind is not None:
            self.state.queue.push(job)
        return admitted


@wrong("watermark-alone")
class WatermarkAlone(VllmV1):
    """The watermark is kept free when nothing runs, too."""

    def watermark(self) -> int:
        return self.state.settings.watermark_blocks


@wrong("no-full-sequence-check")
class NoFullSequenceCheck(VllmV1):
    """An admission asks for the blocks of its first chunk only."""

    def fits(self, job: Job, cached: list[int], positions: int) -> bool:
        known, job.known = job.known, positions
        try:
            return super().fits(job, cached, positions)
        finally:
            job.known = known


@wrong("full-sequence-check-ignores-hits")
class FullSequenceCheckIgnoresHits(VllmV1):
    """The full-sequence check asks for blocks that the request finds cached."""

    def fits(self, job: Job, cached: list[int], positions: int) -> bool:
        settings = self.state.settings
        need = blocks_for(min(job.known, self.longest), settings.block_size)
        if settings.reserve == "known" and need + self.watermark() > self.state.pool.available:
            return False
        return super().fits(job, cached, positions)


@wrong("cached-blocks-are-free")
class CachedBlocksAreFree(VllmV1):
    """Cached blocks that nobody holds are counted as free although the request is about to take them."""

    def fits(self, job: Job, cached: list[int], positions: int) -> bool:
        held = [block for block in cached if block not in self.state.pool.evictable]
        revived = len(cached) - len(held)
        return super().fits(job, held + [-1] * revived, positions)

    def grow(self, job: Job, positions: int) -> None:
        size, room = self.state.settings.block_size, self.state.pool.available
        super().grow(job, min(positions, (len(job.table) + room) * size))


# --- tokens ------------------------------------------------------------------------------------------------


@wrong("threshold-alone")
class ThresholdAlone(VllmV1):
    """The threshold binds a request that is alone."""

    def threshold(self) -> int:
        return self.state.settings.chunk_tokens


@wrong("adaptive-threshold")
class AdaptiveThreshold(VllmV1):
    """The adaptive form of the threshold is on: at least a fair share of the budget."""

    def threshold(self) -> int:
        crowd = len(self.state.running) + self.state.queue.size
        return max(super().threshold(), self.state.settings.token_budget // crowd) if super().threshold() else 0


# --- blocks ------------------------------------------------------------------------------------------------


class WithPool(VllmV1):
    """The model with another pool."""

    pool: type[BlockPool]

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        self.state.pool = self.pool.of(settings.blocks)


@wrong("hashed-blocks-to-the-front")
class HashedBlocksToTheFront(WithPool):
    """Freed blocks with a hash are evicted last in, first out."""

    @define(eq=False)
    class pool(BlockPool):
        def give(self, block: int) -> None:
            super().give(block)
            if block in self.evictable:
                self.evictable = {block: None} | {other: None for other in self.evictable if other != block}


@wrong("one-copy-per-hash")
class OneCopyPerHash(WithPool):
    """A full block whose content is indexed already is not indexed beside it."""

    @define(eq=False)
    class pool(BlockPool):
        def name(self, block: int, key: int) -> bool:
            return key not in self.index and super().name(block, key)


@wrong("frees-from-the-head")
class FreesFromTheHead(VllmV1):
    """A table is freed from its head, so that the beginning of a prompt is evicted first."""

    def give_all(self, job: Job) -> None:
        job.table.reverse()
        super().give_all(job)


@wrong("names-when-computed")
class NamesWhenComputed(VllmV1):
    """Blocks are indexed when they have been computed, not when they are scheduled."""

    def name_blocks(self, job: Job, positions: int) -> None:
        super().name_blocks(job, min(positions, job.computed))


@wrong("whole-prompt-hit")
class WholePromptHit(VllmV1):
    """Of a prompt that is indexed whole only the last token is computed again, not the last block."""

    def prefix_hit(self, job: Job) -> tuple[list[int], int]:
        if not self.state.settings.prefix_caching:
            return super().prefix_hit(job)
        size = self.state.settings.block_size
        cached = self.state.pool.find(self.keys_of(job, job.known // size))
        return cached, min(len(cached) * size, job.known - 1)


@wrong("drops-the-last-hit")
class DropsTheLastHit(VllmV1):
    """The last cached block is always computed again, as for a drafting head."""

    def cached_blocks(self, job: Job) -> list[int]:
        return super().cached_blocks(job)[:-1]


# --- steps in flight ---------------------------------------------------------------------------------------


@wrong("drops-stale-results")
class DropsStaleResults(VllmV1):
    """A token that comes after its request was preempted is dropped."""

    def settle(self, entry: Entry, tokens: Mapping[str, int]) -> bool:
        return entry.epoch == entry.job.epoch and super().settle(entry, tokens)


@wrong("resumes-at-once")
class ResumesAtOnce(VllmV1):
    """A preempted request may be resumed while a result of it is on its way."""

    def has_stale_results(self, job: Job) -> bool:
        return False


@wrong("stale-results-block-the-queue")
class StaleResultsBlockTheQueue(VllmV1):
    """A request whose results are on their way holds up everybody behind it."""

    def admit_waiting(self, job: Job, batch: Batch) -> bool:
        return not super().has_stale_results(job) and super().admit_waiting(job, batch)

    def has_stale_results(self, job: Job) -> bool:
        return False


@wrong("one-step-too-many")
class OneStepTooMany(VllmV1):
    """A request whose last token is in flight is scheduled once more."""

    def ends_with_what_is_in_flight(self, job: Job) -> bool:
        return False


@wrong("ignores-the-context")
class IgnoresTheContext(VllmV1):
    """A request goes on beyond the longest context of the model."""

    def is_at_its_length(self, job: Job) -> bool:
        return job.outputs >= job.request.max_output_tokens
