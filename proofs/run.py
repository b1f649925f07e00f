"""Run the proofs, the mutants and the changes in processes, and put what was found into the form of the manifest."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from random import Random

from attrs import frozen

from schedspec.spec.printed import printed
from schedspec.spec.registry import Conjunct

from . import manifest, mutants, tasks
from .history import Remembered
from .obligations import Obligation, Outcome, Verdict
from .possible import POSSIBLE
from .sweep import Fate
from .tasks import THEORIES, theory
from .theory import Theory
from .variants import Variant
from .workers import LIMIT_S, each

_WORST: tuple[Verdict, ...] = ("refuted", "unknown", "proved")
_OF_EACH_KIND = 2
"""So many variants of each kind of conjunct and token are in a sample."""


# --- proofs ------------------------------------------------------------------------------------------------------


def by_rule(of: Theory, rule: str | None = None) -> dict[str, list[int]]:
    """Numbers of the obligations of each rule, in the order of the catalogue."""
    found: dict[str, list[int]] = {card.id: [] for card in of.registry.sorted_rules()}
    for number, obligation in enumerate(tasks.owed(of.name)):
        found[obligation.goal.rule].append(number)
    return {name: owed for name, owed in found.items() if owed and rule in (None, name)}


def proved(rule: str | None, second: bool) -> Iterator[tuple[Theory, str, dict[str, list[Outcome]]]]:
    """Theory, rule, and tool -> outcomes.  A solver that crashed, or was stopped, has proved nothing."""
    tools = ("z3", "cvc5") if second else ("z3",)
    groups = [(of, name, numbers) for of in THEORIES for name, numbers in by_rule(of, rule).items()]
    asked = [(of.name, number, tool) for of, _, numbers in groups for tool in tools for number in numbers]
    answers = each(tasks.solve, asked)
    for of, name, numbers in groups:
        owed = [tasks.owed(of.name)[number] for number in numbers]
        yield of, name, {tool: [_outcome(obligation, next(answers)) for obligation in owed] for tool in tools}


def _outcome(obligation: Obligation, answer: tuple[Verdict, float] | None) -> Outcome:
    return Outcome(obligation, *(answer or ("unknown", LIMIT_S)))


def worst(outcomes: Iterable[Outcome]) -> Verdict:
    return min((outcome.verdict for outcome in outcomes), key=_WORST.index)


def proof(of: Theory, rule: str, outcomes: Mapping[str, Sequence[Outcome]]) -> manifest.Proof:
    """The entry of one rule: a tool stands in it if it agrees with z3."""
    first, registry = outcomes["z3"], of.registry
    expected = worst(first)
    goals = {outcome.obligation.goal.name: outcome.obligation.goal for outcome in first}
    return manifest.Proof(
        theory=of.name,
        rule=rule,
        conjuncts=tuple(goals),
        statements=tuple(printed(goal.term, registry.names, registry.state.sorts) for goal in goals.values()),
        bounds=of.bounds.get(rule, ()),
        parts=of.parts.get(rule, ()),
        obligations=len(first),
        expected=expected,
        tools=tuple(tool for tool, results in outcomes.items() if worst(results) == expected),
        seconds=round(sum(outcome.seconds for outcome in first), 2),
    )


# --- steps -------------------------------------------------------------------------------------------------------


def firings() -> Iterator[manifest.Firing]:
    told = {"refuted": "fires", "proved": "never fires", "unknown": "unknown", None: "unknown"}
    events = [(of.name, event) for of in THEORIES for event in of.registry.events]
    for (name, event), verdict in zip(events, each(tasks.fires, events), strict=True):
        yield manifest.Firing(theory=name, event=event, expected=told[verdict])


def possible() -> Iterator[manifest.Possible]:
    told = {"refuted": "possible", "proved": "impossible", "unknown": "unknown", None: "unknown"}
    numbers = [(name, number) for name, steps in POSSIBLE.items() for number in range(len(steps))]
    for (name, number), verdict in zip(numbers, each(tasks.is_possible, numbers), strict=True):
        step, registry = POSSIBLE[name][number], theory(name).registry
        formulas = (printed(term, registry.names, registry.state.sorts) for term in step.terms)
        yield manifest.Possible(
            theory=name,
            step=step.name,
            event=step.event,
            sentence=step.sentence,
            formula=" ∧ ".join(f"({formula})" if " ∨ " in formula else formula for formula in formulas),
            claims=("all",) if step.claims is None else tuple(sorted(step.claims)),
            expected=told[verdict],
        )


# --- mutants -----------------------------------------------------------------------------------------------------


Named = Collection[tuple[str, str]]
"""Theories, and names of conjuncts."""


def trials(rule: str | None = None, among: Named | None = None) -> Iterator[tuple[Theory, mutants.Trial]]:
    """All mutants; or those of a rule, or some that are named."""

    def is_asked(name: str, conjunct: Conjunct) -> bool:
        return rule in (None, conjunct.rule) and (among is None or (name, conjunct.name) in among)

    lacking = [(of, c) for of in THEORIES for c in mutants.conjuncts(of.registry) if is_asked(of.name, c)]
    answers = each(tasks.mutate, [(of.name, dropped.name) for of, dropped in lacking])
    for (of, dropped), answer in zip(lacking, answers, strict=True):
        yield of, mutants.Trial(dropped, *(answer or ("unknown", (), "", LIMIT_S)))


def entry(of: Theory, trial: mutants.Trial) -> manifest.Mutant:
    dropped = trial.dropped
    assert dropped.event is not None
    return manifest.Mutant(
        theory=of.name,
        conjunct=dropped.name,
        event=dropped.event,
        expected=trial.fate,
        breaks=trial.breaks,
    )


# --- changes of one token ----------------------------------------------------------------------------------------

Place = tuple[str, int, int]
"""Theory, number of the conjunct, and which of its variants."""


@frozen
class Change:
    theory: Theory
    variant: Variant
    fate: Fate
    by: str
    seconds: float

    @property
    def kind(self) -> str:
        return kind(self.variant)

    @property
    def text(self) -> str:
        registry = self.theory.registry
        return printed(self.variant.term, registry.names, registry.state.sorts)


def kind(variant: Variant) -> str:
    of_history = isinstance(variant.conjunct, Remembered)
    return f"{variant.conjunct.kind}{' of history' * of_history}"


def places(rule: str | None = None) -> list[Place]:
    """All changes, or those of the conjuncts of a rule."""
    return [
        (of.name, number, place)
        for of in THEORIES
        for number, conjunct in enumerate(of.registry.conjuncts)
        if rule in (None, conjunct.rule)
        for place in range(len(tasks.changes(of.name, number)))
    ]


NOT_PINNED = ("transfers",)
"""Theories of whose changes many show nowhere yet: they are in no sample, and in a run of all changes they are told."""


def sample(seed: int, rule: str | None = None) -> list[Place]:
    """Some of each kind of conjunct and token, in the order of all."""

    def stratum(place: Place) -> tuple[str, str, str]:
        variant = tasks.changes(*place[:2])[place[2]]
        return place[0], kind(variant), variant.kind

    rng, chosen = Random(seed), set[Place]()
    pinned = [place for place in places(rule) if rule or place[0] not in NOT_PINNED]
    for _, group in groupby(sorted(pinned, key=stratum), key=stratum):
        among = list(group)
        chosen.update(rng.sample(among, min(_OF_EACH_KIND, len(among))))
    return sorted(chosen)


def changes(among: Sequence[Place]) -> Iterator[Change]:
    for (name, number, place), answer in zip(among, each(tasks.change, among), strict=True):
        fate, by, seconds = answer or ("unknown", "", LIMIT_S)
        yield Change(theory(name), tasks.changes(name, number)[place], fate, by, seconds)


def swept(found: Iterable[Change]) -> Iterator[manifest.Sweep]:
    groups: dict[tuple[str, str], list[Change]] = {}
    for change in found:
        groups.setdefault((change.theory.name, change.kind), []).append(change)
    for (name, kind_of), group in groups.items():
        fates = Counter(change.fate for change in group)
        yield manifest.Sweep(
            theory=name,
            kind=kind_of,
            tried=len(group),
            breaks=fates["breaks"],
            forbids=fates["forbids"],
            implied_no_more=fates["implied no more"],
            equal=fates["equal"],
            equal_in_the_scope=fates["equal in the scope"],
            true_too=fates["true too"],
            survives=fates["survives"],
            unknown=fates["unknown"],
            surviving=tuple(f"{c.variant.conjunct.name}: {c.text}" for c in group if c.fate in ("survives", "unknown")),
        )
