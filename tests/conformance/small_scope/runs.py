"""All runs of so many calls, for a subject that cannot say what of its state matters: no state is taken for another.

Rules are judged in each of them.  Whether somebody never ends cannot be said: that takes states that come back.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from time import monotonic

from attrs import Factory, define, frozen

from schedspec.spec.vocabulary import SubjectFactory

from .breaks import Way, is_must
from .judge import Judge
from .scope import Event, Scope
from .seen import Seen
from .world import World


@frozen
class Runs:
    """`runs` of `calls` calls each; `broken`: rule -> a shortest run that breaks it; nobody went on after a MUST.
    `seen`: in all runs together; `is_cut_off`: time was up before all were made."""

    calls: int
    runs: int
    exercised: Mapping[str, int]
    broken: Mapping[str, Way]
    seen: Seen = Factory(Seen)
    is_cut_off: bool = False


@define(eq=False)
class Plain(World):
    """Clients are alike until they have come."""

    came: dict[str, None] = Factory(dict)

    def _who_may_come(self) -> range:
        return range(min(len(self.came) + 1, self.scope.clients))

    def _clients(self) -> Sequence[str]:
        return list(dict.fromkeys((*self.came, *self.scope.client_names)))

    def _submit(self, event: Event) -> None:
        client = self._clients()[event.number]
        super()._submit(event)
        self.came[client] = None


def look_at_runs(factory: SubjectFactory, scope: Scope, most_calls: int, deadline: float | None = None) -> Runs:
    """All runs of one call, then of two, and so on, until `deadline` (of the monotonic clock).  Raises ProtocolError if
    the subject answers what is no answer."""
    broken: dict[str, Way] = {}
    calls = runs = 0
    exercised: Counter[str] = Counter()
    seen = Seen()
    is_late = False
    while calls < most_calls and not is_late and not any(map(is_must, broken)):
        calls, runs = calls + 1, 0
        exercised.clear()
        seen = Seen()
        for judge, found in _runs(factory, scope, calls):
            runs += 1
            exercised.update(judge.exercised())
            seen.add(judge)
            broken |= {rule: way for rule, way in found.items() if rule not in broken}
            is_late = deadline is not None and monotonic() > deadline
            if is_late or any(map(is_must, found)):
                break
    return Runs(calls, runs, dict(exercised), broken, seen, is_late)


def _runs(factory: SubjectFactory, scope: Scope, calls: int) -> Iterator[tuple[Judge, dict[str, Way]]]:
    """Each on a fresh subject, with what it breaks."""
    ahead: list[tuple[Event, ...]] = [()]
    while ahead:
        judge = Judge(Plain.new(factory, scope))
        way: list[Event] = []
        found: dict[str, Way] = {}
        todo = list(ahead.pop())[::-1]
        while len(way) < calls:
            if not todo:
                first, *others = judge.world.events()
                ahead += [(*way, other) for other in others]
                todo.append(first)
            way.append(todo.pop())
            found |= {broken.rule: tuple(way) for broken in judge.do(way[-1])[1] if broken.rule not in found}
        yield judge, found
