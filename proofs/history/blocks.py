"""KV: where blocks lie in a table, how many a request holds, and what the index names, over a whole run."""

from schedspec.spec.relation import (
    Admit,
    BlockId,
    End,
    EndCall,
    Give,
    Grown,
    Index,
    Preempt,
    RequestId,
    Serve,
    Share,
    Take,
    Unindex,
)
from schedspec.spec.terms import Bool, Int, card, forall, implies

from .watched import Watched, counted, larger, on, promise

# --- KV-2 --------------------------------------------------------------------------------------------------------


@promise("KV-2")
def _each_block_has_its_place_in_the_table(s: Watched) -> tuple[Bool, ...]:
    def holds(r: RequestId, b: BlockId) -> Bool:
        return s.held[r].has(b) & ~s.leaving.has(r)

    def inside(b: BlockId, r: RequestId) -> Bool:
        return s.base[b] + s.block_size <= s.room[r]

    def apart(b: BlockId, c: BlockId) -> Bool:
        return (b == c) | (s.base[b] + s.block_size <= s.base[c]) | (s.base[c] + s.block_size <= s.base[b])

    return (
        forall(BlockId, lambda b: forall(RequestId, lambda r: implies(holds(r, b), inside(b, r)))),
        forall(
            RequestId,
            lambda r: forall(
                BlockId,
                lambda b: forall(BlockId, lambda c: implies(holds(r, b) & s.held[r].has(c), apart(b, c))),
            ),
        ),
    )


# --- KV-5, KV-6 --------------------------------------------------------------------------------------------------


@on("KV-5", on=Take)
def _takes(s: Watched, e: Take, t: Watched) -> Bool:
    return t.taken == s.taken.set(e.request, s.taken[e.request] + 1)


@on("KV-5", on=Share)
def _takes_a_share(s: Watched, e: Share, t: Watched) -> Bool:
    return t.taken == s.taken.set(e.request, s.taken[e.request] + 1)


@on("KV-5", on=Grown)
def _is_looked_at(s: Watched, e: Grown, t: Watched) -> Bool:
    return t.taken == s.taken.set(e.request, 0)


@on("KV-5", on=Serve)
def _goes_far(s: Watched, e: Serve, t: Watched) -> Bool:
    return t.furthest == s.furthest.set(e.request, larger(e.start + e.tokens, s.furthest[e.request]))


@on("KV-5", on=Admit)
def _reserves(s: Watched, e: Admit, t: Watched) -> Bool:
    return t.reserved == s.reserved.set(e.request, larger(e.reserve, s.reserved[e.request]))


@on("KV-5", on=Preempt)
def _releases(s: Watched, e: Preempt, t: Watched) -> tuple[Bool, ...]:
    return (t.furthest == s.furthest.set(e.request, 0), t.reserved == s.reserved.set(e.request, 0))


@on("KV-5", on=EndCall)
def _is_overlooked(s: Watched, e: EndCall, t: Watched) -> Bool:
    return t.overlooked == s.overlooked + card(s.grown)


@promise("KV-5")
def _growth_is_looked_at(s: Watched) -> tuple[Bool, ...]:
    def water(r: RequestId) -> Int:
        return larger(s.furthest[r], s.reserved[r])

    return (
        forall(RequestId, lambda r: (s.taken[r] >= 0) & (s.reserved[r] >= 0)),
        forall(RequestId, lambda r: s.grown.has(r) == (s.taken[r] >= 1)),
        forall(RequestId, lambda r: s.high[r] == water(r)),
        s.overlooked == 0,
    )


@promise("KV-5", transition=True)
def _growth_is_counted_one_by_one(s: Watched, t: Watched) -> tuple[Bool, ...]:
    def moves_with_what_is_issued(r: RequestId) -> Bool:
        return (t.furthest[r] == s.furthest[r]) | (t.furthest[r] == t.issued[r])

    def goes_on(r: RequestId) -> Bool:
        return s.running.has(r) & (s.issued[r] < t.issued[r])

    return (
        forall(RequestId, lambda r: t.taken[r] <= s.taken[r] + 1),
        forall(RequestId, moves_with_what_is_issued),
        forall(RequestId, lambda r: implies(goes_on(r), t.issued[r] <= t.furthest[r])),
    )


@on("KV-6", on=Give)
def _gives(s: Watched, e: Give, t: Watched) -> Bool:
    return t.given == s.given.set(e.request, s.given[e.request] + 1)


@on("KV-6", on=Preempt)
def _has_left(s: Watched, e: Preempt, t: Watched) -> Bool:
    return t.given == s.given.set(e.request, 0)


@on("KV-6", on=End)
def _has_ended(s: Watched, e: End, t: Watched) -> Bool:
    return t.given == s.given.set(e.request, 0)


@on("KV-6", on=EndCall)
def _stays(s: Watched, e: EndCall, t: Watched) -> Bool:
    return t.staying == s.staying + card(s.leaving)


@promise("KV-6")
def _who_gives_leaves(s: Watched) -> tuple[Bool, ...]:
    return (
        forall(RequestId, lambda r: s.given[r] >= 0),
        forall(RequestId, lambda r: s.leaving.has(r) == (s.given[r] >= 1)),
        s.staying == 0,
    )


@promise("KV-6", transition=True)
def _gifts_are_counted_one_by_one(s: Watched, t: Watched) -> Bool:
    return forall(RequestId, lambda r: t.given[r] <= s.given[r] + 1)


# --- KV-14 -------------------------------------------------------------------------------------------------------


@on("KV-14", on=Index)
def _names(s: Watched, e: Index, t: Watched) -> tuple[Bool, ...]:
    known = s.known[e.request] - s.in_flight[e.request]
    return (
        t.certain == s.certain.set(e.block, known),
        t.named == s.named.set(e.block, s.named[e.block] + 1),
        t.entries_named == counted(~s.indexed.has(e.block), s.entries_named),
    )


@on("KV-14", on=Unindex)
def _forgets(s: Watched, e: Unindex, t: Watched) -> tuple[Bool, ...]:
    return (t.named == s.named.set(e.block, 0), t.entries_named == s.entries_named - 1)


@promise("KV-14")
def _what_is_named_is_known(s: Watched) -> tuple[Bool, ...]:
    return (
        forall(BlockId, lambda b: implies(s.indexed.has(b), s.base[b] + s.block_size <= s.certain[b])),
        forall(BlockId, lambda b: s.named[b] >= 0),
        forall(BlockId, lambda b: s.indexed.has(b) == (s.named[b] >= 1)),
        s.entries_named == card(s.indexed),
    )


@promise("KV-14", transition=True)
def _names_are_counted_one_by_one(s: Watched, t: Watched) -> Bool:
    return forall(BlockId, lambda b: t.named[b] <= s.named[b] + 1)
