"""KV: memory.  Blocks are conserved, owned, covered, and given back."""

from ..relation import (
    FIRST_TERMINAL,
    RUNNING,
    WAITING,
    Admit,
    BlockId,
    CancelReturned,
    End,
    EndCall,
    EndStep,
    Engine,
    Give,
    Grown,
    Index,
    Preempt,
    RequestId,
    Serve,
    Share,
    Take,
    Unindex,
    registry,
)
from ..terms import Bool, Int, card, forall, iff, implies, ite

rule, also, invariant, transition = registry.rule, registry.also, registry.invariant, registry.transition


def _last(s: Engine, e: Give) -> Bool:
    return s.refs[e.block] == 1


# --- KV-1 ------------------------------------------------------------------------------------------------


@rule("KV-1", on=Take, needs="tables", bugs=("B03",))
def takes_move_blocks(s: Engine, e: Take, t: Engine) -> tuple[Bool, ...]:
    """Blocks in tables (each shared one once) + free + evictable + set aside = all blocks, after every event.

    Why: a block that is nowhere is lost for ever, one that is twice is corruption. SGLang-JAX released the last decode
    slot on two paths (https://github.com/sgl-project/sglang-jax/pull/994).
    """
    return (
        s.free.has(e.block) | s.evictable.has(e.block),
        t.free == s.free.remove(e.block),
        t.evictable == s.evictable.remove(e.block),
        t.in_use == s.in_use.add(e.block),
    )


@also("KV-1", on=Share)
def shares_move_blocks(s: Engine, e: Share, t: Engine) -> tuple[Bool, ...]:
    return (
        s.evictable.has(e.block) | s.in_use.has(e.block),
        t.evictable == s.evictable.remove(e.block),
        t.in_use == s.in_use.add(e.block),
    )


@also("KV-1", on=Give)
def gifts_move_blocks(s: Engine, e: Give, t: Engine) -> tuple[Bool, ...]:
    last, kept = _last(s, e), s.indexed.has(e.block)
    return (
        t.in_use == ite(last, s.in_use.remove(e.block), s.in_use),
        t.free == ite(last & ~kept, s.free.add(e.block), s.free),
        t.evictable == ite(last & kept, s.evictable.add(e.block), s.evictable),
    )


@also("KV-1", on=Unindex)
def forgotten_blocks_are_free(s: Engine, e: Unindex, t: Engine) -> tuple[Bool, ...]:
    unheld = s.evictable.has(e.block)
    return (
        t.free == ite(unheld, s.free.add(e.block), s.free),
        t.evictable == s.evictable.remove(e.block),
    )


@invariant("KV-1")
def blocks_are_conserved(s: Engine) -> Bool:
    return card(s.free) + card(s.evictable) + card(s.in_use) + card(s.aside) == s.pool_blocks


# --- KV-2 ------------------------------------------------------------------------------------------------


@rule("KV-2", on=Take, needs="tables", bugs=("B04",))
def a_fresh_block_is_nobody_elses(s: Engine, e: Take, t: Engine) -> tuple[Bool, ...]:
    """Two requests hold the same block only if their token prefixes agree up to the end of that block.

    Why: the second writer overwrites the first one's KV, silently (vLLM, https://github.com/vllm-project/vllm/pull/32255).
    """
    return (
        s.holders[e.block].is_empty(),
        t.holders == s.holders.set(e.block, s.holders[e.block].add(e.request)),
        t.held == s.held.set(e.request, s.held[e.request].add(e.block)),
        t.sealed == s.sealed.remove(e.block),
        t.base == s.base.set(e.block, s.room[e.request]),
    )


@also("KV-2", on=Share)
def a_shared_block_has_the_prefix(s: Engine, e: Share, t: Engine) -> tuple[Bool, ...]:
    return (
        s.sealed.has(e.block),
        s.base[e.block] == s.room[e.request],
        s.content[e.block] == s.prefix[e.request][s.room[e.request]],
        t.holders == s.holders.set(e.block, s.holders[e.block].add(e.request)),
        t.held == s.held.set(e.request, s.held[e.request].add(e.block)),
    )


@also("KV-2", on=Give)
def a_giver_holds_no_longer(s: Engine, e: Give, t: Engine) -> tuple[Bool, ...]:
    return (
        t.holders == s.holders.set(e.block, s.holders[e.block].remove(e.request)),
        t.held == s.held.set(e.request, s.held[e.request].remove(e.block)),
    )


@also("KV-2", on=Index)
def indexing_fixes_content(s: Engine, e: Index, t: Engine) -> tuple[Bool, ...]:
    prefix = s.prefix[e.request][s.base[e.block]]
    return (
        s.holders[e.block].has(e.request),
        implies(s.sealed.has(e.block), s.content[e.block] == prefix),
        t.sealed == s.sealed.add(e.block),
        t.content == s.content.set(e.block, prefix),
    )


@invariant("KV-2")
def holders_agree(s: Engine) -> tuple[Bool, ...]:
    return (
        forall(
            BlockId,
            lambda b: forall(
                RequestId,
                lambda r: implies(s.sealed.has(b) & s.holders[b].has(r), s.content[b] == s.prefix[r][s.base[b]]),
            ),
        ),
        forall(
            BlockId,
            lambda b: forall(
                RequestId,
                lambda r: forall(
                    RequestId,
                    lambda q: implies(~s.sealed.has(b) & s.holders[b].has(r) & s.holders[b].has(q), r == q),
                ),
            ),
        ),
    )


@invariant("KV-2")
def holding_is_mutual(s: Engine) -> Bool:
    return forall(BlockId, lambda b: forall(RequestId, lambda r: iff(s.holders[b].has(r), s.held[r].has(b))))


# --- KV-3 ------------------------------------------------------------------------------------------------


@rule("KV-3", on=Take, needs="tables", bugs=("B03",), counts=(Take, Share))
def a_taken_block_has_one_holder(s: Engine, e: Take, t: Engine) -> Bool:
    """A block's reference count is the number of its holders; an unheld block is exactly one of free,
    evictable, set aside.

    Why: a count that is off by one frees a block that somebody reads, or never frees it
    (https://github.com/sgl-project/sglang-jax/pull/994).
    """
    return t.refs == s.refs.set(e.block, 1)


@also("KV-3", on=Share)
def a_sharer_is_counted_once(s: Engine, e: Share, t: Engine) -> tuple[Bool, ...]:
    return (
        ~s.holders[e.block].has(e.request),
        t.refs == s.refs.set(e.block, s.refs[e.block] + 1),
    )


@also("KV-3", on=Give)
def a_giver_is_uncounted(s: Engine, e: Give, t: Engine) -> Bool:
    return t.refs == s.refs.set(e.block, s.refs[e.block] - 1)


@invariant("KV-3")
def counts_are_holders(s: Engine) -> tuple[Bool, ...]:
    return (
        forall(BlockId, lambda b: s.refs[b] == card(s.holders[b])),
        forall(BlockId, lambda b: iff(s.in_use.has(b), ~(s.refs[b] == 0))),
        forall(BlockId, lambda b: implies(s.free.has(b), ~s.evictable.has(b) & ~s.in_use.has(b) & ~s.aside.has(b))),
        forall(BlockId, lambda b: implies(s.evictable.has(b), ~s.in_use.has(b) & ~s.aside.has(b))),
        forall(BlockId, lambda b: implies(s.in_use.has(b), ~s.aside.has(b))),
        forall(BlockId, lambda b: s.free.has(b) | s.evictable.has(b) | s.in_use.has(b) | s.aside.has(b)),
    )


# --- KV-4, KV-5 ------------------------------------------------------------------------------------------


@rule("KV-4", on=Serve, needs="tables", bugs=("B39", "B58"))
def the_table_covers_the_range(s: Engine, e: Serve, t: Engine) -> Bool:
    """The block table covers every position that is issued, those of drafts included.

    Why: a range past the end of the table reads foreign blocks (nano-vLLM,
    https://github.com/GeeeekExplorer/nano-vllm/pull/207).
    """
    return e.start + e.tokens <= s.room[e.request]


@also("KV-4", on=Take)
def a_taken_block_makes_room(s: Engine, e: Take, t: Engine) -> Bool:
    return t.room == s.room.set(e.request, s.room[e.request] + s.block_size)


@also("KV-4", on=Share)
def a_shared_block_makes_room(s: Engine, e: Share, t: Engine) -> Bool:
    return t.room == s.room.set(e.request, s.room[e.request] + s.block_size)


@also("KV-4", on=Give)
def a_given_block_takes_room(s: Engine, e: Give, t: Engine) -> tuple[Bool, ...]:
    return (
        t.room == s.room.set(e.request, s.room[e.request] - s.block_size),
        t.leaving == s.leaving.add(e.request),
    )


@also("KV-4", on=Admit)
def a_cached_prefix_is_covered(s: Engine, e: Admit, t: Engine) -> Bool:
    return e.cached <= s.room[e.request]


@invariant("KV-4")
def issued_positions_are_covered(s: Engine) -> Bool:
    return forall(
        RequestId,
        lambda r: implies((s.phase[r] == RUNNING) & ~s.leaving.has(r), s.issued[r] <= s.room[r]),
    )


@invariant("KV-4")
def room_is_what_is_held(s: Engine) -> Bool:
    return forall(RequestId, lambda r: s.room[r] == s.block_size * card(s.held[r]))


@rule("KV-5", on=Grown, needs="tables")
def growth_stays_below_high_water(s: Engine, e: Grown, t: Engine) -> tuple[Bool, ...]:
    """A request holds no more blocks than the high water, since it last released, of its issued positions, its
    declared reservation and lookahead.

    Why: blocks taken ahead of need are capacity that nobody can use; allocators that reserve the whole context hold
    20-38 % useful KV (PagedAttention, SOSP 2023, section 3.1).
    """
    return (
        s.room[e.request] < s.high[e.request] + s.block_size + s.lookahead,
        t.grown == s.grown.remove(e.request),
    )


@also("KV-5", on=EndCall)
def all_who_grew_were_looked_at(s: Engine, e: EndCall, t: Engine) -> Bool:
    return s.grown.is_empty()


@also("KV-5", on=Take)
def a_taker_has_grown(s: Engine, e: Take, t: Engine) -> Bool:
    return t.grown == s.grown.add(e.request)


@also("KV-5", on=Share)
def a_sharer_has_grown(s: Engine, e: Share, t: Engine) -> Bool:
    return t.grown == s.grown.add(e.request)


@also("KV-5", on=Serve)
def serving_raises_the_water(s: Engine, e: Serve, t: Engine) -> Bool:
    end = e.start + e.tokens
    return t.high == s.high.set(e.request, ite(s.high[e.request] < end, end, s.high[e.request]))


@also("KV-5", on=Admit)
def an_admission_reserves(s: Engine, e: Admit, t: Engine) -> Bool:
    return t.high == s.high.set(e.request, ite(s.high[e.request] < e.reserve, e.reserve, s.high[e.request]))


@also("KV-5", on=Preempt)
def a_release_resets_the_water(s: Engine, e: Preempt, t: Engine) -> tuple[Bool, ...]:
    return (s.room[e.request] == 0, t.high == s.high.set(e.request, 0))


@invariant("KV-5")
def nobody_hoards(s: Engine) -> tuple[Bool, ...]:
    return (
        forall(
            RequestId,
            lambda r: implies(~s.grown.has(r), (s.room[r] < s.high[r] + s.block_size + s.lookahead) | (s.room[r] == 0)),
        ),
    )


# --- KV-6, KV-7, KV-8 ------------------------------------------------------------------------------------


@rule("KV-6", on=EndCall, needs="tables", counts=(Give,))
def who_gives_blocks_leaves(s: Engine, e: EndCall, t: Engine) -> Bool:
    """While a request is resident its table changes only at the end, and as its deltas say.

    Why: a table that changes behind the worker's back is read at the wrong place
    (https://github.com/RBLN-SW/vllm-rbln/pull/662). Snapshots are compared with what the deltas built.
    """
    return s.leaving.is_empty()


@also("KV-6", on=Preempt)
def a_victim_has_left(s: Engine, e: Preempt, t: Engine) -> Bool:
    return t.leaving == s.leaving.remove(e.request)


@also("KV-6", on=End)
def who_ended_has_left(s: Engine, e: End, t: Engine) -> Bool:
    return t.leaving == s.leaving.remove(e.request)


@rule("KV-7", on=End, needs="tables", bugs=("B01", "B32"))
def who_ends_holds_nothing(s: Engine, e: End, t: Engine) -> Bool:
    """A request that ended, was refused, or was preempted for recompute holds no block, whatever state it
    was in.

    Why: capacity shrinks with each cancelled request (SGLang, https://github.com/sgl-project/sglang/pull/8587).
    """
    return s.held[e.request].is_empty()


@also("KV-7", on=Preempt)
def a_victim_holds_nothing(s: Engine, e: Preempt, t: Engine) -> Bool:
    return s.held[e.request].is_empty()


@also("KV-7", on=Take)
def the_dead_take_nothing(s: Engine, e: Take, t: Engine) -> Bool:
    return (s.phase[e.request] == WAITING) | (s.phase[e.request] == RUNNING)


@also("KV-7", on=Share)
def the_dead_share_nothing(s: Engine, e: Share, t: Engine) -> Bool:
    return (s.phase[e.request] == WAITING) | (s.phase[e.request] == RUNNING)


@invariant("KV-7")
def the_dead_hold_nothing(s: Engine) -> tuple[Bool, ...]:
    return (
        forall(RequestId, lambda r: implies(s.phase[r] >= FIRST_TERMINAL, s.held[r].is_empty())),
        forall(RequestId, lambda r: implies(s.phase[r] == 0, s.held[r].is_empty())),
    )


@rule("KV-8", on=Give, needs="tables", bugs=("B03",))
def only_a_holder_gives(s: Engine, e: Give, t: Engine) -> tuple[Bool, ...]:
    """A block is released at most once per allocation.

    Why: the second release puts a block on the free list that somebody else owns by then
    (https://github.com/sgl-project/sglang-jax/pull/994).
    """
    return (
        s.holders[e.block].has(e.request),
        t.returned == s.returned.set(e.block, s.returned[e.block] + 1),
    )


@also("KV-8", on=Take)
def a_take_is_a_grant(s: Engine, e: Take, t: Engine) -> Bool:
    return t.granted == s.granted.set(e.block, s.granted[e.block] + 1)


@also("KV-8", on=Share)
def a_share_is_a_grant(s: Engine, e: Share, t: Engine) -> Bool:
    return t.granted == s.granted.set(e.block, s.granted[e.block] + 1)


@invariant("KV-8")
def returns_match_grants(s: Engine) -> tuple[Bool, ...]:
    return (
        forall(BlockId, lambda b: s.granted[b] - s.returned[b] == s.refs[b]),
        forall(BlockId, lambda b: s.returned[b] <= s.granted[b]),
    )


# --- KV-10, KV-11 ----------------------------------------------------------------------------------------


@rule("KV-10", on=EndStep, bugs=("B05",), counts=(Admit,))
def the_admitted_run(s: Engine, e: EndStep, t: Engine) -> Bool:
    """Test and charge use one formula: who is admitted runs in the same step and is not preempted in it.

    Why: SGLang's test counted tokens, its charge pages: a request passed and then failed to allocate
    (https://github.com/sgl-project/sglang/pull/22495).
    """
    return s.unserved.is_empty()


@also("KV-10", on=Admit)
def an_admission_awaits_service(s: Engine, e: Admit, t: Engine) -> tuple[Bool, ...]:
    return (
        t.unserved == s.unserved.add(e.request),
        t.admitted_in == s.admitted_in.set(e.request, s.step),
    )


@also("KV-10", on=Serve)
def service_settles_it(s: Engine, e: Serve, t: Engine) -> Bool:
    return t.unserved == s.unserved.remove(e.request)


@also("KV-10", on=Preempt)
def no_victim_was_just_admitted(s: Engine, e: Preempt, t: Engine) -> Bool:
    return ~(s.admitted_in[e.request] == s.step)


@transition("KV-10")
def admission_is_kept(s: Engine, t: Engine) -> tuple[Bool, ...]:
    def awaits(r: RequestId) -> Bool:
        admitted = (s.phase[r] == WAITING) & (t.phase[r] == RUNNING)
        return implies(admitted, t.unserved.has(r) & (t.admitted_in[r] == t.step))

    def served(r: RequestId) -> Bool:
        return implies(s.unserved.has(r) & ~t.unserved.has(r), s.issued[r] < t.issued[r])

    def preempted(r: RequestId) -> Bool:
        return implies((s.phase[r] == RUNNING) & (t.phase[r] == WAITING), ~(s.admitted_in[r] == s.step))

    return (forall(RequestId, awaits), forall(RequestId, served), forall(RequestId, preempted))


@rule("KV-11", on=Admit, needs="tables", claims=("watermark",))
def an_admission_leaves_the_watermark(s: Engine, e: Admit, t: Engine) -> Bool:
    """An admission leaves the watermark untouched while anything runs; growth of running requests may use it.

    Why: without the reserve the next decode of somebody running preempts (vLLM's block manager, `can_allocate`).
    """
    return implies(~s.running.is_empty(), s.watermark <= card(s.free) + card(s.evictable))


# --- KV-14 (its part about accounts; the content is judged by the shadow), KV-16 ---------------------------


@rule("KV-14", on=Index, needs="tables", claims=("prefix_cache",), bugs=("B41",))
def an_indexed_block_is_known(s: Engine, e: Index, t: Engine) -> tuple[Bool, ...]:
    """An index entry names a block whose content is, or by an issued write will be, that prefix; rewriting the
    block removes the entry first.

    Why: vLLM's evictor handed out a block that the index still named: a false hit
    (https://github.com/vllm-project/vllm/pull/4764).
    """
    known: Int = s.known[e.request] - s.in_flight[e.request]
    return (
        s.base[e.block] + s.block_size <= known,
        t.indexed == s.indexed.add(e.block),
    )


@also("KV-14", on=Unindex)
def only_entries_are_removed(s: Engine, e: Unindex, t: Engine) -> tuple[Bool, ...]:
    return (s.indexed.has(e.block), t.indexed == s.indexed.remove(e.block))


@also("KV-14", on=Take)
def a_rewritten_block_left_the_index(s: Engine, e: Take, t: Engine) -> Bool:
    return ~s.indexed.has(e.block)


@invariant("KV-14")
def entries_are_kept(s: Engine) -> tuple[Bool, ...]:
    return (
        forall(BlockId, lambda b: implies(s.indexed.has(b), s.sealed.has(b))),
        forall(BlockId, lambda b: implies(s.evictable.has(b), s.indexed.has(b))),
        forall(BlockId, lambda b: implies(s.free.has(b), ~s.indexed.has(b))),
    )


@rule("KV-16", on=Grown, needs="tables")
def who_took_blocks_runs(s: Engine, e: Grown, t: Engine) -> Bool:
    """A failed allocation leaves no trace: who is not resident after a call holds nothing that it acquired in it.

    Why: a half-made allocation is a leak that no release path knows
    (https://github.com/sgl-project/sglang/pull/8587).
    """
    return (s.phase[e.request] == RUNNING) | s.held[e.request].is_empty()


@invariant("KV-16")
def the_waiting_hold_nothing(s: Engine) -> Bool:
    return forall(RequestId, lambda r: implies((s.phase[r] == WAITING) & ~s.grown.has(r), s.held[r].is_empty()))


@also("KV-7", on=CancelReturned)
def the_cancelled_hold_nothing(s: Engine, e: CancelReturned, t: Engine) -> Bool:
    return s.held[e.request].is_empty()
