"""Host memory for the KV of victims: which blocks are free, what a victim costs, and which way is taken."""

from collections.abc import Iterable, Iterator

from attrs import define

from ..spec.recovery import avoided_ns, blocks_to_save, recompute_ns, swap_ns
from ..spec.settings import Settings
from .job import Job


@define(eq=False)
class Host:
    """`free` is a stack of host blocks."""

    settings: Settings
    free: list[int]

    @classmethod
    def of(cls, settings: Settings) -> "Host":
        return cls(settings, list(range(settings.host_blocks - 1, -1, -1)))

    @property
    def is_used(self) -> bool:
        return len(self.free) < self.settings.host_blocks

    def take(self, blocks: int) -> list[int]:
        return [self.free.pop() for _ in range(blocks)]

    def give(self, blocks: Iterable[int]) -> None:
        self.free.extend(blocks)

    def swaps(self, job: Job, free: int) -> bool:
        """Whether a victim is swapped, if so many host blocks are free: nothing of it may be in flight."""
        s, is_still = self.settings, job.issued == job.computed > 0
        if s.recover == "recompute" or not is_still or blocks_to_save(s, job.computed) > free:
            return False
        return s.recover == "swap" or swap_ns(s, job.computed) < recompute_ns(s, job.computed)

    def costs_ns(self, victims: Iterable[Job]) -> Iterator[int]:
        """What each of them costs, one after the other, by the declared times."""
        s, free = self.settings, len(self.free)
        for job in victims:
            if self.swaps(job, free):
                free -= blocks_to_save(s, job.computed)
                yield swap_ns(s, job.computed)
            else:
                yield recompute_ns(s, job.computed)

    def is_worth(self, victims: list[Job], earlier: list[Job]) -> bool:
        """Whether taking their place costs less than waiting for it, by what they have declared; where nobody declared
        how long a step takes it always is.  `earlier`: those who lose theirs before them in the step."""
        if not self.settings.decode_step_ns:
            return True
        left = max(job.request.max_output_tokens - job.outputs for job in victims)
        costs = list(self.costs_ns(earlier + victims))[len(earlier) :]
        return sum(costs) < avoided_ns(self.settings, left)
