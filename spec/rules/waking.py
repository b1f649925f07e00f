"""LIVE: nobody holds what others wait for, for ever; and whoever waits is woken."""

from typing import TYPE_CHECKING

from ..relation import registry
from ..vocabulary import blocks_for
from .base import TraceRule, record

if TYPE_CHECKING:
    from ..monitor import Monitor, StepView

monitor = registry.monitor


@monitor("LIVE-6", needs="tables", bugs=("B08",))
class SomebodyCanFinish(TraceRule):
    """Nobody holds and waits for ever: while a running request is left out of a step because it lacks blocks, some
    running request can finish with what it holds and what is free, or somebody is preempted.

    Why: two requests were each admitted for a part of their prompts, and neither could get the rest beside the other
    (https://github.com/vllm-project/vllm/issues/45388); one safe order to finish in is what Dijkstra's banker asks for
    (EWD-108).
    """

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        if view.victims:
            m.count("LIVE-6")
            return
        is_broken = m.is_broken and view.plan.request  # where nobody runs that breaks LIVE-1, and this may be why
        mixes = m.claims("hybrid") or not view.plan.request  # else somebody may be left out for the other phase
        if is_broken or not mixes or view.budget_left < 1 or len(view.plan.request) >= len(m.world.running):
            return
        served = set(view.plan.request)
        stuck = [request for request in m.world.running if request not in served and self._lacks_blocks(m, request)]
        if not stuck:
            return
        m.count("LIVE-6")
        available = len(m.world.free) + len(m.world.evictable)
        if not any(self._missing(m, request) <= available for request in m.world.running):
            says = "some running request can finish with what it holds and what is free, or somebody is preempted"
            missing = min(self._missing(m, request) for request in m.world.running)
            m.fail("LIVE-6", "stuck", says, stuck=sorted(stuck), available=available, least_missing=missing)

    @staticmethod
    def _lacks_blocks(m: "Monitor", request: str) -> bool:
        """It has something to compute, nothing of it is under way, and there is no position for it."""
        r = record(m, request)
        is_whole = not m.settings.chunked_prefill and r.issued < r.goal
        goes_on = r.computed == r.issued < r.known
        return bool(goes_on and r.room < (r.known if is_whole else r.issued + 1))

    @staticmethod
    def _missing(m: "Monitor", request: str) -> int:
        """Blocks that it has still to get until its end, at its declared length."""
        return blocks_for(m.tracks[request].limit_tokens - 1, m.settings.block_size) - len(m.tracks[request].table)


@monitor("LIVE-9", bugs=("B27",))
class WhoWaitsIsWoken(TraceRule):
    """An idle seat and a waiting request meet: while nobody runs, and nobody who waits has results of its own under
    way, somebody is admitted in the next step, or within the declared admission period, whatever is in flight; in one
    of two pools, unless blocks of it are under an obligation.

    Why: whoever is put off waits for an event that tries it again; llama.cpp's server tried when a slot was released,
    and with all slots idle none ever was (https://github.com/ggml-org/llama.cpp/pull/14079).
    """

    def __init__(self) -> None:
        self.idle_steps = 0

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        waited = m.waiting + len(view.admitted)
        was_idle = len(m.world.running) <= len(view.admitted) and not view.victims
        is_held_up = any(track.waits for track in m.strays()) or (m.has_obligations and not view.admitted)
        if not (was_idle and waited) or is_held_up:
            self.idle_steps = 0
            return
        m.count("LIVE-9")
        self.idle_steps = 0 if view.admitted else self.idle_steps + 1
        if self.idle_steps >= m.capabilities.admission_period_steps:
            m.fail("LIVE-9", "asleep", "while nobody runs somebody who waits is admitted", waiting=m.waiting)
            self.idle_steps = 0
