"""Preemption by swap: what a victim has computed goes to host blocks, and comes back with it."""

from collections.abc import Mapping
from typing import Literal

from ..spec.recovery import blocks_to_save
from ..spec.vocabulary import RequestView
from .job import PARKED, WAITING, Job
from .state import State

STATES: Mapping[str, Literal["waiting", "parked"]] = {WAITING: "waiting", PARKED: "parked"}
"""What a snapshot calls those who do not run."""


class Swapping:
    """Host blocks of one request.  All that it has computed leaves together and returns together."""

    state: State
    record: bool

    def recovery_of(self, job: Job) -> str:
        """What becomes of the KV of a victim."""
        host = self.state.host
        return "swap" if host.swaps(job, len(host.free)) else "recompute"

    def save(self, job: Job) -> None:
        """What it has computed goes to the host, before its blocks are anybody else's."""
        job.kept = job.computed
        job.saved = self.state.host.take(blocks_to_save(self.state.settings, job.kept))
        self.note_host("swapped_out", job)

    def bring_back(self, job: Job) -> None:
        """Into the first blocks of its table; the host blocks are free again."""
        self.give_host("swapped_in", job)

    def drop(self, job: Job) -> None:
        """It ends: nobody needs what is saved."""
        self.give_host("dropped", job)

    def give_host(self, kind: str, job: Job) -> None:
        if job.saved:
            self.note_host(kind, job)
        self.state.host.give(job.saved)
        job.saved = []

    def note_host(self, kind: str, job: Job) -> None:
        if self.record:
            self.state.deltas.append((kind, job.id, list(job.saved)))


def view_of(job: Job) -> RequestView:
    """Who is swapped has the positions that it kept."""
    return RequestView(
        state="swapped" if job.is_swapped else STATES.get(job.state, "running"),
        issued=job.kept or job.issued,
        computed=job.kept or job.computed,
        outputs=job.outputs,
        in_flight=job.in_flight,
    )
