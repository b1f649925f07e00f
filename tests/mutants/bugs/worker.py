"""Bugs between the scheduler and its worker: what the one has granted the other never hears of."""

from schedspec.reference import Scheduler
from schedspec.reference.job import Job
from schedspec.reference.phases import phase_of
from schedspec.reference.state import Decision

from .registry import bug, sibling


class TellsByDeltas(Scheduler):
    """Its block tables are known by what it tells the worker; it shows no others."""

    def observe(self) -> None:  # type: ignore[override]
        return None

    def grow_in_silence(self, job: Job, positions: int) -> None:
        """What it grants is told to nobody."""
        told = len(self.state.deltas)
        self.grow(job, positions)
        self.state.deltas[told:] = [delta for delta in self.state.deltas[told:] if delta[0] != "took"]


@bug(
    "B58",
    rules=("KV-4", "KV-17", "OUT-1"),
    kind="output",
    title="A block that was granted to a request which is then pushed out of the step is never told to the worker",
    url="https://github.com/RBLN-SW/vllm-rbln/pull/662",
)
class DropsTheGrantsOfWhoIsPushedOut(TellsByDeltas):
    """Steps are of one phase: decodes were chosen, and had their blocks, when a prompt came and pushed them out."""

    def allocate(self, decision: Decision) -> None:
        super().allocate(decision)
        runs = {job for job, _ in decision.growth} | {admission.job for admission in decision.admissions}
        is_prefill = any(not job.outputs for job in runs)
        if self.state.settings.batch_mix != "exclusive" or not is_prefill:
            return
        for job in [job for job in self.state.running.values() if job not in runs]:
            if phase_of(job) == "decode" and self.state.pool.free and not job.is_sure_to_end:
                self.grow_in_silence(job, job.issued + 1)


@sibling("B58", "blocks of one whose place is taken are told, those of whoever takes it are not")
class DropsTheGrantsOfWhoTakesAPlace(TellsByDeltas):
    def grow(self, job: Job, positions: int) -> None:
        told = len(self.state.deltas)
        super().grow(job, positions)
        is_last = any(delta[0] == "preempted" and delta[3] == job.id for delta in self.state.deltas[:told])
        if is_last and len(job.table) > 1:
            took = next(delta for delta in self.state.deltas[told:] if delta[0] == "took")
            self.state.deltas[told:] = [("took", job.id, took[2][:-1])]


@sibling("B58", "who comes back is told the blocks of its next chunk, and not those before")
class TellsTheLastBlock(TellsByDeltas):
    def grow(self, job: Job, positions: int) -> None:
        told = len(self.state.deltas)
        super().grow(job, positions)
        for place, delta in enumerate(self.state.deltas[told:], told):
            if delta[0] == "took" and job.was_preempted and len(delta[2]) > 1:
                self.state.deltas[place] = ("took", job.id, delta[2][1:])
