"""Bugs of one step: a budget that does not hold, and prefill that always wins."""

from schedspec.reference import Scheduler
from schedspec.reference.job import Job
from schedspec.reference.phases import in_turn
from schedspec.reference.state import Decision

from .registry import REFERENCE, bug, reused

reused(
    "B11",
    REFERENCE["STEP-10"],
    rules=("STEP-10",),
    kind="starvation",
    title="Prefill always wins over decode, so streams stall while prompts keep coming",
    url="https://github.com/sgl-project/sglang/issues/32549",
)


@bug(
    "B17",
    rules=("STEP-1",),
    kind="budget-overrun",
    title="Decodes are scheduled without asking the token budget",
    url="https://github.com/vllm-project/vllm/pull/7391",
)
class DecodesAreFree(Scheduler):
    """Where prompts run whole, a decode is but one token, and nobody looks at what is left."""

    def compose(self, jobs: list[Job]) -> tuple[list[tuple[Job, int]], int, int]:
        growth, need, left = super().compose(jobs)
        if self.state.settings.chunked_prefill:
            return growth, need, left
        served = {job for job, _ in growth}
        for job in in_turn(jobs, self.state.phases, self.state.settings):
            decodes = job.issued >= job.prefill_end and job.known - job.issued == 1
            if decodes and job not in served and not job.is_sure_to_end and not self.is_under_way(job):
                growth.append((job, 1))
                need += self.new_blocks(job, 1)
        return growth, need, left


@bug(
    "B18",
    rules=("STEP-1",),
    kind="budget-overrun",
    title="A batch is charged with cached blocks that are gone when it is launched",
    url="https://github.com/NVIDIA/TensorRT-LLM/issues/13318",
)
class CountsOnWhatMayBeEvicted(Scheduler):
    """Cached blocks are counted when the batch is chosen and looked up again when it is launched; what others took
    in between is computed, budget or not."""

    def allocate(self, decision: Decision) -> None:
        for job, tokens in decision.growth:
            self.grow(job, job.issued + tokens)
        for admission in decision.admissions:
            job, end = admission.job, admission.start + admission.tokens
            if not job.is_swapped:
                admission.cached_blocks = self.cached_blocks(job)
                admission.start = self.start(job)
                admission.tokens = end - admission.start
            self.share(job, admission.cached_blocks)
            self.place(admission)
