"""LIVE-2: what falls, in a system that is left to itself."""

from schedspec.spec.relation import RUNNING, WAITING, Accept, End, RequestId
from schedspec.spec.terms import Bool, Int, card, forall, implies

from .watched import Watched, on, promise

# --- LIVE-2: a rank that falls ---------------------------------------------------------------------------------


@promise("LIVE-2")
def _a_stay_is_no_longer_than_what_is_known(s: Watched) -> Bool:
    """It has at most as many entries as there are tokens."""
    return forall(RequestId, lambda r: implies(s.running.has(r), s.entries[r] <= s.issued[r]))


@promise("LIVE-2", transition=True)
def _what_is_left_falls_with_each_entry(s: Watched, t: Watched) -> tuple[Bool, ...]:
    """What is left of a request that runs, prompt and declared output less what is issued, never grows, and falls with
    each entry."""

    def left(of: Watched, r: RequestId) -> Int:
        return of.prompt[r] + of.output_limit[r] - of.issued[r]

    def stays(r: RequestId) -> Bool:
        return (s.phase[r] == RUNNING) & (t.phase[r] == RUNNING)

    return (
        forall(RequestId, lambda r: implies(stays(r), left(t, r) <= left(s, r))),
        forall(RequestId, lambda r: implies(stays(r) & (s.entries[r] < t.entries[r]), left(t, r) < left(s, r))),
    )


@on("LIVE-2", on=Accept)
def _comes(s: Watched, e: Accept, t: Watched) -> tuple[Bool, ...]:
    return (t.alive == s.alive.add(e.request), t.arrivals == s.arrivals + 1)


@on("LIVE-2", on=End)
def _leaves(s: Watched, e: End, t: Watched) -> Bool:
    return t.alive == s.alive.remove(e.request)


@promise("LIVE-2")
def _the_living_wait_or_run(s: Watched) -> Bool:
    return forall(RequestId, lambda r: s.alive.has(r) == ((s.phase[r] == WAITING) | (s.phase[r] == RUNNING)))


@promise("LIVE-2", transition=True)
def _their_number_falls_with_each_end(s: Watched, t: Watched) -> tuple[Bool, ...]:
    """Once arrivals stop it is a rank: it never grows, and whoever ends takes one from it."""
    closed = s.arrivals == t.arrivals

    def ends(r: RequestId) -> Bool:
        return s.alive.has(r) & ~t.alive.has(r)

    return (
        (s.arrivals <= t.arrivals) & (t.arrivals <= s.arrivals + 1),
        implies(closed, card(t.alive) <= card(s.alive)),
        forall(RequestId, lambda r: implies(ends(r), card(t.alive) < card(s.alive))),
    )


@promise("LIVE-2", claims=("newest_first",), transition=True)
def _the_eldest_stays(s: Watched, t: Watched) -> Bool:
    """Where the newest is the victim, the eldest of several that run is none: it runs on until it ends.  What is left
    of it falls with each of its entries, so with the number of the living this is a rank that victims do not raise."""

    def is_elder(r: RequestId, q: RequestId) -> Bool:
        return s.running.has(r) & s.running.has(q) & (s.victim_key[r] < s.victim_key[q])

    return forall(RequestId, lambda r: forall(RequestId, lambda q: implies(is_elder(r, q), ~(t.phase[r] == WAITING))))
