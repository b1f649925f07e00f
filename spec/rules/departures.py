"""LIFE: clients that go away."""

from typing import TYPE_CHECKING

from ..relation import registry
from .base import TraceRule

if TYPE_CHECKING:
    from ..monitor import Monitor
    from ..vocabulary import Message

monitor = registry.monitor

DISCONNECTED = "disconnected"


@monitor("LIFE-10", claims=("disconnects",))
class NobodyRunsForNobody(TraceRule):
    """Whose client is gone (an event disconnected) has ended when notify returns, at whatever stage it was, unless it
    declared to survive that: then it goes on.

    Why: a request whose client had gone was decoded to its full length, for nobody
    (https://github.com/sgl-project/sglang/pull/36552).
    """

    def __init__(self) -> None:
        self.survivors: set[str] = set()
        self.was_live = False

    def on_call(self, m: "Monitor", message: "Message") -> None:
        if message.kind == "submit" and message.given.survives_disconnect:
            self.survivors.add(message.given.id)
        track = m.tracks.get(message.given["request"]) if _is_about_one(message) else None
        self.was_live = track is not None and not track.ended

    def on_answered(self, m: "Monitor", message: "Message") -> None:
        if not self.was_live:
            return
        m.count("LIFE-10")
        request = message.given["request"]
        has_ended = any(delta[0] == "cancelled" and delta[1] == request for delta in message.answer)
        if has_ended and request in self.survivors:
            m.fail("LIFE-10", "survives", "who declared to survive a disconnect goes on", request=request)
        elif not m.tracks[request].ended and request not in self.survivors:
            m.fail("LIFE-10", "ends", "whose client is gone has ended", request=request)


def _is_about_one(message: "Message") -> bool:
    if message.kind != "notify" or message.given.get("type") != DISCONNECTED:
        return False
    return isinstance(message.given.get("request"), str)
