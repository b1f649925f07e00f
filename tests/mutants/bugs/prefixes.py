"""Bugs of prefix caches: hits that are none, and pins that are forgotten or never end."""

from collections import Counter

from attrs import define, evolve

from schedspec.reference import Scheduler
from schedspec.reference.decide import Room
from schedspec.reference.job import Job
from schedspec.reference.leases import Leases
from schedspec.reference.pool import Pool
from schedspec.reference.state import Admission, Entry
from schedspec.spec.vocabulary import Capabilities, Observation, Settings, blocks_for

from .registry import bug, sibling

# --- B39: sizes and hits -----------------------------------------------------------------------------------


@bug(
    "B39",
    rules=("STEP-4", "KV-4"),
    kind="chunk accounting",
    title="How many tokens are to be computed is fixed before the cache is asked, and not again when it has some",
    url="https://github.com/GeeeekExplorer/nano-vllm/pull/207",
)
class SizesBeforeItLooks(Scheduler):
    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        tokens = min(self.chunk(job, 0), room.budget)
        admission = super().fit(job, room, anything_runs=anything_runs)
        if admission is not None and admission.cached_blocks:
            admission.tokens = tokens
        return admission


@sibling("B39", "for those alone that come back after a preemption")
class SizesWhatItHad(Scheduler):
    """Who was preempted has a size already."""

    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        tokens = min(self.chunk(job, 0), room.budget)
        admission = super().fit(job, room, anything_runs=anything_runs)
        if admission is not None and admission.cached_blocks and job.was_preempted:
            admission.tokens = tokens
        return admission


@sibling("B39", "the blocks are those of what is to be computed, counted from the beginning")
class CoversFromTheBeginning(Scheduler):
    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        admission = super().fit(job, room, anything_runs=anything_runs)
        if admission is not None and admission.cached_blocks and self.state.settings.reserve == "on_demand":
            admission.reserved_tokens = max(admission.start, admission.tokens)
        return admission


# --- B41: the index ----------------------------------------------------------------------------------------


class WithPool(Scheduler):
    """Has another pool."""

    pool: type[Pool] = Pool

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        self.adopt(self.pool.of(settings.blocks))

    def adopt(self, pool: Pool) -> None:
        state = self.state
        state.pool = state.prefixes.pool = state.leases.pool = pool


@define(eq=False)
class _Unaware(Pool):
    def forget(self, block: int) -> None:
        """The block is anybody's; who looks for what it held still finds it."""
        del self.key_of[block]

    def name(self, block: int, key: int) -> bool:
        self.index.pop(key, None)
        return super().name(block, key)


@bug(
    "B41",
    rules=("KV-12", "KV-14"),
    kind="prefix cache",
    title="The index keeps an entry for a block that the evictor has handed out again",
    url="https://github.com/vllm-project/vllm/pull/4764",
)
class EvictsWithoutAWord(WithPool):
    pool = _Unaware

    def grow(self, job: Job, positions: int) -> None:
        super().grow(job, positions)
        self.state.deltas[:] = [delta for delta in self.state.deltas if delta[0] != "unindexed"]

    def observe(self) -> Observation:
        return evolve(super().observe(), index=sorted(self.state.pool.index.values()))


@sibling("B41", "and says that it has removed it", rules=("KV-12", "KV-14", "KV-2"))
class SaysThatItForgot(WithPool):
    pool = _Unaware


@define(eq=False)
class _Short(Pool):
    def find(self, keys: list[int]) -> list[int]:
        """By the last block's key alone, which names all that comes before it: those that are still there."""
        return [self.index[key] for key in keys if key in self.index]


@sibling("B41", "a hit behind a block that was evicted counts", rules=("KV-12", "KV-14", "KV-2"))
class FindsWhatHasGaps(WithPool):
    pool = _Short


# --- B42, B43, B45: pins -----------------------------------------------------------------------------------


class WithLeases(Scheduler):
    """Pins in another way."""

    leases: type[Leases] = Leases

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        self.state.leases = self.leases(self.state.pool)


@define(eq=False)
class _OfAncestors(Leases):
    def give(self, request: str, blocks: list[int], until_ns: int) -> None:
        """From the match up to the root: the step to the parent comes first."""
        super().give(request, blocks, until_ns)
        self.pool.unpin(blocks[-1])

    def end(self, request: str) -> None:
        self.pool.pin(self.blocks[request][-1])
        super().end(request)


@bug(
    "B42",
    rules=("KV-15",),
    kind="prefix cache",
    title="Locking a prefix pins what comes before the match, and not the match itself",
    url="https://github.com/sgl-project/mini-sglang/pull/52",
)
class LocksTheParents(WithLeases):
    leases = _OfAncestors


@define(eq=False)
class _OfTheMatch(Leases):
    def give(self, request: str, blocks: list[int], until_ns: int) -> None:
        super().give(request, blocks, until_ns)
        for block in blocks[:-1]:
            self.pool.unpin(block)

    def end(self, request: str) -> None:
        for block in self.blocks[request][:-1]:
            self.pool.pin(block)
        super().end(request)


@sibling("B42", "the match is pinned, and what comes before it is not")
class LocksTheLeaf(WithLeases):
    leases = _OfTheMatch


@define(eq=False)
class _Flags(Pool):
    def unpin(self, block: int) -> None:
        """A block is pinned or not."""
        self.pins[block] = min(self.pins[block], 1)
        super().unpin(block)


@sibling("B42", "a pin is a flag, which the first of two that leave takes away")
class PinsWithAFlag(WithPool):
    pool = _Flags


@bug(
    "B43",
    rules=("KV-15",),
    kind="prefix cache",
    where="transfer",
    title="What a lookup pins is unpinned where it is loaded, so it stays pinned if nothing is",
    url="https://github.com/LMCache/LMCache/issues/1034",
)
class UnpinsWhereItLoads(Scheduler):
    """Whoever ends meanwhile loads nothing, and neither does who finds nothing that it lacks."""

    def end_lease(self, request: str, cause: str) -> None:
        job = self.state.jobs.get(request)
        loads = cause != "resumed" or job is None or job.computed > 0
        if cause != "ended" and loads:
            super().end_lease(request, cause)


@sibling("B43", "a pin whose time is over stays until somebody needs the memory")
class KeepsWhatIsOverdue(Scheduler):
    def end_lease(self, request: str, cause: str) -> None:
        if cause != "expired":
            super().end_lease(request, cause)


@sibling("B43", "what is used is unpinned twice: where it is loaded, and where its request ends")
class UnpinsTwice(Scheduler):
    used: Counter[str]

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        self.used = Counter()

    def end_lease(self, request: str, cause: str) -> None:
        is_used = request in self.state.leases.blocks
        super().end_lease(request, cause)
        self.used[request] += is_used
        if cause == "ended" and self.used[request] and not is_used:
            self.tell(("lease_over", request, cause))


@bug(
    "B45",
    rules=("KV-15",),
    kind="prefix cache",
    where="transfer",
    title="Asking whether a prefix is there protects it from eviction, though nobody reads it",
    url="https://github.com/kvcache-ai/Mooncake/pull/3599",
)
class LeasesToWhoAsks(Scheduler):
    """Each probe for somebody who waits is a read that will come soon."""

    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        admission = super().fit(job, room, anything_runs=anything_runs)
        if admission is None and job.id not in self.state.leases.blocks:
            self.lease(job, self.cached_blocks(job))
        return admission


@sibling("B45", "each probe makes the lease of somebody else longer")
class RenewsWhatIsFound(Scheduler):
    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        leases, found = self.state.leases, set(self.cached_blocks(job))
        for request, blocks in leases.blocks.items():
            if found.intersection(blocks):
                leases.until_ns[request] = self.state.now_ns + self.state.settings.hold_ns
        return super().fit(job, room, anything_runs=anything_runs)


# --- B59: a hit in the step that computes it ---------------------------------------------------------------


class NamesWhatItPlans(Scheduler):
    """Full blocks are in the index when they are scheduled, and whoever comes later in the step finds them.  Its engine
    reads first what stood there before the step: a layer with a state goes on from a finished one."""

    def capabilities(self) -> Capabilities:
        return evolve(super().capabilities(), executor_order="reads_first")

    def place(self, admission: Admission) -> None:
        self.take_what_is_named(admission)
        super().place(admission)
        self.name_blocks(admission.job, admission.start + admission.tokens)

    def take_what_is_named(self, admission: Admission) -> None:
        size, job = self.state.settings.block_size, admission.job
        found = self.cached_blocks(job)
        if len(found) > len(admission.cached_blocks):
            end = admission.start + admission.tokens
            self.share(job, found[len(admission.cached_blocks) :])
            admission.start = len(found) * size
            admission.tokens = max(1, end - admission.start)
            admission.reserved_tokens = max(admission.reserved_tokens, admission.start + admission.tokens)


@bug(
    "B59",
    rules=("KV-12",),
    kind="output",
    title="A request hits blocks of its prefix that an earlier one of the same step has not computed yet",
    url="https://github.com/vllm-project/vllm/pull/29387",
)
class HitsInTheSameStep(NamesWhatItPlans):
    pass


@sibling("B59", "entry by entry, and the last who was admitted comes first", rules=("KV-12", "KV-14"))
class HitsWhatComesLater(NamesWhatItPlans):
    def capabilities(self) -> Capabilities:
        return evolve(super().capabilities(), executor_order="entry_by_entry")

    def plan(self, runs):  # type: ignore[no-untyped-def]
        return super().plan(list(runs)[::-1])


@sibling("B59", "a block is named when its first token is scheduled", rules=("KV-12", "KV-14"))
class NamesWhatIsBegun(Scheduler):
    def issue(self, job: Job, tokens: int) -> Entry:
        entry = super().issue(job, tokens)
        if self.state.settings.prefix_caching:
            size = self.state.settings.block_size
            begun = blocks_for(entry.start + entry.tokens, size) * size
            self.name_blocks(job, min(begun, len(job.tokens)))
        return entry
