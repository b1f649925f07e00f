"""Cases of a search as plain data: a subject, a scope, and what is expected.  They are kept where the proofs are."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any

from attrs import asdict, evolve, frozen

from schedspec.spec.protocol import read_settings
from schedspec.spec.vocabulary import SubjectFactory

from .scope import Kind, Scope
from .search import Result, search
from .story import story


@frozen(kw_only=True)
class Case:
    """`kinds`: each with `prompt`, `output` and other fields of a request.  `arrivals`: 0 is without end.  `deep`: it
    takes long, and is looked at if somebody asks.  What is expected of a question is a verdict, or "" if it is not
    asked; `states` and `transitions` are exact, `seconds` are not."""

    name: str
    says: str
    subject: str
    settings: Mapping[str, Any]
    kinds: Sequence[Mapping[str, Any]]
    requests: int = 3
    clients: int = 2
    arrivals: int = 0
    cancels: bool = True
    stops: bool = True
    deep: bool = False
    work: str = ""
    progress: str = ""
    starvation: str = ""
    states: int = 0
    transitions: int = 0
    seconds: float = 0.0

    @property
    def scope(self) -> Scope:
        return Scope(
            read_settings(self.settings),
            tuple(_kind(**kind) for kind in self.kinds),
            self.requests,
            self.clients,
            self.arrivals or None,
            self.cancels,
            self.stops,
        )

    @property
    def plain(self) -> dict[str, Any]:
        return asdict(self, recurse=False)


@frozen
class Found:
    """A case as it turned out, and for each counterexample its story; `why`: what makes a question unknown."""

    case: Case
    stories: Mapping[str, Sequence[str]]
    why: Mapping[str, str]


def _kind(prompt: int, output: int, **others: Any) -> Kind:
    return Kind(prompt, output, tuple(sorted(others.items())))


def run_case(case: Case, factory: SubjectFactory) -> Found:
    """Search, and put down what was found.  Raises ProtocolError for settings that cannot be read."""
    scope = case.scope
    result = search(factory, scope)
    answers = result.answers.items()
    stories: dict[str, Sequence[str]] = {
        question: story(factory, scope, question, answer.counterexample)
        for question, answer in answers
        if answer.counterexample is not None
    }
    return Found(
        _as_found(case, result), stories, {str(question): answer.why for question, answer in answers if answer.why}
    )


def run_cases(
    cases: Sequence[Case], factories: Mapping[str, SubjectFactory], jobs: int, done: Callable[[Found], None]
) -> list[Found]:
    """Several at a time, each in a process of its own; `done` is told of each as it ends.  In order of the cases."""
    if jobs == 1 or len(cases) == 1:
        return [_told(run_case(case, factories[case.subject]), done) for case in cases]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        largest_first = sorted(cases, key=lambda case: -case.seconds)
        running = {pool.submit(run_case, case, factories[case.subject]): case.name for case in largest_first}
        found = {running[future]: _told(future.result(), done) for future in as_completed(running)}
    return [found[case.name] for case in cases]


def _told(found: Found, done: Callable[[Found], None]) -> Found:
    done(found)
    return found


def _as_found(case: Case, result: Result) -> Case:
    outcome: dict[str, Any] = {"work": "", "progress": "", "starvation": ""}
    outcome |= {question: answer.verdict for question, answer in result.answers.items()}
    outcome |= {"states": result.states, "transitions": result.transitions, "seconds": round(result.seconds, 1)}
    return evolve(case, **outcome)


def differences(expected: Case, found: Case) -> list[str]:
    """Where a case did not turn out as expected, in words; times may differ."""
    wanted, there = expected.plain, found.plain
    return [
        f"{expected.name}: {name} is {there[name]!r}, but expected was {wanted[name]!r}"
        for name in ("work", "progress", "starvation", "states", "transitions")
        if wanted[name] != there[name]
    ]
