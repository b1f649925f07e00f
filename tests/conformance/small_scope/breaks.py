"""Shortest runs that break a rule."""

from collections.abc import Collection, Sequence

from schedspec.spec.catalogue import registry
from schedspec.spec.vocabulary import SubjectFactory

from .graph import Graph
from .judge import Judge
from .scope import Event
from .world import World

Way = Sequence[Event]


def is_must(rule: str) -> bool:
    return registry.rules[rule].level == "MUST"


def shortest_breaks(factory: SubjectFactory, graph: Graph, rules: Collection[str]) -> dict[str, Way]:
    """Rule -> a shortest way to break it, along shortest ways to states.  None is looked for behind a broken MUST."""
    found: dict[str, Way] = {}
    for source, edges in enumerate(graph.edges):
        stem = graph.path_to(source)
        for edge in edges:
            way = [*stem, edge.event]
            broken = broken_by(factory, graph, way)
            found |= {rule: way for rule in broken if rule in rules and rule not in found}
            if found.keys() >= set(rules) or any(map(is_must, broken)):
                return found
    return found


def broken_by(factory: SubjectFactory, graph: Graph, way: Way) -> set[str]:
    """What the last call of a run breaks."""
    judge = Judge(World.new(factory, graph.scope))
    for event in way[:-1]:
        judge.do(event)
    return {violation.rule for violation in judge.do(way[-1])[1]}
