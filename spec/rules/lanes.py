"""LANE-4 and 5: order inside a lane, and what waiting long may change.  What a lane gets: `shares.py`."""

from typing import TYPE_CHECKING

from ..caps import held_lanes, is_passed_over, usable_adapters
from ..lines import Entry, stands
from ..queueing import CHANGING, PLACES, SHARES
from ..relation import registry
from .base import TraceRule, has_stray

if TYPE_CHECKING:
    from ..monitor import Monitor
    from ..tracks import Track


@registry.monitor("LANE-4", claims=("break",))
class FirstInFirstOut(TraceRule):
    """Within a lane and client, requests are admitted in the declared order: of arrival, or of what the claimed policy
    puts before it; in a lane of order `fifo`, whoever the client is. A request that is blocked on an adapter, a client
    that is held by a cap, and a preempted request whose results are still under way may be passed.

    Why: whoever sees a later request of his own answered first takes the queue for broken; users of vLLM ask for the
    order after preemption in so many words (https://github.com/vllm-project/vllm/issues/41951).
    """

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        """Nobody who still waits in that line stands before the one who was admitted, unless it was its turn."""
        if m.capabilities.claims.isdisjoint((*PLACES, *CHANGING, *SHARES)):
            return
        m.count("LANE-4")
        first = self._first(m, track)
        if first is not None and first[0] < track.place and not m.is_promoted(track):
            says = "nobody who waits in the same lane and client stands before who is admitted"
            m.fail("LANE-4", "overtaken", says, admitted=track.id, overtaken=first[2].id)

    def _first(self, m: "Monitor", admitted: "Track") -> Entry | None:
        if admitted.lane not in m.lines.in_order or not m.claims("lanes"):
            return self._first_of(m, admitted.queue)

        def first(client: str) -> Entry | None:
            if client != admitted.client and is_passed_over(m, admitted.lane, client):
                return None
            return self._first_of(m, (admitted.lane, client))

        return m.lines.first_of_lane(admitted.lane, first)

    def _first_of(self, m: "Monitor", queue: tuple[str, str]) -> Entry | None:
        """Who waits, may enter and is ready; the head of a line nearly always is."""
        usable = usable_adapters(m)
        entries = list(m.lines.first(queue, usable))
        if any(self._may_be_passed(m, entry[2]) for entry in entries):
            heaps = (heap for adapter, heap in m.lines.lines[queue].items() if usable is None or adapter in usable)
            entries = [e for heap in heaps for e in heap if stands(e) and not self._may_be_passed(m, e[2])]
        return min(entries, default=None)

    @staticmethod
    def _may_be_passed(m: "Monitor", track: "Track") -> bool:
        """Its results are under way, or it has just made place for somebody of a better class."""
        if not track.epoch:
            return False
        victims = m.view.victims if m.view is not None and m.settings.preempt_lower_class else ()
        return has_stray(m, track) or any(victim.track is track for victim in victims)


@registry.monitor("LANE-5", claims=("lanes", "aged_sharing", "break"))
class AgingKeepsTheLane(TraceRule):
    """Aging changes the order and not the lane: the lane of whoever is admitted is above the least of those that wait
    by at most aging_credit, in service per share.

    Why: without aging the low classes starve, and with an aging that has no bound the classes mean nothing any more
    (https://github.com/vllm-project/vllm/pull/20608, https://github.com/llm-d/llm-d-router/issues/1995).
    """

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        if not m.keeps_lanes:
            return
        ledger, credit = m.lane_ledger, m.capabilities.constant("aging_credit")
        if len(ledger.waiting) > 1:
            m.count("LANE-5")
        own, least = ledger.counters[track.lane], ledger.least(held_lanes(m, track))
        if least is not None and own > least + credit:
            says = "the lane that is picked is above the least by at most the credit of aging"
            m.fail("LANE-5", "credit", says, picked=track.lane, counter=own, least=least, credit=credit)
