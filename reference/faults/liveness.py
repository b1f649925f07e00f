"""Schedulers that break a rule of LIVE."""

from collections.abc import Mapping
from typing import ClassVar

from attrs import evolve

from ...spec.vocabulary import (
    Capabilities,
    Settings,
)
from ..decide import Room
from ..job import Job
from ..scheduler import Scheduler
from ..state import Admission, Decision
from .base import Claims, WithOtherSettings, fault


@fault("LIVE-1")
class WatermarkOnAnEmptyMachine(Scheduler):
    """The reserve is kept even where nothing runs that could need it."""

    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        return super().fit(job, room, anything_runs=True)


@fault("LIVE-2")
class PingPong(Scheduler):
    """Two requests evict each other after every first chunk, and neither gets further.  Shows its decisions only."""

    def capabilities(self) -> Capabilities:
        claims = {"hard_budget", "overlap"} & super().capabilities().claims
        return evolve(super().capabilities(), observes="decisions", claims=claims)

    def decide(self) -> Decision:
        jobs = list(self.state.running.values())
        if len(jobs) != 1 or self.state.queue.size == 0 or self.state.in_flight:
            return super().decide()
        decision = Decision(jobs, None, [], self.state.settings.token_budget)
        head = self.state.queue.pop()
        assert head is not None
        available = self.state.pool.available + self.freed_by(jobs)
        admission = self.fit(head, Room(1, 1, available, set()), anything_runs=False)
        if admission is None or jobs[0].outputs:
            self.state.queue.put_back(head)
            return super().decide()
        decision.admissions = [admission]
        return decision


@fault("LIVE-3")
class PromisesABound(Claims):
    """Longest prefix, priority, or whatever: it promises a bound, and keeps none."""

    more: ClassVar[frozenset[str]] = frozenset({"bounded_overtaking"})
    constants: ClassVar[Mapping[str, int]] = {"max_overtaken": 2}

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(evolve(settings, max_overtaken=0), seed, record=record)


@fault("LIVE-7")
class StopsAtAnAdapter(Scheduler):
    """The scan of the queue ends at the first request whose adapter cannot be loaded."""

    def admit(self, budget: int, blocks: int) -> list[Admission]:
        waiting = [job for job in self.state.jobs.values() if job.state == "waiting"]
        first = min(waiting, key=lambda job: job.arrival, default=None)
        return [] if first and not self.state.adapters.can_serve(first) else super().admit(budget, blocks)


@fault("LIVE-8")
class AdmitsEverySecondStep(Scheduler):
    """While something runs, admissions happen in even steps only, and nothing declares that."""

    def admit(self, budget: int, blocks: int) -> list[Admission]:
        if self.state.running and self.state.step % 2:
            return []
        return super().admit(budget, blocks)


@fault("LIVE-10")
class WaitsForASeat(Scheduler):
    """It preempts for blocks and not for seats."""

    def replaceable(self, job: Job, room: Room) -> list[Job]:
        return super().replaceable(job, room) if room.seats > 0 else []


@fault("LIVE-11")
class StopsAtABlockedHead(WithOtherSettings):
    """Claims to go past a head that does not fit, and stops there."""

    def otherwise(self, settings: Settings) -> Settings:
        return evolve(settings, at_blocked_head="break")
