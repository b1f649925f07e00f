"""Schedulers that break a rule of ADMIT, OBS, DET."""

import inspect
import time
from typing import Any

from attrs import evolve

from ...spec.vocabulary import (
    Delta,
    Request,
    Settings,
)
from ..job import RUNNING, WAITING, Job
from ..log import DecisionLog
from ..scheduler import Scheduler
from ..state import Decision
from .base import fault


class AcceptsAnyway(Scheduler):
    """One limit is not asked at the door."""

    limit = ""

    def refusal(self, request: Request) -> tuple[str, int, int] | None:
        declared = self.state.settings
        without: dict[str, Any] = {self.limit: 1 << 28}
        self.state.settings = evolve(declared, **without)
        try:
            return super().refusal(request)
        finally:
            self.state.settings = declared


@fault("ADMIT-1")
class AcceptsWhatNeverFits(AcceptsAnyway):
    """A request larger than the pool is queued."""

    limit = "blocks"


@fault("ADMIT-2")
class AcceptsLongPrompts(AcceptsAnyway):
    """The limit on prompts is the front end's business, it thinks."""

    limit = "max_prompt_tokens"


@fault("OBS-3")
class CountsTheCancelled(Scheduler):
    """The gauge of waiting requests does not go down when one is cancelled."""

    def end(self, job: Job, event: Delta) -> None:
        waited = job.state == WAITING
        super().end(job, event)
        if waited:
            self.state.queue.size += 1


class _StampsOnce(DecisionLog):
    """The stamp of the queue is overwritten each time, the one of the start is set once."""

    def __init__(self) -> None:
        super().__init__()
        self.queued_ns: dict[str, int] = {}
        self.started_ns: dict[str, int] = {}

    def turns(self, request: str, doing: str, now_ns: int) -> None:
        super().turns(request, doing, now_ns)
        if doing == WAITING:
            self.queued_ns[request] = now_ns
        elif doing == RUNNING:
            self.started_ns.setdefault(request, now_ns)

    def ends(self, request: str, now_ns: int) -> Delta:
        kind, name, held_ns, *_, whole_ns = super().ends(request, now_ns)
        waited_ns = self.started_ns.pop(request, now_ns) - self.queued_ns.pop(request, now_ns)
        return (kind, name, held_ns, waited_ns, whole_ns - held_ns - waited_ns, whole_ns)


@fault("OBS-4")
class CountsFromTheLastQueueing(Scheduler):
    """How long a request waited is from its last entry into the queue to its first start."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        if self.state.log is not None:
            self.state.log = _StampsOnce()


@fault("OBS-5")
class CallsEverythingTheLine(Scheduler):
    """Whoever is admitted was next, says the log."""

    def rule_of_order(self, job: Job, *, has_passed: bool) -> str:
        return "line"


@fault("OBS-6")
class BlamesMemory(Scheduler):
    """Whoever is preempted is so for blocks, says the log."""

    def log_displaced(self, job: Job, cause: str) -> None:
        super().log_displaced(job, "blocks")


@fault("OBS-1")
class RepeatsItself(Scheduler):
    """The log says in each step why somebody waits, changed or not."""

    def log_waits(self, decision: Decision) -> None:
        self.state.logged = {}
        super().log_waits(decision)


@fault("OBS-2")
class CallsEverythingCapacity(Scheduler):
    """Whoever is next and waits, waits for blocks."""

    def log_waits(self, decision: Decision) -> None:
        self.note_after(decision)
        self.state.waits = dict.fromkeys(self.state.waits, "blocks")
        super().log_waits(evolve(decision, victims=[], admissions=[]))


@fault("ADMIT-9")
class LooksIntoTheScript(Scheduler):
    """Requests that will stop early get blocks from the other end of the pool; a simulator has the length at hand, in
    whoever called."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        self.stops_early: set[str] = set()

    def accept(self, request: Request) -> None:
        frame = inspect.currentframe()
        while frame is not None and "stop_after" not in frame.f_locals:
            frame = frame.f_back
        if frame is not None and frame.f_locals["stop_after"] is not None:
            self.stops_early.add(request.id)
        super().accept(request)

    def grow(self, job: Job, positions: int) -> None:
        free = self.state.pool.free
        if job.id in self.stops_early:
            free.reverse()
        super().grow(job, positions)
        if job.id in self.stops_early:
            free.reverse()


@fault("DET-1")
class OrdersByHash(Scheduler):
    """Running requests are visited in the order of a set of strings."""

    def compose(self, jobs: list[Job]) -> tuple[list[tuple[Job, int]], int, int]:
        by_id = {job.id: job for job in jobs}
        return super().compose([by_id[id] for id in sorted(by_id, key=hash)])


@fault("DET-2")
class RemembersFormerRuns(Scheduler):
    """A counter outlives the scheduler, and every second one visits running requests backwards."""

    made = 0

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        RemembersFormerRuns.made += 1
        self.backwards = RemembersFormerRuns.made % 2 == 0

    def compose(self, jobs: list[Job]) -> tuple[list[tuple[Job, int]], int, int]:
        return super().compose(jobs[::-1] if self.backwards else jobs)


@fault("DET-3")
class ReadsTheWallClock(Scheduler):
    """A chunk is cut short when the last step was long ago by the machine's clock."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        self.last = time.monotonic()

    def compose(self, jobs: list[Job]) -> tuple[list[tuple[Job, int]], int, int]:
        now = time.monotonic()
        slow, self.last = now - self.last > 0.5, now
        growth, need, left = super().compose(jobs)
        if not slow or not growth:
            return growth, need, left
        job, tokens = growth[-1]
        cut = tokens // 2
        if not cut:
            return growth, need, left
        growth[-1] = (job, tokens - cut)
        return growth, sum(self.new_blocks(j, k) for j, k in growth), left + cut
