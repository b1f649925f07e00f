"""Siblings that take for theirs what is somebody else's: an adapter, a prefix, an answer, a block."""

from collections.abc import Sequence

from attrs import define

from schedspec.reference import Scheduler
from schedspec.reference.faults.transfers import of_two_pools
from schedspec.reference.job import RUNNING, Job
from schedspec.reference.prefixes import Prefixes
from schedspec.reference.state import Admission
from schedspec.reference.systems.distserve import Disaggregated
from schedspec.reference.transfer import Transfer
from schedspec.spec.vocabulary import Delta, Outcome, Settings

from .registry import sibling


@sibling("B20", "two of a step find the same slot free", rules=("STEP-19",))
class LooksOnceAStep(Scheduler):
    """Slots are counted when the step begins; who needs the one that is left comes in, and so does the next."""

    def admit(self, budget: int, blocks: int) -> list[Admission]:
        adapters, slots = self.state.adapters, self.state.adapters.slots
        if slots and len(adapters.users) < slots:
            adapters.slots = 0
        try:
            return super().admit(budget, blocks)
        finally:
            adapters.slots = slots


@sibling("B20", "whoever is cancelled keeps its adapter", rules=("LIVE-1", "LIVE-7", "LIVE-8", "LIVE-9"))
class KeepsTheAdapterOfTheCancelled(Scheduler):
    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        job = self.state.jobs.get(request_id)
        has_adapter = job is not None and job.state == RUNNING
        deltas = super().cancel(request_id, now_ns)
        if job is not None and has_adapter:
            self.state.adapters.enter(job)
        return deltas


@sibling("B10", "news of anything begins the time anew", rules=("LIVE-5",))
class BeginsTheTimeAnew(Scheduler):
    def hear(self, job: Job, dependency: str, is_there: bool) -> None:
        parking = self.state.parking
        if job in parking.parked:
            parking.parked[job] = self.state.now_ns + parking.timeout_ns
        super().hear(job, dependency, is_there)


@sibling("B10", "the answer of another tool is the answer", rules=("LIVE-5",))
class TakesAnyAnswer(Scheduler):
    def hear(self, job: Job, dependency: str, is_there: bool) -> None:
        asked = min(job.dependencies, default=dependency)
        super().hear(job, dependency if dependency in job.dependencies else asked, is_there)


@define(eq=False)
class EachBlockAlone(Prefixes):
    """A block is named by its tokens and its place."""

    def keys_of(self, job: Job, blocks: int) -> list[int]:
        size, root = self.settings.block_size, self.root_of(job)
        return [hash((root, at, *job.tokens[at * size : at * size + size])) for at in range(blocks)]


@sibling("B59", "what stands before a block is not in its name", rules=("KV-2", "KV-12"))
class NamesBlocksByThemselves(Scheduler):
    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        self.state.prefixes = EachBlockAlone(settings, self.state.pool)


@sibling("B18", "tokens of drafts are not charged", rules=("FAIR-1", "FAIR-2", "FAIR-6"))
class ServesDraftsForNothing(Scheduler):
    def verified(self, job: Job, tokens: Sequence[int]) -> list[tuple[str, int]]:
        job.issued = job.computed = job.issued + len(tokens)
        job.known, job.outputs = job.known + len(tokens), job.outputs + len(tokens)
        job.tokens += tokens
        return [(job.id, token) for token in tokens]


@sibling("B03", "of two steps in flight only the newer one may write", rules=("KV-19",))
class DefersForTheNewest(Scheduler):
    def defer_frees(self, job: Job) -> None:
        every = self.state.in_flight
        self.state.in_flight = dict(list(every.items())[-1:])
        super().defer_frees(job)
        self.state.in_flight = every


@sibling("B03", "a step that brings no token frees nothing", rules=("KV-19",))
class FreesWithTokensOnly(Scheduler):
    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        deferred = self.state.pool.deferred
        if not outcome.request and outcome.step in deferred:
            deferred[-outcome.step] = deferred.pop(outcome.step)
        return super().complete(outcome, now_ns)


@sibling("B48", "the second failure is the last", rules=("LIFE-1", "LIVE-1", "LIVE-2", "OBS-3"))
@of_two_pools
class TriesTwice(Disaggregated):
    def __init__(self, settings: Settings, seed: int = 0) -> None:
        super().__init__(settings, seed)
        self.failed: set[str] = set()

    def lose(self, transfer: Transfer, outcome: str) -> None:
        transfer.is_wanted = transfer.is_wanted and transfer.id not in self.failed
        self.failed.add(transfer.id)
        super().lose(transfer, outcome)
