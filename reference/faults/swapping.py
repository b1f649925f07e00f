"""Schedulers that go wrong with what they keep in host memory: what foreign ones that swap may get wrong, too."""

from attrs import define, evolve

from ...spec.recovery import recompute_ns, swap_ns
from ...spec.vocabulary import Observation, Settings
from ..decide import Room
from ..host import Host
from ..job import Job
from ..scheduler import Scheduler
from ..state import Admission
from .base import another, fault


class WithHost(Scheduler):
    """Has another idea of its host memory."""

    host: type[Host] = Host

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        self.state.host = self.host.of(settings)


@fault("PRE-9")
class ForgetsTheNextToken(Scheduler):
    """A swapped request comes back as soon as what was saved fits."""

    def reserved_tokens(self, job: Job, first: int) -> int:
        return job.kept or super().reserved_tokens(job, first)


@define(eq=False)
class _OneWay(Host):
    def swaps(self, job: Job, free: int) -> bool:
        s = self.settings
        if s.recover != "cheaper":
            return super().swaps(job, free)
        is_cheaper = swap_ns(s, job.computed) // 2 < recompute_ns(s, job.computed)
        return is_cheaper and Host(evolve(s, recover="swap"), self.free).swaps(job, free)


@fault("PRE-10")
class CountsOneWay(WithHost):
    """A copy to the host is what swapping costs; the way back is forgotten."""

    host = _OneWay


@define(eq=False)
class _Heedless(Host):
    def is_worth(self, victims: list[Job], earlier: list[Job]) -> bool:
        return True


@fault("PRE-11")
class NeverAsksWhatItCosts(WithHost):
    """Whoever is of a better class takes the place of others."""

    host = _Heedless


# --- more of the kind --------------------------------------------------------------------------------------


@another("PRE-9")
class LeaksWhatWasSaved(Scheduler):
    """A cancelled request gives back the blocks that it has, and when it is swapped it has none."""

    def drop(self, job: Job) -> None:
        """Nothing."""


@another("PRE-9")
class KeepsACopy(Scheduler):
    """Who came back keeps its host blocks, in case that it has to leave again."""

    def bring_back(self, job: Job) -> None:
        """The copy is made, and nothing else."""


@define(eq=False)
class _Overcommitted(Host):
    def take(self, blocks: int) -> list[int]:
        return [*range(blocks)]

    def give(self, blocks: list[int]) -> None:  # type: ignore[override]
        """They are always there."""


@another("PRE-9")
class OvercommitsTheHost(WithHost):
    """Every victim is saved from the first host block on."""

    host = _Overcommitted


@define(eq=False)
class _Impatient(Host):
    def swaps(self, job: Job, free: int) -> bool:
        return bool(job.computed) and Host(self.settings, self.free).swaps(_as_if_still(job), free)


def _as_if_still(job: Job) -> Job:
    return evolve(job, issued=job.computed)


@another("PRE-9")
class SavesWhatIsBeingWritten(WithHost):
    """A request is saved while its step is under way."""

    host = _Impatient


@another("PRE-9")
class FreesBeforeItCopies(Scheduler):
    """A victim gives its blocks back first, and copies what stood in them."""

    def save(self, job: Job) -> None:
        self.give_all(job)
        super().save(job)


@another("PRE-9")
class SavesFullBlocksOnly(Scheduler):
    """What stands in a last block that is not full is not worth a copy."""

    def save(self, job: Job) -> None:
        super().save(job)
        if job.kept % self.state.settings.block_size:
            self.state.host.give([job.saved.pop()])
            self.state.deltas[-1] = ("swapped_out", job.id, list(job.saved))


@another("PRE-9")
class ComputesTheLastBlockAgain(Scheduler):
    """Who comes back starts at the edge of a block."""

    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        admission = super().fit(job, room, anything_runs=anything_runs)
        size = self.state.settings.block_size
        if admission is not None and job.is_swapped and (over := job.kept % size) and room.budget >= over:
            admission.start -= over
            admission.tokens += over
            room.budget -= over
        return admission


@another("KV-12")
class BringsBackTheLastFirst(Scheduler):
    """Host blocks are taken from the end of the list, and copied in that order."""

    def bring_back(self, job: Job) -> None:
        job.saved.reverse()
        super().bring_back(job)


@another("OBS-3")
class CountsTheSwappedAsWaiting(Scheduler):
    """The gauge of the queue is its length."""

    def observe(self) -> Observation:
        shown = super().observe()
        waiting = self.state.queue.size
        return evolve(shown, counters={**shown.counters, "waiting": waiting})
