"""The token budget over the running list: who gets how many tokens, and how many blocks those need.

The loop gives each what it wants until nothing is left.  The scan is an exclusive prefix sum, and what is left after it
clamps each wish; blocks are counted after the clamp, or requests behind the budget would ask for memory.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from .arrays import MOST, TILE, WARPS, require_arrays, require_between, require_equal_lengths


@triton.jit
def budget_kernel(
    wanted_ptr,
    issued_ptr,
    held_ptr,
    count_ptr,
    tokens_ptr,
    needs_ptr,
    left_ptr,
    token_budget: tl.int64,
    block_size: tl.constexpr,
    tile: tl.constexpr,
):
    count = tl.load(count_ptr)
    given = tl.full((), 0, tl.int64)
    first = tl.full((), 0, tl.int64)
    while first < count:
        index = first + tl.arange(0, tile)
        here = index < count
        wanted = tl.load(wanted_ptr + index, mask=here, other=0)
        wanted = tl.minimum(tl.maximum(wanted, 0), token_budget)  # more changes nobody's share, and could overflow
        before = given + tl.cumsum(wanted) - wanted
        tokens = tl.minimum(wanted, tl.maximum(token_budget - before, 0))
        issued = tl.load(issued_ptr + index, mask=here, other=0)
        held = tl.load(held_ptr + index, mask=here, other=0)
        missing = issued + tokens - held * block_size
        needs = tl.where((tokens > 0) & (missing > 0), (missing + block_size - 1) // block_size, 0)
        tl.store(tokens_ptr + index, tokens, mask=here)
        tl.store(needs_ptr + index, needs, mask=here)
        given = tl.minimum(given + tl.sum(wanted), token_budget)
        first += tile
    tl.store(left_ptr, token_budget - given)


def budget(
    wanted: Tensor, issued: Tensor, held: Tensor, count: Tensor, *, token_budget: int, block_size: int, tile: int = TILE
) -> tuple[Tensor, Tensor, Tensor]:
    """Of the running list, in order of admission:

        wanted  [capacity]  tokens that each could run: known and not issued, at most a chunk; 0 if it is sure to end
        issued  [capacity]  positions scheduled so far
        held    [capacity]  blocks in its table
        count   [1]         how many entries count; on the device, so that a captured graph may change it

    Returns tokens [capacity] and needs [capacity] in blocks, whose first `count` entries are written, and what is left
    of the budget [1].
    """
    require_arrays("budget", wanted=wanted, issued=issued, held=held, count=count)
    require_equal_lengths("budget", wanted=wanted, issued=issued, held=held)
    require_between("budget", 0, MOST, token_budget=token_budget)
    require_between("budget", 1, MOST, block_size=block_size)
    tokens, needs, left = torch.empty_like(wanted), torch.empty_like(wanted), torch.empty_like(count)
    budget_kernel[(1,)](
        wanted, issued, held, count, tokens, needs, left, token_budget, block_size, tile, num_warps=WARPS
    )
    return tokens, needs, left


def budget_plain(
    wanted: Sequence[int], issued: Sequence[int], held: Sequence[int], *, token_budget: int, block_size: int
) -> tuple[list[int], list[int], int]:
    """The loop: tokens, needs, what is left."""
    left = token_budget
    tokens, needs = [], []
    for wish, start, blocks in zip(wanted, issued, held, strict=True):
        given = min(max(wish, 0), left)
        left -= given
        missing = start + given - blocks * block_size
        tokens.append(given)
        needs.append(-(-missing // block_size) if given and missing > 0 else 0)
    return tokens, needs, left
