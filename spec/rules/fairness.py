"""FAIR: service of clients.  Counters are computed from messages (`spec/queueing.py`), not taken from the subject.

That counters of waiting clients differ by at most U is no rule of its own: it follows from FAIR-1 to FAIR-6.  What it
is good for, FAIR-8 and FAIR-9, is judged by the service alone, so any scheduler may promise it.
"""

from typing import TYPE_CHECKING

from attrs import Factory, define

from ..queueing import Cause, Ledger
from ..relation import registry
from .base import Elsewhere, TraceRule

if TYPE_CHECKING:
    from ..monitor import Monitor
    from ..tracks import Track
    from ..vocabulary import Observation

monitor = registry.monitor


@monitor("FAIR-1", claims=("vtc", "break"), bugs=("B16",))
class TheLeastCounterIsNext(TraceRule):
    """The client picked has the least counter of all clients with waiting work; who is first among equals is free. A
    client of which a preempted request waits for results that are under way may be passed.

    Why: a router reduced its counters by a modulo, so the heaviest users wrapped around and looked light
    (AIBrix, https://github.com/vllm-project/aibrix/pull/1011).
    """

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        ledger = m.ledger
        if not ledger.waits(track):
            return
        if len(ledger.waiting) > 1:
            m.count("FAIR-1")
        own, least = ledger.counters[track.client], ledger.least(m.held_back(track))
        if own > least:
            passed = next(client for client in ledger.waiting if ledger.counters[client] == least)
            says = "the client picked has the least counter of all clients with waiting work"
            m.fail("FAIR-1", "passed", says, picked=track.client, counter=own, passed=passed, least=least)


@monitor("FAIR-2", needs="counters", claims=("vtc",), form="snapshot")
class ChargedOnce(Elsewhere):
    """A client is charged 1 for each prompt token when its request is admitted, and 2 for each output token when it is
    delivered: each once, whether it came from a cache, and not again when a preemption has it computed again.

    Why: the counter is the service; the published artifact counts a step twice for all who run whenever one of them
    ends (Sheng et al., OSDI 2024, Algorithm 2; https://github.com/Ying1123/VTC-artifact, `manager.py`).
    """


@monitor("FAIR-3", needs="counters", claims=("vtc",), form="snapshot")
class NoBankedCredit(Elsewhere):
    """A client that comes back while others wait is lifted to the least counter among them, and never lowered: no
    credit for the time when it asked for nothing, and no debt forgiven.

    Why: with what it saved up it shuts out everybody else until that is used up; without the lift there is no bound
    (Sheng et al., OSDI 2024, Algorithm 2, https://arxiv.org/abs/2401.00588).
    """


@monitor("FAIR-4", needs="counters", claims=("vtc",), form="snapshot")
class NoCreditThroughAnEmptyQueue(Elsewhere):
    """A client that comes back when nobody waits is lifted to the counter of the client that left the queue last.

    Why: an empty queue does not mean an idle machine; the published artifact lifts only if somebody waits
    (https://github.com/Ying1123/VTC-artifact, `vtc_req_queue.py`).
    """


@monitor("FAIR-5", needs="counters", claims=("vtc",), form="snapshot")
class AVictimIsLifted(Elsewhere):
    """A preempted request comes back to the queue through the same lift as a new one.

    Why: its client may have been passed by all others while it ran; the bound of Sheng et al. (OSDI 2024, Theorem 4.4,
    https://arxiv.org/abs/2401.00588) holds with preemption only if that is not kept as credit.
    """


_BLAMED: dict[Cause, str] = {"charge": "FAIR-2", "return": "FAIR-3", "empty": "FAIR-4", "requeue": "FAIR-5"}


@monitor("FAIR-6", needs="counters", claims=("vtc",), form="snapshot", bugs=("B16",))
class CountersChangeForAReason(TraceRule):
    """A counter changes by exactly its charges and lifts: nothing else changes it, and it never falls.

    Why: a router reduced its counters by a modulo (AIBrix, https://github.com/vllm-project/aibrix/pull/1011); a counter
    that is refunded or wraps is credit.
    """

    def __init__(self) -> None:
        self.shown: dict[str, int] = {}
        self.off: dict[str, int] = {}

    def on_observe(self, m: "Monitor", observation: "Observation") -> None:
        """A counter that is off by more or less than before has changed wrongly since; if only one thing can have
        changed it, its rule is broken."""
        for client, shown in observation.client_counters.items():
            causes = m.ledger.causes.pop(client, set())
            true, before = m.ledger.counters.get(client, 0), self.shown.get(client, 0)
            m.count("FAIR-6")
            for cause in causes:
                m.count(_BLAMED[cause])
            if shown - true != self.off.get(client, 0):
                rule = _BLAMED[next(iter(causes))] if len(causes) == 1 and shown >= before else "FAIR-6"
                says = "a counter changes by its charges and lifts alone"
                m.fail(rule, "counter", says, client=client, before=before, shown=shown, true=true)
            self.off[client], self.shown[client] = shown - true, shown


@define
class Lead:
    """What another client `got` while this one waited, and the least that it was ahead (or the most behind)."""

    since: int
    got: int
    low: int

    def after(self, own: int, amount: int) -> int:
        """How far it has come ahead since it was least ahead; between two services of it that only sinks."""
        self.low = min(self.low, self.got - own)
        self.got += amount
        return self.got - own - self.low


@define
class Backlog:
    """A client that waits without a break: since when, its own service since then, and the leads of others."""

    since: int
    own: int = 0
    leads: dict[str, Lead] = Factory(dict)


class Distance(TraceRule):
    """Common part of FAIR-8 and FAIR-9: how far another client's service comes ahead of a waiting client's."""

    rule = ""
    bound = 0
    says = ""

    def __init__(self) -> None:
        self.backlogs: dict[str, Backlog] = {}

    def interval(self, ledger: Ledger, client: str) -> int | None:
        """Which interval of the other client counts now; None if none does."""
        raise NotImplementedError

    def on_charge(self, m: "Monitor", track: "Track", amount: int) -> None:
        interval = self.interval(m.ledger, track.client)
        for client, since in m.ledger.since.items():
            backlog = self.backlogs.get(client)
            if backlog is None or backlog.since != since:
                backlog = self.backlogs[client] = Backlog(since)
            if client == track.client:
                backlog.own += amount
            elif interval is not None:
                self._compare(m, client, backlog, track.client, interval, amount)

    def _compare(self, m: "Monitor", waits: str, backlog: Backlog, served: str, interval: int, amount: int) -> None:
        lead = backlog.leads.get(served)
        if lead is None or lead.since != interval:
            lead = backlog.leads[served] = Lead(interval, 0, -backlog.own)
        ahead, unit = lead.after(backlog.own, amount), m.ledger.certificate
        if lead.got > 4 * unit:
            m.count(self.rule)
        if ahead > self.bound * unit:
            m.fail(self.rule, "behind", self.says, waits=waits, served=served, ahead=ahead, bound=self.bound * unit)
            del self.backlogs[waits]


@monitor("FAIR-8", claims=("fair_share",))
class EqualServiceToThoseWhoWait(Distance):
    """Two clients that both wait all through an interval differ in service by at most 2U, however long it is. U is the
    trace's own: the most that a client was charged, or could still be charged, at a pick.

    Why: under first come, first served a client that sends more gets more, without any bound (Sheng et al., OSDI 2024,
    Theorem 4.4, https://arxiv.org/abs/2401.00588).
    """

    rule = "FAIR-8"
    bound = 2
    says = "two clients that wait differ in service by at most 2U"

    def interval(self, ledger: Ledger, client: str) -> int | None:
        return ledger.since.get(client)


@monitor("FAIR-9", claims=("fair_share",))
class NobodyRunsAway(Distance):
    """A client that waits all through an interval falls at most 3U behind any other client, whether that one waits or
    not. U is that of FAIR-8.

    Why: who comes back with credit, or sends one request at a time to a scheduler that serves newcomers first, gets
    everything (Sheng et al., OSDI 2024, Theorem 4.9, https://arxiv.org/abs/2401.00588; counters that keep FAIR-1 to
    FAIR-6 give 3U).
    """

    rule = "FAIR-9"
    bound = 3
    says = "a client that waits falls at most 3U behind any other"

    def interval(self, ledger: Ledger, client: str) -> int | None:
        return 0
