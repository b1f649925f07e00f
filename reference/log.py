"""What the scheduler says of its decisions, where it is asked to: whom it took and why that one, why somebody lost its
place, and what the time of a request was spent on.

Time is cut at each turn of a request, so its parts are the whole.
"""

from bisect import bisect_left, insort

from attrs import Factory, define

from ..spec.vocabulary import Delta
from .job import RUNNING, WAITING

HELD = "held"
"""Before the door, where a request is no job yet."""


@define(eq=False)
class Spent:
    """When it came, what it does and since when, and how long it has done what."""

    came_ns: int
    doing: str
    since_ns: int
    parts_ns: dict[str, int] = Factory(lambda: dict.fromkeys((HELD, WAITING, RUNNING), 0))

    def turns(self, doing: str, now_ns: int) -> None:
        self.parts_ns[self.doing] += now_ns - self.since_ns
        self.doing, self.since_ns = doing, now_ns


@define(eq=False)
class DecisionLog:
    """`line`: numbers of arrival of those who wait, ascending.  `spent`: by request."""

    line: list[int] = Factory(list)
    spent: dict[str, Spent] = Factory(dict)

    def joins(self, arrival: int) -> None:
        insort(self.line, arrival)

    def leaves(self, arrival: int) -> None:
        place = bisect_left(self.line, arrival)
        if place < len(self.line) and self.line[place] == arrival:
            del self.line[place]

    def place(self, arrival: int) -> int:
        """In the order of arrival of those who wait, from 1."""
        return bisect_left(self.line, arrival) + 1

    def turns(self, request: str, doing: str, now_ns: int) -> None:
        if request not in self.spent:
            self.spent[request] = Spent(now_ns, doing, now_ns)
        self.spent[request].turns(doing, now_ns)

    def ends(self, request: str, now_ns: int) -> Delta:
        spent = self.spent.pop(request)
        spent.turns(spent.doing, now_ns)
        return ("spent", request, *spent.parts_ns.values(), now_ns - spent.came_ns)
