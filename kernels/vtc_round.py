"""A round of picks under the Virtual Token Counter: the client with the least counter is next, and pays at the pick.

The loop is an argmin and a charge per pick.  A client's own picks have keys that only grow: its counter, plus what its
earlier picks were charged.  So the loop is a merge of those sequences: a sort by key, client and place in the queue, of
which the first misfit ends the round.  In s picks only the s least clients can be picked, and at most s of each.
Charges are known beforehand and never negative; ties go to the client of the lower number.

Keys are packed with client and place into 63 bits, as distances from the least.  A distance that is too large to be
packed ends the round before it (`FAR`): the next round, from another least, goes on.  The first pick has distance 0, so
each round gets on."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from .arrays import MOST, WARPS, require_arrays, require_between, require_equal_lengths
from .room import NOBODY, enter_plain, look

PICKS = 32
"""Picks of a round unless said otherwise: more compile for minutes, and further rounds follow."""
MOST_PICKS = 64

VTC_TILE = 512
"""Clients whose least are found at a time."""

CLIENT_BITS = 20
FAR = 4
"""Why nobody more entered, beside those of `room.py`: the next key is too far from the least, another round goes on."""
SPENT = 5
"""All picks of the round entered; another round goes on."""

DISTANCE_BITS = 63 - CLIENT_BITS
FARTHEST = (1 << DISTANCE_BITS) - 1
"""Distances are below it; it stands for all that are not."""


@triton.jit
def vtc_round_kernel(
    counters_ptr,
    begin_ptr,
    waits_ptr,
    clients_ptr,
    charge_ptr,
    chunk_ptr,
    tested_ptr,
    reserved_ptr,
    running_ptr,
    stay_ptr,
    budget_ptr,
    blocks_ptr,
    picked_ptr,
    tokens_ptr,
    taken_ptr,
    entered_ptr,
    why_ptr,
    budget_left_ptr,
    blocks_left_ptr,
    virtual_time_ptr,
    last_left_ptr,
    seats: tl.int64,
    watermark: tl.int64,
    chunked: tl.constexpr,
    block_size: tl.constexpr,
    picks: tl.constexpr,
    pick_bits: tl.constexpr,
    client_bits: tl.constexpr,
    tile: tl.constexpr,
):
    running = tl.load(running_ptr)
    clients = tl.load(clients_ptr)
    clients = tl.where(tl.load(stay_ptr) < running, 0, clients)  # in a step with victims nobody enters
    budget = tl.load(budget_ptr)
    blocks = tl.load(blocks_ptr)
    never = tl.full((), 0x7FFFFFFFFFFFFFFF, tl.int64)
    farthest = never >> client_bits

    least = never
    waiting = tl.full((), 0, tl.int64)
    first = tl.full((), 0, tl.int64)
    while first < clients:
        number = first + tl.arange(0, tile)
        here = number < clients
        waits = tl.load(waits_ptr + number, mask=here, other=0)
        least = tl.minimum(least, tl.min(tl.load(counters_ptr + number, mask=here & (waits > 0), other=never)))
        waiting += tl.sum(waits)
        first += tile

    # the least clients, as distance and number in one word; ~ turns the largest into the least
    nearest = tl.zeros((picks,), tl.int64)
    first = tl.full((), 0, tl.int64)
    while first < clients:
        number = first + tl.arange(0, tile)
        here = number < clients
        here = here & (tl.load(waits_ptr + number, mask=here, other=0) > 0)
        distance = tl.load(counters_ptr + number, mask=here, other=0) - least
        word = (tl.minimum(distance, farthest) << client_bits) | number
        candidates = tl.topk(tl.where(here, never - word, 0), picks)
        nearest = tl.topk(tl.ravel(tl.join(nearest, candidates)), picks)
        first += tile
    is_client = nearest > 0
    client = (never - nearest) & ((1 << client_bits) - 1)
    client = tl.sort(tl.where(is_client, client, never))  # by number: ties go to the lower
    is_client = client < never

    # keys of the first picks of each: its counter and what is charged before, as distances
    place = tl.arange(0, picks)
    row_begin = tl.load(begin_ptr + client, mask=is_client, other=0)
    row_waits = tl.load(waits_ptr + client, mask=is_client, other=0)
    row_distance = tl.minimum(tl.load(counters_ptr + client, mask=is_client, other=0) - least, farthest)
    waits_here = place[None, :] < row_waits[:, None]
    charge = tl.load(charge_ptr + row_begin[:, None] + place[None, :], mask=waits_here, other=0)
    charge = tl.minimum(charge, farthest)
    distance = row_distance[:, None] + tl.cumsum(charge, axis=1) - charge
    distance = tl.minimum(distance, farthest)  # which is not packed: it ends the round
    word = (distance << (2 * pick_bits)) | (place[:, None] << pick_bits) | place[None, :]
    best = never - tl.topk(tl.ravel(tl.where(waits_here, never - word, 0)), picks)

    here = best < never
    distance = best >> (2 * pick_bits)
    row = ((best >> pick_bits) & (picks - 1)).to(tl.int32)
    picked_client = tl.gather(client, tl.where(here, row, 0), 0)
    job = tl.gather(row_begin, tl.where(here, row, 0), 0) + (best & (picks - 1))
    chunk = tl.load(chunk_ptr + job, mask=here, other=0)
    tested = tl.load(tested_ptr + job, mask=here, other=0)
    reserved = tl.load(reserved_ptr + job, mask=here, other=0)
    none = tl.full((), 0, tl.int64)
    tokens, taken, misfit = look(
        place, here, chunk, tested, reserved, none, none, running, seats, budget, blocks, watermark, chunked, block_size
    )
    misfit = tl.where(distance >= farthest, 4, misfit)
    entered = tl.min(tl.where(here & (misfit == 0), picks, place)).to(tl.int64)
    enters = place < entered
    last = tl.sum(tl.where(here & (place == entered), misfit, 0)).to(tl.int64)
    tokens = tl.where(enters, tokens, 0)
    taken = tl.where(enters, taken, 0)
    tl.store(picked_ptr + place, job, mask=enters)
    tl.store(tokens_ptr + place, tokens, mask=enters)
    tl.store(taken_ptr + place, taken, mask=enters)
    tl.store(entered_ptr, entered)
    tl.store(why_ptr, tl.where((entered == picks) & (waiting > picks), 5, last))
    tl.store(budget_left_ptr, budget - tl.sum(tokens))
    tl.store(blocks_left_ptr, blocks - tl.sum(taken))
    reached = tl.max(tl.where(enters, distance, 0)) + least
    time = tl.load(virtual_time_ptr)
    tl.store(virtual_time_ptr, tl.where(entered > 0, tl.maximum(time, reached), time))
    paid = tl.load(charge_ptr + job, mask=enters, other=0)
    safe = tl.where(enters, picked_client, 0)
    is_last = enters & ((best & (picks - 1)) == tl.gather(row_waits, tl.where(here, row, 0), 0) - 1)
    emptied = tl.max(tl.where(is_last, place, -1))
    left = tl.sum(tl.where(is_last & (place == emptied), picked_client, 0))
    tl.store(last_left_ptr, left, mask=emptied >= 0)
    tl.debug_barrier()  # all have read counters and queues
    tl.atomic_add(counters_ptr + safe, paid, mask=enters)
    tl.atomic_add(begin_ptr + safe, place * 0 + tl.full((), 1, tl.int64), mask=enters)
    tl.atomic_add(waits_ptr + safe, place * 0 - tl.full((), 1, tl.int64), mask=enters)


def vtc_round(
    counters: Tensor,
    begin: Tensor,
    waits: Tensor,
    clients: Tensor,
    charge: Tensor,
    chunk: Tensor,
    tested: Tensor,
    reserved: Tensor,
    running: Tensor,
    stay: Tensor,
    budget: Tensor,
    blocks: Tensor,
    virtual_time: Tensor,
    last_left: Tensor,
    *,
    seats: int,
    watermark: int,
    chunked: bool,
    block_size: int,
    picks: int = PICKS,
    tile: int = VTC_TILE,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Changes `counters`, `begin`, `waits`, `virtual_time` and `last_left`.  Of clients, by number:

        counters  [capacity]  not negative
        begin     [capacity]  where its requests begin in the arrays below, in order of arrival
        waits     [capacity]  how many of them wait
        clients   [1]         how many clients there are

    of requests [places]: what each is charged at the pick, and the tokens and positions of `admit_fcfs`; of the step,
    each [1], what `admit_fcfs` gets, the virtual time, and the client whose last waiting request entered most recently.

    Returns of those who enter, in the order of the picks, where they stand, tokens and blocks, each [picks]; how many,
    why nobody more, and what is left of budget and blocks, each [1].
    """
    of_clients = {"counters": counters, "begin": begin, "waits": waits}
    of_requests = {"charge": charge, "chunk": chunk, "tested": tested, "reserved": reserved}
    numbers = {"clients": clients, "running": running, "stay": stay, "budget": budget, "blocks": blocks}
    require_arrays("vtc_round", **of_clients, **of_requests, **numbers, virtual_time=virtual_time, last_left=last_left)
    require_equal_lengths("vtc_round", **of_clients)
    require_equal_lengths("vtc_round", **of_requests)
    require_between("vtc_round", 0, MOST, seats=seats, watermark=watermark)
    require_between("vtc_round", 1, MOST, block_size=block_size)
    require_between("vtc_round", 0, (1 << CLIENT_BITS) - 1, capacity=len(counters))
    require_between("vtc_round", 2, MOST_PICKS, picks=picks)
    picked, tokens, taken = (torch.empty(picks, dtype=torch.int64, device=charge.device) for _ in range(3))
    entered, why, budget_left, blocks_left = (torch.empty_like(clients) for _ in range(4))
    vtc_round_kernel[(1,)](
        counters, begin, waits, clients, charge, chunk, tested, reserved, running, stay, budget, blocks,
        picked, tokens, taken, entered, why, budget_left, blocks_left, virtual_time, last_left,
        seats, watermark, chunked, block_size, picks, picks.bit_length() - 1, CLIENT_BITS, tile, num_warps=WARPS,
    )  # fmt: skip
    return picked, tokens, taken, entered, why, budget_left, blocks_left


class Round(NamedTuple):
    """Where those who enter stand, tokens and blocks of each, why nobody more, what is left, the virtual time, and
    the client whose last waiting request entered most recently."""

    picked: list[int]
    tokens: list[int]
    blocks: list[int]
    why: int
    budget_left: int
    blocks_left: int
    virtual_time: int
    last_left: int


def vtc_round_plain(
    counters: list[int],
    begin: list[int],
    waits: list[int],
    charge: Sequence[int],
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
    virtual_time: int,
    last_left: int = -1,
    picks: int = PICKS,
) -> Round:
    """The loop; changes `counters`, `begin` and `waits`."""
    done = Round([], [], [], NOBODY, budget, blocks, virtual_time, last_left)
    least = min((counter for counter, some in zip(counters, waits, strict=True) if some), default=0)
    while stay == running and any(waits):
        if len(done.picked) == picks:
            return done._replace(why=SPENT)
        client = min((number for number, some in enumerate(waits) if some), key=lambda number: counters[number])
        if counters[client] - least >= FARTHEST:
            return done._replace(why=FAR)
        job = begin[client]
        one = enter_plain(
            chunk[job : job + 1], tested[job : job + 1], reserved[job : job + 1], running=running + len(done.picked),
            seats=seats, budget=done.budget_left, blocks=done.blocks_left, watermark=watermark, chunked=chunked,
            block_size=block_size,
        )  # fmt: skip
        if one.why:
            return done._replace(why=one.why)
        done = Round(
            [*done.picked, job], done.tokens + one.tokens, done.blocks + one.blocks, NOBODY,
            one.budget_left, one.blocks_left, max(done.virtual_time, counters[client]),
            done.last_left if waits[client] > 1 else client,
        )  # fmt: skip
        counters[client] += charge[job]
        begin[client] += 1
        waits[client] -= 1
    return done
