"""What has to be proved: every event keeps every invariant, and the initial state has them all.

For an invariant I and an event: (the invariants before) ∧ guards ∧ effects ⇒ I after.  A guard that binds only
subjects with a claim is used only for rules that ask for that claim, and a SHOULD is used for no MUST.
"""

import time
from collections.abc import Iterator
from typing import Any, Literal

import z3
from attrs import frozen

from schedspec.spec.registry import Conjunct, Registry
from schedspec.spec.terms import Sort, walk

from .smt import Expr, Reading, Unbounded
from .theory import Theory

Verdict = Literal["proved", "refuted", "unknown"]
TIMEOUT_MS = 20_000
_VERDICTS: dict[str, Verdict] = {"unsat": "proved", "sat": "refuted", "unknown": "unknown"}


@frozen
class Obligation:
    """`event` is None for the initial state."""

    goal: Conjunct
    event: str | None

    @property
    def name(self) -> str:
        return f"{self.goal.name} {'after ' + self.event if self.event else 'initially'}"


@frozen
class Outcome:
    obligation: Obligation
    verdict: Verdict
    seconds: float


def goals(registry: Registry) -> list[Conjunct]:
    return registry.of_kind("invariant") + registry.of_kind("transition")


def variables(conjunct: Conjunct) -> set[str]:
    return {part.args[0] for part in walk(conjunct.term) if part.op in ("state", "after")}


def obligations(registry: Registry) -> Iterator[Obligation]:
    """All of them, save those of events that touch no variable of the goal: there nothing changes."""
    for goal in goals(registry):
        if goal.kind == "invariant":
            yield Obligation(goal, None)
        for event in registry.events:
            if variables(goal) & set(registry.effects(event)):
                yield Obligation(goal, event)


class Step:
    """One event between two states, as z3 expressions.  A conjunct that is dropped is left out; a variable that no
    remaining effect defines stays as it is."""

    def __init__(self, theory: Theory, reading: Reading, event: str | None, dropped: str | None = None) -> None:
        self.theory, self.reading, self.event = theory, reading, event
        registry = theory.registry
        self.guards = [c for c in registry.guards(event) if c.name != dropped] if event else []
        effects = [c for c in registry.effects(event).values() if c.name != dropped] if event else []
        self.names: dict[tuple[str, str], Expr] = {}
        for name, sort in registry.state.sorts.items():
            self.names["state", name] = self.names["after", name] = reading.constant(name, sort)
        for name, sort in registry.events[event].sorts.items() if event else ():
            self.names["field", name] = reading.constant(f"e.{name}", sort)
        for effect in effects:
            assert effect.variable is not None
            sort = registry.state.sorts[effect.variable]
            self.names["after", effect.variable] = reading.constant(f"{effect.variable}.after", sort)
        self.effects = [reading.expr(effect.term, self.names) for effect in effects]

    def assumed(self, goal: Conjunct) -> list[Expr]:
        """Everything from which the goal is to follow."""
        theory, registry = self.theory, self.theory.registry
        terms = list(theory.parameters)
        terms += [c.term for c in registry.of_kind("invariant") if _usable(registry, c, goal)]
        terms += [c.term for c in self.guards if _usable(registry, c, goal)]
        terms += theory.events.get(self.event or "", ())
        return [self.reading.expr(term, self.names) for term in terms] + self.effects

    def wanted(self, goal: Conjunct) -> Expr:
        """The goal, of the state after."""
        names = self.names
        if goal.kind == "invariant":
            names = {**names, **{("state", n): names["after", n] for n in self.theory.registry.state.sorts}}
        return self.reading.expr(goal.term, names)


class Start:
    """The initial state, in the shape of a step to it."""

    def __init__(self, theory: Theory, reading: Reading) -> None:
        self.theory, self.reading = theory, reading
        self.names = {
            ("state", name): reading.constant(name, sort) for name, sort in theory.registry.state.sorts.items()
        }

    def assumed(self, goal: Conjunct) -> list[Expr]:
        theory = self.theory
        terms = (*theory.parameters, *theory.initial)
        zeros = []
        for name in sorted(theory.written() - theory.chosen_initially):
            zero = _zero(self.reading, theory.registry.state.sorts[name])
            if zero is not None:
                zeros.append(self.names["state", name] == zero)
        return [self.reading.expr(term, self.names) for term in terms] + zeros

    def wanted(self, goal: Conjunct) -> Expr:
        return self.reading.expr(goal.term, self.names)


def _usable(registry: Registry, conjunct: Conjunct, goal: Conjunct) -> bool:
    """It binds every subject that the goal's rule binds."""
    must = registry.rules[conjunct.rule].level == "MUST" or registry.rules[goal.rule].level == "SHOULD"
    return must and set(conjunct.binding.claims) <= set(goal.binding.claims)


def _zero(reading: Reading, sort: Sort) -> Expr:
    """What a variable is before anything has happened; None for keys, which are then anything."""
    if sort.name in ("Int", "Bool"):
        return z3.IntVal(0) if sort.name == "Int" else z3.BoolVal(False)
    if sort.name == "Set":
        return z3.K(reading.sort(sort.args[0]), z3.BoolVal(False))
    if sort.name == "Map":
        zero = _zero(reading, sort.args[1])
        return None if zero is None else z3.K(reading.sort(sort.args[0]), zero)
    return None


def query(theory: Theory, obligation: Obligation) -> Any:
    """A solver that has a solution exactly if the obligation fails."""
    reading = Unbounded()
    goal = obligation.goal
    step = Step(theory, reading, obligation.event) if obligation.event else Start(theory, reading)
    claims = [*step.assumed(goal), z3.Not(step.wanted(goal))]
    solver = z3.Solver()
    solver.add(*claims, *reading.facts)
    return solver


def prove(theory: Theory, obligation: Obligation, timeout_ms: int = TIMEOUT_MS) -> Outcome:
    start = time.perf_counter()
    solver = query(theory, obligation)
    solver.set("timeout", timeout_ms)
    verdict = _VERDICTS[str(solver.check())]
    return Outcome(obligation, verdict, time.perf_counter() - start)
