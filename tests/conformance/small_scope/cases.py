"""Cases of a search as plain data: a subject, a scope, and what is expected.  They are kept where the proofs are."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from time import perf_counter
from typing import Any

from attrs import Factory, asdict, evolve, frozen

from schedspec.spec.protocol import read_settings
from schedspec.spec.vocabulary import SubjectFactory, Unsupported

from ..subjects.guard import guarded
from .breaks import is_must
from .graph import Show, unseen
from .questions import RULES, asked
from .runs import Plain, look_at_runs
from .scope import Kind, Scope
from .search import CannotSay, Result, search
from .story import story, story_of_break
from .world import World


@frozen(kw_only=True)
class Case:
    """`kinds`: each with `prompt`, `output` and other fields of a request.  `arrivals`: 0 is without end.  `deep`: it
    takes long, and is looked at if somebody asks; `judged`: rules are judged on each transition.

    What is expected of a question is a verdict, or "" if it is not asked.  `exercised`: how often the precondition of a
    rule held, or where one is broken until then; `broken` are rules.  `states` and `transitions` are exact; how often a
    rule was exercised, and `seconds`, are not held against anything."""

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
    judged: bool = False
    work: str = ""
    progress: str = ""
    starvation: str = ""
    exercised: Mapping[str, int] = Factory(dict)
    broken: Sequence[str] = ()
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
    """A case as it turned out, and for each counterexample its story, by question or rule; `why`: what makes a question
    unknown.  `refused`: the setting for which the subject was not looked at."""

    case: Case
    stories: Mapping[str, Sequence[str]] = Factory(dict)
    why: Mapping[str, str] = Factory(dict)
    refused: str = ""

    @property
    def plain_whole(self) -> dict[str, Any]:
        return {
            "case": self.case.plain,
            "stories": {name: list(lines) for name, lines in self.stories.items()},
            "why": dict(self.why),
            "refused": self.refused,
        }


def found_again(plain: Mapping[str, Any]) -> Found:
    """What was found elsewhere."""
    return Found(Case(**plain["case"]), plain["stories"], plain["why"], plain["refused"])


def _kind(prompt: int | Sequence[int], output: int, **others: Any) -> Kind:
    return Kind(prompt, output, tuple(sorted(others.items())))


@frozen
class Manner:
    """How a subject is looked at: `timeout_s` for its calls, if its answers must be read; `calls` of a run, if it does
    not say what of its state matters."""

    timeout_s: float | None = None
    calls: int = 5


TRUSTED = Manner()


def run_case(case: Case, factory: SubjectFactory, manner: Manner = TRUSTED, show: Show = unseen) -> Found:
    """Search, and put down what was found; `show` is told now and then that it gets on.
    Raises ProtocolError for settings that cannot be read, or answers."""
    scope = case.scope
    if manner.timeout_s is not None:
        factory = guarded(factory, manner.timeout_s)
    try:
        result = search(factory, scope, show=show, judged=case.judged)
    except CannotSay as because:
        return _in_all_runs(case, factory, manner.calls, str(because))
    except Unsupported as refusal:
        return Found(_without_outcome(case), refused=str(refusal))
    answers = result.answers.items()
    stories: dict[str, Sequence[str]] = {
        question: story(factory, scope, question, answer.counterexample)
        for question, answer in answers
        if answer.counterexample is not None
    }
    stories |= {rule: story_of_break(World.new(factory, scope), rule, way) for rule, way in result.breaks.items()}
    why = {str(question): answer.why for question, answer in answers if answer.why}
    return Found(_as_found(case, result), stories, why)


def _in_all_runs(case: Case, factory: SubjectFactory, calls: int, because: str) -> Found:
    began = perf_counter()
    runs = look_at_runs(factory, case.scope, calls)
    stories = {rule: story_of_break(Plain.new(factory, case.scope), rule, way) for rule, way in runs.broken.items()}
    why = f"{because}; all {runs.runs:,} runs of {runs.calls} calls were looked at"
    outcome: dict[str, Any] = dict.fromkeys(asked(case.scope), "unknown")
    outcome |= {"exercised": runs.exercised, "broken": tuple(sorted(runs.broken))}
    outcome |= {"seconds": round(perf_counter() - began, 1)}
    return Found(evolve(_without_outcome(case), **outcome), stories, {"whether somebody never ends": why})


def _without_outcome(case: Case) -> Case:
    return evolve(case, **_NO_OUTCOME)


_NO_OUTCOME: dict[str, Any] = {
    **{"work": "", "progress": "", "starvation": ""},
    **{"exercised": {}, "broken": (), "states": 0, "transitions": 0, "seconds": 0.0},
}


def run_cases(
    cases: Sequence[Case],
    factories: Mapping[str, SubjectFactory],
    jobs: int,
    done: Callable[[Found], None],
    manner: Manner = TRUSTED,
) -> list[Found]:
    """Several at a time, each in a process of its own; `done` is told of each as it ends.  In order of the cases."""
    if jobs == 1 or len(cases) == 1:
        return [_told(run_case(case, factories[case.subject], manner), done) for case in cases]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        largest_first = sorted(cases, key=lambda case: -case.seconds)
        running = {pool.submit(run_case, case, factories[case.subject], manner): case.name for case in largest_first}
        found = {running[future]: _told(future.result(), done) for future in as_completed(running)}
    return [found[case.name] for case in cases]


def _told(found: Found, done: Callable[[Found], None]) -> Found:
    done(found)
    return found


def _as_found(case: Case, result: Result) -> Case:
    outcome: dict[str, Any] = {question: answer.verdict for question, answer in result.answers.items()}
    outcome |= {"states": result.states, "transitions": result.transitions, "seconds": round(result.seconds, 1)}
    if result.walked is not None and not result.doubt:
        outcome |= {"exercised": result.walked.exercised}
    if result.walked is not None:
        outcome |= {"broken": tuple(sorted(result.walked.broken))}
    return evolve(_without_outcome(case), **outcome)


def differences(expected: Case, found: Case) -> list[str]:
    """Where a case did not turn out as expected, in words."""
    wanted, there = _held(expected), _held(found)
    return [
        f"{expected.name}: {name} is {there[name]!r}, but expected was {wanted[name]!r}"
        for name in wanted
        if wanted[name] != there[name]
    ]


def _held(case: Case) -> dict[str, Any]:
    exact = ("work", "progress", "starvation", "states", "transitions")
    return {name: getattr(case, name) for name in exact} | {
        "exercised": sorted(case.exercised),
        "broken": list(case.broken),
    }


def faults(found: Found) -> list[str]:
    """What is wrong with a subject that nothing is known of: a MUST that it breaks, somebody who gets nowhere."""
    case = found.case
    broken = [rule for rule in case.broken if is_must(rule)]
    lost = [RULES[question] for question in RULES if getattr(case, question) == "refuted"]
    return [f"{case.name}: {rule} is broken" for rule in dict.fromkeys((*broken, *lost))]
