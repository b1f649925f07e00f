"""FAIR: service of clients.  Counters are computed from messages (`spec/ledger.py`), not taken from the subject.

FAIR-1 to FAIR-6, FAIR-11, FAIR-13, FAIR-14 and FAIR-17 say how counters are kept and who is picked by them.  What that
is good for, FAIR-7 to FAIR-10, FAIR-15, FAIR-16 and FAIR-18, is judged by the trace alone, so any scheduler may promise
it: U is the trace's own certificate, and S what the claims add to it (the aging credit, the quantum).
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from attrs import Factory, define, frozen

from ..ledger import Cause, Usage
from ..relation import registry
from ..vocabulary import blocks_for
from .base import Elsewhere, TraceRule, cached_blocks, indexed_contents, record

if TYPE_CHECKING:
    from ..monitor import Monitor, StepView
    from ..service import Tariff
    from ..tracks import Track
    from ..vocabulary import Observation

monitor = registry.monitor


@monitor("FAIR-1", claims=("vtc", "break"), bugs=("B16",))
class TheLeastCounterIsNext(TraceRule):
    """The client picked has the least counter of all clients with waiting work; who is first among equals is free. A
    client that a declared cap holds, or of which a preempted request waits for results that are under way, may be
    passed.

    Why: a router reduced its counters by a modulo, so the heaviest users wrapped around and looked light
    (AIBrix, https://github.com/vllm-project/aibrix/pull/1011).
    """

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        """With aging it is FAIR-17; where who was passed did not fit, FAIR-11."""
        ledger, held_back = m.ledger, m.held_back(track)
        least = ledger.backlogged.least(held_back)
        if not ledger.waits(track) or least is None:
            return
        own, is_aged = ledger.counters[track.client], m.binds("FAIR-17")
        if own > least if is_aged else len(ledger.waiting) > 1:
            m.count("FAIR-17" if is_aged else "FAIR-1")
        credit = m.capabilities.constant("aging_credit") if is_aged else 0
        if own <= least + credit:
            if own > least and not _has_seen(m, track.client, m.settings.aging_picks):
                says = "who is preferred has seen aging_picks admissions while it waited"
                m.fail("FAIR-17", "young", says, picked=track.client, counter=own, least=least)
            return
        passed = next(c for c in ledger.since if ledger.counters[c] == least and c not in held_back)
        facts = {"picked": track.client, "counter": own, "passed": passed, "least": least}
        if m.binds("FAIR-11") and surely_blocked(m, ledger.first(passed), track):
            says = "nobody is admitted past a client with the least counter whose request does not fit"
            m.fail("FAIR-11", "skipped", says, **facts)
        elif is_aged:
            says = "the client picked is at most the aging credit above the least counter"
            m.fail("FAIR-17", "passed", says, **facts, credit=credit)
        else:
            says = "the client picked has the least counter of all clients with waiting work"
            m.fail("FAIR-1", "passed", says, **facts)


def _has_seen(m: "Monitor", client: str, picks: int) -> bool:
    return any(m.spells.seen(waiting) >= picks for waiting in m.ledger.waiting[client].values())


def surely_blocked(m: "Monitor", head: "Track", picked: "Track") -> bool:
    """Whether the blocks that `head` asks for were not there just before `picked` took its own."""
    size, kept = m.settings.block_size, m.settings.watermark_blocks if m.world.running else 0
    taken = m.view.acquired.get(picked.id, 0) if m.view is not None else 0
    available = m.available() + taken - kept
    cached = cached_blocks(head, indexed_contents(m), size) if m.settings.prefix_caching else 0
    return blocks_for(_asked_tokens(m, head, picked, cached * size), size) - cached > available


def _asked_tokens(m: "Monitor", head: "Track", picked: "Track", cached_tokens: int) -> int:
    """Positions that `head` needs blocks for, if it gets as many tokens as `picked` got."""
    s, known = m.settings, int(record(m, head.id).known)
    reserved = m.reserved_tokens(head)
    if reserved or not s.chunked_prefill:
        return max(reserved, known)
    assert m.view is not None
    plan = m.view.plan
    rows = zip(plan.request, plan.tokens, strict=True)
    first = sum(tokens for request, tokens in rows if request == picked.id)
    return min(known, cached_tokens + min(first, s.chunk_tokens or first))


@monitor("FAIR-2", needs="counters", claims=("vtc",), form="snapshot")
class ChargedOnce(Elsewhere):
    """A client is charged the declared price of each prompt token when its request is admitted (if that is declared, of
    each chunk when it is scheduled), and of each output token when it is delivered (those that were predicted, when it
    is admitted): each once, whether it came from a cache, and not again when a preemption has it computed again.

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


@monitor("FAIR-11", needs="tables", claims=("vtc", "break"))
class ABlockedHeadEndsTheRound(TraceRule):
    """Where the request of the client with the least counter does not fit, nobody else is admitted until it is.

    Why: Algorithm 2 stops there; whoever goes on to the next client serves those who ask for little for ever, and no
    constant bounds how far the others fall behind (Sheng et al., OSDI 2024, https://arxiv.org/abs/2401.00588).
    """

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        """Seats and budget were left, and nobody more was admitted.  What breaks it is seen with FAIR-1."""
        is_full = view.budget_left < 1 or len(m.world.running) >= m.settings.seats
        if len(m.ledger.since) > 1 and not is_full and not view.victims:
            m.count("FAIR-11")


@monitor("FAIR-12", claims=("committed_cap",))
class CommittedCostIsCapped(TraceRule):
    """At a pick, what a client's running requests may still be charged, with what this pick charges, is within the
    declared cap; a client of whom nothing runs may exceed it.

    Why: U is the largest such cost; without a cap it grows with the memory of the machine, and with it how far clients
    may be apart (Sheng et al., OSDI 2024, Theorem 4.4, https://arxiv.org/abs/2401.00588).
    """

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        running = m.ledger.running_of(track.client)
        if running.requests < 1:
            return
        m.count("FAIR-12")
        committed, cap = running.committed + m.ledger.cost(track), m.capabilities.constant("committed_cost")
        if committed > cap:
            says = "what running requests of a client may still be charged is within the cap at a pick"
            m.fail("FAIR-12", "cap", says, request=track.id, client=track.client, committed=committed, cap=cap)


@monitor("FAIR-13", needs="counters", claims=("vtc", "prediction"), form="snapshot")
class PredictionsAreCorrected(Elsewhere):
    """A request that was charged for more outputs than it got is refunded the rest when it ends; a refund never takes a
    counter below the virtual time, the largest least counter of waiting clients so far.

    Why: without the correction whoever is predicted too long pays for others, and a refund below all who wait is banked
    credit (VTC with length prediction: Sheng et al., OSDI 2024, https://arxiv.org/abs/2401.00588).
    """


@monitor("FAIR-14", needs="counters", claims=("vtc",), form="snapshot")
class OneUnitOfService(Elsewhere):
    """The unit of service is the declared one throughout: weighted tokens times the client's price, cached tokens
    included and recomputed ones not.

    Why: a client that is measured in requests sends longer ones, and one that pays again for what a preemption threw
    away pays for the scheduler. Published schedulers differ: VTC charges all tokens of a prompt, deficit longest prefix
    match those that are not cached (Cao et al., 2025, https://arxiv.org/abs/2501.14312); no bound holds for a mixture.
    """


_BLAMED: dict[Cause, str] = {
    "charge": "FAIR-2",
    "refund": "FAIR-13",
    "return": "FAIR-3",
    "empty": "FAIR-4",
    "requeue": "FAIR-5",
}


def other_units(tariff: "Tariff", client: str, usage: Usage) -> Iterator[int]:
    """By how much a counter is off if it was kept in another unit."""
    yield -tariff.prompt(client, usage.cached_tokens)
    yield tariff.prompt(client, usage.recomputed)
    yield tariff.prompt(client, usage.recomputed_prompt)
    price = tariff.price(client)
    for weight in (tariff.input, tariff.output):
        yield price * weight * (usage.prompt_tokens + usage.output_tokens) - usage.prompt_cost - usage.output_cost
    for weight in (1, tariff.request):
        yield price * weight * usage.requests - usage.cost
    yield usage.cost // price - usage.cost


def is_another_unit(tariff: "Tariff", client: str, usage: Usage, off: int) -> bool:
    """A charge that is missing, or there twice, is no other unit."""
    whole = (usage.prompt_cost, usage.output_cost, usage.cost)
    return abs(off) not in whole and off in other_units(tariff, client, usage)


@monitor("FAIR-6", needs="counters", claims=("vtc",), form="snapshot", bugs=("B16",))
class CountersChangeForAReason(TraceRule):
    """A counter changes by exactly its charges, lifts and refunds: nothing else changes it, and without a refund it
    never falls.

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
            causes, usage = m.ledger.causes.pop(client, set()), m.ledger.usage.pop(client, Usage())
            true, before = m.ledger.counters.get(client, 0), self.shown.get(client, 0)
            m.count("FAIR-6")
            for cause in causes:
                m.count(_BLAMED[cause])
            if "charge" in causes:
                m.count("FAIR-14")
            off = shown - true - self.off.get(client, 0)
            if off:
                is_unit = causes == {"charge"} and is_another_unit(m.ledger.tariff, client, usage, off)
                rule = "FAIR-14" if is_unit else _blamed(causes, fell=shown < before)
                says = "a counter changes by its charges and lifts alone"
                facts = {"client": client, "before": before, "shown": shown, "true": true}
                m.fail(rule if m.binds(rule) else "FAIR-6", "counter", says, **facts)
            self.off[client], self.shown[client] = shown - true, shown


def _blamed(causes: set[Cause], *, fell: bool) -> str:
    """The rule of what alone can have changed a counter.  Who is refunded has most often been charged just before."""
    if "refund" in causes and causes <= {"charge", "refund"}:
        return "FAIR-13"
    return _BLAMED[next(iter(causes))] if len(causes) == 1 and not fell else "FAIR-6"


# --- what it is good for -----------------------------------------------------------------------------------


@monitor("FAIR-7", claims=("fair_share",))
class CountersStayTogether(TraceRule):
    """Counters of clients with waiting work differ by at most U + S. U is the trace's own: the most that a client was
    charged, or could still be charged, at a pick.

    Why: it is what the other bounds follow from (Sheng et al., OSDI 2024, https://arxiv.org/abs/2401.00588, on the way
    to Theorem 4.4).
    """

    def __init__(self) -> None:
        self.oldest = 0
        self.got = 0
        self.told: dict[str, int] = {}

    def on_charge(self, m: "Monitor", track: "Track", amount: int) -> None:
        """Only the counter of who is charged has risen.  Quanta are no counters: who shares by them is not asked."""
        ledger = m.ledger
        oldest = next(iter(ledger.since.values()), 0)
        if oldest != self.oldest:
            self.oldest, self.got = oldest, 0
        self.got += amount
        if len(ledger.since) < 2 or self.got <= 4 * ledger.bound or m.claims("drr") or m.claims("dlpm"):
            return
        m.count("FAIR-7")
        since = ledger.since.get(track.client)
        if since is not None and since != self.told.get(track.client):
            self._check(m, track.client, since)

    def _check(self, m: "Monitor", client: str, since: int) -> None:
        ledger = m.ledger
        least = ledger.backlogged.least()
        assert least is not None
        spread = ledger.counters[client] - least
        if spread > ledger.bound:
            self.told[client] = since
            says = "counters of clients that wait differ by at most U + S"
            m.fail("FAIR-7", "spread", says, client=client, spread=spread, bound=ledger.bound)


@define
class Lead:
    """What another client `got` while this one waited, and the least that it was ahead (or the most behind)."""

    since: int
    got: int
    low: int

    def after(self, own: int, amount: int) -> int:
        """How far it has come ahead since it was least ahead; between two services of it that only sinks."""
        before = self.got - own
        if before < self.low:
            self.low = before
        self.got += amount
        return before + amount - self.low


@define
class Backlog:
    """A client that waits without a break: since when, its own service since then, and the leads of others."""

    since: int
    own: int = 0
    leads: dict[str, Lead] = Factory(dict)

    def serve(self, amount: int) -> None:
        if amount < 0:  # a refund: the others come ahead by it
            for lead in self.leads.values():
                lead.low = min(lead.low, lead.got - self.own)
        self.own += amount


@define
class Distance:
    """How far another client's service may come ahead of a waiting client's: `times` U + S."""

    rule: str
    times: int
    says: str
    both_wait: bool
    backlogs: dict[str, Backlog] = Factory(dict)

    def charge(self, m: "Monitor", served: str, amount: int) -> None:
        interval = m.ledger.since.get(served) if self.both_wait else 0
        unit = m.ledger.bound
        for client, since in m.ledger.since.items():
            backlog = self.backlogs.get(client)
            if backlog is None or backlog.since != since:
                backlog = self.backlogs[client] = Backlog(since)
            if client == served:
                backlog.serve(amount)
            elif interval is not None:
                lead = backlog.leads.get(served)
                if lead is None or lead.since != interval:
                    lead = backlog.leads[served] = Lead(interval, 0, -backlog.own)
                ahead = lead.after(backlog.own, amount)
                if lead.got > 4 * unit:
                    m.count(self.rule)
                if ahead > self.times * unit:
                    self._complain(m, client, served, ahead)

    def _complain(self, m: "Monitor", waits: str, served: str, ahead: int) -> None:
        bound = self.times * m.ledger.bound
        m.fail(self.rule, "behind", self.says, waits=waits, served=served, ahead=ahead, bound=bound)
        del self.backlogs[waits]


class Distances(TraceRule):
    """A rule that bounds distances.  `weighted`: with prices, without them, or (None) in either case."""

    limits: tuple[tuple[str, int, str, bool], ...] = ()
    weighted: bool | None = None

    def __init__(self) -> None:
        self.distances = [Distance(*limit) for limit in self.limits]

    def on_charge(self, m: "Monitor", track: "Track", amount: int) -> None:
        if self.weighted is None or self.weighted == bool(m.ledger.tariff.prices):
            for distance in self.distances:
                distance.charge(m, track.client, amount)


@monitor("FAIR-8", claims=("fair_share",))
class EqualServiceToThoseWhoWait(Distances):
    """Two clients that both wait all through an interval differ in service by at most 2(U + S), however long it is. U
    is the trace's own: the most that a client was charged, or could still be charged, at a pick.

    Why: under first come, first served a client that sends more gets more, without any bound (Sheng et al., OSDI 2024,
    Theorem 4.4, https://arxiv.org/abs/2401.00588).
    """

    limits = (("FAIR-8", 2, "two clients that wait differ in service by at most 2U", True),)
    weighted = False


@monitor("FAIR-9", claims=("fair_share",))
class NobodyRunsAway(Distances):
    """A client that waits all through an interval falls at most 3(U + S) behind any other client, whether that one
    waits or not. U is that of FAIR-8.

    Why: who comes back with credit, or sends one request at a time to a scheduler that serves newcomers first, gets
    everything (Sheng et al., OSDI 2024, Theorem 4.9, https://arxiv.org/abs/2401.00588; counters that keep FAIR-1 to
    FAIR-6 give 3U).
    """

    limits = (("FAIR-9", 3, "a client that waits falls at most 3U behind any other", False),)
    weighted = False


@monitor("FAIR-10", claims=("fair_share", "weighted"))
class ServiceByPrice(Distances):
    """With prices, two clients that both wait all through an interval differ in priced service by at most 2(U + S), and
    one that waits falls at most 3(U + S) behind any other. U is that of FAIR-8, in priced service.

    Why: who is to have twice the share gets twice the tokens, and no more (weighted VTC: Sheng et al., OSDI 2024,
    https://arxiv.org/abs/2401.00588).
    """

    limits = (
        ("FAIR-10", 2, "two clients that wait differ in priced service by at most 2U", True),
        ("FAIR-10", 3, "a client that waits falls at most 3U of priced service behind any other", False),
    )
    weighted = True


@monitor("FAIR-15", claims=("drr", "break"))
class TurnsGiveQuanta(Distances):
    """Under deficit round robin two clients that both wait all through an interval differ in service by at most
    2(U + Q). Q is the quantum; U is that of FAIR-8.

    Why: what a turn takes too much is missing in the next one; a deficit that is forgotten gives whoever sends the
    largest requests the most (Shreedhar and Varghese, SIGCOMM 1995, https://doi.org/10.1145/217391.217453).
    """

    limits = (("FAIR-15", 2, "two clients that wait differ in service by at most 2(U + Q)", True),)


@monitor("FAIR-16", claims=("dlpm", "break"))
class PrefixesWithinQuanta(Distances):
    """Under deficit longest prefix match two clients that both wait all through an interval differ in service, cached
    tokens included, by at most 2(U + Q). Q is the quantum; U is that of FAIR-8.

    Why: by longest prefix match alone a client that shares no prefix waits for ever (Cao et al., 2025,
    https://arxiv.org/abs/2501.14312).
    """

    limits = (("FAIR-16", 2, "two clients that wait differ in service by at most 2(U + Q)", True),)


@monitor("FAIR-17", claims=("vtc", "aged_sharing", "break"))
class AgingHasACredit(Elsewhere):
    """Who is preferred for its long wait is at most the declared credit above the least counter, and a request of it
    has seen aging_picks admissions since it began to wait.

    Why: aging without a limit is arrival order, and a client that sends more gets more; with a limit every bound holds
    with it added to U (Sheng et al., OSDI 2024, Theorem 4.4, https://arxiv.org/abs/2401.00588, with that slack at a
    pick).
    """


@frozen
class Newcomer:
    """A request of a client that had nothing here and owed nothing; what all clients had got then, and when it was."""

    request: str
    served: int
    tick: int


@monitor("FAIR-18", claims=("fair_share",))
class AFloodDoesNotDrown(TraceRule):
    """A request whose client had nothing waiting, nothing running and owed no service when it came is admitted before
    the others have got more than (n - 1) times 2(U + S) since. n is the number of clients that had requests here in the
    meantime; U is that of FAIR-7.

    Why: one client's flood is what fair sharing is for; under first come, first served whoever comes after it waits for
    all of it (Sheng et al., OSDI 2024, https://arxiv.org/abs/2401.00588, on the latency of a client that sends little).
    """

    def __init__(self) -> None:
        self.served = 0
        self.tick = 0
        self.here: dict[str, int] = {}
        self.gone: dict[str, int] = {}
        self.newcomers: dict[str, Newcomer] = {}

    def on_accept(self, m: "Monitor", track: "Track") -> None:
        client = track.client
        self.tick += 1
        self.gone.pop(client, None)
        is_new = track.waits and client not in self.here  # and not parked at the door
        if is_new and m.ledger.counters[client] <= m.ledger.virtual_time:
            self.newcomers[client] = Newcomer(track.id, self.served, self.tick)
        self.here[client] = self.here.get(client, 0) + 1

    def on_ended(self, m: "Monitor", track: "Track") -> None:
        client = track.client
        self.tick += 1
        self.here[client] -= 1
        if not self.here[client]:
            del self.here[client]
            self.gone[client] = self.tick
        self._forget(track)

    def on_charge(self, m: "Monitor", track: "Track", amount: int) -> None:
        """Of those who still wait, who came first has seen the most."""
        self.served += amount
        client = next(iter(self.newcomers), None)
        if client is not None and self._check(m, client, self.newcomers[client]):
            m.count("FAIR-18")
            del self.newcomers[client]

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        newcomer = self.newcomers.get(track.client)
        if newcomer is None:
            return
        if newcomer.request == track.id and self.served > newcomer.served:
            m.count("FAIR-18")
            self._check(m, track.client, newcomer)
        self.newcomers.pop(track.client, None)

    def _forget(self, track: "Track") -> None:
        newcomer = self.newcomers.get(track.client)
        if newcomer is not None and newcomer.request == track.id:
            del self.newcomers[track.client]

    def _check(self, m: "Monitor", client: str, newcomer: Newcomer) -> bool:
        got, each = self.served - newcomer.served, 2 * m.ledger.bound
        if got <= each * (len(self.here) - 1):
            return False
        bound = each * self._others(newcomer)
        if got > bound:
            says = "a newcomer is admitted before the others have got more than 2U each"
            m.fail("FAIR-18", "drowned", says, request=newcomer.request, client=client, got=got, bound=bound)
        return got > bound

    def _others(self, newcomer: Newcomer) -> int:
        """Other clients that are here, or were since it came; who left last stands last."""
        left = takewhile(lambda tick: tick > newcomer.tick, reversed(self.gone.values()))
        return len(self.here) - 1 + sum(1 for _ in left)
