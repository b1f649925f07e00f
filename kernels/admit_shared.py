"""Admission where groups share: rounds of `vtc_round` until one ends because somebody does not fit or nobody waits."""

import triton
import triton.language as tl

from .look import Look
from .state import HALF, Plain
from .vtc_round import FAR, SPENT, vtc_round_kernel, vtc_round_plain


@triton.jit
def admit_shared_kernel(
    counters_ptr,
    begin_ptr,
    waits_ptr,
    groups_ptr,
    charge_ptr,
    chunk_ptr,
    tested_ptr,
    reserved_ptr,
    running_ptr,
    stay_ptr,
    budget_ptr,
    blocks_ptr,
    line_ptr,
    numbers_ptr,
    picked_ptr,
    entering_ptr,
    tokens_ptr,
    needs_ptr,
    entered_ptr,
    why_ptr,
    round_ptr,
    virtual_time_ptr,
    last_left_ptr,
    seats: tl.constexpr,
    watermark: tl.constexpr,
    chunked: tl.constexpr,
    block_size: tl.constexpr,
    places: tl.constexpr,
    picks: tl.constexpr,
    pick_bits: tl.constexpr,
    client_bits: tl.constexpr,
    tile: tl.constexpr,
):
    """Arguments are those of a round; budget and blocks [1] become what is left.  `picked`, `entering`, `tokens`,
    `needs` [seats + picks]: where in line those who enter stood, their places, tokens and blocks; `round` [3] is
    scratch: who runs, who stays, and who entered in a round."""
    running = tl.load(running_ptr)
    stay = tl.load(stay_ptr)
    entered = tl.full((), 0, tl.int64)
    why = tl.full((), 5, tl.int64)
    while (why == 4) | (why == 5):
        tl.store(round_ptr, running + entered)
        tl.store(round_ptr + 1, stay + entered)
        tl.debug_barrier()  # rounds read what this one and the last wrote
        vtc_round_kernel(
            counters_ptr, begin_ptr, waits_ptr, groups_ptr, charge_ptr, chunk_ptr, tested_ptr, reserved_ptr,
            round_ptr, round_ptr + 1, budget_ptr, blocks_ptr, picked_ptr + entered, tokens_ptr + entered,
            needs_ptr + entered, round_ptr + 2, why_ptr, budget_ptr, blocks_ptr, virtual_time_ptr, last_left_ptr,
            seats, watermark, chunked, block_size, picks, pick_bits, client_bits, tile,
        )  # fmt: skip
        tl.debug_barrier()
        entered += tl.load(round_ptr + 2)
        why = tl.load(why_ptr)
        tl.debug_barrier()  # all have read how it ended
    tl.store(entered_ptr, entered)
    line = line_ptr + tl.load(numbers_ptr + HALF) * places
    first = tl.full((), 0, tl.int64)
    while first < entered:
        order = first + tl.arange(0, tile)
        here = order < entered
        picked = tl.load(picked_ptr + order, mask=here, other=0)
        tl.store(entering_ptr + order, tl.load(line + picked, mask=here, other=0), mask=here)
        first += tile


def admit_shared_plain(
    state: Plain,
    seen: Look,
    *,
    running: int,
    stay: int,
    seats: int,
    budget: int,
    blocks: int,
    watermark: int,
    chunked: bool,
    block_size: int,
    picks: int,
) -> list[tuple[int, int, int]]:
    """The loop: who enters, with how many tokens and blocks; changes counters, what waits, and the virtual time."""
    groups = [state.jobs[place].group for place in seen.waiting]
    begin = [groups.index(group) if group in groups else 0 for group in range(len(state.waits))]
    entered: list[tuple[int, int, int]] = []
    why = SPENT
    while why in (SPENT, FAR):
        done = vtc_round_plain(
            state.counters, begin, state.waits, seen.charge, seen.chunk, [0] * len(seen.chunk), seen.reserved,
            running=running + len(entered), stay=stay + len(entered), seats=seats, budget=budget, blocks=blocks,
            watermark=watermark, chunked=chunked, block_size=block_size, virtual_time=state.virtual_time,
            last_left=state.last_left, picks=picks,
        )  # fmt: skip
        why, budget, blocks = done.why, done.budget_left, done.blocks_left
        state.virtual_time, state.last_left = done.virtual_time, done.last_left
        entered += zip((seen.waiting[at] for at in done.picked), done.tokens, done.blocks, strict=True)
    return entered
