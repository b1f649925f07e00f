"""Groups come back: of whom nobody waited and now somebody does is lifted to the virtual time, less its burst.

The loop looks at one request after the other.  Only the first who comes back can move the virtual time: to the least
counter of those who wait, or, if nobody does, to that of who left last; then the next ones are lifted to the counter of
the first.  So two values suffice for all."""

from collections.abc import Iterable

import triton
import triton.language as tl

from .state import GROUP, GROUPS, LAST_LEFT, VIRTUAL_TIME, Plain


@triton.jit
def lift_kernel(
    requests_ptr,
    counters_ptr,
    waits_ptr,
    bursts_ptr,
    numbers_ptr,
    list_ptr,
    count_ptr,
    places: tl.constexpr,
    tile: tl.constexpr,
):
    """`list` [any]: places of requests that wait from now on, in that order, of which `count` [1] count."""
    count = tl.load(count_ptr)
    never = tl.full((), 0x7FFFFFFFFFFFFFFF, tl.int64)
    groups = tl.where(count > 0, tl.load(numbers_ptr + GROUPS), 0)
    least = never
    first = tl.full((), 0, tl.int64)
    while first < groups:
        number = first + tl.arange(0, tile)
        waits = tl.load(waits_ptr + number, mask=number < groups, other=0) > 0
        least = tl.minimum(least, tl.min(tl.load(counters_ptr + number, mask=waits, other=never)))
        first += tile
    last_left = tl.load(numbers_ptr + LAST_LEFT)
    time = tl.load(numbers_ptr + VIRTUAL_TIME)
    left_at = tl.load(counters_ptr + last_left, mask=last_left >= 0, other=0)
    reached = tl.maximum(time, tl.where(least < never, least, tl.where(last_left >= 0, left_at, time)))

    leader = count
    back = tl.full((), 0, tl.int64)
    first = tl.full((), 0, tl.int64)
    while first < count:
        order = first + tl.arange(0, tile)
        here = order < count
        place = tl.load(list_ptr + order, mask=here, other=0)
        group = tl.load(requests_ptr + GROUP * places + place, mask=here, other=0)
        here = here & (tl.load(waits_ptr + group, mask=here, other=1) == 0)
        leader = tl.minimum(leader, tl.min(tl.where(here, order, count)))
        first += tile
    is_back = leader < count
    leads = tl.load(list_ptr + leader, mask=is_back, other=0)
    leading = tl.load(requests_ptr + GROUP * places + leads, mask=is_back, other=0)
    counter = tl.load(counters_ptr + leading, mask=is_back, other=0)
    counter = tl.maximum(counter, reached - tl.load(bursts_ptr + leading, mask=is_back, other=0))
    later = tl.where(least < never, reached, tl.maximum(reached, counter))
    tl.debug_barrier()  # all have read counters

    first = tl.full((), 0, tl.int64)
    while first < count:
        order = first + tl.arange(0, tile)
        here = order < count
        place = tl.load(list_ptr + order, mask=here, other=0)
        group = tl.load(requests_ptr + GROUP * places + place, mask=here, other=0)
        here = here & (tl.load(waits_ptr + group, mask=here, other=1) == 0)
        lifted = tl.where(group == leading, reached, later) - tl.load(bursts_ptr + group, mask=here, other=0)
        tl.atomic_max(counters_ptr + group, lifted, mask=here)
        back += tl.sum((here & (group != leading)).to(tl.int64))
        first += tile
    tl.debug_barrier()  # all have seen who waited
    first = tl.full((), 0, tl.int64)
    while first < count:
        order = first + tl.arange(0, tile)
        here = order < count
        place = tl.load(list_ptr + order, mask=here, other=0)
        group = tl.load(requests_ptr + GROUP * places + place, mask=here, other=0)
        tl.atomic_add(waits_ptr + group, here.to(tl.int64), mask=here)
        first += tile
    time = tl.where(back > 0, later, tl.where(is_back, reached, time))
    tl.store(numbers_ptr + VIRTUAL_TIME, time)


def lift_plain(state: Plain, places: Iterable[int]) -> None:
    """The loop."""
    for place in places:
        group = state.jobs[place].group
        if not state.waits[group]:
            waiting = [counter for counter, some in zip(state.counters, state.waits, strict=True) if some]
            if waiting:
                state.virtual_time = max(state.virtual_time, min(waiting))
            elif state.last_left >= 0:
                state.virtual_time = max(state.virtual_time, state.counters[state.last_left])
            lifted = state.virtual_time - state.bursts[group]
            state.counters[group] = max(state.counters[group], lifted)
        state.waits[group] += 1
