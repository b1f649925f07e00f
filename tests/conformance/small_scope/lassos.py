"""Cycles in which somebody gets nowhere.

What a request has got is part of the state.  So whoever is there all round a cycle of states has got nothing in it that
lasts: if steps go on, and their results come, it waits for ever, or is preempted again and again.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from attrs import frozen

from .graph import Edge, Graph
from .scope import Event

Allowed = Callable[[Event], bool]
"""Whether a cycle may have such an event."""

Place = tuple[int, int]
"""A state, and the number of a request that is there."""


@frozen
class Counterexample:
    """The way to a state, and from there a loop back to it on which the scheduler goes on while one request is there
    all the time: `number` is its number at the start of the loop.  Without a loop the way is all there is to see."""

    stem: tuple[Event, ...]
    loop: tuple[Event, ...] = ()
    number: int = 0


def find_lasso(graph: Graph, allowed: Allowed) -> Counterexample | None:
    """The one with the shortest way to its loop, if there is any."""
    cycles = [set(c) for c in _components(graph, allowed) if _goes_on(graph, set(c), allowed)]
    if not cycles:
        return None
    members = min(cycles, key=min)  # states are numbered in the order of their distance
    state, number = min(members)
    return Counterexample(tuple(graph.path_to(state)), tuple(_loop(graph, (state, number), allowed, members)), number)


def _goes_on(graph: Graph, members: set[Place], allowed: Allowed) -> bool:
    """If others only come and go, without a step and its results, the world keeps them from everything."""
    return any(edge.goes_on for place in members for edge, _ in _inside(graph, place, allowed, members))


def _ways(graph: Graph, place: Place, allowed: Allowed) -> Iterator[tuple[Edge, Place]]:
    """Transitions after which that request is still there."""
    state, number = place
    if state >= len(graph.edges):  # cut off
        return
    for edge in graph.edges[state]:
        if allowed(edge.event) and edge.moves[number] >= 0:
            yield edge, (edge.target, edge.moves[number])


def _inside(graph: Graph, place: Place, allowed: Allowed, members: set[Place]) -> Iterator[tuple[Edge, Place]]:
    return ((edge, after) for edge, after in _ways(graph, place, allowed) if after in members)


def _components(graph: Graph, allowed: Allowed) -> Iterator[Sequence[Place]]:
    """Strongly connected components that have a cycle (Tarjan 1972, without recursion)."""
    order: dict[Place, int] = {}
    least: dict[Place, int] = {}
    stack: list[Place] = []
    on_stack: set[Place] = set()
    for root in _places(graph):
        if root in order:
            continue
        work = [(root, _ways(graph, root, allowed))]
        while work:
            place, ways = work[-1]
            if place not in order:
                order[place] = least[place] = len(order)
                stack.append(place)
                on_stack.add(place)
            for _, after in ways:
                if after not in order:
                    work.append((after, _ways(graph, after, allowed)))
                    break
                if after in on_stack:
                    least[place] = min(least[place], least[after])
            else:
                work.pop()
                if work:
                    least[work[-1][0]] = min(least[work[-1][0]], least[place])
                if least[place] == order[place]:
                    component = _popped(stack, on_stack, place)
                    if len(component) > 1 or any(after == place for _, after in _ways(graph, place, allowed)):
                        yield component


def _popped(stack: list[Place], on_stack: set[Place], until: Place) -> list[Place]:
    component: list[Place] = []
    while not component or component[-1] != until:
        component.append(stack.pop())
        on_stack.discard(component[-1])
    return component


def _places(graph: Graph) -> Iterator[Place]:
    for state, edges in enumerate(graph.edges):
        if edges:
            yield from ((state, number) for number in range(len(edges[0].moves)))


def _loop(graph: Graph, start: Place, allowed: Allowed, members: set[Place]) -> list[Event]:
    """A shortest way back to where it started on which the scheduler goes on."""
    first = (start, False)
    came_from: dict[tuple[Place, bool], tuple[tuple[Place, bool], Event]] = {}
    queue = deque([first])
    while queue:
        here = queue.popleft()
        for edge, after in _inside(graph, here[0], allowed, members):
            there = (after, here[1] or edge.goes_on)
            if there in came_from:
                continue
            came_from[there] = (here, edge.event)
            if there == (start, True):
                return _way_back(came_from, first, there)
            queue.append(there)
    raise AssertionError("every transition within a component is on a cycle")


def _way_back(
    came_from: dict[tuple[Place, bool], tuple[tuple[Place, bool], Event]],
    first: tuple[Place, bool],
    last: tuple[Place, bool],
) -> list[Event]:
    way: list[Event] = []
    while not way or last != first:
        last, event = came_from[last]
        way.append(event)
    return way[::-1]
