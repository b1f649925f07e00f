"""Bugs of memory: blocks that are lost, given back twice, written to by others, or promised twice."""

from schedspec.reference import Scheduler
from schedspec.reference.job import Job
from schedspec.spec.vocabulary import Delta

from .registry import bug


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
