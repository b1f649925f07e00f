"""What pins a conjunct: it is left out, and in a finite scope an invariant must break.

The scope holds a few requests, blocks and prefixes, with cardinalities by definition: there a solver finds a real
step, where over unbounded sorts it says `unknown`.  A conjunct whose absence breaks nothing is either *implied*
(the other guards and the invariants say it already) or it *survives*, and something else must pin it (`pins.py`).
"""

import time
from typing import Any, Literal

import z3
from attrs import frozen

from schedspec.spec.registry import Conjunct, Registry

from .examples import shown
from .obligations import Step, decide, goals, touches
from .smt import Finite
from .theory import Theory

Fate = Literal["refuted", "implied", "survives", "unknown"]


@frozen
class Trial:
    """`breaks`: the invariants that fail without the conjunct; `example`: a step that breaks the first."""

    dropped: Conjunct
    fate: Fate
    breaks: tuple[str, ...]
    example: str
    seconds: float


def conjuncts(registry: Registry) -> list[Conjunct]:
    """Those that a mutant can lack."""
    return [c for c in registry.conjuncts if c.event is not None]


def mutate(theory: Theory, dropped: Conjunct) -> Trial:
    """Leave a conjunct out, and see which invariants its event then breaks."""
    start = time.perf_counter()
    assert dropped.event is not None
    step = Step(theory, Finite(theory.scope), dropped.event, dropped.name)
    solvers = _Solvers(step)
    breaks, example, unknown = [], "", False
    for goal in _own_first(theory.registry, dropped):
        verdict, model = solvers.broken(goal)
        unknown |= verdict == "unknown"
        if model is not None:
            breaks.append(goal.name)
            example = example or shown(step, model, goal, dropped)
    fate: Fate = "refuted" if breaks else "unknown" if unknown else "survives"
    if fate == "survives" and dropped.kind == "guard" and solvers.implies(dropped):
        fate = "implied"
    return Trial(dropped, fate, tuple(breaks), example, time.perf_counter() - start)


def _own_first(registry: Registry, dropped: Conjunct) -> list[Conjunct]:
    """The goals that the event can break, those of the conjunct's own rule in front."""
    assert dropped.event is not None
    touched = [goal for goal in goals(registry) if touches(registry, dropped.event, goal)]
    return sorted(touched, key=lambda goal: goal.rule != dropped.rule)


class _Solvers:
    """One solver for all goals of which the same may be assumed."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.solvers: dict[tuple[int, ...], Any] = {}

    def broken(self, goal: Conjunct) -> tuple[str, Any]:
        """Whether the goal can fail after the step, and a model in which it does."""
        return self._solve(goal, z3.Not(self.step.want(goal)))

    def implies(self, guard: Conjunct) -> bool:
        return self._solve(guard, z3.Not(self.step.say(guard.term)))[0] == "proved"

    def _solve(self, goal: Conjunct, claim: Any) -> tuple[str, Any]:
        terms = self.step.assumptions(goal)
        solver = self.solvers.get(tuple(map(id, terms)))
        if solver is None:
            solver = self.solvers[tuple(map(id, terms))] = z3.Solver()
            solver.add(*map(self.step.say, terms))
        solver.push()
        solver.add(claim)
        verdict = decide(solver)
        model = solver.model() if verdict == "refuted" else None
        solver.pop()
        return verdict, model
