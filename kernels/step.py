"""A whole step of FCFS in one program: budget, victims, admissions, blocks.  One launch, no host in between; each
part is the kernel of its own file, and a barrier stands wherever one reads what another wrote."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from .admit_fcfs import admit_fcfs_kernel, admit_fcfs_plain
from .allocate import allocate_kernel, allocate_plain
from .arrays import MOST, TILE, WARPS, require_arrays, require_between, require_equal_lengths
from .budget import budget_kernel, budget_plain
from .room import Entering
from .victims import victims_kernel, victims_plain


@triton.jit
def step_kernel(
    wanted_ptr,
    issued_ptr,
    held_ptr,
    rows_ptr,
    count_ptr,
    chunk_ptr,
    tested_ptr,
    reserved_ptr,
    waiting_ptr,
    entering_rows_ptr,
    tables_ptr,
    free_ptr,
    top_ptr,
    tokens_ptr,
    needs_ptr,
    entering_tokens_ptr,
    entering_needs_ptr,
    numbers_ptr,
    ends_ptr,
    width: tl.int64,
    token_budget: tl.int64,
    seats: tl.int64,
    watermark: tl.int64,
    chunked: tl.constexpr,
    block_size: tl.constexpr,
    tile: tl.constexpr,
):
    stay_ptr = numbers_ptr
    requester_ptr = numbers_ptr + 1
    entered_ptr = numbers_ptr + 2
    why_ptr = numbers_ptr + 3
    budget_ptr = numbers_ptr + 4
    blocks_ptr = numbers_ptr + 5
    budget_left_ptr = numbers_ptr + 6
    blocks_left_ptr = numbers_ptr + 7
    budget_kernel(
        wanted_ptr, issued_ptr, held_ptr, count_ptr, tokens_ptr, needs_ptr, budget_ptr, token_budget, block_size, tile
    )
    tl.debug_barrier()
    victims_kernel(needs_ptr, held_ptr, count_ptr, top_ptr, stay_ptr, blocks_ptr, requester_ptr, tile)
    tl.debug_barrier()
    admit_fcfs_kernel(
        chunk_ptr, tested_ptr, reserved_ptr, waiting_ptr, count_ptr, stay_ptr, budget_ptr, blocks_ptr,
        entering_tokens_ptr, entering_needs_ptr, entered_ptr, why_ptr, budget_left_ptr, blocks_left_ptr,
        seats, watermark, chunked, block_size, tile,
    )  # fmt: skip
    tl.debug_barrier()
    allocate_kernel(
        tables_ptr, width, rows_ptr, held_ptr, needs_ptr, count_ptr, stay_ptr, entering_rows_ptr, entering_needs_ptr,
        entered_ptr, free_ptr, top_ptr, ends_ptr, tile,
    )  # fmt: skip


NUMBERS = ("stay", "requester", "entered", "why", "budget_before", "blocks_before", "budget_left", "blocks_left")
"""What the array of numbers holds, in this order; `before` is before admissions."""


class Outputs(NamedTuple):
    """Arrays that steps write; the same ones may be used again, as a captured graph does."""

    tokens: Tensor
    needs: Tensor
    entering_tokens: Tensor
    entering_needs: Tensor
    numbers: Tensor
    ends: Tensor

    @classmethod
    def of(cls, running: int, waiting: int, device: str | torch.device) -> "Outputs":
        sizes = running, running, waiting, waiting, len(NUMBERS), max(running, waiting, 1)
        return cls(*(torch.zeros(size, dtype=torch.int64, device=device) for size in sizes))


def step(
    wanted: Tensor,
    issued: Tensor,
    held: Tensor,
    rows: Tensor,
    count: Tensor,
    chunk: Tensor,
    tested: Tensor,
    reserved: Tensor,
    waiting: Tensor,
    entering_rows: Tensor,
    tables: Tensor,
    free: Tensor,
    top: Tensor,
    out: Outputs,
    *,
    token_budget: int,
    seats: int,
    watermark: int,
    chunked: bool,
    block_size: int,
    tile: int = TILE,
) -> None:
    """Arguments are those of the parts; `entering_rows` [capacity of the queue] are rows for those who might enter, in
    order.  Changes `tables`, `held`, `free` and `top`, and writes `out`."""
    of_running = {"wanted": wanted, "issued": issued, "held": held, "rows": rows}
    of_running |= {"tokens": out.tokens, "needs": out.needs}
    of_waiting = {"chunk": chunk, "tested": tested, "reserved": reserved, "entering_rows": entering_rows}
    of_waiting |= {"entering_tokens": out.entering_tokens, "entering_needs": out.entering_needs}
    others = {"count": count, "waiting": waiting, "tables": tables, "free": free, "top": top}
    require_arrays("step", **of_running, **of_waiting, **others, numbers=out.numbers, ends=out.ends)
    require_equal_lengths("step", **of_running)
    require_equal_lengths("step", **of_waiting)
    require_between("step", 0, MOST, token_budget=token_budget, seats=seats, watermark=watermark)
    require_between("step", 1, MOST, block_size=block_size)
    step_kernel[(1,)](
        wanted, issued, held, rows, count, chunk, tested, reserved, waiting, entering_rows, tables, free, top, *out,
        tables.shape[1], token_budget, seats, watermark, chunked, block_size, tile, num_warps=WARPS,
    )  # fmt: skip


class Step(NamedTuple):
    """Tokens of the running list, how many stay, the first who needs a block, who enters, and their tables."""

    tokens: list[int]
    stay: int
    requester: int
    entering: Entering
    entering_tables: list[list[int]]


def step_plain(
    wanted: Sequence[int],
    issued: Sequence[int],
    tables: list[list[int]],
    chunk: Sequence[int],
    tested: Sequence[int],
    reserved: Sequence[int],
    free: list[int],
    *,
    token_budget: int,
    seats: int,
    watermark: int,
    chunked: bool,
    block_size: int,
) -> Step:
    """The twins of the parts, one after the other; changes `tables` and `free`."""
    held = [len(table) for table in tables]
    tokens, needs, budget_left = budget_plain(wanted, issued, held, token_budget=token_budget, block_size=block_size)
    stay, blocks_left, requester = victims_plain(needs, held, free=len(free))
    entering = admit_fcfs_plain(
        chunk, tested, reserved, running=len(tables), stay=stay, seats=seats, budget=budget_left, blocks=blocks_left,
        watermark=watermark, chunked=chunked, block_size=block_size,
    )  # fmt: skip
    entering_tables = allocate_plain(tables, needs, stay=stay, entering_needs=entering.blocks, free=free)
    return Step(tokens, stay, requester, entering, entering_tables)
