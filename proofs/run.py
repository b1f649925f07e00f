"""Run the proofs and the mutants, and put what was found into the form of the manifest."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from schedspec.spec.printed import printed

from . import manifest, mutants
from .counters import COUNTERS
from .obligations import Obligation, Outcome, Verdict, can_fire, obligations, prove
from .theory import ENGINE, Theory

THEORIES = (ENGINE, COUNTERS)
_WORST: tuple[Verdict, ...] = ("refuted", "unknown", "proved")


def by_rule(theory: Theory, rule: str | None = None) -> dict[str, list[Obligation]]:
    """The obligations of each rule, in the order of the catalogue."""
    registry = theory.registry
    found: dict[str, list[Obligation]] = {card.id: [] for card in registry.sorted_rules()}
    for obligation in obligations(registry):
        found[obligation.goal.rule].append(obligation)
    return {name: owed for name, owed in found.items() if owed and rule in (None, name)}


def prove_rule(theory: Theory, owed: Sequence[Obligation], second: bool) -> dict[str, list[Outcome]]:
    """Tool -> outcomes."""
    outcomes = {"z3": [prove(theory, obligation) for obligation in owed]}
    if second:
        from .second import confirm  # it may not be installed

        outcomes["cvc5"] = [confirm(theory, obligation) for obligation in owed]
    return outcomes


def worst(outcomes: Iterable[Outcome]) -> Verdict:
    return min((outcome.verdict for outcome in outcomes), key=_WORST.index)


def proof(theory: Theory, rule: str, outcomes: Mapping[str, Sequence[Outcome]]) -> manifest.Proof:
    """The entry of one rule: a tool stands in it if it agrees with z3."""
    first, registry = outcomes["z3"], theory.registry
    expected = worst(first)
    goals = {outcome.obligation.goal.name: outcome.obligation.goal for outcome in first}
    return manifest.Proof(
        theory=theory.name,
        rule=rule,
        conjuncts=tuple(goals),
        statements=tuple(printed(goal.term, registry.names, registry.state.sorts) for goal in goals.values()),
        bounds=theory.bounds.get(rule, ()),
        parts=theory.parts.get(rule, ()),
        obligations=len(first),
        expected=expected,
        tools=tuple(tool for tool, results in outcomes.items() if worst(results) == expected),
        seconds=round(sum(outcome.seconds for outcome in first), 2),
    )


def firings(theory: Theory) -> Iterator[manifest.Firing]:
    fires = {"refuted": "fires", "proved": "never fires", "unknown": "unknown"}
    for event in theory.registry.events:
        yield manifest.Firing(theory=theory.name, event=event, expected=fires[can_fire(theory, event)])


def trials(theory: Theory, rule: str | None = None) -> Iterator[mutants.Trial]:
    for conjunct in mutants.conjuncts(theory.registry):
        if rule in (None, conjunct.rule):
            yield mutants.mutate(theory, conjunct)


def entry(theory: Theory, trial: mutants.Trial) -> manifest.Mutant:
    dropped = trial.dropped
    assert dropped.event is not None
    return manifest.Mutant(
        theory=theory.name,
        conjunct=dropped.name,
        event=dropped.event,
        expected=trial.fate,
        breaks=trial.breaks,
    )
