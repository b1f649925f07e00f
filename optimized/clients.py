"""A queue per client: the one with the least counter is next, and among equals the one that was seen first."""

import heapq
from collections.abc import Callable

import numpy as np
from attrs import Factory, define

from ..spec.service import Tariff
from ..spec.settings import Settings
from .arrays import LARGEST, NOTHING, Ints, Rows, integers
from .job import Job
from .queue import Queue

FEW_CLIENTS = 16


@define(eq=False)
class Counters:
    """A number per client: what is `written`, a Python integer, and what came since, in arrays: outputs as they come,
    and, while a clock runs, `rates` once for each of its `ticks`.

    `bound`: no sum in the arrays is above it; before it can overflow they are emptied.
    """

    written: list[int] = Factory(list)
    since: Ints = Factory(lambda: integers(FEW_CLIENTS))
    rates: Ints = NOTHING
    ticks: int = 0
    bound: int = 0

    def new(self) -> int:
        """The number of a client that was not seen before."""
        self.written.append(0)
        if len(self.written) > len(self.since):
            self.since = np.concatenate((self.since, np.zeros_like(self.since)))
        return len(self.written) - 1

    def of(self, client: int) -> int:
        counter = self.written[client] + int(self.since[client])
        if self.ticks and client < len(self.rates):
            counter += self.ticks * int(self.rates[client])
        return counter

    def add(self, client: int, amount: int) -> None:
        self.written[client] += amount

    def add_each(self, clients: Ints, amounts: Ints, most: int) -> None:
        """One amount for each entry, none above `most`; many may be of one client."""
        self._make_room(most * len(clients))
        np.add.at(self.since, clients, amounts)

    def start(self, clients: Ints, rates: Ints) -> None:
        self.rates = integers(len(self.written))
        np.add.at(self.rates, clients, rates)

    def stop(self, most: int) -> None:
        """`most`: no client's rate is above it."""
        self._make_room(most * self.ticks)
        self.since[: len(self.rates)] += self.ticks * self.rates
        self.rates, self.ticks = NOTHING, 0

    def _make_room(self, more: int) -> None:
        self.bound += more
        if self.bound >= LARGEST:
            self.written = [self.written[client] + int(self.since[client]) for client in range(len(self.written))]
            self.since[:] = 0
            self.bound = more


@define(eq=False)
class Least:
    """The least of the clients that `counts` is true of.  A heap of lower bounds: counters only grow, so that who
    surfaces is brought up to date and sinks again.  A client stands in it at most once."""

    counter: Callable[[int], int]
    counts: Callable[[int], bool]
    heap: list[tuple[int, int]] = Factory(list)
    listed: set[int] = Factory(set)

    def enter(self, client: int) -> None:
        if client not in self.listed:
            self.listed.add(client)
            heapq.heappush(self.heap, (self.counter(client), client))

    def first(self) -> int | None:
        while self.heap:
            bound, client = self.heap[0]
            if not self.counts(client):
                heapq.heappop(self.heap)
                self.listed.remove(client)
            elif (counter := self.counter(client)) != bound:
                heapq.heapreplace(self.heap, (counter, client))
            else:
                return client
        return None


@define(eq=False)
class Line:
    """The waiting requests of a client by arrival.  `standing` of them are in the heap; `waiting` is more by those who
    are out of it to be picked or put back."""

    heap: list[tuple[int, Job]] = Factory(list)
    standing: int = 0
    waiting: int = 0

    def push(self, job: Job) -> None:
        heapq.heappush(self.heap, (job.arrival, job))
        self.standing += 1

    def pop(self) -> Job:
        """The first that is live: somebody is, or the line would not be asked."""
        while True:
            _, job = heapq.heappop(self.heap)
            if job.is_live:
                self.standing -= 1
                return job


class Lcf:
    """Least Counter First: service alone changes a counter."""

    shows_counters = True

    def enters(self, queue: "ClientQueue", client: int) -> None:
        """A client of whom nobody waited has a waiting request again."""

    def picked(self, queue: "ClientQueue", client: int) -> None:
        """A request of it is admitted, and not yet charged."""


class Vtc(Lcf):
    """Virtual Token Counter (Sheng et al., OSDI 2024, Algorithm 2): who comes back is lifted to the virtual time, the
    largest that the least counter ever was."""

    def enters(self, queue: "ClientQueue", client: int) -> None:
        least = queue.counted.first()
        if least is None:
            least = queue.last_left
        if least is not None:
            queue.virtual_time = max(queue.virtual_time, queue.service.of(least))
        queue.service.add(client, max(0, queue.virtual_time - queue.service.of(client)))

    def picked(self, queue: "ClientQueue", client: int) -> None:
        least = queue.counted.first()
        queue.virtual_time = max(queue.virtual_time, queue.service.of(client if least is None else least))


class RoundRobin(Lcf):
    """One request of each client in turn: the counter is its place in the round."""

    shows_counters = False

    def enters(self, queue: "ClientQueue", client: int) -> None:
        queue.turns += 1
        queue.service.add(client, queue.turns - queue.service.of(client))

    picked = enters


SHARINGS = {"vtc": Vtc, "lcf": Lcf, "round_robin": RoundRobin}


@define(eq=False)
class ClientQueue(Queue):
    """Clients by number, in the order in which they were seen.  `steepest`: no output of anybody costs more."""

    tariff: Tariff
    sharing: Lcf
    numbers: dict[str, int] = Factory(dict)
    lines: list[Line] = Factory(list)
    service: Counters = Factory(Counters)
    race: Least = Factory(lambda self: Least(self.service.of, self._races), takes_self=True)
    counted: Least = Factory(lambda self: Least(self.service.of, self._is_waiting), takes_self=True)
    size: int = 0
    virtual_time: int = 0
    turns: int = 0
    last_left: int | None = None
    steepest: int = 0

    @classmethod
    def of(cls, settings: Settings) -> "ClientQueue":
        return cls(Tariff.of(settings), SHARINGS[settings.policy]())

    def push(self, job: Job) -> None:
        line = self._line_of(job)
        if not line.waiting:
            self.sharing.enters(self, job.client)
        line.waiting += 1
        self.put_back(job)

    def pop(self) -> Job | None:
        client = self.race.first()
        if client is None:
            return None
        self.size -= 1
        return self.lines[client].pop()

    def put_back(self, job: Job) -> None:
        self.lines[job.client].push(job)
        self.size += 1
        self.race.enter(job.client)
        self.counted.enter(job.client)

    def left(self, job: Job) -> None:
        self.lines[job.client].standing -= 1
        self.size -= 1
        self._waits_no_longer(job)

    def picked(self, job: Job) -> None:
        self.sharing.picked(self, job.client)
        self._waits_no_longer(job)
        if self.is_charged and not job.is_charged:
            job.is_charged = True
            client = job.request.client
            self.service.add(job.client, self.tariff.entry(client) + self.tariff.prompt(client, job.prompt))

    @property
    def is_charged(self) -> bool:
        return self.sharing.shows_counters

    # --- service -------------------------------------------------------------------------------------------

    def served(self, rows: Rows, which: Ints) -> None:
        if not self.is_charged:
            return
        if self.tariff.square or self.steepest * len(which) >= LARGEST:
            self._serve_one_by_one(rows, which)
        else:
            self.service.add_each(rows.client[which], rows.rate[which], self.steepest)

    def may_tick(self, rows: Rows, order: Ints, steps: int) -> bool:
        if not self.is_charged:
            return True
        return not self.tariff.square and self.steepest * len(order) * steps < LARGEST

    def start_clock(self, rows: Rows, order: Ints) -> None:
        if self.is_charged:
            self.service.start(rows.client[order], rows.rate[order])

    def tick(self) -> None:
        self.service.ticks += 1

    def stop_clock(self) -> None:
        self.service.stop(int(self.service.rates.max(initial=0)))

    def counters(self) -> dict[str, int]:
        if not self.is_charged:
            return {}
        return {name: self.service.of(client) for name, client in self.numbers.items()}

    def _serve_one_by_one(self, rows: Rows, which: Ints) -> None:
        for row, outputs in zip(which.tolist(), rows.outputs[which].tolist(), strict=True):
            job = rows.jobs[row]
            assert job is not None
            cost = self.tariff.outputs(job.request.client, job.prompt, outputs - 1, outputs)
            self.service.add(job.client, cost)

    # --- clients -------------------------------------------------------------------------------------------

    def _line_of(self, job: Job) -> Line:
        name = job.request.client
        if name not in self.numbers:
            self.numbers[name] = self.service.new()
            self.lines.append(Line())
        job.client = self.numbers[name]
        if not self.tariff.square:
            cost = self.tariff.outputs(name, job.prompt, 0, 1)
            self.steepest = max(self.steepest, cost)
            job.rate = min(cost, LARGEST)
        return self.lines[job.client]

    def _races(self, client: int) -> bool:
        return self.lines[client].standing > 0

    def _is_waiting(self, client: int) -> bool:
        return self.lines[client].waiting > 0

    def _waits_no_longer(self, job: Job) -> None:
        line = self.lines[job.client]
        line.waiting -= 1
        if not line.waiting:
            self.last_left = job.client
