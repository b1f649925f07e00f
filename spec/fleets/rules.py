"""FLEET: what engines and a router do together.  No engine can keep or break these alone, so they have a list of their
own: they are judged over the merged records of all engines, and of the router where it has one."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from attrs import Factory, define, frozen

from ..registry import Binding, Edge, Rule, card_of, place_of
from .router_log import RouterEvent

if TYPE_CHECKING:
    from .judge import Fleet, Stay

Judge = Callable[["Fleet"], Iterator["Broken"]]

RULES: dict[str, Rule] = {}
JUDGES: dict[str, Judge] = {}


@frozen(kw_only=True)
class Broken:
    """A rule of the fleet that does not hold: which part of it, when, at which engines, and for whom."""

    rule: str
    place: str
    says: str
    now_ns: int
    engines: tuple[str, ...] = ()
    request: str = ""
    facts: dict[str, Any] = Factory(dict)

    @property
    def conjunct(self) -> str:
        return f"{self.rule}.{self.place}"


def fleet_rule(rule_id: str, *, claims: Sequence[str] = (), bugs: Sequence[str] = ()) -> Callable[[Judge], Judge]:
    def register(judge: Judge) -> Judge:
        statement, why = card_of(rule_id, judge)
        RULES[rule_id] = Rule(
            id=rule_id,
            statement=statement,
            why=why,
            level="MUST",
            since="0.1",
            binding=Binding(claims=tuple(claims)),
            form="fleet",
            bugs=tuple(bugs),
            counts=(),
            checked_by=[place_of(judge)],
        )
        JUDGES[rule_id] = judge
        return judge

    return register


@fleet_rule("FLEET-1", bugs=("B28",))
def ends_exactly_once(fleet: "Fleet") -> Iterator[Broken]:
    """Every request that a fleet accepted ends exactly once: it finishes at one engine at most, no engine takes it in
    after that, and where all records have ended so has the request, as the router says. It is where the router sent it.

    Why: a post that is sent again after its connection broke has a second engine generate the same answer
    (https://github.com/radixark/miles/issues/1334), and where a refusal does not find its way back a client waits for
    ever (https://github.com/sgl-project/sglang/issues/33858); each engine alone is right.
    """
    for stays in fleet.stays.values():
        fleet.count("FLEET-1")
        finished = [stay for stay in stays if stay.how == "finished"]
        if len(finished) > 1:
            yield _about("FLEET-1", "twice", "a request finishes at one engine at most", finished)
        elif finished and (later := _later(stays, finished[0], fleet.skew_ns)):
            says = "no engine takes in a request that has finished"
            yield _about("FLEET-1", "after", says, [finished[0], later[0]])
        if fleet.is_whole and stays[-1].end_ns is None and not finished:
            yield _about("FLEET-1", "never", "where all records have ended so has every request", stays[-1:])
    if fleet.router is not None:
        yield from _as_the_router_says(fleet)


def _later(stays: "list[Stay]", finished: "Stay", skew_ns: int) -> "list[Stay]":
    assert finished.end_ns is not None
    return [stay for stay in stays if stay is not finished and stay.begin_ns >= finished.end_ns + skew_ns]


def _as_the_router_says(fleet: "Fleet") -> Iterator[Broken]:
    assert fleet.router is not None
    for request, events in fleet.routed.items():
        ends = [event for event in events if event.kind == "ended"]
        was_accepted = any(event.kind == "arrived" and event.detail == "accepted" for event in events)
        if was_accepted and request not in fleet.stays:
            fleet.count("FLEET-1")
        if len(ends) > 1:
            yield _routed("FLEET-1", "told_twice", "a client is told once how its request ended", ends)
        elif was_accepted and fleet.is_whole and fleet.router.has_end and not ends:
            yield _routed("FLEET-1", "lost", "where all records have ended so has every request", events[-1:])
        yield from _sent_to_nobody(fleet.router.engines, events)
        if fleet.is_whole:
            yield from _answer_differs(fleet, request, ends)
            yield from _came_by_itself(fleet, request, events)


def _sent_to_nobody(engines: Sequence[str], events: list[RouterEvent]) -> Iterator[Broken]:
    """Who is sent to an engine that was taken out of the fleet is heard of no more."""
    lost = [event for event in events if event.kind == "sent" and event.engine not in engines]
    if lost:
        yield _routed("FLEET-1", "nowhere", "requests are sent to engines that the router names", lost[:1])


def _came_by_itself(fleet: "Fleet", request: str, events: list[RouterEvent]) -> Iterator[Broken]:
    """A cancel goes where the router believes that it is."""
    sent = {event.engine for event in events if event.kind == "sent"}
    strays = [stay for stay in fleet.stays.get(request, ()) if stay.engine not in sent]
    if sent and strays:
        says = "an engine takes in what the router sent to it"
        yield _about("FLEET-1", "unsent", says, strays[:1], sent_to=sorted(sent))


def _answer_differs(fleet: "Fleet", request: str, ends: list[RouterEvent]) -> Iterator[Broken]:
    """Who was told that its request has finished was told so by an engine, and the other way round."""
    has_finished = any(stay.how == "finished" for stay in fleet.stays.get(request, ()))
    if len(ends) == 1 and (ends[0].detail == "finished") > has_finished:
        yield _routed("FLEET-1", "unheard", "what the router calls finished has finished at an engine", ends)


@fleet_rule("FLEET-2")
def one_key_one_generation(fleet: "Fleet") -> Iterator[Broken]:
    """An idempotency key of a client names one generation in the whole fleet: while a request with that key lives at an
    engine, or finished there less than that engine's retain_ns ago, no engine takes in another one.

    Why: keys are kept in memory by each engine; a client that comes again is routed to another one, and pays twice
    (https://docs.stripe.com/api/idempotent_requests).
    """
    for stays in fleet.by_key.values():
        holder: Stay | None = None
        for stay in stays:
            if holder is None or holder.request == stay.request:
                holder = stay if holder is None or _until_ns(stay) >= _until_ns(holder) else holder
                continue
            fleet.count("FLEET-2")
            if stay.begin_ns + fleet.skew_ns < _until_ns(holder):
                says = "while a request with a key lives, or is retained, no engine takes in another one"
                yield _about("FLEET-2", "second", says, [holder, stay], key=stay.key, first=holder.request)
            holder = max(holder, stay, key=_until_ns)


def _until_ns(stay: "Stay") -> int:
    """Until when its key is held."""
    if stay.end_ns is None:
        return 1 << 64
    return stay.end_ns + (stay.retain_ns if stay.how == "finished" else 0)


@fleet_rule("FLEET-3")
def one_owner(fleet: "Fleet") -> Iterator[Broken]:
    """At any moment at most one engine has a request: whoever pulls it from a queue, or is sent it, takes it in only
    after the engine that had it before has let go.

    Why: what timed out was not aborted at its worker, and the retry ran at another one beside it
    (https://github.com/THUDM/slime/pull/2340); a queue that delivers what is not acknowledged in time once more gives
    one long task to two workers (https://github.com/taskiq-python/taskiq-nats/issues/16).
    """
    for stays in fleet.stays.values():
        if len(stays) > 1:
            fleet.count("FLEET-3")
        latest = stays[0]
        for stay in stays[1:]:
            if latest.end_ns is None or stay.begin_ns + fleet.skew_ns < latest.end_ns:
                yield _about("FLEET-3", "two", "at most one engine has a request", [latest, stay])
                break
            latest = stay


@fleet_rule("FLEET-4", claims=("fleet_share",))
def service_over_engines(fleet: "Fleet") -> Iterator[Broken]:
    """Two clients that both wait all through an interval, each at some engine, differ in service over all n engines by
    at most n times 2(U + S), however long it is. U + S is the largest of the engines' own.

    Why: counters in each engine give that only to clients that wait at every engine; a client that is routed to a busy
    engine, for its prefix say, falls behind another without any bound. A deficit for each worker restores it, with a
    bound that grows with the workers (D2LPM: Cao et al., 2025, https://arxiv.org/abs/2501.14312).
    """
    for first, second in fleet.pairs():
        for window, ahead, lead in leads(fleet, first, second):
            fleet.count("FLEET-4", int(lead.total > 2 * fleet.bound))
            if ahead > fleet.bound:
                waits, served = (first, second) if lead.is_of_second else (second, first)
                facts = {
                    "ahead": ahead,
                    "bound": fleet.bound,
                    "since_ns": lead.since * fleet.window_ns,
                    "waits": waits,
                    "served": served,
                }
                says = "clients that wait differ in service over n engines by at most n times 2(U + S)"
                ends_ns = (window + 1) * fleet.window_ns
                engines = tuple(fleet.engines)
                yield Broken(rule="FLEET-4", place="behind", says=says, now_ns=ends_ns, engines=engines, facts=facts)
                break


def leads(fleet: "Fleet", first: str, second: str) -> "Iterator[tuple[int, int, Lead]]":
    """Each window in which both wait, how far one of them is ahead at its end, and the lead as it is then."""
    lead = Lead()
    for window in fleet.windows_in_which_both_wait(first, second):
        yield window, lead.after(window, fleet.service(first, window), fleet.service(second, window)), lead


@define
class Lead:
    """How far one of two is ahead since it was most behind, in windows without a gap."""

    last: int = -2
    since: int = 0
    total: int = 0
    got: int = 0
    low: int = 0
    high: int = 0
    is_of_second: bool = False

    def after(self, window: int, mine: int, others: int) -> int:
        if window != self.last + 1:
            self.since, self.total, self.got, self.low, self.high = window, 0, 0, 0, 0
        self.last = window
        self.got += mine - others
        self.total += mine + others
        self.low, self.high = min(self.low, self.got), max(self.high, self.got)
        first, second = self.got - self.low, self.high - self.got
        self.is_of_second = second > first
        return max(first, second)


EDGES = (
    Edge("FLEET-3", "FLEET-1", "who is at two engines may finish at both, and stay at one when all has ended"),
    Edge("FLEET-1", "FLEET-3", "an engine that never lets go of a request has it while another one does"),
)
"""Where the first breaks, the second may."""


def _about(rule: str, place: str, says: str, stays: "Sequence[Stay]", **facts: Any) -> Broken:
    last = stays[-1]
    facts = {"request": last.request, **facts, "engines": [stay.engine for stay in stays]}
    now_ns = last.begin_ns if len(stays) > 1 else last.end_ns or last.begin_ns
    engines = tuple(dict.fromkeys(stay.engine for stay in stays))
    return Broken(rule=rule, place=place, says=says, now_ns=now_ns, engines=engines, request=last.request, facts=facts)


def _routed(rule: str, place: str, says: str, events: Sequence[RouterEvent]) -> Broken:
    last = events[-1]
    facts = {"request": last.request, "router": [f"{event.kind} {event.detail or event.engine}" for event in events]}
    return Broken(rule=rule, place=place, says=says, now_ns=last.now_ns, request=last.request, facts=facts)
