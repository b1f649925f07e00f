"""A lasso in words: the way to the loop, the loop, and who gets nowhere in it."""

from collections.abc import Iterator

from schedspec.spec.vocabulary import SubjectFactory

from ..narrate import Line, Teller, let, step_table
from .breaks import Way
from .judge import Judge
from .lassos import Counterexample
from .questions import Question
from .scope import Scope
from .world import World

ENDS_WITH = {
    "work": "and nobody runs, though somebody is there and nothing is under way",
    "progress": "and so on for ever: nobody comes or goes, and {who} never ends",
    "starvation": "and so on for ever: others come and go, and {who} never ends",
}
LATE = "and from here, left to itself, it takes more steps than there are positions to compute"


def story(factory: SubjectFactory, scope: Scope, question: Question, found: Counterexample) -> list[str]:
    """Lines of text."""
    world = World.new(factory, scope)
    world.told = []
    for event in found.stem:
        world.do(event)
    who = list(world.live)[found.number]
    for event in found.loop:
        world.do(event)
    rows = list(_rows(step_table(world.told, None, frozenset({who}))))
    stem, loop = rows[: len(found.stem)], rows[len(found.stem) :]
    ends = ENDS_WITH[question] if loop or question == "work" else LATE
    head = ["over and over:"] if loop else []
    return [f"Let {let(scope.settings, [], Teller())}", *stem, *head, *loop, ends.format(who=who)]


def story_of_break(fresh: World, rule: str, way: Way) -> list[str]:
    """Lines of text: a run, and what its last call breaks of the rule."""
    judge, scope = Judge(fresh, explain=True), fresh.scope
    for event in way:
        _, broken = judge.do(event)
    rows = _rows(step_table(judge.heard, None, caching=scope.settings.prefix_caching))
    return [f"Let {let(scope.settings, [], Teller())}", *rows, *(str(v) for v in broken if v.rule == rule)]


def _rows(lines: list[Line]) -> Iterator[str]:
    for line in lines:
        yield f"{line.number:>4}  {line.call:<44}  {line.answer}"
