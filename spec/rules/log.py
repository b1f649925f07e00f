"""OBS: the log of why requests wait."""

from typing import TYPE_CHECKING

from ..relation import registry
from ..vocabulary import WAIT_LIMITS
from ..waiting import may_hold
from .base import TraceRule

if TYPE_CHECKING:
    from ..monitor import Monitor, StepView
    from ..tracks import Track

monitor = registry.monitor

SURE = ("victims", "seats", "budget")
"""Limits that hold of everybody who waits, if they hold at all."""


class Log(TraceRule):
    """Common part: what the log says of those who wait; of whom it says nothing, waits for the order."""

    def __init__(self) -> None:
        self.logged: dict[Track, str] = {}

    def on_logged(self, m: "Monitor", track: "Track", limit: str) -> None:
        self.logged[track] = limit

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        self.logged.pop(track, None)

    on_ended = on_wait = on_admit


@monitor("OBS-1", claims=("wait_log",))
class WaitsAreLogged(Log):
    """A waiting request has one reason from the closed set, and the log has its changes and nothing else: of whom it
    says nothing, waits for the order; and in no step does everybody wait for the order.

    Why: "capacity" for everything told nobody that an engine stood still with an empty cache
    (https://github.com/vllm-project/vllm-metal/issues/479).
    """

    def on_logged(self, m: "Monitor", track: "Track", limit: str) -> None:
        m.count("OBS-1")
        if not track.waits:
            m.fail("OBS-1", "waits", "only who waits has a reason to", request=track.id, limit=limit)
        if self.logged.get(track, "order") == limit:
            m.fail("OBS-1", "changes", "a reason is logged when it changes", request=track.id, limit=limit)
        super().on_logged(m, track, limit)

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        if not m.waiting or m.is_broken:
            return
        m.count("OBS-1")
        if all(limit == "order" for limit in self.logged.values()):
            m.fail("OBS-1", "order", "not everybody waits for the order", waiting=m.waiting)


@monitor("OBS-2", claims=("wait_log",))
class ReasonsAreTrue(Log):
    """The reason that is logged is a limit that holds at the end of the step, and the first of those in the declared
    order that does.

    Why: an operator who raises the limit that is named wants to see the request run; two labels were too coarse to say
    which (https://github.com/vllm-project/vllm/pull/38435).
    """

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        if m.is_broken:
            return
        sure = [limit for limit in SURE if self._is_sure(m, view, limit)]
        for track, limit in self.logged.items():
            if limit == "order":
                continue
            m.count("OBS-2")
            if not may_hold(m, view, track, limit):
                m.fail(
                    "OBS-2", "holds", "the reason that is logged is a limit that holds", request=track.id, limit=limit
                )
            elif sure and WAIT_LIMITS.index(sure[0]) < WAIT_LIMITS.index(limit):
                says = "the reason that is logged is the first limit that holds"
                m.fail("OBS-2", "first", says, request=track.id, limit=limit, first=sure[0])

    @staticmethod
    def _is_sure(m: "Monitor", view: "StepView", limit: str) -> bool:
        if limit == "victims":
            return bool(view.victims) and not view.admitted
        return len(m.world.running) >= m.settings.seats if limit == "seats" else view.budget_left < 1
