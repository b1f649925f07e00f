"""Admission from the head of one queue until somebody does not fit: the first misfit of prefix sums over seats,
tokens and blocks.  It reads as many tiles as somebody enters from, not what waits."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from .arrays import MOST, TILE, WARPS, require_arrays, require_between, require_equal_lengths
from .room import Entering, enter_plain, look


@triton.jit
def admit_fcfs_kernel(
    chunk_ptr,
    tested_ptr,
    reserved_ptr,
    waiting_ptr,
    running_ptr,
    stay_ptr,
    budget_ptr,
    blocks_ptr,
    tokens_ptr,
    charge_ptr,
    entered_ptr,
    why_ptr,
    budget_left_ptr,
    blocks_left_ptr,
    seats: tl.int64,
    watermark: tl.int64,
    chunked: tl.constexpr,
    block_size: tl.constexpr,
    tile: tl.constexpr,
):
    running = tl.load(running_ptr)
    waiting = tl.load(waiting_ptr)
    waiting = tl.where(tl.load(stay_ptr) < running, 0, waiting)  # in a step with victims nobody enters
    budget = tl.load(budget_ptr)
    blocks = tl.load(blocks_ptr)
    entered = waiting
    why = tl.full((), 0, tl.int64)
    tokens_given = tl.full((), 0, tl.int64)
    blocks_given = tl.full((), 0, tl.int64)
    first = tl.full((), 0, tl.int64)
    while (first < waiting) & (entered == waiting):
        place = first + tl.arange(0, tile)
        here = place < waiting
        chunk = tl.load(chunk_ptr + place, mask=here, other=0)
        tested = tl.load(tested_ptr + place, mask=here, other=0)
        reserved = tl.load(reserved_ptr + place, mask=here, other=0)
        tokens, charge, misfit = look(
            place, here, chunk, tested, reserved, tokens_given, blocks_given,
            running, seats, budget, blocks, watermark, chunked, block_size,
        )  # fmt: skip
        entered = tl.min(tl.where(here & (misfit > 0), place, waiting))
        enters = here & (place < entered)
        why = tl.sum(tl.where(here & (place == entered), misfit, 0)).to(tl.int64)
        tokens = tl.where(enters, tokens, 0)
        charge = tl.where(enters, charge, 0)
        tl.store(tokens_ptr + place, tokens, mask=enters)
        tl.store(charge_ptr + place, charge, mask=enters)
        tokens_given += tl.sum(tokens)
        blocks_given += tl.sum(charge)
        first += tile
    tl.store(entered_ptr, entered)
    tl.store(why_ptr, why)
    tl.store(budget_left_ptr, budget - tokens_given)
    tl.store(blocks_left_ptr, blocks - blocks_given)


def admit_fcfs(
    chunk: Tensor,
    tested: Tensor,
    reserved: Tensor,
    waiting: Tensor,
    running: Tensor,
    stay: Tensor,
    budget: Tensor,
    blocks: Tensor,
    *,
    seats: int,
    watermark: int,
    chunked: bool,
    block_size: int,
    tile: int = TILE,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Of those who wait, in order:

        chunk     [capacity]  tokens that each would run first: all that is known, at most a chunk
        tested    [capacity]  positions that blocks must be there for, beyond those that are charged; 0: no more
        reserved  [capacity]  positions that blocks are taken for; 0: those of this step's tokens
        waiting   [1]         how many entries count

    and of the step, each [1]: how many run, how many of them stay, what is left of the token budget and of the blocks.
    Returns tokens and blocks [capacity] of each who enters, how many do, why nobody more does (`room.py`), and what is
    left of budget and blocks, each [1].
    """
    numbers = {"waiting": waiting, "running": running, "stay": stay, "budget": budget, "blocks": blocks}
    require_arrays("admit_fcfs", chunk=chunk, tested=tested, reserved=reserved, **numbers)
    require_equal_lengths("admit_fcfs", chunk=chunk, tested=tested, reserved=reserved)
    require_between("admit_fcfs", 0, MOST, seats=seats, watermark=watermark)
    require_between("admit_fcfs", 1, MOST, block_size=block_size)
    tokens, charge = torch.empty_like(chunk), torch.empty_like(chunk)
    entered, why, budget_left, blocks_left = (torch.empty_like(waiting) for _ in range(4))
    admit_fcfs_kernel[(1,)](
        chunk, tested, reserved, waiting, running, stay, budget, blocks,
        tokens, charge, entered, why, budget_left, blocks_left,
        seats, watermark, chunked, block_size, tile, num_warps=WARPS,
    )  # fmt: skip
    return tokens, charge, entered, why, budget_left, blocks_left


def admit_fcfs_plain(
    chunk: Sequence[int],
    tested: Sequence[int],
    reserved: Sequence[int],
    *,
    running: int,
    stay: int,
    seats: int,
    budget: int,
    blocks: int,
    watermark: int,
    chunked: bool,
    block_size: int,
) -> Entering:
    """The loop, in a step without victims."""
    some = len(chunk) if stay == running else 0
    return enter_plain(
        chunk[:some], tested[:some], reserved[:some], running=running, seats=seats, budget=budget, blocks=blocks,
        watermark=watermark, chunked=chunked, block_size=block_size,
    )  # fmt: skip
