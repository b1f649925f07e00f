"""Who of many members has the least rank."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from typing import Any

import numpy as np
from attrs import Factory, define

from .ints import NOTHING, Bools, Ints
from .job import Member
from .service import Counters

Rank = Any
"""An integer, or a pair of them: whatever one kind of sharing compares."""
NUMBER_BITS = 32
NUMBERS = (1 << NUMBER_BITS) - 1
"""No member has a larger number."""
FRONT = 64
"""So many, or a few more, are looked up in one go; many times as many are too many to keep up to date."""
MANY_FRONTS = 4


@define(eq=False)
class Race:
    """The least rank of those who have one: who takes no part has none.  A heap of lower bounds: who surfaces is
    brought up to date and sinks again; whose rank falls enters anew, and its older entry is dropped when it surfaces.
    """

    rank: Callable[[Member], Rank | None]
    heap: list[tuple[Rank, int, Member]] = Factory(list)
    listed: dict[int, Rank] = Factory(dict)

    def enter(self, member: Member) -> None:
        rank, listed = self.rank(member), self.listed.get(member.number)
        if rank is not None and (listed is None or rank < listed):
            self.listed[member.number] = rank
            heappush(self.heap, (rank, member.number, member))

    def first(self) -> Member | None:
        heap, listed, rank_of = self.heap, self.listed, self.rank
        while heap:
            bound, number, member = heap[0]
            if listed.get(number) != bound:
                heappop(heap)
                continue
            rank = rank_of(member)
            if rank == bound:
                return member
            if rank is None:
                heappop(heap)
                del listed[number]
            else:
                listed[number] = rank
                heapreplace(heap, (rank, number, member))
        return None


@define(eq=False)
class CounterRace:
    """The same where the rank is the counter, and counters fall only where who falls enters anew.  An entry is one
    integer, the rank and below it the member's number.

    The heap has only those below `limit`.  Nobody else can be the least while it has somebody; when it is empty, the
    next few are looked up in the arrays of counters, all at once and up to date: who is far from the least costs
    nothing until then.  `waits`: 0 is who takes no part.  `may_wait` of each number: False only if it does not."""

    service: Counters
    waits: Callable[[Member], int]
    members: list[Member]
    heap: list[int] = Factory(list)
    listed: dict[int, int] = Factory(dict)
    limit: float = inf
    most: int = Factory(lambda: MANY_FRONTS * FRONT)
    may_wait: Bools = Factory(lambda: NOTHING != 0)
    account: Ints = Factory(lambda: NOTHING)

    def enter(self, member: Member) -> None:
        if not self.waits(member):
            return
        number = member.number
        if number >= len(self.may_wait):
            self._grow()
        self.may_wait[number], self.account[number] = True, member.account
        entry = self.service.of(member.account) << NUMBER_BITS | number
        if entry < self.limit and entry < self.listed.get(number, inf):
            self.listed[number] = entry
            heappush(self.heap, entry)

    def first(self) -> Member | None:
        heap, listed, members, service = self.heap, self.listed, self.members, self.service
        written, since, rates, ticks = service.written, service.one_since, service.one_rate, service.ticks
        if len(heap) > self.most:
            heap.clear()
        while heap or self._refill():
            bound = heap[0]
            number = bound & NUMBERS
            if listed.get(number) != bound:
                heappop(heap)
                continue
            member = members[number]
            account = member.account
            entry = (written[account] + since[account] + ticks * rates[account]) << NUMBER_BITS | number
            if entry == bound and self.waits(member):
                return member
            if entry == bound or entry >= self.limit:
                self.may_wait[number] = entry != bound
                heappop(heap)
                del listed[number]
            else:
                listed[number] = entry
                heapreplace(heap, entry)
        return None

    def sink(self, member: Member, counter: int) -> None:
        """Who was first has got as much by now: it need not surface to be found out."""
        heap, number = self.heap, member.number
        bound, entry = self.listed.get(number), counter << NUMBER_BITS | number
        if not heap or heap[0] != bound:
            return
        if entry < self.limit and member.line.size:
            self.listed[number] = entry
            heapreplace(heap, entry)
        else:
            heappop(heap)
            del self.listed[number]

    def _refill(self) -> bool:
        """The next ones are in the heap; False if nobody waits."""
        heap, listed, members, may_wait = self.heap, self.listed, self.members, self.may_wait
        while not heap:
            nearest = self._nearest(may_wait.nonzero()[0])
            if not nearest:
                return False
            listed.clear()
            for number, rank in nearest:
                if self.waits(members[number]):
                    listed[number] = rank << NUMBER_BITS | number
                else:
                    may_wait[number] = False
            heap.extend(listed.values())
            heapify(heap)
        self.most = MANY_FRONTS * max(FRONT, len(heap))
        return True

    def _nearest(self, numbers: Ints) -> list[tuple[int, int]]:
        """Of whom the counters are least, all that are below `limit`, with them."""
        ranks = self.service.ranks(self.account[numbers])
        self.limit = inf
        if len(numbers) > FRONT and ranks is not None:
            most = int(np.partition(ranks, FRONT)[FRONT])
            nearest = ranks <= most
            numbers, ranks, self.limit = numbers[nearest], ranks[nearest], (most + 1) << NUMBER_BITS
        known = ranks.tolist() if ranks is not None else map(self.service.of, self.account[numbers].tolist())
        return list(zip(numbers.tolist(), known, strict=True))

    def _grow(self) -> None:
        more = max(len(self.members), 16)
        self.may_wait = np.concatenate((self.may_wait, np.zeros(more, dtype=np.bool_)))
        self.account = np.concatenate((self.account, np.zeros(more, dtype=np.int64)))
