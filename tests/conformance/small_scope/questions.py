"""What is asked of a graph, and of which rule it is a part."""

from collections.abc import Callable, Mapping
from typing import Literal

from .graph import Graph
from .lassos import Counterexample, find_lasso
from .scope import STEP, Scope

Question = Literal["work", "progress", "starvation"]


def find_idle(graph: Graph) -> Counterexample | None:
    """A step that runs nobody though somebody is there and nothing is under way (LIVE-1)."""
    for source, edges in enumerate(graph.edges):
        if any(edge.is_idle for edge in edges):
            return Counterexample((*graph.path_to(source), STEP))
    return None


def find_endless(graph: Graph) -> Counterexample | None:
    """Left to itself, somebody never ends, or not within the steps that there is work for (LIVE-2): nobody comes, goes
    or stops early."""
    return find_lasso(graph, lambda event: event.is_quiet) or _find_late(graph)


def find_starving(graph: Graph) -> Counterexample | None:
    """Somebody never ends while others come and go without end."""
    return find_lasso(graph, lambda event: True)


ASKED: Mapping[Question, Callable[[Graph], Counterexample | None]] = {
    "work": find_idle,
    "progress": find_endless,
    "starvation": find_starving,
}

RULES: Mapping[Question, str] = {"work": "LIVE-1", "progress": "LIVE-2"}
"""The rule that a question is about.  No rule promises everybody that nobody starves."""


def asked(scope: Scope) -> list[Question]:
    """Who comes without end may keep others from ending; a few arrivals cannot."""
    return [question for question in ASKED if question != "starvation" or scope.arrivals is None]


def _find_late(graph: Graph) -> Counterexample | None:
    """Somebody just came, and then it takes more steps until all have ended than their positions, one by one."""
    left: dict[int, int] = {}
    for source, edges in enumerate(graph.edges):
        for edge in edges:
            if edge.event.what == "submit" and _steps_left(graph, edge.target, left) > _most_steps(graph, edge.target):
                return Counterexample((*graph.path_to(source), edge.event))
    return None


def _steps_left(graph: Graph, start: int, left: dict[int, int]) -> int:
    """Most steps until nobody is there: there is no cycle on the way."""
    work = [start]
    while work:
        state = work[-1]
        onward = _quiet_ways(graph, state)
        unknown = [target for target, _ in onward if target not in left]
        if state in left or not unknown:
            left.setdefault(state, max((left[target] + steps for target, steps in onward), default=0))
            work.pop()
        else:
            work += unknown
    return left[start]


def _quiet_ways(graph: Graph, state: int) -> list[tuple[int, int]]:
    """Where a state leads by itself, and how many steps that is.  A step that runs nobody while results are under way
    is no step."""
    if state >= len(graph.edges) or not graph.edges[state] or not graph.edges[state][0].moves:
        return []
    quiet = [edge for edge in graph.edges[state] if edge.event.is_quiet and (edge.runs or edge.goes_on)]
    return [(edge.target, edge.event.what == "step") for edge in quiet]


def _most_steps(graph: Graph, state: int) -> int:
    """As LIVE-2 counts them: for each that is there its prompt and output, one position a step, and one step more."""
    scope = graph.scope
    ahead = scope.settings.overlap_depth - 1
    return 1 + sum(scope.kinds[kind].positions + ahead for kind in graph.there[state])
