"""STEP and PRE rules on iterations: what systems of the literature promise of each step (Orca, vLLM, Sarathi-Serve)."""

import heapq
from typing import TYPE_CHECKING

from ..relation import registry
from .base import TraceRule, record

if TYPE_CHECKING:
    from ..monitor import Monitor, StepView
    from ..tracks import Track

monitor = registry.monitor


@monitor("STEP-13", claims=("iteration_fcfs",))
class WhoCameEarlierRanAsOften(TraceRule):
    """Of two requests that have something left to run, the one that came earlier has run in at least as many steps.

    Why: first come, first served at the granularity of iterations is what Orca promises, and what lets it answer
    early arrivals early (OSDI 2022, section 4.2, https://www.usenix.org/conference/osdi22/presentation/yu).
    """

    def __init__(self) -> None:
        self.steps: dict[str, int] = {}
        self.waiting: list[tuple[int, str]] = []

    def on_accept(self, m: "Monitor", track: "Track") -> None:
        self.steps[track.id] = 0
        self.on_wait(m, track)

    def on_wait(self, m: "Monitor", track: "Track") -> None:
        heapq.heappush(self.waiting, (track.arrival, track.id))

    def on_ended(self, m: "Monitor", track: "Track") -> None:
        self.steps.pop(track.id, None)

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        for request in view.plan.request:
            self.steps[request] += 1
        if m.parks:
            return  # who is parked misses steps, and nobody is to blame
        going = [m.tracks[request] for request in (*m.world.running, *self._first(m))]
        tracks = sorted((track for track in going if self._goes_on(m, track)), key=lambda track: track.arrival)
        if not view.plan.request or len(tracks) < 2:
            return
        m.count("STEP-13")
        least = tracks[0]
        for track in tracks[1:]:
            if self.steps[track.id] > self.steps[least.id]:
                says = "who came earlier has run in at least as many steps"
                earlier, later = self.steps[least.id], self.steps[track.id]
                facts = {"earlier": least.id, "ran": earlier, "later": track.id, "has_run": later}
                m.fail("STEP-13", "later", says, **facts)
                return
            least = track

    def _first(self, m: "Monitor") -> list[str]:
        """Of those who wait, who came first; all others came later and have a later one's claim at most."""
        while self.waiting and not self._waits(m, self.waiting[0][1]):
            heapq.heappop(self.waiting)
        return [self.waiting[0][1]] if self.waiting else []

    @staticmethod
    def _goes_on(m: "Monitor", track: "Track") -> bool:
        """Not all that it may have is under way."""
        r = record(m, track.id)
        return bool(r.outputs + r.in_flight < r.output_limit)

    @staticmethod
    def _waits(m: "Monitor", request: str) -> bool:
        return request in m.tracks and m.tracks[request].waits


@monitor("STEP-16", claims=("exclusive",))
class PhasesDoNotMix(TraceRule):
    """No step has both prefill and decode in it.

    Why: where the kernels of the two phases are apart, a mixed batch has none that runs it; until chunked prefill came
    vLLM ran one or the other (https://github.com/vllm-project/vllm/issues/3130).
    """

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        if not view.plan.request:
            return
        m.count("STEP-16", times=int(len(m.world.running) > 1))
        if m.world.prefill and m.world.decode:
            says = "no step has both prefill and decode in it"
            m.fail("STEP-16", "mixed", says, prefill=m.world.prefill, decode=m.world.decode)


@monitor("STEP-17", claims=("disjoint_steps",))
class OneStepInFlightEach(TraceRule):
    """No request is in two steps that are in flight.

    Why: the next position needs the token of the one before; with batches in a pipeline Orca selects nobody who is in
    one of them (OSDI 2022, algorithm 1, https://www.usenix.org/conference/osdi22/presentation/yu).
    """

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        others = [flight for step, flight in m.in_flight.items() if step != view.plan.step]
        if not others or not view.plan.request:
            return
        m.count("STEP-17")
        under_way = {track.id for flight in others for track in flight.tracks if track not in flight.departed}
        for request in view.plan.request:
            if request in under_way:
                m.fail("STEP-17", "twice", "no request is in two steps that are in flight", request=request)
                return


@monitor("STEP-18", claims=("full_chunks",))
class ChunksUseTheBudget(TraceRule):
    """A chunk that does not end its prompt leaves nothing of the step's budget, unless it has chunk_tokens, or somebody
    lost its place in that step.

    Why: each chunk reads the KV of all before it once more, so a prompt is cut only where the budget makes it, and
    takes at most its length over the least that decodes leave in steps (Sarathi-Serve, OSDI 2024, section 4.3,
    https://www.usenix.org/conference/osdi24/presentation/agrawal).
    """

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        plan, most = view.plan, m.settings.chunk_tokens
        if not m.world.prefill or view.victims:
            return
        for request, start, tokens in zip(plan.request, plan.start, plan.tokens, strict=True):
            if start + tokens >= record(m, request).goal:
                continue
            m.count("STEP-18")
            if view.budget_left > 0 and not 0 < most <= tokens:
                says = "a chunk that does not end its prompt leaves nothing of the budget"
                m.fail("STEP-18", "short", says, request=request, tokens=tokens, budget_left=view.budget_left)


@monitor("PRE-12", claims=("no_preemption",))
class NobodyIsPreempted(TraceRule):
    """Nobody is preempted.

    Why: whose whole life is reserved at its admission can always go on, so there is no deadlock to break and no work to
    do twice (Orca, OSDI 2022, section 4.2, https://www.usenix.org/conference/osdi22/presentation/yu).
    """

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        if view.plan.request:
            m.count("PRE-12")
        if view.victims:
            m.fail("PRE-12", "preempted", "nobody is preempted", victim=view.victims[0].track.id)
