"""Through every transition of a graph on fresh subjects, with the monitor as the judge of each call.

The subjects come to states under other names than those that the graph was found under, so this shows, too, whether
states that were taken for one are one.  What the monitor remembers is part of where one is: a state in which it
remembers something else is another place, whose transitions are taken as well.
"""

from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping
from time import monotonic

from attrs import Factory, define, frozen

from schedspec.spec.vocabulary import SubjectFactory

from .breaks import Way, is_must
from .graph import Edge, Graph, Show, unseen
from .judge import Judge
from .seen import Seen
from .world import World

UNTOLD_STATE = "`canonical` does not tell all that matters"
UNSAID = f"equal states do not go on alike: {UNTOLD_STATE}"
TIME_IS_UP = "time was up"
UNTOLD = "the monitor remembers more than `memory` tells"


@frozen
class Walked:
    """`exercised`: rule -> how often its precondition held; `broken`: rule -> a short run that breaks it, and after a
    MUST nobody went on.  `doubt`: why the graph may not be trusted, or not all of it was walked; `seen`: on all ways
    together."""

    places: int
    calls: int
    exercised: Mapping[str, int]
    broken: Mapping[str, Way]
    doubt: str = ""
    seen: Seen = Factory(Seen)


@define(eq=False)
class Walk:
    """Of each place, a state and what the monitor remembers in it: its transitions that nobody took yet, and those that
    somebody took, with the place that they lead to."""

    factory: SubjectFactory
    graph: Graph
    places: dict[tuple[int, Hashable], int] = Factory(dict)
    left: list[deque[Edge]] = Factory(list)
    taken: list[list[tuple[Edge, int]]] = Factory(list)
    calls: int = 0
    exercised: Counter[str] = Factory(Counter)
    broken: dict[str, Way] = Factory(dict)
    doubt: str = ""
    seen: Seen = Factory(Seen)
    deadline: float | None = None

    @property
    def is_over(self) -> bool:
        return bool(self.doubt) or any(map(is_must, self.broken))

    def run(self) -> bool:
        """From the first state on, as long as a transition is ahead that nobody took: the nearest is next.  Whether
        there was any."""
        judge = Judge(World.new(self.factory, self.graph.scope))
        place, began = self._place(0, judge), self.calls
        while not self.is_over and (way := self._to_the_nearest(place)) is not None:
            self._doubt_unless(self.deadline is None or monotonic() < self.deadline, TIME_IS_UP)
            for edge, expected in way:
                place = self._go(judge, place, edge)
                self._doubt_unless(place == expected, UNTOLD)
            if not self.is_over:
                edge = self.left[place].popleft()
                self.taken[place].append((edge, self._go(judge, place, edge)))
                place = self.taken[place][-1][1]
        self.exercised.update(judge.exercised())
        self.seen.add(judge)
        return self.calls > began

    def _go(self, judge: Judge, place: int, edge: Edge) -> int:
        """The place after the transition; the same one if it is over."""
        if self.is_over:
            return place
        self.calls += 1
        moves, broken = judge.do(edge.event)
        if new := {violation.rule for violation in broken} - self.broken.keys():
            way = [*self._way_to(place), edge.event]
            self.broken |= dict.fromkeys(new, way)
        self._doubt_unless(moves == edge.moves and judge.world.key() == self.graph.keys[edge.target], UNSAID)
        return self._place(edge.target, judge)

    def _doubt_unless(self, as_expected: bool, why: str) -> None:
        if not as_expected and not self.is_over:
            self.doubt = why

    def _place(self, state: int, judge: Judge) -> int:
        known = len(self.places)
        place = self.places.setdefault((state, judge.memory()), known)
        if place == known:
            self.left.append(deque(self.graph.edges[state] if state < len(self.graph.edges) else ()))
            self.taken.append([])
        return place

    def _to_the_nearest(self, start: int) -> list[tuple[Edge, int]] | None:
        """A shortest way to a place that has such a transition: those on the way, each with the place after it."""
        return self._shortest(start, lambda place: bool(self.left[place]))

    def _way_to(self, end: int) -> Way:
        way = self._shortest(0, lambda place: place == end)
        assert way is not None, "every place was come to from the first"
        return [edge.event for edge, _ in way]

    def _shortest(self, start: int, is_end: Callable[[int], bool]) -> list[tuple[Edge, int]] | None:
        """Through transitions that were taken."""
        came_by: dict[int, tuple[int, Edge] | None] = {start: None}
        queue = deque([start])
        while queue:
            place = queue.popleft()
            if is_end(place):
                return _way(came_by, place)
            for edge, target in self.taken[place]:
                if target not in came_by:
                    came_by[target] = (place, edge)
                    queue.append(target)
        return None


def walk(factory: SubjectFactory, graph: Graph, deadline: float | None = None, show: Show = unseen) -> Walked:
    """Raises ProtocolError if the subject answers what is no answer."""
    there = Walk(factory, graph, deadline=deadline)
    while not there.is_over and there.run():
        show(graph)
    return Walked(len(there.places), there.calls, dict(there.exercised), there.broken, there.doubt, there.seen)


def _way(came_by: Mapping[int, tuple[int, Edge] | None], place: int) -> list[tuple[Edge, int]]:
    way: list[tuple[Edge, int]] = []
    while (before := came_by[place]) is not None:
        way.append((before[1], place))
        place = before[0]
    return way[::-1]
