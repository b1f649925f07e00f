"""Newest-first preemption: how many of the running list stay.

The loop lets the last one go until the needs of those who stay fit.  What they need grows with how many stay and what
the others release shrinks, so they are the longest prefix that fits, and the first misfit of a prefix sum ends it:
needs before + needs ≤ free + held by it and all behind is the same as sum(needs + held) ≤ free + all that is held. It
takes blocks that nobody shares."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from .arrays import TILE, WARPS, require_arrays, require_equal_lengths


@triton.jit
def victims_kernel(
    needs_ptr, held_ptr, count_ptr, free_ptr, stay_ptr, blocks_left_ptr, requester_ptr, tile: tl.constexpr
):
    count = tl.load(count_ptr)
    free = tl.load(free_ptr)
    all_held = tl.full((), 0, tl.int64)
    first = tl.full((), 0, tl.int64)
    while first < count:
        index = first + tl.arange(0, tile)
        all_held += tl.sum(tl.load(held_ptr + index, mask=index < count, other=0))
        first += tile
    stay = count
    requester = count
    needed = tl.full((), 0, tl.int64)
    kept = tl.full((), 0, tl.int64)
    first = tl.full((), 0, tl.int64)
    while (first < count) & (stay == count):
        index = first + tl.arange(0, tile)
        here = index < count
        needs = tl.load(needs_ptr + index, mask=here, other=0)
        held = tl.load(held_ptr + index, mask=here, other=0)
        upto = needed + kept + tl.cumsum(needs + held)
        stay = tl.min(tl.where(here & (upto > free + all_held), index, count))
        stays = here & (index < stay)
        needed += tl.sum(tl.where(stays, needs, 0))
        kept += tl.sum(tl.where(stays, held, 0))
        requester = tl.minimum(requester, tl.min(tl.where(stays & (needs > 0), index, count)))
        first += tile
    tl.store(stay_ptr, stay)
    tl.store(blocks_left_ptr, free + all_held - kept - needed)
    tl.store(requester_ptr, tl.where(requester < stay, requester, -1))


def victims(
    needs: Tensor, held: Tensor, count: Tensor, free: Tensor, *, tile: int = TILE
) -> tuple[Tensor, Tensor, Tensor]:
    """Of the running list, in order of admission:

        needs  [capacity]  blocks that each needs in this step
        held   [capacity]  blocks in its table
        count  [1]         how many entries count
        free   [1]         free blocks

    Returns, each [1]: how many stay, blocks that are left after their needs, and the first of them that needs a block
    (−1: none does).
    """
    require_arrays("victims", needs=needs, held=held, count=count, free=free)
    require_equal_lengths("victims", needs=needs, held=held)
    stay, left, requester = torch.empty_like(count), torch.empty_like(count), torch.empty_like(count)
    victims_kernel[(1,)](needs, held, count, free, stay, left, requester, tile, num_warps=WARPS)
    return stay, left, requester


def victims_plain(needs: Sequence[int], held: Sequence[int], *, free: int) -> tuple[int, int, int]:
    """The loop: how many stay, blocks left, the first who needs one."""
    stay = len(needs)
    while (left := free + sum(held[stay:]) - sum(needs[:stay])) < 0:
        stay -= 1
    requester = next((index for index in range(stay) if needs[index]), -1)
    return stay, left, requester
