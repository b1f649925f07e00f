"""Members of a queue (clients, or lanes) by rank: the least is next."""

import heapq
from collections.abc import Callable

from attrs import Factory, define

from .lines import Line

Rank = tuple[int, int]


@define(eq=False)
class Member:
    """A client or a lane: its counter, and the queue of its own.

    `number`: ties go to whoever was seen first.  `waiting`: its waiting requests, also while one is looked at and is
    out of the queue.  `aged`: how many of them have seen so many admissions that it is preferred.  `place`: when it
    came to have some.  `held`: it is at a cap, and out of the race until something of it leaves.
    """

    name: str
    number: int
    queue: Line
    counter: int = 0
    waiting: int = 0
    aged: int = 0
    place: int = 0
    held: bool = False


@define(eq=False)
class Race:
    """A heap of lower bounds of ranks, which are brought up to date where somebody looks: most ranks only grow.  Whose
    rank falls enters again, and the older entry is dropped when it surfaces."""

    rank: Callable[[Member], Rank]
    races: Callable[[Member], bool]
    heap: list[tuple[Rank, int, Member]] = Factory(list)
    listed: dict[int, Rank] = Factory(dict)

    def enter(self, member: Member) -> None:
        rank = self.rank(member)
        if member.number not in self.listed or rank < self.listed[member.number]:
            self.listed[member.number] = rank
            heapq.heappush(self.heap, (rank, member.number, member))

    def first(self) -> Member | None:
        while self.heap:
            bound, number, member = self.heap[0]
            if self.listed.get(number) != bound:
                heapq.heappop(self.heap)
            elif not self.races(member):
                self._take()
            elif (rank := self.rank(member)) != bound:
                self.listed[number] = rank
                heapq.heapreplace(self.heap, (rank, number, member))
            else:
                return member
        return None

    def leading(self, most: int) -> list[Member]:
        """Those who share the least first part of a rank, in order, at most so many of them."""
        leading: list[Member] = []
        while len(leading) < most and (member := self.first()) is not None:
            if leading and self.rank(member)[0] != self.rank(leading[0])[0]:
                break
            leading.append(self._take())
        for member in leading:
            self.enter(member)
        return leading

    def _take(self) -> Member:
        _, number, member = heapq.heappop(self.heap)
        del self.listed[number]
        return member
