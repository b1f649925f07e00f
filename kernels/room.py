"""Whether those who would enter fit, shared by the kernels of admission.

Seats, tokens and blocks before each are prefix sums over those before it, as if all of them had entered; so they are
true up to the first that does not fit, and only that one is asked for.  Which of them fit is not monotone where a whole
prompt is tested and a chunk is charged, or where a watermark binds from the second on: hence the first misfit, never a
search."""

from collections.abc import Sequence
from typing import NamedTuple

import triton
import triton.language as tl

NOBODY, NO_SEAT, NO_TOKENS, NO_BLOCKS = 0, 1, 2, 3
"""Why nobody more entered: nobody was left, or what was missing, in the order of the tests."""


@triton.jit
def blocks_of(positions, block_size: tl.constexpr):
    """Blocks that hold so many positions, near 2⁶³ too."""
    return tl.where(positions > 0, (positions - 1) // block_size + 1, 0)


@triton.jit
def look(
    place,
    here,
    chunk,
    tested,
    reserved,
    tokens_given,
    blocks_given,
    running,
    seats,
    budget,
    blocks,
    watermark,
    chunked: tl.constexpr,
    block_size: tl.constexpr,
):
    """Of a tile: tokens, blocks that are charged, and why each does not fit (0: it does)."""
    asked = tl.where(here, tl.minimum(chunk, budget), 0)
    budget_here = budget - tokens_given - (tl.cumsum(asked) - asked)
    tokens = tl.minimum(asked, tl.maximum(budget_here, 0))
    charge = tl.where(here, blocks_of(tl.maximum(tokens, reserved), block_size), 0)
    charge = tl.minimum(charge, tl.maximum(blocks, 0) + 1)  # more does not fit either, and sums stay small
    test = tl.maximum(charge, blocks_of(tested, block_size))
    blocks_here = blocks - blocks_given - (tl.cumsum(charge) - charge)
    kept = tl.where(place + running > 0, watermark, 0)
    why = tl.where((blocks_here <= 0) | (test > blocks_here - kept), 3, 0)
    lacks_tokens = budget_here <= 0
    if not chunked:
        lacks_tokens = lacks_tokens | (tokens < chunk)
    why = tl.where(lacks_tokens, 2, why)
    return tokens, charge, tl.where(place + running >= seats, 1, why)


class Entering(NamedTuple):
    """Who enters: tokens and blocks of each, why nobody more does, and what is left of budget and blocks."""

    tokens: list[int]
    blocks: list[int]
    why: int
    budget_left: int
    blocks_left: int


def enter_plain(
    chunk: Sequence[int],
    tested: Sequence[int],
    reserved: Sequence[int],
    *,
    running: int,
    seats: int,
    budget: int,
    blocks: int,
    watermark: int,
    chunked: bool,
    block_size: int,
) -> Entering:
    """The loop: one after the other until somebody does not fit."""
    entering = Entering([], [], NOBODY, budget, blocks)
    for prompt, test, reserve in zip(chunk, tested, reserved, strict=True):
        tokens = min(prompt, entering.budget_left)
        charge = -(-max(tokens, reserve) // block_size)
        kept = watermark if running + len(entering.tokens) else 0
        if running + len(entering.tokens) >= seats:
            return entering._replace(why=NO_SEAT)
        if entering.budget_left <= 0 or (not chunked and tokens < prompt):
            return entering._replace(why=NO_TOKENS)
        if entering.blocks_left <= 0 or max(charge, -(-test // block_size)) > entering.blocks_left - kept:
            return entering._replace(why=NO_BLOCKS)
        entering.tokens.append(tokens)
        entering.blocks.append(charge)
        left = entering.budget_left - tokens, entering.blocks_left - charge
        entering = entering._replace(budget_left=left[0], blocks_left=left[1])
    return entering
