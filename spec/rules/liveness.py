"""LIVE: progress and waiting."""

import heapq
from typing import TYPE_CHECKING

from ..queueing import PLACES
from ..relation import WAITING, registry
from ..vocabulary import blocks_for
from .base import TraceRule, has_stray, record

if TYPE_CHECKING:
    from ..monitor import Monitor, StepView
    from ..tracks import Track

monitor = registry.monitor


@monitor("LIVE-1", bugs=("B08", "B13"))
class SomethingIsScheduled(TraceRule):
    """With unfinished work and nothing in flight, some token is scheduled in the next step, or within the declared
    admission period.

    Why: zero tokens per step for ever, with free blocks left and health checks green
    (https://github.com/vllm-project/vllm/issues/45388).
    """

    def __init__(self) -> None:
        self.idle_steps = 0

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        if not m.live or not view.nothing_in_flight:
            return
        m.count("LIVE-1")
        self.idle_steps = 0 if view.plan.request else self.idle_steps + 1
        if self.idle_steps >= m.capabilities.admission_period_steps:
            says = "with unfinished work and nothing in flight, some token is scheduled"
            waiting, running = m.waiting, len(m.world.running)
            m.fail("LIVE-1", "idle", says, unfinished=m.live, waiting=waiting, running=running)
            self.idle_steps = 0


@monitor("LIVE-2")
class EverybodyEnds(TraceRule):
    """Once arrivals stop, every accepted request ends within a computed number of steps: for each of them its
    prompt and declared output, one position a step.

    Why: a request that neither ends nor fails holds its client for ever
    (https://github.com/vllm-project/vllm/issues/35541).
    """

    def __init__(self) -> None:
        self.work_steps = 0
        self.deadline_steps = 0
        self.steps = 0

    def on_accept(self, m: "Monitor", track: "Track") -> None:
        self.work_steps += self._worst(m, track)
        self.deadline_steps = self.steps + self.work_steps

    def on_ended(self, m: "Monitor", track: "Track") -> None:
        self.work_steps -= self._worst(m, track)

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        if not m.live or not (view.plan.request or view.nothing_in_flight):
            return
        m.count("LIVE-2")
        self.steps += 1
        if self.steps > self.deadline_steps + 1:
            says = "once arrivals stop, every accepted request ends within a computed number of steps"
            late = [track.id for track in m.tracks.values() if not track.ended]
            m.fail("LIVE-2", "deadline", says, unfinished=late[:5], steps_since_arrival=self.deadline_steps)
            self.deadline_steps += self.work_steps

    def on_end(self, m: "Monitor") -> None:
        if m.live:
            late = [track.id for track in m.tracks.values() if not track.ended]
            m.fail("LIVE-2", "never", "when the run ends every accepted request has ended", unfinished=late[:5])

    @staticmethod
    def _worst(m: "Monitor", track: "Track") -> int:
        """Its positions one by one; what overlap plans in vain, and the wait for an admission, come on top."""
        extra = m.settings.overlap_depth - 1 + m.capabilities.admission_period_steps - 1
        return track.limit_tokens - 1 + extra


class Idleness(TraceRule):
    """Common part of LIVE-8 and LIVE-11: is anything idle that a waiting request could use?

    A request surely fits if all that is known of it does: with less it may fit or not, which is the subject's to know.
    A step that broke a rule is not asked: what is idle is not known then.
    """

    rule = ""

    def __init__(self) -> None:
        self.queue: list[tuple[int, str]] = []
        self.idle_steps = 0

    def patience(self, m: "Monitor") -> int:
        """Steps in a row that may stay idle."""
        return 0

    def rank(self, m: "Monitor", track: "Track") -> int:
        raise NotImplementedError

    def on_accept(self, m: "Monitor", track: "Track") -> None:
        heapq.heappush(self.queue, (self.rank(m, track), track.id))
        if len(self.queue) > 2 * m.waiting + 64:  # where no step is ever idle nobody looks at the queue
            waiting = {request for _, request in self.queue if self.waits(m, request)}
            self.queue = sorted((self.rank(m, m.tracks[request]), request) for request in waiting)

    on_wait = on_accept

    def first(self, m: "Monitor") -> "Track | None":
        """The waiting request of least rank; entries of those who wait no longer are dropped on the way."""
        while self.queue:
            rank, request = self.queue[0]
            if not self.waits(m, request):
                heapq.heappop(self.queue)
            elif rank != (now := self.rank(m, m.tracks[request])):
                heapq.heapreplace(self.queue, (now, request))
            else:
                return m.tracks[request]
        return None

    @staticmethod
    def waits(m: "Monitor", request: str) -> bool:
        return request in m.tracks and record(m, request).phase == WAITING

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        busy = view.budget_left < 1 or len(m.world.running) >= m.settings.seats or bool(view.victims)
        track = None if busy or m.is_broken else self.first(m)
        if track is None:
            self.idle_steps = 0
            return
        m.count(self.rule)
        self.idle_steps = self.idle_steps + 1 if self.fits(m, view, track) else 0
        if self.idle_steps > self.patience(m):
            self.complain(m, view, track)

    def fits(self, m: "Monitor", view: "StepView", track: "Track") -> bool:
        declared = m.claims("declared_reserve") or m.settings.reserve == "declared"
        known = track.limit_tokens - 1 if declared else record(m, track.id).known
        budget = view.budget_left >= known or m.settings.chunked_prefill
        known += m.capabilities.lookahead_tokens
        kept = m.settings.watermark_blocks if m.world.running else 0
        available = len(m.world.free) + len(m.world.evictable) - kept
        return budget and blocks_for(known, m.settings.block_size) <= available and not has_stray(m, track)

    def complain(self, m: "Monitor", view: "StepView", track: "Track") -> None:
        m.fail(
            self.rule,
            "idle",
            (registry.rules[self.rule].statement),
            request=track.id,
            budget_left=view.budget_left,
            seats_left=m.settings.seats - len(m.world.running),
            available_blocks=len(m.world.free) + len(m.world.evictable),
        )


@monitor("LIVE-8", needs="tables")
class NoUndeclaredIdleness(Idleness):
    """Budget, seats and memory stay idle while an admissible request waits only for a declared reason: the head of the
    queue that does not fit (but not if `skip` is claimed), the watermark, the admission period.

    Why: a scheduler that admits too little looks healthy and is slow; operators see it only as low utilisation
    (https://github.com/vllm-project/vllm/pull/38435).
    """

    rule = "LIVE-8"

    def patience(self, m: "Monitor") -> int:
        return m.capabilities.admission_period_steps - 1

    def rank(self, m: "Monitor", track: "Track") -> int:
        """Who goes past a head that does not fit is asked about whoever fits best; who says nothing of the order, about
        whoever fits worst: if that one does, so does the head."""
        r = record(m, track.id)
        if m.claims("skip"):
            return int(r.known)
        if not m.capabilities.claims.isdisjoint(PLACES):
            return int(r.place)
        return -(track.limit_tokens if m.claims("declared_reserve") else int(r.known))


@monitor("LIVE-11", needs="tables", level="SHOULD")
class NothingFitsAndWaits(Idleness):
    """What fits is not left idle behind what does not.

    Why: one big request at the head holds up small ones while blocks and seats are free
    (https://github.com/vllm-project/vllm/issues/31731).
    """

    rule = "LIVE-11"

    def rank(self, m: "Monitor", track: "Track") -> int:
        return int(record(m, track.id).known)
