"""LANE: service classes.  Until lanes come, what holds inside one."""

import heapq
from typing import TYPE_CHECKING

from ..queueing import PLACES, SHARES
from ..relation import WAITING, registry
from .base import TraceRule, has_stray, record

if TYPE_CHECKING:
    from ..monitor import Monitor
    from ..tracks import Track


NOBODY = 1 << 128


@registry.monitor("LANE-4", claims=("break",))
class FirstInFirstOut(TraceRule):
    """Within a lane and client, requests are admitted in the declared order: of arrival, or of what the claimed policy
    puts before it. A preempted request whose results are still under way may be passed.

    Why: whoever sees a later request of his own answered first takes the queue for broken; users of vLLM ask for the
    order after preemption in so many words (https://github.com/vllm-project/vllm/issues/41951).
    """

    def __init__(self) -> None:
        self.queues: dict[tuple[str, str], list[tuple[int, str]]] = {}

    def on_accept(self, m: "Monitor", track: "Track") -> None:
        if not m.capabilities.claims.isdisjoint((*PLACES, *SHARES)):
            queue = self.queues.setdefault(track.queue, [])
            heapq.heappush(queue, (record(m, track.id).place, track.id))

    on_wait = on_accept

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        """Nobody who still waits in that queue stands before the one who was admitted."""
        queue = self.queues.get(track.queue, [])
        while queue and not self._waits(m, queue[0][1]):
            heapq.heappop(queue)
        if not queue:
            self.queues.pop(track.queue, None)
            return
        m.count("LANE-4")
        place, first = self._first(m, queue)
        if place < record(m, track.id).place:
            says = "nobody who waits in the same lane and client stands before who is admitted"
            m.fail("LANE-4", "overtaken", says, admitted=track.id, overtaken=first)

    def _first(self, m: "Monitor", queue: list[tuple[int, str]]) -> tuple[int, str]:
        """Who waits and is ready stands first; the head of the queue nearly always is."""
        if not has_stray(m, m.tracks[queue[0][1]]):
            return queue[0]
        ready = (entry for entry in queue if self._waits(m, entry[1]) and not has_stray(m, m.tracks[entry[1]]))
        return min(ready, default=(NOBODY, ""))

    @staticmethod
    def _waits(m: "Monitor", request: str) -> bool:
        track = m.tracks.get(request)
        return track is not None and not track.ended and bool(record(m, request).phase == WAITING)
