"""All states of a world that can be reached, the shortest way to each, and every transition between them.

States are looked for in the order of their distance, so that the way to a state is a shortest one.  Of states that
are equal up to names one is kept.
"""

from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any

from attrs import Factory, define, frozen

from schedspec.spec.vocabulary import SubjectFactory

from .copies import CannotCopy, Copies, Replays
from .scope import Event, Scope
from .world import Key, World

LOOK_EVERY = 256
"""States between two times that somebody is shown how far it is."""


@frozen
class Edge:
    """A transition: `moves` says of everybody who is there which number it has after it, or -1; `under_way` how many
    steps are after it."""

    event: Event
    target: int
    moves: tuple[int, ...]
    under_way: int
    runs: bool = False

    @property
    def is_idle(self) -> bool:
        """A step that runs nobody, with somebody there and nothing under way."""
        return self.event.what == "step" and not self.under_way and bool(self.moves)

    @property
    def goes_on(self) -> bool:
        """Results come, or there are none to wait for: a world that is fair does not leave this out for ever."""
        return self.event.what == "complete" or (self.event.what == "step" and not self.under_way)


@define(eq=False)
class Graph:
    """`edges[s]` are the transitions from state s, `parents[s]` the state and the transition from which it was found
    first, `there[s]` the kinds of those who are there.  `cut_off`: why it is not whole, if it is not."""

    scope: Scope
    edges: list[list[Edge]] = Factory(list)
    parents: list[tuple[int, Event] | None] = Factory(list)
    keys: list[Key] = Factory(list)
    there: list[tuple[int, ...]] = Factory(list)
    cut_off: str = ""

    @property
    def states(self) -> int:
        return len(self.keys)

    @property
    def transitions(self) -> int:
        return sum(map(len, self.edges))

    def path_to(self, state: int) -> list[Event]:
        path: list[Event] = []
        while (parent := self.parents[state]) is not None:
            state, event = parent
            path.append(event)
        return path[::-1]


Show = Callable[[Graph], None]


@frozen
class Limits:
    """How much is looked at; None is no limit."""

    states: int | None = None
    seconds: float | None = None


NO_LIMITS = Limits()


def unseen(graph: Graph) -> None:
    """Nobody looks on."""


def explore(
    factory: SubjectFactory, scope: Scope, limits: Limits = NO_LIMITS, show: Show = lambda graph: None
) -> Graph:
    """The graph, or as much of it as is allowed."""
    try:
        return _explore(factory, scope, Copies(), limits, show)
    except CannotCopy:
        return _explore(factory, scope, Replays(factory, scope), limits, show)


def _explore(factory: SubjectFactory, scope: Scope, worlds: Copies | Replays, limits: Limits, show: Show) -> Graph:
    graph = Graph(scope)
    numbers: dict[Key, int] = {}
    found: deque[Any] = deque()
    deadline = None if limits.seconds is None else monotonic() + limits.seconds

    def number_of(world: World, parent: tuple[int, Event] | None) -> int:
        key = world.key()
        if key not in numbers:
            number = numbers[key] = len(graph.keys)
            graph.keys.append(key)
            graph.parents.append(parent)
            graph.there.append(tuple(request.kind for request in world.live.values()))
            found.append(worlds.keep(world, graph.path_to(number)))
        return numbers[key]

    number_of(World.new(factory, scope), None)
    while found and not graph.cut_off:
        source = len(graph.edges)
        kept = found.popleft()
        edges: list[Edge] = []
        for event in worlds.again(kept).events():
            world = worlds.again(kept)
            before = len(world.plans)
            moves = world.do(event)
            runs = event.what == "step" and len(world.plans) > before
            edges.append(Edge(event, number_of(world, (source, event)), moves, len(world.plans), runs))
        graph.edges.append(edges)
        if source % LOOK_EVERY == 0:
            show(graph)
        graph.cut_off = _why_stop(graph, limits.states, deadline)
    show(graph)
    return graph


def _why_stop(graph: Graph, most_states: int | None, deadline: float | None) -> str:
    if most_states is not None and graph.states > most_states:
        return f"there are more than {most_states:,} states"
    return "time was up" if deadline is not None and monotonic() > deadline else ""
