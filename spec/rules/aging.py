"""Aging that is due: who waits long is preferred, and not only may be."""

from typing import TYPE_CHECKING

from ..caps import held_lanes
from ..relation import registry
from .base import TraceRule

if TYPE_CHECKING:
    from ..monitor import Monitor
    from ..tracks import Track

monitor = registry.monitor


@monitor("FAIR-21", claims=("vtc", "aged_sharing", "aging_due", "break"))
class AgingIsDue(TraceRule):
    """The client picked has the least counter of all clients with waiting work, where aging_credit is taken off that of
    each of which a request has seen aging_picks admissions since it began to wait; who is first among equals is free.
    A client that a declared cap holds, or of which a preempted request waits for results that are under way, may be
    passed.

    Why: an age that begins again when something else happens (another request of the same client comes, or the entry is
    made anew) is none for whoever needs it (vLLM's proposed aging dates the entry of the queue, and a victim has a new
    one, https://github.com/vllm-project/vllm/pull/20608).
    """

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        ledger = m.ledger
        if not ledger.waits(track):
            return
        credit = m.capabilities.constant("aging_credit")
        aged = {waiting.client for waiting in m.spells.aged(m.settings.aging_picks)}
        others = ledger.since.keys() - m.held_back(track) - {track.client}
        counters = {client: ledger.counters[client] - credit * (client in aged) for client in (*others, track.client)}
        m.count("FAIR-21", bool(others) and not aged.isdisjoint(counters))
        passed = min(others, key=counters.__getitem__, default=track.client)
        own, least = counters[track.client], counters[passed]
        if own > least:
            says = "the client picked has the least counter, less the credit of those who have waited long"
            m.fail(
                "FAIR-21", "due", says, picked=track.client, counter=own, passed=passed, least=least, aged=sorted(aged)
            )


@monitor("LANE-8", claims=("lanes", "aged_sharing", "aging_due", "break"))
class AgingOfLanesIsDue(TraceRule):
    """The lane of whoever is admitted has got the least service per share of all that wait, where aging_credit is taken
    off that of each of which a request has seen aging_picks admissions since it began to wait; which is first among
    equals is free. A lane that declared caps hold, or of which a preempted request waits for results that are under
    way, may be passed.

    Why: aging is what keeps the low classes from starving, and only if it comes to those who wait
    (https://github.com/llm-d/llm-d-router/issues/1995).
    """

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        if not m.keeps_lanes:
            return
        ledger, credit = m.lane_ledger, m.capabilities.constant("aging_credit")
        aged = {waiting.lane for waiting in m.spells.aged(m.settings.aging_picks)}
        others = ledger.waiting.keys() - held_lanes(m, track) - {track.lane}
        counters = {lane: ledger.counters[lane] - credit * (lane in aged) for lane in (*others, track.lane)}
        m.count("LANE-8", bool(others) and not aged.isdisjoint(counters))
        passed = min(others, key=counters.__getitem__, default=track.lane)
        own, least = counters[track.lane], counters[passed]
        if own > least:
            says = "the lane picked has the least counter, less the credit of those that have waited long"
            m.fail("LANE-8", "due", says, picked=track.lane, counter=own, passed=passed, least=least, aged=sorted(aged))
