"""All that a scheduler on a device knows, in one class of tensors, and the same in plain Python for the twins.

Everything is int64 and of fixed size, so that a captured graph finds it where it was.  A request has a *place*, which
the host gives it and may give away again once it has seen it end; a running one also has a row of block ids."""

from enum import IntEnum
from typing import NamedTuple

import torch
import triton.language as tl
from attrs import Factory, define, fields
from torch import Tensor


class Status(IntEnum):
    """Of a place: nobody was ever there, its request waits, runs, or ended: the model stopped, it had what it
    declared, somebody cancelled it."""

    EMPTY = 0
    WAITING = 1
    RUNNING = 2
    STOPPED = 3
    AT_LENGTH = 4
    CANCELLED = 5


@define
class Job:
    """A request; the columns of `State.requests` are these fields, in this order.

    `known`: positions whose token is there or in flight, `issued` of them scheduled, `computed` of those done.
    `declared`: outputs that it may have, `length`: its prompt and those.  `charged`: whether its client has paid
    `pick_cost`; output number n costs `output_cost` + (2n − 1) · `square_cost`.  `epoch` counts how often it left the
    running set or ended, also over those who had its place before.
    """

    status: int = 0
    group: int = 0
    key: int = 0
    arrival: int = 0
    known: int = 0
    declared: int = 0
    length: int = 0
    pick_cost: int = 0
    output_cost: int = 0
    square_cost: int = 0
    outputs: int = 0
    issued: int = 0
    computed: int = 0
    in_flight: int = 0
    charged: int = 0
    epoch: int = 0

    @property
    def order(self) -> tuple[int, int, int]:
        """Its place in line."""
        return self.group, self.key, self.arrival

    @property
    def is_live(self) -> bool:
        return self.status in (Status.WAITING, Status.RUNNING)


FIELDS = tuple(field.name for field in fields(Job))
WAITING, RUNNING, STOPPED, AT_LENGTH, CANCELLED = (tl.constexpr(int(status)) for status in list(Status)[1:])
STATUS, GROUP, KEY, ARRIVAL, KNOWN, DECLARED, LENGTH = (tl.constexpr(place) for place in range(7))
PICK_COST, OUTPUT_COST, SQUARE_COST = (tl.constexpr(place) for place in range(7, 10))
OUTPUTS, ISSUED, COMPUTED, IN_FLIGHT, CHARGED, EPOCH = (tl.constexpr(place) for place in range(10, 16))

NUMBERS = ("running", "top", "half", "entries", "gone", "moved", "groups", "virtual_time", "last_left")
COUNT, TOP, HALF, ENTRIES, GONE, MOVED, GROUPS, VIRTUAL_TIME, LAST_LEFT = (
    tl.constexpr(place) for place in range(len(NUMBERS))
)
"""How many run, the height of the stack of free blocks; which half of `line` counts, how many stand there, how many of
those are gone, and how many stood there before it was written anew; groups, their virtual time, and the group whose
last waiting request left most recently (−1: none)."""


class Sizes(NamedTuple):
    places: int
    seats: int
    blocks: int
    width: int
    groups: int


@define(eq=False)
class State:
    """Tensors on one device:

    requests  [fields, places]  columns of `Job`
    running   [seats]           places of those who run, in order of admission
    rows      [seats]           all rows, each once: first those of who runs, then the unused ones
    held      [seats]           blocks of each who runs
    tables    [seats, width]    block ids by row, the first `held` of which count
    free      [blocks]          the stack of free blocks
    line      [2, places]       places of all who live, by group, key and arrival; one half counts
    counters, waits, bursts     [groups]: service, requests that wait, how far behind it may come back
    begin     [groups]          where in line the first that waits stands; written in each step
    numbers   [9]               `NUMBERS`
    """

    requests: Tensor
    running: Tensor
    rows: Tensor
    held: Tensor
    tables: Tensor
    free: Tensor
    line: Tensor
    counters: Tensor
    waits: Tensor
    bursts: Tensor
    begin: Tensor
    numbers: Tensor

    @classmethod
    def of(cls, sizes: Sizes, device: str | torch.device) -> "State":
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.int64, device=device)

        free = torch.arange(sizes.blocks - 1, -1, -1, dtype=torch.int64, device=device)
        rows = torch.arange(sizes.seats, dtype=torch.int64, device=device)
        state = cls(
            zeros(len(FIELDS), sizes.places), zeros(sizes.seats), rows, zeros(sizes.seats),
            zeros(sizes.seats, sizes.width), free, zeros(2, sizes.places),
            zeros(sizes.groups), zeros(sizes.groups), zeros(sizes.groups), zeros(sizes.groups), zeros(len(NUMBERS)),
        )  # fmt: skip
        state.number(TOP).fill_(sizes.blocks)
        state.number(LAST_LEFT).fill_(-1)
        return state

    def number(self, which: tl.constexpr) -> Tensor:
        """One of `NUMBERS` as a tensor [1], not a copy."""
        return self.numbers[which.value : which.value + 1]

    def plain(self) -> "Plain":
        """The same in Python.  It waits for the device: for tests, and whoever has nothing better to do."""
        numbers = dict(zip(NUMBERS, self.numbers.tolist(), strict=True))
        running = self.running[: numbers["running"]].tolist()
        rows, held = self.rows.tolist(), self.held.tolist()
        if sorted(rows) != list(range(len(rows))):
            raise ValueError(f"the rows are {rows}, but each must be there once")
        return Plain(
            jobs=[Job(*column) for column in self.requests.T.tolist()],
            running=running,
            tables={place: self.tables[rows[at], : held[at]].tolist() for at, place in enumerate(running)},
            free=self.free[: numbers["top"]].tolist(),
            line=self.line[numbers["half"], : numbers["entries"]].tolist(),
            gone=numbers["gone"],
            counters=self.counters[: numbers["groups"]].tolist(),
            waits=self.waits[: numbers["groups"]].tolist(),
            bursts=self.bursts[: numbers["groups"]].tolist(),
            virtual_time=numbers["virtual_time"],
            last_left=numbers["last_left"],
        )


@define
class Plain:
    """What a state says: the twins change this."""

    jobs: list[Job]
    running: list[int]
    tables: dict[int, list[int]]
    free: list[int]
    line: list[int]
    gone: int
    counters: list[int]
    waits: list[int]
    bursts: list[int]
    virtual_time: int
    last_left: int


@define(eq=False)
class Plan:
    """What a step decided, as tensors that the engine reads where they are.

    place, epoch, start, tokens, samples  [seats]  entry i runs `tokens` positions from `start`, and samples or not
    victims   [seats]  places of the preempted, in that order
    entering  [seats]  places of who is admitted, in that order
    counts    [4]      entries, victims, who entered, and the place that victims left for (−1: their own)
    """

    place: Tensor
    epoch: Tensor
    start: Tensor
    tokens: Tensor
    samples: Tensor
    victims: Tensor
    entering: Tensor
    counts: Tensor

    @classmethod
    def of(cls, seats: int, device: str | torch.device) -> "Plan":
        return cls(*(torch.zeros(size, dtype=torch.int64, device=device) for size in (*(seats,) * 7, 4)))

    def plain(self) -> "PlainPlan":
        """It waits for the device."""
        entries, victims, entered, requester = self.counts.tolist()
        columns = (self.place, self.epoch, self.start, self.tokens, self.samples)
        rows = zip(*(column[:entries].tolist() for column in columns), strict=True)
        return PlainPlan(
            [Entry(*row) for row in rows], self.victims[:victims].tolist(), self.entering[:entered].tolist(), requester
        )


@define
class Entry:
    place: int
    epoch: int
    start: int
    tokens: int
    samples: int


@define
class PlainPlan:
    entries: list[Entry] = Factory(list)
    victims: list[int] = Factory(list)
    entering: list[int] = Factory(list)
    requester: int = -1
