"""What a step is asked about: wishes of those who run, and those who might enter, from the front of the line."""

from typing import NamedTuple

import triton
import triton.language as tl

from .state import (
    CHARGED,
    COUNT,
    DECLARED,
    ENTRIES,
    GROUP,
    HALF,
    IN_FLIGHT,
    ISSUED,
    KNOWN,
    LENGTH,
    OUTPUTS,
    PICK_COST,
    STATUS,
    WAITING,
    Job,
    Plain,
    Status,
)

FIRST_CHUNK, ALL_KNOWN, DECLARED_LENGTH = 0, 1, 2
"""What an admission takes blocks for."""


@triton.jit
def reserved_of(request, here, reserve: tl.constexpr, places: tl.constexpr):
    """Positions that an admission takes blocks for beyond those of its first chunk."""
    if reserve == 1:
        return tl.load(request + KNOWN * places, mask=here, other=0)
    elif reserve == 2:
        return tl.load(request + LENGTH * places, mask=here, other=1) - 1
    else:
        return tl.load(request + KNOWN * places, mask=here, other=0) * 0


@triton.jit
def look_kernel(
    requests_ptr,
    running_ptr,
    rows_ptr,
    line_ptr,
    numbers_ptr,
    wanted_ptr,
    issued_ptr,
    entering_ptr,
    entering_rows_ptr,
    chunk_ptr,
    reserved_ptr,
    waiting_ptr,
    most: tl.constexpr,
    reserve: tl.constexpr,
    shares: tl.constexpr,
    places: tl.constexpr,
    seats: tl.constexpr,
    tile: tl.constexpr,
):
    """Of those who run what each could run, at most a chunk, and how far it is: `wanted`, `issued` [seats].  Of those
    who wait the first, as many as there are seats: `entering`, `chunk`, `reserved` [seats], of which `waiting` [1]
    count.  Rows for those who enter: `entering_rows` [seats].  Where groups share, who enters is seen later."""
    count = tl.load(numbers_ptr + COUNT)
    first = tl.full((), 0, tl.int64)
    while first < count:
        index = first + tl.arange(0, tile)
        here = index < count
        request = requests_ptr + tl.load(running_ptr + index, mask=here, other=0)
        issued = tl.load(request + ISSUED * places, mask=here, other=0)
        wanted = tl.minimum(tl.load(request + KNOWN * places, mask=here, other=0) - issued, most)
        coming = tl.load(request + OUTPUTS * places, mask=here, other=0)
        coming += tl.load(request + IN_FLIGHT * places, mask=here, other=0)
        is_sure_to_end = coming >= tl.load(request + DECLARED * places, mask=here, other=0)
        tl.store(wanted_ptr + index, tl.where(is_sure_to_end, 0, wanted), mask=here)
        tl.store(issued_ptr + index, issued, mask=here)
        first += tile
    room = seats - count
    first = tl.full((), 0, tl.int64)
    while first < room:
        order = first + tl.arange(0, tile)
        row = tl.load(rows_ptr + count + order, mask=order < room, other=0)
        tl.store(entering_rows_ptr + order, row, mask=order < room)
        first += tile
    entries = tl.where(shares, 0, tl.load(numbers_ptr + ENTRIES))
    line = line_ptr + tl.load(numbers_ptr + HALF) * places
    found = tl.full((), 0, tl.int64)
    first = tl.full((), 0, tl.int64)
    while (first < entries) & (found < room):
        entry = first + tl.arange(0, tile)
        here = entry < entries
        place = tl.load(line + entry, mask=here, other=0)
        request = requests_ptr + place
        waits = (here & (tl.load(request + STATUS * places, mask=here, other=0) == WAITING)).to(tl.int64)
        order = found + tl.cumsum(waits) - waits
        here = (waits > 0) & (order < room)
        chunk = tl.minimum(tl.load(request + KNOWN * places, mask=here, other=0), most)
        tl.store(entering_ptr + order, place, mask=here)
        tl.store(chunk_ptr + order, chunk, mask=here)
        tl.store(reserved_ptr + order, reserved_of(request, here, reserve, places), mask=here)
        found += tl.sum(waits)
        first += tile
    tl.store(waiting_ptr, tl.minimum(found, room))


@triton.jit
def look_along_kernel(
    requests_ptr,
    line_ptr,
    numbers_ptr,
    begin_ptr,
    charge_ptr,
    chunk_ptr,
    reserved_ptr,
    most: tl.constexpr,
    reserve: tl.constexpr,
    places: tl.constexpr,
    tile: tl.constexpr,
):
    """Of each in the line, a tile per program, what it would be charged, its chunk, what it reserves: [places].  Of a
    group those who wait stand together, behind those who run: `begin` [groups] is where."""
    entries = tl.load(numbers_ptr + ENTRIES)
    line = line_ptr + tl.load(numbers_ptr + HALF) * places
    entry = tl.program_id(0).to(tl.int64) * tile + tl.arange(0, tile)
    if tl.program_id(0).to(tl.int64) * tile < entries:
        request = requests_ptr + tl.load(line + entry, mask=entry < entries, other=0)
        waits = tl.load(request + STATUS * places, mask=entry < entries, other=0) == WAITING
        charged = tl.load(request + CHARGED * places, mask=waits, other=0)
        cost = tl.load(request + PICK_COST * places, mask=waits, other=0)
        tl.store(charge_ptr + entry, tl.where(charged > 0, 0, cost), mask=waits)
        chunk = tl.minimum(tl.load(request + KNOWN * places, mask=waits, other=0), most)
        tl.store(chunk_ptr + entry, chunk, mask=waits)
        tl.store(reserved_ptr + entry, reserved_of(request, waits, reserve, places), mask=waits)
        group = tl.load(request + GROUP * places, mask=waits, other=0)
        behind = waits & (entry > 0)
        other = requests_ptr + tl.load(line + entry - 1, mask=behind, other=0)
        goes_on = tl.load(other + STATUS * places, mask=behind, other=0) == WAITING
        goes_on = goes_on & (tl.load(other + GROUP * places, mask=behind, other=-1) == group)
        tl.store(begin_ptr + group, entry, mask=waits & (goes_on == 0))


class Look(NamedTuple):
    """Wishes of those who run and how far each is; who waits, by group, with chunk, reservation and charge."""

    wanted: list[int]
    issued: list[int]
    waiting: list[int]
    chunk: list[int]
    reserved: list[int]
    charge: list[int]


def look_plain(state: Plain, *, most: int, reserve: int) -> Look:
    """Twin of both."""
    running = [state.jobs[place] for place in state.running]
    waiting = [place for place in state.line if state.jobs[place].status == Status.WAITING]
    jobs = [state.jobs[place] for place in waiting]
    return Look(
        wanted=[
            0 if job.outputs + job.in_flight >= job.declared else min(job.known - job.issued, most) for job in running
        ],
        issued=[job.issued for job in running],
        waiting=waiting,
        chunk=[min(job.known, most) for job in jobs],
        reserved=[reserved_plain(job, reserve) for job in jobs],
        charge=[0 if job.charged else job.pick_cost for job in jobs],
    )


def reserved_plain(job: Job, reserve: int) -> int:
    if reserve == DECLARED_LENGTH:
        return job.length - 1
    return job.known if reserve == ALL_KNOWN else 0
