"""PRE-9: host blocks, and what is kept in them of a request that was preempted by swap.

In the relation a swapped request waits like any other that was preempted; what is its own beside are its host blocks
and the positions that they keep.  It is admitted with these for cached.
"""

from ..relation import RUNNING, WAITING, Admit, End, EndCall, Engine, HostId, RequestId, Save, Swap, Unsave, registry
from ..terms import Bool, card, forall, iff, implies

rule, also, invariant, transition = registry.rule, registry.also, registry.invariant, registry.transition


@rule("PRE-9", on=Save, needs="tables", claims=("swap",), bugs=("B46",), counts=(Swap,))
def saves_move_host_blocks(s: Engine, e: Save, t: Engine) -> tuple[Bool, ...]:
    """Every host block is free or saves a block of one swapped request; who is swapped has nothing in flight and all
    that it has computed saved, and comes back with all of it and with room for its next position.

    Why: vLLM's test for a swap-in counted the blocks that were stored, not the one that the next token needs, and the
    step ran out of blocks (https://github.com/vllm-project/vllm/pull/8824).
    """
    r = e.request
    return (
        s.host_free.has(e.block),
        s.host_room[r] + s.block_size <= s.room[r],
        t.host_free == s.host_free.remove(e.block),
        t.host_used == s.host_used.add(e.block),
        t.saved == s.saved.set(r, s.saved[r].add(e.block)),
        t.saver == s.saver.set(e.block, r),
        t.host_room == s.host_room.set(r, s.host_room[r] + s.block_size),
        t.moving == s.moving.add(r),
    )


@also("PRE-9", on=Unsave)
def what_is_not_needed_is_free(s: Engine, e: Unsave, t: Engine) -> tuple[Bool, ...]:
    r = e.request
    return (
        s.saved[r].has(e.block),
        t.host_free == s.host_free.add(e.block),
        t.host_used == s.host_used.remove(e.block),
        t.saved == s.saved.set(r, s.saved[r].remove(e.block)),
        t.host_room == s.host_room.set(r, s.host_room[r] - s.block_size),
        t.moving == s.moving.add(r),
    )


@also("PRE-9", on=Swap, needs="decisions")
def nothing_is_in_flight(s: Engine, e: Swap, t: Engine) -> tuple[Bool, ...]:
    r = e.request
    return (s.issued[r] == s.computed[r], s.in_flight[r] == 0, s.computed[r] >= 1)


@also("PRE-9", on=Swap)
def all_that_is_computed_is_saved(s: Engine, e: Swap, t: Engine) -> tuple[Bool, ...]:
    r = e.request
    return (
        s.computed[r] <= s.host_room[r],
        t.kept == s.kept.set(r, s.computed[r]),
        t.moving == s.moving.remove(r),
    )


@also("PRE-9", on=Admit, needs="decisions")
def all_of_it_comes_back(s: Engine, e: Admit, t: Engine) -> Bool:
    return implies(s.kept[e.request] >= 1, e.cached == s.kept[e.request])


@also("PRE-9", on=Admit)
def its_next_position_has_room(s: Engine, e: Admit, t: Engine) -> tuple[Bool, ...]:
    r = e.request
    return (
        implies(s.kept[r] >= 1, s.kept[r] < s.room[r]),
        s.saved[r].is_empty(),
        t.kept == s.kept.set(r, 0),
        t.moving == s.moving.remove(r),
    )


@also("PRE-9", on=End)
def who_ends_saves_nothing(s: Engine, e: End, t: Engine) -> tuple[Bool, ...]:
    r = e.request
    return (s.saved[r].is_empty(), t.kept == s.kept.set(r, 0), t.moving == s.moving.remove(r))


@also("PRE-9", on=EndCall)
def nobody_is_half_swapped(s: Engine, e: EndCall, t: Engine) -> Bool:
    return s.moving.is_empty()


@invariant("PRE-9")
def host_blocks_are_conserved(s: Engine) -> tuple[Bool, ...]:
    return (
        card(s.host_free) + card(s.host_used) == s.host_pool,
        forall(HostId, lambda h: ~(s.host_free.has(h) & s.host_used.has(h))),
        forall(
            RequestId,
            lambda r: forall(HostId, lambda h: iff(s.saved[r].has(h), s.host_used.has(h) & (s.saver[h] == r))),
        ),
        forall(RequestId, lambda r: s.host_room[r] == s.block_size * card(s.saved[r])),
    )


@invariant("PRE-9")
def the_swapped_have_all_saved(s: Engine) -> tuple[Bool, ...]:
    return (
        forall(RequestId, lambda r: implies(~s.moving.has(r), s.kept[r] <= s.host_room[r])),
        forall(RequestId, lambda r: implies(~s.moving.has(r) & (s.kept[r] == 0), s.saved[r].is_empty())),
        forall(RequestId, lambda r: s.kept[r] >= 0),
    )


@invariant("PRE-9")
def what_is_saved_is_still_held(s: Engine) -> Bool:
    """Until the request gives its blocks back: before that everything is copied."""
    return forall(
        RequestId, lambda r: implies((s.phase[r] == RUNNING) & ~s.leaving.has(r), s.host_room[r] <= s.room[r])
    )


@transition("PRE-9")
def nothing_is_lost_on_the_way(s: Engine, t: Engine) -> tuple[Bool, ...]:
    def leaves(r: RequestId) -> Bool:
        is_still = (s.issued[r] == s.computed[r]) & (s.in_flight[r] == 0)
        return implies((s.kept[r] == 0) & (t.kept[r] >= 1), is_still & (t.kept[r] == s.computed[r]))

    def returns(r: RequestId) -> Bool:
        comes_back = (s.phase[r] == WAITING) & (t.phase[r] == RUNNING) & (s.kept[r] >= 1)
        return implies(comes_back, (t.issued[r] == s.kept[r]) & (t.issued[r] < t.room[r]))

    return (forall(RequestId, leaves), forall(RequestId, returns))
