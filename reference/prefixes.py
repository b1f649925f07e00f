"""Which blocks of the pool hold a prefix of a request: asked by the admission test, and by queues that prefer those who
have one."""

from attrs import define

from ..spec.settings import Settings
from .job import Job
from .pool import Pool


@define(eq=False)
class Prefixes:
    settings: Settings
    pool: Pool

    def cached_blocks(self, job: Job) -> list[int]:
        """Blocks of the longest cached prefix, short of the last token, which must be computed to be sampled from."""
        if not self.settings.prefix_caching:
            return []
        return self.pool.find(self.keys_of(job, (job.known - 1) // self.settings.block_size))

    def keys_of(self, job: Job, blocks: int) -> list[int]:
        """Keys of its first blocks: a chain, so that equal keys mean equal prefixes."""
        size = self.settings.block_size
        while len(job.keys) < blocks:
            at = len(job.keys) * size
            parent = job.keys[-1] if job.keys else 0
            job.keys.append(hash((parent, *job.tokens[at : at + size])))
        return job.keys[:blocks]
