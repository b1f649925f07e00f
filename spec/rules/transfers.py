"""XFER: KV between a prefill pool and a decode pool.

The terms are of the second relation (`transfers.py`); their cards stand with all others.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ..relation import BlockId, RequestId
from ..relation import registry as cards
from ..terms import Bool, Event, Int, Map, Set, card, forall, implies, ite, least
from ..transfers import (
    ARRIVED,
    DECODING,
    HELD,
    OUTSIDE,
    PULLED,
    Adopt,
    Arrive,
    Await,
    Begin,
    Close,
    Empty,
    Enter,
    Fill,
    Hold,
    LetGo,
    Lose,
    Offer,
    Pull,
    Quit,
    Release,
    Report,
    Run,
    Transfers,
    Write,
    Yield,
    registry,
)

also, invariant, transition = registry.also, registry.invariant, registry.transition
Body = Callable[..., Any]
CLAIM = ("two_pools",)


def rule(
    rule_id: str,
    *,
    on: type[Event],
    needs: Any = "decisions",
    claims: Sequence[str] = CLAIM,
    counts: Sequence[type[Event]] = (),
    bugs: Sequence[str] = (),
) -> Callable[[Body], Body]:
    def register(body: Body) -> Body:
        registry.rule(rule_id, on=on, needs=needs, claims=claims, counts=counts, bugs=bugs)(body)
        cards.adopt(registry.rules[rule_id])
        return body

    return register


def _moved(of: Map[RequestId, Set[BlockId]], r: RequestId, b: BlockId) -> Map[RequestId, Set[BlockId]]:
    return of.set(r, of[r].remove(b))


def _has_one_owner(of: Map[RequestId, Set[BlockId]]) -> Bool:
    def same(b: BlockId, r: RequestId, q: RequestId) -> Bool:
        return implies(of[r].has(b) & of[q].has(b), r == q)

    return forall(
        BlockId,
        lambda b: forall(RequestId, lambda r: forall(RequestId, lambda q: same(b, r, q))),
    )


# --- XFER-1 --------------------------------------------------------------------------------------------------


@rule("XFER-1", on=Begin, counts=(Pull, Enter))
def prefill_begins_from_nothing(s: Transfers, e: Begin, t: Transfers) -> tuple[Bool, ...]:
    """The live KV of a request is in exactly one pool, or in transfer between the two: it has one owner at a time.

    Why: DistServe frees a request's blocks at the prefill instance when the decode instance has them (Zhong et al.,
    OSDI 2024, section 4.3); a request that both pools own is continued twice, and its blocks are counted in both.
    """
    return (
        ~s.source.has(e.request) & ~s.target.has(e.request),
        t.prefilling == s.prefilling.add(e.request),
        t.goal == s.goal.set(e.request, e.known),
    )


@also("XFER-1", on=Yield)
def who_yields_has_nothing_there(s: Transfers, e: Yield, t: Transfers) -> Bool:
    return t.prefilling == s.prefilling.remove(e.request)


@also("XFER-1", on=Offer)
def what_is_offered_is_no_table_any_more(s: Transfers, e: Offer, t: Transfers) -> tuple[Bool, ...]:
    return (
        ~s.target.has(e.request),
        t.prefilling == s.prefilling.remove(e.request),
        t.source == s.source.add(e.request),
    )


@also("XFER-1", on=Pull)
def a_pull_opens_the_second_place(s: Transfers, e: Pull, t: Transfers) -> tuple[Bool, ...]:
    return (
        ~s.target.has(e.request),
        t.target == s.target.add(e.request),
        t.moving == s.moving.add(e.request),
    )


@also("XFER-1", on=Enter)
def who_decodes_left_the_first(s: Transfers, e: Enter, t: Transfers) -> Bool:
    return ~s.source.has(e.request)


@also("XFER-1", on=LetGo)
def who_lets_go_has_it_no_longer(s: Transfers, e: LetGo, t: Transfers) -> tuple[Bool, ...]:
    return (
        t.source == ite(e.in_decode, s.source, s.source.remove(e.request)),
        t.target == ite(e.in_decode, s.target.remove(e.request), s.target),
    )


@also("XFER-1", on=Quit)
def who_quits_has_no_table(s: Transfers, e: Quit, t: Transfers) -> tuple[Bool, ...]:
    """A table is given up at once; what is under an obligation is not, and is let go of later."""
    decodes = s.stage[e.request] == DECODING
    return (
        t.target == ite(decodes, s.target.remove(e.request), s.target),
        t.prefilling == s.prefilling.remove(e.request),
    )


@invariant("XFER-1")
def one_owner_at_a_time(s: Transfers) -> tuple[Bool, ...]:
    def between(r: RequestId) -> Bool:
        return s.moving.has(r) | s.due_at_source.has(r)

    return (
        forall(RequestId, lambda r: implies(s.source.has(r) & s.target.has(r), between(r))),
        forall(RequestId, lambda r: implies(s.prefilling.has(r), ~s.source.has(r) & ~s.target.has(r))),
        forall(RequestId, lambda r: implies(s.stage[r] == DECODING, ~s.source.has(r) & s.target.has(r))),
        forall(RequestId, lambda r: implies(s.stage[r] == ARRIVED, s.target.has(r) & ~s.due_at_target.has(r))),
    )


# --- XFER-2 --------------------------------------------------------------------------------------------------


@rule("XFER-2", on=Enter, bugs=("B04",))
def who_decodes_has_its_kv(s: Transfers, e: Enter, t: Transfers) -> tuple[Bool, ...]:
    """Decode starts only after the transfer has ended: the link has said that all is written.

    Why: what attention reads before it was written is the KV of whoever had the block last
    (vLLM, https://github.com/vllm-project/vllm/pull/32255).
    """
    return (s.stage[e.request] == ARRIVED, t.stage == s.stage.set(e.request, DECODING))


@also("XFER-2", on=Arrive)
def the_link_said_so(s: Transfers, e: Arrive, t: Transfers) -> tuple[Bool, ...]:
    return (
        e.told,
        t.stage == ite(e.is_wanted, s.stage.set(e.request, ARRIVED), s.stage),
        t.moving == s.moving.remove(e.request),
        t.writing == s.writing.remove(e.request),
    )


@also("XFER-2", on=Run)
def only_who_entered_decodes(s: Transfers, e: Run, t: Transfers) -> tuple[Bool, ...]:
    return (
        implies(e.in_decode, s.stage[e.request] == DECODING),
        t.decoded == ite(e.in_decode, s.decoded.set(e.request, s.decoded[e.request] + e.tokens), s.decoded),
    )


@invariant("XFER-2")
def nothing_moves_for_who_decodes(s: Transfers) -> tuple[Bool, ...]:
    return (
        forall(RequestId, lambda r: implies((s.stage[r] == DECODING) | (s.stage[r] == ARRIVED), ~s.moving.has(r))),
        forall(RequestId, lambda r: implies(s.writing.has(r), s.moving.has(r))),
        forall(RequestId, lambda r: s.decoded[r] >= 0),
    )


@transition("XFER-2")
def what_is_decoded_had_arrived(s: Transfers, t: Transfers) -> Bool:
    return forall(
        RequestId,
        lambda r: implies(s.decoded[r] < t.decoded[r], (s.stage[r] == DECODING) & ~s.moving.has(r) & ~s.writing.has(r)),
    )


# --- XFER-3 --------------------------------------------------------------------------------------------------


@rule("XFER-3", on=Offer, needs="tables", counts=(Offer, Fill))
def all_its_blocks_are_held(s: Transfers, e: Offer, t: Transfers) -> Bool:
    """KV that is not pulled yet is an obligation that counts against the prefill pool: its blocks are nobody else's. In
    the decode pool those who do not run yet hold at most landing_blocks, beyond the first of them.

    Why: prefill memory is the buffer between the pools, so whoever does not count it overruns it when decode is slow
    (DistServe, OSDI 2024, section 4.3, combat burstiness; its scheduler adds the blocks of unaccepted requests).
    """
    return card(s.lent_of[e.request]) == e.blocks


@also("XFER-3", on=Hold)
def a_held_block_is_lent(s: Transfers, e: Hold, t: Transfers) -> tuple[Bool, ...]:
    return (
        s.tabled.has(e.block),
        ~s.lent.has(e.block),
        t.tabled == s.tabled.remove(e.block),
        t.lent == s.lent.add(e.block),
        t.lent_of == s.lent_of.set(e.request, s.lent_of[e.request].add(e.block)),
    )


@also("XFER-3", on=Fill)
def what_is_lent_is_not_taken(s: Transfers, e: Fill, t: Transfers) -> tuple[Bool, ...]:
    return (~s.lent.has(e.block), t.tabled == s.tabled.add(e.block))


@also("XFER-3", on=Empty)
def what_is_given_back_is_in_no_table(s: Transfers, e: Empty, t: Transfers) -> Bool:
    return t.tabled == s.tabled.remove(e.block)


@invariant("XFER-3")
def the_lent_are_in_no_table(s: Transfers) -> tuple[Bool, ...]:
    return (
        forall(BlockId, lambda b: implies(s.lent.has(b), ~s.tabled.has(b))),
        forall(BlockId, lambda b: forall(RequestId, lambda r: implies(s.lent_of[r].has(b), s.lent.has(b)))),
        _has_one_owner(s.lent_of),
    )


# --- XFER-4 --------------------------------------------------------------------------------------------------


@rule("XFER-4", on=Pull, bugs=("B30",), counts=(Pull, LetGo))
def what_is_held_is_pulled_once(s: Transfers, e: Pull, t: Transfers) -> tuple[Bool, ...]:
    """A prefilled request is pulled at most once and released exactly once, whether it ended at its first token, was
    cancelled, or its transfer failed.

    Why: TensorRT-LLM ended a request in the response handler and again when its transfer was complete
    (https://github.com/NVIDIA/TensorRT-LLM/pull/12816); one that nobody releases is memory lost for ever.
    """
    return (
        s.stage[e.request] == HELD,
        t.stage == s.stage.set(e.request, PULLED),
        t.pulls == s.pulls.set(e.request, s.pulls[e.request] + 1),
    )


@also("XFER-4", on=Offer)
def an_offer_is_new(s: Transfers, e: Offer, t: Transfers) -> tuple[Bool, ...]:
    return (
        ~s.source.has(e.request),
        t.stage == s.stage.set(e.request, HELD),
        t.offers == s.offers.set(e.request, s.offers[e.request] + 1),
    )


@also("XFER-4", on=Release)
def only_the_owner_releases(s: Transfers, e: Release, t: Transfers) -> tuple[Bool, ...]:
    lent, awaited = s.lent_of[e.request].has(e.block), s.awaited_of[e.request].has(e.block)
    return (
        lent | awaited,
        t.lent == ite(lent, s.lent.remove(e.block), s.lent),
        t.awaited == ite(awaited, s.awaited.remove(e.block), s.awaited),
        t.lent_of == ite(lent, _moved(s.lent_of, e.request, e.block), s.lent_of),
        t.awaited_of == ite(awaited, _moved(s.awaited_of, e.request, e.block), s.awaited_of),
    )


@also("XFER-4", on=LetGo)
def all_is_released_once(s: Transfers, e: LetGo, t: Transfers) -> tuple[Bool, ...]:
    return (
        implies(~e.in_decode, s.source.has(e.request)),
        implies(~e.in_decode, s.due_at_source.has(e.request)),
        implies(~e.in_decode, s.lent_of[e.request].is_empty()),
        t.releases == ite(e.in_decode, s.releases, s.releases.set(e.request, s.releases[e.request] + 1)),
        t.due_at_source == ite(e.in_decode, s.due_at_source, s.due_at_source.remove(e.request)),
    )


@also("XFER-4", on=Arrive)
def what_arrived_is_due(s: Transfers, e: Arrive, t: Transfers) -> tuple[Bool, ...]:
    return (
        s.moving.has(e.request),
        t.due_at_source == s.due_at_source.add(e.request),
        t.due_at_target == ite(e.is_wanted, s.due_at_target, s.due_at_target.add(e.request)),
    )


@also("XFER-4", on=Quit)
def what_nobody_wants_is_due(s: Transfers, e: Quit, t: Transfers) -> tuple[Bool, ...]:
    """What the link may still write to, or read from, is due when it has ended."""
    stands, source = s.moving.has(e.request), s.source.has(e.request)
    arrived = s.stage[e.request] == ARRIVED
    return (
        t.stage == s.stage.set(e.request, OUTSIDE),
        t.due_at_source == ite(source & ~stands, s.due_at_source.add(e.request), s.due_at_source),
        t.due_at_target == ite(arrived, s.due_at_target.add(e.request), s.due_at_target),
    )


@also("XFER-4", on=Close)
def what_is_due_was_released(s: Transfers, e: Close, t: Transfers) -> Bool:
    return s.due_at_source.is_empty()


@invariant("XFER-4")
def offers_are_pulled_and_released(s: Transfers) -> tuple[Bool, ...]:
    def standing(r: RequestId) -> Int:
        return ite(s.source.has(r), s.releases[r] + 1, s.releases[r])

    return (
        forall(RequestId, lambda r: s.offers[r] == standing(r)),
        forall(RequestId, lambda r: s.pulls[r] <= s.offers[r]),
        forall(RequestId, lambda r: implies(s.stage[r] == HELD, s.source.has(r) & (s.pulls[r] < s.offers[r]))),
        forall(RequestId, lambda r: implies(s.due_at_source.has(r), s.source.has(r) & ~s.moving.has(r))),
        forall(RequestId, lambda r: implies(s.moving.has(r), s.source.has(r))),
        forall(RequestId, lambda r: implies(s.stage[r] == HELD, ~s.moving.has(r) & ~s.due_at_source.has(r))),
    )


# --- XFER-5 --------------------------------------------------------------------------------------------------


@rule("XFER-5", on=Close, bugs=("B48", "B61"), counts=(Lose,))
def no_transfer_is_overdue(s: Transfers, e: Close, t: Transfers) -> tuple[Bool, ...]:
    """A failed or silent transfer ends, by its declared time at the latest, and both sides release what they hold.

    Why: the decode side's deadline was never set and the error not reported, so the request waited for ever and its
    blocks were lost (https://github.com/vllm-project/vllm/issues/35943); when both sides abort, nobody sends the signal
    that would release the rest (https://github.com/vllm-project/vllm/pull/46289).
    """
    return (
        e.now_ns < least(s.deadline, s.moving, e.now_ns + 1),
        s.due_at_target.is_empty(),
        s.reported.is_empty(),
        t.closed_ns == e.now_ns,
    )


@also("XFER-5", on=Report)
def a_report_is_heard(s: Transfers, e: Report, t: Transfers) -> Bool:
    return t.reported == s.reported.add(e.request)


@also("XFER-5", on=Arrive)
def it_is_acted_upon(s: Transfers, e: Arrive, t: Transfers) -> Bool:
    return t.reported == s.reported.remove(e.request)


@also("XFER-5", on=Pull)
def a_pull_has_a_deadline(s: Transfers, e: Pull, t: Transfers) -> Bool:
    return t.deadline == s.deadline.set(e.request, e.now_ns + s.transfer_ns)


@also("XFER-5", on=Lose)
def what_is_lost_is_due(s: Transfers, e: Lose, t: Transfers) -> tuple[Bool, ...]:
    return (
        s.moving.has(e.request),
        t.moving == s.moving.remove(e.request),
        t.writing == s.writing.remove(e.request),
        t.reported == s.reported.remove(e.request),
        t.stage == s.stage.set(e.request, OUTSIDE),
        t.due_at_source == s.due_at_source.add(e.request),
        t.due_at_target == s.due_at_target.add(e.request),
    )


@also("XFER-5", on=LetGo)
def the_decode_pool_lets_go_of_all(s: Transfers, e: LetGo, t: Transfers) -> tuple[Bool, ...]:
    return (
        implies(e.in_decode, s.due_at_target.has(e.request)),
        implies(e.in_decode, s.awaited_of[e.request].is_empty()),
        t.due_at_target == ite(e.in_decode, s.due_at_target.remove(e.request), s.due_at_target),
    )


@invariant("XFER-5")
def what_moves_has_time_left(s: Transfers) -> tuple[Bool, ...]:
    return (
        forall(RequestId, lambda r: implies(s.moving.has(r), s.closed_ns < s.deadline[r])),
        forall(RequestId, lambda r: implies(s.due_at_target.has(r), s.target.has(r) & ~s.moving.has(r))),
        forall(RequestId, lambda r: implies(s.due_at_target.has(r), ~(s.stage[r] == DECODING))),
        forall(RequestId, lambda r: implies(s.moving.has(r), s.target.has(r))),
    )


# --- XFER-6 --------------------------------------------------------------------------------------------------


@rule("XFER-6", on=Run, claims=(*CLAIM, "strict_split"))
def each_pool_does_its_own(s: Transfers, e: Run, t: Transfers) -> tuple[Bool, ...]:
    """There is no decode in the prefill pool, and no prefill in the decode pool.

    Why: one prompt beside decodes makes all of them as slow as itself, which is what the split is for (DistServe,
    OSDI 2024, section 2.3).
    """
    return (
        implies(~e.in_decode, e.start + e.tokens <= s.goal[e.request]),
        implies(e.in_decode, (s.reach[e.request] >= 1) & (s.reach[e.request] + s.decoded[e.request] == e.start)),
        implies(e.in_decode, e.tokens == 1),
        t.prefilled == ite(e.in_decode, s.prefilled, s.prefilled.set(e.request, e.start + e.tokens)),
    )


@also("XFER-6", on=Offer)
def what_is_handed_over_was_prefilled(s: Transfers, e: Offer, t: Transfers) -> tuple[Bool, ...]:
    return (
        t.reach == s.reach.set(e.request, e.positions),
        t.decoded == s.decoded.set(e.request, 0),
    )


@transition("XFER-6")
def decodes_are_single(s: Transfers, t: Transfers) -> tuple[Bool, ...]:
    def moves_on(r: RequestId) -> Bool:
        return s.decoded[r] < t.decoded[r]

    return (
        forall(RequestId, lambda r: implies(moves_on(r), t.decoded[r] == s.decoded[r] + 1)),
        forall(RequestId, lambda r: implies(~(s.prefilled[r] == t.prefilled[r]), t.prefilled[r] <= s.goal[r])),
    )


# --- KV-9: what something else writes to ----------------------------------------------------------------------


@rule("KV-9", on=Release, needs="tables", bugs=("B04", "B61"), counts=(Await, Write))
def what_is_written_to_stays_aside(s: Transfers, e: Release, t: Transfers) -> Bool:
    """A block that something is being written into is neither free nor in another table; that ends within the declared
    time, the peer's silence included.

    Why: blocks that were freed when a request was aborted went to another one, and the transfer that was under way
    overwrote its KV (vLLM, https://github.com/vllm-project/vllm/pull/32255).
    """
    return implies(s.awaited_of[e.request].has(e.block), ~s.writing.has(e.request))


@also("KV-9", on=Await)
def it_is_set_aside_for_one(s: Transfers, e: Await, t: Transfers) -> tuple[Bool, ...]:
    return (
        ~s.awaited.has(e.block) & ~s.lent.has(e.block) & ~s.tabled.has(e.block),
        t.awaited == s.awaited.add(e.block),
        t.awaited_of == s.awaited_of.set(e.request, s.awaited_of[e.request].add(e.block)),
    )


@also("KV-9", on=Fill)
def what_is_awaited_is_not_taken(s: Transfers, e: Fill, t: Transfers) -> Bool:
    return ~s.awaited.has(e.block)


@also("KV-9", on=Pull)
def there_is_room_for_it(s: Transfers, e: Pull, t: Transfers) -> Bool:
    return e.blocks <= card(s.awaited_of[e.request])


@also("KV-9", on=Write)
def the_link_writes(s: Transfers, e: Write, t: Transfers) -> Bool:
    return t.writing == s.writing.add(e.request)


@also("KV-9", on=Adopt)
def only_what_arrived_is_adopted(s: Transfers, e: Adopt, t: Transfers) -> tuple[Bool, ...]:
    return (
        s.awaited_of[e.request].has(e.block),
        ~s.writing.has(e.request),
        t.awaited == s.awaited.remove(e.block),
        t.awaited_of == _moved(s.awaited_of, e.request, e.block),
        t.tabled == s.tabled.add(e.block),
    )


@also("KV-9", on=Lose)
def it_ends_for_a_reason(s: Transfers, e: Lose, t: Transfers) -> Bool:
    return implies(s.writing.has(e.request), e.told)


@invariant("KV-9")
def the_awaited_are_in_no_table(s: Transfers) -> tuple[Bool, ...]:
    return (
        forall(BlockId, lambda b: implies(s.awaited.has(b), ~s.tabled.has(b) & ~s.lent.has(b))),
        forall(BlockId, lambda b: forall(RequestId, lambda r: implies(s.awaited_of[r].has(b), s.awaited.has(b)))),
        _has_one_owner(s.awaited_of),
    )


@transition("KV-9")
def what_is_written_to_stays(s: Transfers, t: Transfers) -> Bool:
    def kept(b: BlockId, r: RequestId) -> Bool:
        return implies(s.writing.has(r) & t.writing.has(r) & s.awaited_of[r].has(b), t.awaited_of[r].has(b))

    return forall(BlockId, lambda b: forall(RequestId, lambda r: kept(b, r)))
