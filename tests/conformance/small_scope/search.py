"""The search: all states of a subject in a scope, the questions asked of them, and how far the answers go."""

from collections.abc import Mapping
from random import Random
from time import perf_counter
from typing import Literal

from attrs import Factory, define, frozen

from schedspec.spec.vocabulary import SubjectFactory

from .breaks import Way, shortest_breaks
from .graph import NO_LIMITS, Graph, Limits, Show, explore, unseen
from .lassos import Counterexample
from .questions import ASKED, Question, asked
from .scope import Scope
from .walk import UNSAID, UNTOLD_STATE, Walked, walk
from .world import World, canonical_of

Verdict = Literal["exhausted", "refuted", "unknown"]
"""No counterexample in all that there is; one, which repeats; neither, since not everything was looked at."""

ROUNDS = 50
"""A loop is believed if the subject goes round so often."""

RETRACED_CALLS = 2_000
RETRACED_RUN = 60


class CannotSay(ValueError):
    """There is nothing to tell states apart by."""


class DoesNotRepeat(ValueError):
    """The subject does something else in a state that was taken for another one."""


@frozen
class Answer:
    """`why`: what makes it unknown."""

    verdict: Verdict
    counterexample: Counterexample | None = None
    why: str = ""


@define(eq=False)
class Result:
    """`doubt`: why the graph says nothing of what it does not show; `breaks`: rule -> a shortest run that breaks it."""

    scope: Scope
    states: int
    transitions: int
    seconds: float
    answers: Mapping[Question, Answer]
    doubt: str = ""
    walked: Walked | None = None
    breaks: Mapping[str, Way] = Factory(dict)


def search(
    factory: SubjectFactory,
    scope: Scope,
    limits: Limits = NO_LIMITS,
    show: Show = unseen,
    *,
    judged: bool = False,
    deadline: float | None = None,
) -> Result:
    """All questions, asked of all states; `judged`: and all transitions judged by the rules, until `deadline` (of the
    monotonic clock).  Raises CannotSay for a
    subject that cannot say what of its state matters."""
    if canonical_of(factory(scope.settings, scope.seed)) is None:
        raise CannotSay("there is no method `canonical(requests, clients)` to say what of the subject's state matters")
    began = perf_counter()
    graph = explore(factory, scope, limits, show)
    walked = walk(factory, graph, deadline, show) if judged else None
    doubt = graph.cut_off or (walked.doubt if walked else retraced(factory, graph))
    answers = {question: _answer(factory, graph, question, doubt) for question in asked(scope)}
    breaks = {**walked.broken, **shortest_breaks(factory, graph, walked.broken)} if walked and walked.broken else {}
    return Result(scope, graph.states, graph.transitions, perf_counter() - began, answers, doubt, walked, breaks)


def _answer(factory: SubjectFactory, graph: Graph, question: Question, doubt: str) -> Answer:
    found = ASKED[question](graph)
    if found is not None:
        goes_round(factory, graph.scope, found)
        return Answer("refuted", found)
    return Answer("unknown", None, doubt) if doubt else Answer("exhausted")


def goes_round(factory: SubjectFactory, scope: Scope, found: Counterexample) -> None:
    """On a fresh subject: after each round the state is the same, and the same request is still there with as many
    outputs.  Raises DoesNotRepeat."""
    world = World.new(factory, scope)
    for event in found.stem:
        world.do(event)
    if not found.loop:
        return
    key, number = world.key(), found.number
    stuck = list(world.live.values())[number]
    outputs = stuck.outputs
    for _ in range(ROUNDS):
        for event in found.loop:
            number = world.do(event)[number]
        if world.key() != key or number != found.number or stuck.outputs != outputs:
            raise DoesNotRepeat(f"a loop does not come back to where it began: {UNTOLD_STATE}")


def retraced(factory: SubjectFactory, graph: Graph) -> str:
    """Random runs through the graph on fresh subjects, under other names than those that it was found under.  Why it
    may not be trusted, if one of them comes to another state than the graph says."""
    dice = Random(graph.scope.seed)
    for _ in range(RETRACED_CALLS // RETRACED_RUN):
        world, state = World.new(factory, graph.scope), 0
        for _ in range(RETRACED_RUN):
            edge = dice.choice(graph.edges[state])
            if world.do(edge.event) != edge.moves or world.key() != graph.keys[edge.target]:
                return UNSAID
            state = edge.target
    return ""
