"""Requests that depend on something, and are parked until it is there.

A request that names dependencies is parked at the door, one that calls a tool in the middle of its output.  Who is
parked has no seat and holds no block; what it computed may be leased in the prefix cache for a while.  It waits again
when all that it depends on is there, and ends if something fails, or does not come in time.
"""

from collections.abc import Mapping
from typing import Any

from ..spec.vocabulary import DEPENDENCY_FAILED, RESOLVED, Delta
from .door import AtTheDoor
from .job import WAITING, Job


class Parks(AtTheDoor):
    """Who is parked, who waits again, and what is kept meanwhile."""

    record: bool

    def stand_up(self, job: Job) -> None:
        """It leaves the running set."""
        raise NotImplementedError

    def expire(self) -> None:
        super().expire()
        now_ns = self.state.now_ns
        for request in self.state.leases.overdue(now_ns):
            self.end_lease(request, "expired")
        for job in self.state.parking.overdue(now_ns):
            self.end(job, ("expired", job.id))

    # --- what it depends on ----------------------------------------------------------------------------------

    def hear_of(self, event: Mapping[str, Any]) -> None:
        """News of a dependency, if it is such."""
        request, dependency, kind = (event.get(name) for name in ("request", "dependency", "type"))
        if kind not in (RESOLVED, DEPENDENCY_FAILED) or not self.state.settings.park_timeout_ns:
            return
        job = self.state.jobs.get(request) if isinstance(request, str) else None
        if job is not None and isinstance(dependency, str):
            self.hear(job, dependency, kind == RESOLVED)

    def hear(self, job: Job, dependency: str, is_there: bool) -> None:
        """The first answer counts, whether or not anybody asked yet."""
        if dependency in job.answers:
            return
        job.answers[dependency] = is_there
        if dependency not in job.dependencies:
            return
        if not is_there:
            self.end(job, ("failed", job.id, f"{dependency} failed"))
            return
        job.dependencies.remove(dependency)
        if not job.dependencies:
            self.unpark(job)

    def pause(self, job: Job, dependency: str) -> None:
        """It depends on something from here on; what the world has said of that already counts."""
        if job.answers.get(dependency):
            return
        if dependency in job.answers:
            self.end(job, ("failed", job.id, f"{dependency} failed"))
            return
        keys = self.state.prefixes.keys_of(job, job.computed // self.state.settings.block_size)
        self.stand_up(job)
        self.state.parking.park(job, {dependency}, self.state.now_ns)
        if self.state.log is not None:
            self.state.log.turns(job.id, WAITING, self.state.now_ns)
        self.tell(("parked", job.id, [dependency]))
        self.lease(job, self.state.pool.find(keys))

    def unpark(self, job: Job) -> None:
        self.state.parking.leave(job)
        job.state = WAITING
        self.state.queue.push(job)
        if self.state.log is not None:
            self.state.log.joins(job.arrival)
        self.tell(("unparked", job.id))

    # --- what is kept ----------------------------------------------------------------------------------------

    def lease(self, job: Job, blocks: list[int]) -> None:
        """What is cached of it is kept a while, if anything is."""
        hold_ns, now_ns = self.state.settings.hold_ns, self.state.now_ns
        if blocks and hold_ns:
            self.state.leases.give(job.id, blocks, now_ns + hold_ns)
            self.tell(("leased", job.id, blocks, now_ns + hold_ns))

    def end_lease(self, request: str, cause: str) -> None:
        if request in self.state.leases.blocks:
            self.state.leases.end(request)
            self.tell(("lease_over", request, cause))

    def end_leases_for_a_block(self) -> None:
        """As many as it takes; blocks that are held are not had by it."""
        while self.state.pool.has_all_leased:
            self.end_lease(self.state.leases.first(), "memory")

    def tell(self, delta: Delta) -> None:
        if self.record:
            self.state.deltas.append(delta)
