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
    """Whose client is gone (an event disconnected) has ended when notify returns, at whatever stage it was, held at the
    door too, unless it declared to survive that or was converted to asynchronous: then it goes on.

    Why: a request whose client had gone was decoded to its full length, for nobody
    (https://github.com/sgl-project/sglang/pull/36552).
    """

    def __init__(self) -> None:
        self.survivors: set[str] = set()
        self.was_live = False

    def on_call(self, m: "Monitor", message: "Message") -> None:
        if message.kind == "submit" and message.given.survives_disconnect:
            self.survivors.add(message.given.id)
        self.was_live = _is_about_one(message) and _is_live(m, message.given["request"])

    def on_answered(self, m: "Monitor", message: "Message") -> None:
        if message.kind == "submit" and message.answer.how == "asynchronous":
            self.survivors.add(message.given.id)
        if not self.was_live:
            return
        m.count("LIFE-10")
        request = message.given["request"]
        has_ended = any(delta[0] == "cancelled" and delta[1] == request for delta in message.answer)
        if has_ended and request in self.survivors:
            m.fail("LIFE-10", "survives", "who declared to survive a disconnect goes on", request=request)
        elif _is_live(m, request) and request not in self.survivors:
            m.fail("LIFE-10", "ends", "whose client is gone has ended", request=request)


def _is_about_one(message: "Message") -> bool:
    if message.kind != "notify" or message.given.get("type") != DISCONNECTED:
        return False
    return isinstance(message.given.get("request"), str)


def _is_live(m: "Monitor", request: str) -> bool:
    """It waits or runs, or the door holds it."""
    track = m.tracks.get(request)
    return request in m.held or (track is not None and not track.ended)
