"""FAIR rules of policies without a bound: whose turn it is by service alone, and by turns."""

from typing import TYPE_CHECKING

from ..relation import registry
from .base import TraceRule

if TYPE_CHECKING:
    from ..monitor import Monitor
    from ..tracks import Track

monitor = registry.monitor


@monitor("FAIR-19", claims=("lcf", "break"))
class WhoGotLeastIsNext(TraceRule):
    """Under least counter first the client picked has got the least service of all clients with waiting work, however
    long it was away; what was charged for a prediction and not used is given back when its request ends. A client that
    a declared cap holds, or of which a preempted request waits for results that are under way, may be passed.

    Why: a comparison that is turned round serves whoever got most, and whoever got nothing waits for ever (the baseline
    LCF of Sheng et al., OSDI 2024, section 5.1, https://arxiv.org/abs/2401.00588).
    """

    def __init__(self) -> None:
        self.service: dict[str, int] = {}

    def on_charge(self, m: "Monitor", track: "Track", amount: int) -> None:
        """What the ledger takes back is bounded by its virtual time; here all of it comes back, when it ends."""
        if amount > 0:
            self._add(track, amount)

    def on_ended(self, m: "Monitor", track: "Track") -> None:
        if track.paid_outputs > track.outputs:
            unused = track.client, track.prompt_tokens, track.outputs, track.paid_outputs
            self._add(track, -m.ledger.tariff.outputs(*unused))

    def _add(self, track: "Track", amount: int) -> None:
        self.service[track.client] = self.service.get(track.client, 0) + amount

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        ledger = m.ledger
        if not ledger.waits(track):
            return
        others = ledger.since.keys() - m.held_back(track) - {track.client}
        if not others:
            return
        m.count("FAIR-19")
        passed = min(others, key=lambda client: self.service.get(client, 0))
        own, least = self.service.get(track.client, 0), self.service.get(passed, 0)
        credit = m.capabilities.constant("aging_credit") if m.claims("aged_sharing") else 0
        if own > least + credit:
            says = "the client picked has got the least service of all clients with waiting work"
            m.fail("FAIR-19", "passed", says, picked=track.client, got=own, passed=passed, least=least)


@monitor("FAIR-20", claims=("round_robin", "break"))
class NobodyTwiceInARound(TraceRule):
    """In round robin no client is picked twice while another one waits that is not picked. One that a declared cap
    holds, or of which a preempted request waits for results that are under way, may be passed.

    Why: a queue per client that is served until it is empty is no round, and one client's flood delays all others
    (Nagle, RFC 970, "On Packet Switches With Infinite Storage", https://www.rfc-editor.org/rfc/rfc970).
    """

    def __init__(self) -> None:
        self.turn: dict[str, int] = {}
        self.turns = 0

    def on_accept(self, m: "Monitor", track: "Track") -> None:
        """A client of whom nobody waited stands at the end of the round."""
        if track.waits and len(m.ledger.waiting[track.client]) == 1:
            self._next(track.client)

    on_wait = on_waits_again = on_accept

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        """Aging prefers somebody out of turn, by as many turns as it is worth."""
        if not m.ledger.waits(track):
            return
        others = m.ledger.since.keys() - m.held_back(track) - {track.client}
        if others and not m.settings.aging_picks:
            m.count("FAIR-20")
            passed = min(others, key=lambda client: self.turn[client])
            if self.turn[passed] < self.turn[track.client]:
                says = "no client is picked twice while another one waits that is not picked"
                m.fail("FAIR-20", "twice", says, picked=track.client, passed=passed)
        self._next(track.client)

    def _next(self, client: str) -> None:
        self.turns += 1
        self.turn[client] = self.turns
