"""What comes back: results of a step, cancellations, and who leaves the running list by them.

Entries count while the request is in the epoch in which they were planned.  Whoever ended goes in the order of the
list: its blocks are pushed from the end of its table, and those behind it move up, tile by tile, which never writes
over what has not been read."""

from collections.abc import Sequence

import triton
import triton.language as tl

from .allocate import push
from .state import (
    AT_LENGTH,
    CANCELLED,
    COMPUTED,
    COUNT,
    DECLARED,
    EPOCH,
    GONE,
    GROUP,
    IN_FLIGHT,
    LAST_LEFT,
    OUTPUT_COST,
    OUTPUTS,
    RUNNING,
    SQUARE_COST,
    STATUS,
    STOPPED,
    TOP,
    WAITING,
    Plain,
    PlainPlan,
    Status,
)


@triton.jit
def leave(
    requests_ptr,
    running_ptr,
    rows_ptr,
    held_ptr,
    tables_ptr,
    width,
    free_ptr,
    numbers_ptr,
    leaving_ptr,
    ends_ptr,
    places: tl.constexpr,
    seats: tl.constexpr,
    tile: tl.constexpr,
):
    """Whoever stands in the running list and does not run goes.  `leaving` [2, seats]: room for rows and blocks."""
    count = tl.load(numbers_ptr + COUNT)
    stay = tl.full((), 0, tl.int64)
    leaving = tl.full((), 0, tl.int64)
    first = tl.full((), 0, tl.int64)
    while first < count:
        index = first + tl.arange(0, tile)
        here = index < count
        place = tl.load(running_ptr + index, mask=here, other=0)
        row = tl.load(rows_ptr + index, mask=here, other=0)
        held = tl.load(held_ptr + index, mask=here, other=0)
        runs = tl.load(requests_ptr + STATUS * places + place, mask=here, other=0) == RUNNING
        stays = (here & runs).to(tl.int64)
        goes = here.to(tl.int64) - stays
        to = stay + tl.cumsum(stays) - stays
        out = leaving + tl.cumsum(goes) - goes
        tl.debug_barrier()  # all have read the tile that is written over
        tl.store(running_ptr + to, place, mask=stays > 0)
        tl.store(rows_ptr + to, row, mask=stays > 0)
        tl.store(held_ptr + to, held, mask=stays > 0)
        tl.store(leaving_ptr + out, row, mask=goes > 0)
        tl.store(leaving_ptr + seats + out, held, mask=goes > 0)
        stay += tl.sum(stays)
        leaving += tl.sum(goes)
        first += tile
    tl.debug_barrier()  # who leaves is read by other threads
    first = tl.full((), 0, tl.int64)
    while first < leaving:
        order = first + tl.arange(0, tile)
        row = tl.load(leaving_ptr + order, mask=order < leaving, other=0)
        tl.store(rows_ptr + stay + order, row, mask=order < leaving)
        first += tile
    top = tl.load(numbers_ptr + TOP)
    top = push(tables_ptr, width, leaving_ptr, leaving_ptr + seats, 0, 1, leaving, free_ptr, top, ends_ptr, tile)
    tl.debug_barrier()  # all have read the numbers
    tl.store(numbers_ptr + TOP, top)
    tl.store(numbers_ptr + COUNT, stay)
    tl.store(numbers_ptr + GONE, tl.load(numbers_ptr + GONE) + leaving)


@triton.jit
def settle_kernel(
    place_ptr,
    epoch_ptr,
    start_ptr,
    tokens_ptr,
    samples_ptr,
    counts_ptr,
    stop_ptr,
    requests_ptr,
    running_ptr,
    rows_ptr,
    held_ptr,
    tables_ptr,
    free_ptr,
    counters_ptr,
    numbers_ptr,
    leaving_ptr,
    ends_ptr,
    width: tl.int64,
    shares: tl.constexpr,
    places: tl.constexpr,
    seats: tl.constexpr,
    tile: tl.constexpr,
):
    """Results of a plan: `stop` [seats], one per entry, says whether the model ended there.  They count once: the
    plan has no entries afterwards."""
    entries = tl.load(counts_ptr)
    first = tl.full((), 0, tl.int64)
    while first < entries:
        entry = first + tl.arange(0, tile)
        here = entry < entries
        place = tl.load(place_ptr + entry, mask=here, other=0)
        request = requests_ptr + place
        epoch = tl.load(request + EPOCH * places, mask=here, other=0)
        here = here & (tl.load(epoch_ptr + entry, mask=here, other=0) == epoch)
        start = tl.load(start_ptr + entry, mask=here, other=0)
        computed = start + tl.load(tokens_ptr + entry, mask=here, other=0)
        tl.store(request + COMPUTED * places, computed, mask=here)
        got = here & (tl.load(samples_ptr + entry, mask=here, other=0) > 0)
        in_flight = tl.load(request + IN_FLIGHT * places, mask=got, other=0) - 1
        outputs = tl.load(request + OUTPUTS * places, mask=got, other=0) + 1
        tl.store(request + IN_FLIGHT * places, in_flight, mask=got)
        tl.store(request + OUTPUTS * places, outputs, mask=got)
        if shares:
            cost = tl.load(request + OUTPUT_COST * places, mask=got, other=0)
            cost += (2 * outputs - 1) * tl.load(request + SQUARE_COST * places, mask=got, other=0)
            group = tl.load(request + GROUP * places, mask=got, other=0)
            tl.atomic_add(counters_ptr + group, cost, mask=got)
        stops = got & (tl.load(stop_ptr + entry, mask=got, other=0) != 0)
        ends = stops | (got & (outputs >= tl.load(request + DECLARED * places, mask=got, other=0)))
        tl.store(request + STATUS * places, tl.where(stops, STOPPED, AT_LENGTH).to(tl.int64), mask=ends)
        tl.store(request + EPOCH * places, epoch + 1, mask=ends)
        first += tile
    tl.debug_barrier()  # how requests stand is read by other threads, and all have read how many entries there are
    tl.store(counts_ptr, entries * 0)
    leave(
        requests_ptr, running_ptr, rows_ptr, held_ptr, tables_ptr, width, free_ptr, numbers_ptr, leaving_ptr, ends_ptr,
        places, seats, tile,
    )  # fmt: skip


@triton.jit
def cancel_kernel(
    place_ptr,
    requests_ptr,
    running_ptr,
    rows_ptr,
    held_ptr,
    tables_ptr,
    free_ptr,
    waits_ptr,
    numbers_ptr,
    leaving_ptr,
    ends_ptr,
    width: tl.int64,
    shares: tl.constexpr,
    places: tl.constexpr,
    seats: tl.constexpr,
    tile: tl.constexpr,
):
    """The request at `place` [1] ends, if it lives."""
    request = requests_ptr + tl.load(place_ptr)
    status = tl.load(request + STATUS * places)
    lives = (status == WAITING) | (status == RUNNING)
    waited = status == WAITING
    group = tl.load(request + GROUP * places)
    waits = tl.load(waits_ptr + group) - 1
    epoch = tl.load(request + EPOCH * places) + 1
    gone = tl.load(numbers_ptr + GONE) + 1
    tl.debug_barrier()  # all have read how it stood
    tl.store(request + STATUS * places, tl.full((), 0, tl.int64) + CANCELLED, mask=lives)
    tl.store(request + EPOCH * places, epoch, mask=lives)
    tl.store(numbers_ptr + GONE, gone, mask=waited)
    if shares:
        tl.store(waits_ptr + group, waits, mask=waited)
        tl.store(numbers_ptr + LAST_LEFT, group, mask=waited & (waits == 0))
    tl.debug_barrier()
    leave(
        requests_ptr, running_ptr, rows_ptr, held_ptr, tables_ptr, width, free_ptr, numbers_ptr, leaving_ptr, ends_ptr,
        places, seats, tile,
    )  # fmt: skip


def leave_plain(state: Plain) -> None:
    for place in list(state.running):
        if state.jobs[place].status != Status.RUNNING:
            state.running.remove(place)
            state.free += reversed(state.tables.pop(place))
            state.gone += 1


def settle_plain(state: Plain, plan: PlainPlan, stop: Sequence[int], *, shares: bool) -> None:
    """The loop; `stop` has one for each entry."""
    for entry, stops in zip(plan.entries, stop, strict=True):
        job = state.jobs[entry.place]
        if job.epoch != entry.epoch:
            continue
        job.computed = entry.start + entry.tokens
        if not entry.samples:
            continue
        job.in_flight -= 1
        job.outputs += 1
        if shares:
            state.counters[job.group] += job.output_cost + (2 * job.outputs - 1) * job.square_cost
        if stops or job.outputs >= job.declared:
            job.status = Status.STOPPED if stops else Status.AT_LENGTH
            job.epoch += 1
    plan.entries.clear()
    leave_plain(state)


def cancel_plain(state: Plain, place: int, *, shares: bool) -> None:
    job = state.jobs[place]
    if not job.is_live:
        return
    if job.status == Status.WAITING:
        state.gone += 1
        state.waits[job.group] -= shares
        if shares and not state.waits[job.group]:
            state.last_left = job.group
    job.status = Status.CANCELLED
    job.epoch += 1
    leave_plain(state)
