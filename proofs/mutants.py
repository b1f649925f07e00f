"""What pins a conjunct: it is left out, and in a finite scope an invariant must break.

The scope holds a few requests, blocks and prefixes, with cardinalities by definition: there a solver finds a
real step, where over unbounded sorts it says `unknown`.  A conjunct whose absence breaks nothing is *implied*
(the other guards and the invariants say it already), or it *survives*, and something else must pin it: see
`pins.py`.
"""

import time
from typing import Any, Literal

import z3
from attrs import frozen

from schedspec.spec.registry import Conjunct, Registry

from .examples import shown
from .history import Remembered
from .obligations import Step, Verdict, decide, goals, touches
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
    return [c for c in registry.conjuncts if c.event is not None and not isinstance(c, Remembered)]


def mutate(theory: Theory, dropped: Conjunct) -> Trial:
    """Leave a conjunct out, and see which invariants its event then breaks."""
    start = time.perf_counter()
    assert dropped.event is not None
    step = Step(theory, Finite(theory.scope), dropped.event, dropped.name)
    check = _Check(step)
    breaks: list[str] = []
    example, unknown = "", False
    for goal in _own_first(theory.registry, dropped):
        if breaks and isinstance(goal, Remembered):
            break  # what a run would show is asked only where no state shows it
        verdict, model = check.broken(goal)
        unknown |= verdict == "unknown"
        if model is not None:
            breaks.append(goal.name)
            example = example or shown(step, model, goal, dropped)
    fate: Fate = "refuted" if breaks else "unknown" if unknown else "survives"
    if fate == "survives" and dropped.kind == "guard" and check.implies(dropped):
        fate = "implied"
    return Trial(dropped, fate, tuple(breaks), example, time.perf_counter() - start)


def _own_first(registry: Registry, dropped: Conjunct) -> list[Conjunct]:
    """The goals that the event can break, those of the conjunct's own rule in front, history last."""
    assert dropped.event is not None
    touched = [goal for goal in goals(registry) if touches(registry, dropped.event, goal)]
    return sorted(touched, key=lambda goal: (isinstance(goal, Remembered), goal.rule != dropped.rule))


class _Check:
    """What can be with a step, by a fresh solver each time: kept ones run into timeouts."""

    def __init__(self, step: Step) -> None:
        self.step = step

    def broken(self, goal: Conjunct) -> tuple[Verdict, Any]:
        """Whether the goal can fail after the step, and a model in which it does."""
        return self._solve(goal, z3.Not(self.step.want(goal)))

    def implies(self, guard: Conjunct) -> bool:
        return self._solve(guard, z3.Not(self.step.say(guard.term)))[0] == "proved"

    def _solve(self, goal: Conjunct, claim: Any) -> tuple[Verdict, Any]:
        claims = [*map(self.step.say, self.step.assumptions(goal)), claim]
        solver = z3.Solver()
        solver.add(*claims)
        verdict = decide(solver)
        if verdict != "refuted":
            return verdict, None
        model = solver.model()
        assert z3.is_true(model.eval(z3.And(*claims), model_completion=True)), "z3's model is none"
        return verdict, model
