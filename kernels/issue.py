"""A decision becomes a plan: entries of those who stay and of who enters, victims back to waiting."""

from collections.abc import Sequence

import triton
import triton.language as tl

from .state import (
    CHARGED,
    COMPUTED,
    COUNT,
    EPOCH,
    IN_FLIGHT,
    ISSUED,
    KNOWN,
    RUNNING,
    STATUS,
    WAITING,
    Entry,
    Plain,
    PlainPlan,
    Status,
)


@triton.jit
def write_entries(
    requests_ptr, place, start, tokens, place_ptr, epoch_ptr, start_ptr, tokens_ptr, samples_ptr, entries,
    places: tl.constexpr,
):  # fmt: skip
    """Of a tile, whoever has tokens runs them, and samples behind the last known position; how many there are now."""
    runs = tokens > 0
    request = requests_ptr + place
    known = tl.load(request + KNOWN * places, mask=runs, other=0)
    samples = (runs & (start + tokens == known)).to(tl.int64)
    tl.store(request + ISSUED * places, start + tokens, mask=runs)
    tl.store(request + KNOWN * places, known + samples, mask=runs)
    in_flight = tl.load(request + IN_FLIGHT * places, mask=runs, other=0)
    tl.store(request + IN_FLIGHT * places, in_flight + samples, mask=runs)
    one = runs.to(tl.int64)
    entry = entries + tl.cumsum(one) - one
    tl.store(place_ptr + entry, place, mask=runs)
    tl.store(epoch_ptr + entry, tl.load(request + EPOCH * places, mask=runs, other=0), mask=runs)
    tl.store(start_ptr + entry, start, mask=runs)
    tl.store(tokens_ptr + entry, tokens, mask=runs)
    tl.store(samples_ptr + entry, samples, mask=runs)
    return entries + tl.sum(one)


@triton.jit
def issue_kernel(
    requests_ptr,
    running_ptr,
    held_ptr,
    numbers_ptr,
    given_ptr,
    entering_ptr,
    entering_tokens_ptr,
    entering_needs_ptr,
    decided_ptr,
    place_ptr,
    epoch_ptr,
    start_ptr,
    tokens_ptr,
    samples_ptr,
    victims_ptr,
    entered_ptr,
    counts_ptr,
    places: tl.constexpr,
    tile: tl.constexpr,
):
    """`given` [seats] tokens of those who run, `entering` [seats] places with their tokens and blocks, `decided`: how
    many stay, who asks for a block first, how many enter (`step.NUMBERS`).  Writes the plan."""
    count = tl.load(numbers_ptr + COUNT)
    stay = tl.load(decided_ptr)
    requester = tl.load(decided_ptr + 1)
    entered = tl.load(decided_ptr + 2)
    asks = tl.load(running_ptr + requester, mask=requester >= 0, other=-1)
    entries = tl.full((), 0, tl.int64)
    first = tl.full((), 0, tl.int64)
    while first < stay:
        index = first + tl.arange(0, tile)
        here = index < stay
        place = tl.load(running_ptr + index, mask=here, other=0)
        start = tl.load(requests_ptr + ISSUED * places + place, mask=here, other=0)
        tokens = tl.load(given_ptr + index, mask=here, other=0)
        entries = write_entries(
            requests_ptr,
            place,
            start,
            tokens,
            place_ptr,
            epoch_ptr,
            start_ptr,
            tokens_ptr,
            samples_ptr,
            entries,
            places,
        )
        first += tile
    leaving = count - stay
    first = tl.full((), 0, tl.int64)
    while first < leaving:
        order = first + tl.arange(0, tile)
        here = order < leaving
        place = tl.load(running_ptr + count - 1 - order, mask=here, other=0)
        request = requests_ptr + place
        known = tl.load(request + KNOWN * places, mask=here, other=0)
        known -= tl.load(request + IN_FLIGHT * places, mask=here, other=0)
        epoch = tl.load(request + EPOCH * places, mask=here, other=0)
        tl.store(request + STATUS * places, order * 0 + WAITING, mask=here)
        tl.store(request + KNOWN * places, known, mask=here)
        tl.store(request + ISSUED * places, order * 0, mask=here)
        tl.store(request + COMPUTED * places, order * 0, mask=here)
        tl.store(request + IN_FLIGHT * places, order * 0, mask=here)
        tl.store(request + EPOCH * places, epoch + 1, mask=here)
        tl.store(victims_ptr + order, place, mask=here)
        first += tile
    tl.debug_barrier()  # all have read the numbers and who ran
    first = tl.full((), 0, tl.int64)
    while first < entered:
        order = first + tl.arange(0, tile)
        here = order < entered
        place = tl.load(entering_ptr + order, mask=here, other=0)
        tokens = tl.load(entering_tokens_ptr + order, mask=here, other=0)
        tl.store(requests_ptr + STATUS * places + place, order * 0 + RUNNING, mask=here)
        tl.store(requests_ptr + CHARGED * places + place, order * 0 + 1, mask=here)
        tl.store(running_ptr + stay + order, place, mask=here)
        tl.store(held_ptr + stay + order, tl.load(entering_needs_ptr + order, mask=here, other=0), mask=here)
        tl.store(entered_ptr + order, place, mask=here)
        entries = write_entries(
            requests_ptr, place, order * 0, tokens, place_ptr, epoch_ptr, start_ptr, tokens_ptr, samples_ptr, entries,
            places,
        )  # fmt: skip
        first += tile
    tl.store(numbers_ptr + COUNT, stay + entered)
    tl.store(counts_ptr, entries)
    tl.store(counts_ptr + 1, leaving)
    tl.store(counts_ptr + 2, entered)
    tl.store(counts_ptr + 3, asks)


def issue_plain(
    state: Plain, tokens: Sequence[int], stay: int, requester: int, entering: Sequence[tuple[int, int]]
) -> PlainPlan:
    """The loops: `entering` are places with their tokens.  Tables have been seen to."""
    asks = state.running[requester] if requester >= 0 else -1
    victims = state.running[stay:][::-1]
    del state.running[stay:]
    entries = [entry_of(state, place, given) for place, given in zip(state.running, tokens, strict=False) if given]
    for place in victims:
        job = state.jobs[place]
        job.status = Status.WAITING
        job.known -= job.in_flight
        job.issued = job.computed = job.in_flight = 0
        job.epoch += 1
    for place, given in entering:
        state.running.append(place)
        state.jobs[place].status, state.jobs[place].charged = Status.RUNNING, 1
        entries.append(entry_of(state, place, given))
    return PlainPlan(entries, victims, [place for place, _ in entering], asks)


def entry_of(state: Plain, place: int, tokens: int) -> Entry:
    job = state.jobs[place]
    start = job.issued
    job.issued += tokens
    samples = int(job.issued == job.known)
    job.known += samples
    job.in_flight += samples
    return Entry(place, job.epoch, start, tokens, samples)
