"""The line: places of all who live, by group, key and arrival.  Who runs keeps its place in it, so a preemption moves
nothing; who is gone is dropped, and who arrives is merged in.

Both write the line anew into its other half, a tile per program, and each costs three launches or two that need not
wait for each other's programs otherwise.  Where nobody is gone they end at once."""

from collections.abc import Sequence

import triton
import triton.language as tl

from .state import ARRIVAL, ENTRIES, GONE, GROUP, HALF, KEY, MOVED, RUNNING, STATUS, WAITING, Plain


@triton.jit
def kept_kernel(requests_ptr, line_ptr, numbers_ptr, kept_ptr, places: tl.constexpr, tile: tl.constexpr):
    """Of each tile of the line, how many live: `kept` [tiles]."""
    entries = tl.load(numbers_ptr + ENTRIES)
    entry = tl.program_id(0).to(tl.int64) * tile + tl.arange(0, tile)
    if tl.load(numbers_ptr + GONE) > 0:
        place = tl.load(line_ptr + tl.load(numbers_ptr + HALF) * places + entry, mask=entry < entries, other=0)
        status = tl.load(requests_ptr + STATUS * places + place, mask=entry < entries, other=0)
        tl.store(kept_ptr + tl.program_id(0), tl.sum(((status == WAITING) | (status == RUNNING)).to(tl.int64)))


@triton.jit
def offsets_kernel(numbers_ptr, kept_ptr, tile: tl.constexpr):
    """`kept` becomes how many live in the tiles before each."""
    entries = tl.load(numbers_ptr + ENTRIES)
    half = tl.load(numbers_ptr + HALF)
    gone = tl.load(numbers_ptr + GONE)
    tiles = tl.where(gone > 0, (entries + tile - 1) // tile, 0)
    total = tl.full((), 0, tl.int64)
    first = tl.full((), 0, tl.int64)
    while first < tiles:
        number = first + tl.arange(0, tile)
        kept = tl.load(kept_ptr + number, mask=number < tiles, other=0)
        tl.store(kept_ptr + number, total + tl.cumsum(kept) - kept, mask=number < tiles)
        total += tl.sum(kept)
        first += tile
    tl.debug_barrier()  # all have read the numbers
    tl.store(numbers_ptr + MOVED, tl.where(gone > 0, entries, 0))
    tl.store(numbers_ptr + ENTRIES, tl.where(gone > 0, total, entries))
    tl.store(numbers_ptr + HALF, tl.where(gone > 0, 1 - half, half))
    tl.store(numbers_ptr + GONE, gone * 0)


@triton.jit
def close_up_kernel(requests_ptr, line_ptr, numbers_ptr, kept_ptr, places: tl.constexpr, tile: tl.constexpr):
    """Who lives, in order, into the half that counts now."""
    moved = tl.load(numbers_ptr + MOVED)
    half = tl.load(numbers_ptr + HALF)
    entry = tl.program_id(0).to(tl.int64) * tile + tl.arange(0, tile)
    here = entry < moved
    if tl.program_id(0).to(tl.int64) * tile < moved:
        place = tl.load(line_ptr + (1 - half) * places + entry, mask=here, other=0)
        status = tl.load(requests_ptr + STATUS * places + place, mask=here, other=0)
        lives = ((status == WAITING) | (status == RUNNING)).to(tl.int64)
        to = tl.load(kept_ptr + tl.program_id(0)) + tl.cumsum(lives) - lives
        tl.store(line_ptr + half * places + to, place, mask=lives > 0)


@triton.jit
def rank(requests_ptr, list_ptr, count, place, here, places: tl.constexpr):
    """How many of a sorted list stand before each place."""
    group = tl.load(requests_ptr + GROUP * places + place, mask=here, other=0)
    key = tl.load(requests_ptr + KEY * places + place, mask=here, other=0)
    arrival = tl.load(requests_ptr + ARRIVAL * places + place, mask=here, other=0)
    low = place * 0
    high = low + count
    width = count
    while width > 0:
        middle = (low + high) // 2
        open_ = here & (low < high)
        other = tl.load(list_ptr + middle, mask=open_, other=0)
        its_group = tl.load(requests_ptr + GROUP * places + other, mask=open_, other=0)
        its_key = tl.load(requests_ptr + KEY * places + other, mask=open_, other=0)
        its_arrival = tl.load(requests_ptr + ARRIVAL * places + other, mask=open_, other=0)
        is_before = (its_key < key) | ((its_key == key) & (its_arrival < arrival))
        is_before = (its_group < group) | ((its_group == group) & is_before)
        low = tl.where(open_ & is_before, middle + 1, low)
        high = tl.where(open_ & (is_before == 0), middle, high)
        width = width // 2
    return low


@triton.jit
def make_room_kernel(numbers_ptr, arrived_ptr):
    """The other half counts from now on, with those who arrived: their number [1]."""
    entries = tl.load(numbers_ptr + ENTRIES)
    half = tl.load(numbers_ptr + HALF)
    tl.debug_barrier()  # all have read the numbers
    tl.store(numbers_ptr + MOVED, entries)
    tl.store(numbers_ptr + ENTRIES, entries + tl.load(arrived_ptr))
    tl.store(numbers_ptr + HALF, 1 - half)


@triton.jit
def merge_kernel(
    requests_ptr, line_ptr, numbers_ptr, arriving_ptr, arrived_ptr, places: tl.constexpr, tile: tl.constexpr
):
    """Two sorted lists into one: each goes behind those of its own list and those of the other that stand before it.
    `arriving` [any] places in order, of which `arrived` [1] count."""
    moved = tl.load(numbers_ptr + MOVED)
    half = tl.load(numbers_ptr + HALF)
    arrived = tl.load(arrived_ptr)
    old_ptr = line_ptr + (1 - half) * places
    new_ptr = line_ptr + half * places
    entry = tl.program_id(0).to(tl.int64) * tile + tl.arange(0, tile)
    if tl.program_id(0).to(tl.int64) * tile < moved:
        place = tl.load(old_ptr + entry, mask=entry < moved, other=0)
        before = rank(requests_ptr, arriving_ptr, arrived, place, entry < moved, places)
        tl.store(new_ptr + entry + before, place, mask=entry < moved)
    if tl.program_id(0).to(tl.int64) * tile < arrived:
        place = tl.load(arriving_ptr + entry, mask=entry < arrived, other=0)
        before = rank(requests_ptr, old_ptr, moved, place, entry < arrived, places)
        tl.store(new_ptr + entry + before, place, mask=entry < arrived)


def close_up_plain(state: Plain) -> None:
    """Twin of the first three."""
    state.line = [place for place in state.line if state.jobs[place].is_live]
    state.gone = 0


def merge_plain(state: Plain, arriving: Sequence[int]) -> None:
    """Twin of the last two."""
    state.line = sorted([*state.line, *arriving], key=lambda place: state.jobs[place].order)
