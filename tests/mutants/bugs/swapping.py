"""Bugs of swapping: who comes back from host memory cannot go on."""

from attrs import define, evolve

from schedspec.reference import Scheduler
from schedspec.reference.decide import Room
from schedspec.reference.faults.swapping import WithHost
from schedspec.reference.host import Host
from schedspec.reference.job import Job
from schedspec.reference.state import Admission

from .registry import REFERENCE, reused, sibling

reused(
    "B46",
    REFERENCE["PRE-9"],
    rules=("PRE-9",),
    kind="swap",
    title="The test for a swap-in counts the blocks that are stored, not the one that the next token needs",
    url="https://github.com/vllm-project/vllm/pull/8824",
)


@sibling("B46", "where all stored blocks are full")
class ForgetsTheNextBlock(Scheduler):
    """As long as its last block has room there is nothing to forget."""

    def reserved_tokens(self, job: Job, first: int) -> int:
        is_full = job.kept and job.kept % self.state.settings.block_size == 0
        return job.kept if is_full else super().reserved_tokens(job, first)


@define(eq=False)
class _WithoutTheRest(Host):
    def take(self, blocks: int) -> list[int]:
        """As many as there are."""
        return super().take(min(blocks, len(self.free)))

    def swaps(self, job: Job, free: int) -> bool:
        """A last block that is not full is computed again soon."""
        size = self.settings.block_size
        whole = job.computed // size * size
        return super().swaps(evolve(job, issued=whole, computed=whole) if job.issued == job.computed else job, free)


@sibling("B46", "the host has room for what is full")
class CountsFullBlocks(WithHost):
    host = _WithoutTheRest


@sibling("B46", "who comes back goes on behind its last full block")
class GoesOnAtABlock(Scheduler):
    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        admission = super().fit(job, room, anything_runs=anything_runs)
        over = job.kept % self.state.settings.block_size
        if admission is not None and over and admission.start > over and room.budget >= over:
            admission.start -= over
            admission.tokens += over
            room.budget -= over
        return admission
