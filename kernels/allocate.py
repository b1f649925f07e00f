"""Block ids: what victims release is pushed on the stack of free blocks, then growth and admissions pop.

Where a block comes to lie follows from prefix sums.  Victims are pushed the newest first, each from the end of its
table; then the running list pops in its order, then who enters.  Work is split by block, not by request, so one long
request does not keep the others waiting: for each block the prefix sums are searched for its owner."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from .arrays import TILE, WARPS, require_arrays, require_equal_lengths


@triton.jit
def owner_of(ends_ptr, count, number, here):
    """The first entry whose inclusive prefix sum is above a number: who has the block of that number."""
    low = number * 0
    high = low + count
    width = count
    while width > 0:
        middle = (low + high) // 2
        open_ = here & (low < high)
        end = tl.load(ends_ptr + middle, mask=open_, other=0)
        goes_up = open_ & (end <= number)
        low = tl.where(goes_up, middle + 1, low)
        high = tl.where(open_ & (end > number), middle, high)
        width = width // 2
    return low


@triton.jit
def push(tables_ptr, width, rows_ptr, held_ptr, begin, direction: tl.constexpr, leaving, free_ptr, top, ends_ptr,
         tile: tl.constexpr):  # fmt: skip
    """The blocks of so many who leave, from `begin` on in one `direction`, 1 or −1; returns the new top."""
    total = tl.full((), 0, tl.int64)
    first = tl.full((), 0, tl.int64)
    while first < leaving:
        order = first + tl.arange(0, tile)
        here = order < leaving
        held = tl.load(held_ptr + begin + direction * order, mask=here, other=0)
        tl.store(ends_ptr + order, total + tl.cumsum(held), mask=here)
        total += tl.sum(held)
        first += tile
    tl.debug_barrier()  # ends are read by other threads
    first = tl.full((), 0, tl.int64)
    while first < total:
        number = first + tl.arange(0, tile)
        here = number < total
        order = owner_of(ends_ptr, leaving, number, here)
        place = tl.load(ends_ptr + order, mask=here, other=0) - 1 - number  # 0 is the last that it pushes
        row = tl.load(rows_ptr + begin + direction * order, mask=here, other=0)
        block = tl.load(tables_ptr + row * width + place, mask=here & (place >= 0) & (place < width), other=0)
        tl.store(free_ptr + top + number, block, mask=here)
        first += tile
    return top + total


@triton.jit
def pop(tables_ptr, width, rows_ptr, from_ptr, grows: tl.constexpr, needs_ptr, count, free_ptr, top, ends_ptr,
        tile: tl.constexpr):  # fmt: skip
    """Blocks for entries in their order, behind what each holds if it `grows`; returns the new top."""
    total = tl.full((), 0, tl.int64)
    first = tl.full((), 0, tl.int64)
    while first < count:
        index = first + tl.arange(0, tile)
        here = index < count
        needs = tl.load(needs_ptr + index, mask=here, other=0)
        tl.store(ends_ptr + index, total + tl.cumsum(needs), mask=here)
        total += tl.sum(needs)
        first += tile
    tl.debug_barrier()  # ends are read by other threads, and so are blocks that were pushed
    total = tl.minimum(total, top)
    first = tl.full((), 0, tl.int64)
    while first < total:
        number = first + tl.arange(0, tile)
        here = number < total
        index = owner_of(ends_ptr, count, number, here)
        needs = tl.load(needs_ptr + index, mask=here, other=0)
        place = number - (tl.load(ends_ptr + index, mask=here, other=0) - needs)
        if grows:
            place += tl.load(from_ptr + index, mask=here, other=0)
        row = tl.load(rows_ptr + index, mask=here, other=0)
        block = tl.load(free_ptr + top - 1 - number, mask=here, other=0)
        tl.store(tables_ptr + row * width + place, block, mask=here & (place >= 0) & (place < width))
        first += tile
    return top - total


@triton.jit
def allocate_kernel(
    tables_ptr,
    width: tl.int64,
    rows_ptr,
    held_ptr,
    needs_ptr,
    count_ptr,
    stay_ptr,
    entering_rows_ptr,
    entering_needs_ptr,
    entered_ptr,
    free_ptr,
    top_ptr,
    ends_ptr,
    tile: tl.constexpr,
):
    count = tl.load(count_ptr)
    stay = tl.load(stay_ptr)
    top = tl.load(top_ptr)
    entered = tl.load(entered_ptr)
    top = push(tables_ptr, width, rows_ptr, held_ptr, count - 1, -1, count - stay, free_ptr, top, ends_ptr, tile)
    tl.debug_barrier()  # all have found their owners before ends are written anew
    top = pop(tables_ptr, width, rows_ptr, held_ptr, True, needs_ptr, stay, free_ptr, top, ends_ptr, tile)
    tl.debug_barrier()
    top = pop(
        tables_ptr, width, entering_rows_ptr, held_ptr, False, entering_needs_ptr, entered,
        free_ptr, top, ends_ptr, tile,
    )  # fmt: skip
    tl.debug_barrier()  # all have read how long tables were
    first = tl.full((), 0, tl.int64)
    while first < count:
        index = first + tl.arange(0, tile)
        here = index < count
        held = tl.load(held_ptr + index, mask=here, other=0)
        needs = tl.load(needs_ptr + index, mask=here, other=0)
        tl.store(held_ptr + index, tl.where(index < stay, held + needs, 0), mask=here)
        first += tile
    tl.store(top_ptr, top)


def allocate(
    tables: Tensor,
    rows: Tensor,
    held: Tensor,
    needs: Tensor,
    count: Tensor,
    stay: Tensor,
    entering_rows: Tensor,
    entering_needs: Tensor,
    entered: Tensor,
    free: Tensor,
    top: Tensor,
    *,
    tile: int = TILE,
) -> None:
    """Changes `tables`, `held`, `free` and `top`:

        tables          [rows, width]  block ids of each row, the first `held` of which count
        rows            [capacity]     the row of each of the running list, in order of admission
        held            [capacity]     blocks in its table; of victims 0 afterwards
        needs           [capacity]     blocks that it gets
        count, stay     [1]            how many run, and how many of them stay
        entering_rows   [places]       the rows of those who enter, in order; nobody else's
        entering_needs  [places]       blocks that each gets
        entered         [1]            how many of them do
        free            [blocks]       the stack of free blocks
        top             [1]            its height: the block below it is next

    The needs must be there (`victims` and `admit_fcfs` see to it).  What is beyond the stack or a row is not touched.
    """
    running = {"rows": rows, "held": held, "needs": needs}
    entering = {"entering_rows": entering_rows, "entering_needs": entering_needs}
    numbers = {"count": count, "stay": stay, "entered": entered, "top": top}
    require_arrays("allocate", tables=tables, free=free, **running, **entering, **numbers)
    require_equal_lengths("allocate", **running)
    require_equal_lengths("allocate", **entering)
    ends = torch.empty(max(len(rows), len(entering_rows), 1), dtype=torch.int64, device=rows.device)
    allocate_kernel[(1,)](
        tables, tables.shape[1], rows, held, needs, count, stay, entering_rows, entering_needs, entered, free, top,
        ends, tile, num_warps=WARPS,
    )  # fmt: skip


def allocate_plain(
    tables: list[list[int]],
    needs: Sequence[int],
    *,
    stay: int,
    entering_needs: Sequence[int],
    free: list[int],
) -> list[list[int]]:
    """The loop, on a table of its own per request: changes `tables` and `free`, and returns those of who enters."""
    for table in reversed(tables[stay:]):
        while table:
            free.append(table.pop())
    for table, need in zip(tables[:stay], needs, strict=False):
        table.extend(free.pop() for _ in range(need))
    return [[free.pop() for _ in range(need)] for need in entering_needs]
