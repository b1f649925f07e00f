"""Which blocks of the pool hold a prefix of a request: asked by the admission test, and by queues that prefer those who
have one."""

from zlib import crc32

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
        """Keys of its first blocks: a chain, so that equal keys mean equal prefixes, computed with the same adapter."""
        size = self.settings.block_size
        while len(job.keys) < blocks:
            at = len(job.keys) * size
            parent = job.keys[-1] if job.keys else self.root_of(job)
            job.keys.append(hash((parent, *job.tokens[at : at + size])))
        return job.keys[:blocks]

    def root_of(self, job: Job) -> int:
        """Equal tokens have another KV under another adapter, where adapters are looked at."""
        adapter = job.request.adapter if self.settings.adapter_slots else None
        return 0 if adapter is None else 1 + crc32(adapter.encode("utf-8", "surrogatepass"))
