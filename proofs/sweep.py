"""What shows a change of one token: a proof that breaks, or a step that must be possible and is not.

All is asked in a finite scope, where a broken proof comes with a step that breaks it (`mutants.py` says why).  That a
variant is no change at all is proved of all sizes, where z3 can.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Literal

import z3
from attrs import evolve, frozen

from schedspec.spec.registry import Conjunct
from schedspec.spec.terms import BOOL, lift

from .history import Remembered
from .obligations import Step, Verdict, can_be, decide, deductive, goals, initially, near, touches
from .possible import Possible
from .smt import Finite, Unbounded
from .theory import Theory
from .variants import Variant

Fate = Literal["breaks", "forbids", "implied no more", "equal", "equal in the scope", "true too", "survives", "unknown"]
_TRUE = lift(True, BOOL)


@frozen
class Trial:
    """`fate`: a proof breaks; a step is forbidden that must be possible; what followed from the other guards and the
    invariants does so no more; the variant means the same, or does in the scope; an invariant or a transition holds all
    the same, and so do all others; or nothing of that shows it.  `by`: the conjunct whose proof breaks, and after which
    event; or the step."""

    variant: Variant
    fate: Fate
    by: str


@frozen
class Asked:
    """Goals that are proved from the same, after one event."""

    event: str
    goals: tuple[Conjunct, ...]


class Sweep:
    """One theory, whose terms are made into expressions once."""

    def __init__(self, theory: Theory, possible: Sequence[Possible] = ()) -> None:
        self.theory, self.possible = theory, possible
        self._steps: dict[str, Step] = {}
        self._needing: dict[str, list[Asked]] = {}

    def trial(self, variant: Variant) -> Trial:
        changed = _Changed(self, variant)
        fate, by = changed.as_goal() if variant.conjunct.event is None else changed.as_said()
        return Trial(variant, fate, by)

    def step(self, theory: Theory, event: str) -> Step:
        if event not in self._steps:
            self._steps[event] = Step(self.theory, Finite(self.theory.scope), event)
        return self._steps[event].under(theory)

    @cached_property
    def everything(self) -> list[Asked]:
        """All goals after all events."""
        return [asked for event in self.theory.registry.events for asked in self.after(event)]

    def after(self, event: str) -> list[Asked]:
        registry = self.theory.registry
        found: dict[tuple[object, ...], list[Conjunct]] = {}
        for goal in goals(registry):
            if touches(registry, event, goal):
                key = (frozenset(goal.binding.claims), registry.rules[goal.rule].level, isinstance(goal, Remembered))
                found.setdefault(key, []).append(goal)
        return [Asked(event, tuple(group)) for group in found.values()]

    def needing(self, conjunct: Conjunct) -> list[Asked]:
        """Where something breaks without a guard or an invariant: nowhere else can it break if that is weaker."""
        if conjunct.name not in self._needing:
            without = _Changed(self, Variant(conjunct, "left out", _TRUE, 0))
            among = self.everything if conjunct.event is None else self.after(conjunct.event)
            self._needing[conjunct.name] = [
                asked for asked in among if without.broken([asked], conjunct)[0] != "proved"
            ]
        return self._needing[conjunct.name]


class _Changed:
    """A theory in which a variant stands where its conjunct stood."""

    def __init__(self, sweep: Sweep, variant: Variant) -> None:
        self.sweep, self.before = sweep, variant.conjunct
        self.now = evolve(self.before, term=variant.term)
        self.theory = evolve(sweep.theory, registry=sweep.theory.registry.with_(self.before, self.now))

    # --- a guard or an effect ------------------------------------------------------------------------------------

    def as_said(self) -> tuple[Fate, str]:
        """Whether it breaks something is asked first: most variants do."""
        event = str(self.before.event)
        step = self.sweep.step(self.theory, event)
        is_guard = self.before.kind == "guard"
        verdict, by = self.broken(self.sweep.needing(self.before) if is_guard else self.sweep.after(event))
        if verdict == "refuted":
            return "breaks", by
        weaker, stronger = self._compared(step)
        if stronger != "proved" and (forbidden := self._forbidden(step)):
            return "forbids", forbidden
        if stronger != "proved" and is_guard and self._was_implied(step):
            return "implied no more", ""
        if {weaker, stronger} == {"proved"}:
            return ("equal" if self._means_the_same(event) else "equal in the scope"), ""
        return ("unknown" if "unknown" in (verdict, weaker, stronger) else "survives"), ""

    def _was_implied(self, step: Step) -> bool:
        return solved(*self._others(step, self.now), z3.Not(step.say(self.before.term))) == "proved"

    def _others(self, step: Step, asked: Conjunct) -> list[Any]:
        return [step.say(term) for term in step.assumptions(asked) if term is not self.now.term]

    def _compared(self, step: Step) -> tuple[Verdict, Verdict]:
        """Whether it lets happen only what was let happen before; and the other way round."""
        others = self._others(step, _in_history(self.now))
        old, new = step.say(self.before.term), step.say(self.now.term)
        return solved(*others, new, z3.Not(old)), solved(*others, old, z3.Not(new))

    def _forbidden(self, step: Step) -> str:
        """The first step that must be possible and is not."""
        wanted = (possible for possible in self.sweep.possible if possible.event == step.event)
        return next((p.name for p in wanted if can_be(step, p.terms, p.claims) == "proved"), "")

    def _means_the_same(self, event: str) -> bool:
        """Of all sizes, by a proof; none is sought by models."""
        reading = Unbounded()
        step = Step(self.theory, reading, event)
        asked = evolve(_in_history(self.now), term=self.before.term)
        known = [term for term in step.assumptions(asked) if term is not self.now.term]
        same = [step.say(term) for term in near(known, asked)], step.say(self.before.term) == step.say(self.now.term)
        return decide(deductive(*same[0], z3.Not(same[1]), *reading.facts)) == "proved"

    # --- an invariant or a transition ----------------------------------------------------------------------------

    def as_goal(self) -> tuple[Fate, str]:
        registry = self.theory.registry
        own = [Asked(event, (self.now,)) for event in registry.events if touches(registry, event, self.now)]
        verdict, by = self.broken(own)
        if verdict == "proved" and self.now.kind == "invariant":
            verdict, by = self._initially()
            if verdict == "proved":
                verdict, by = self.broken(self.sweep.needing(self.before), self.before)
        if verdict == "proved":
            return "true too", ""
        return ("breaks" if verdict == "refuted" else "unknown"), by

    def _initially(self) -> tuple[Verdict, str]:
        known, wanted = initially(self.theory, Finite(self.theory.scope), self.now)
        return solved(*known, z3.Not(wanted)), f"{self.now.name} initially"

    # --- both ----------------------------------------------------------------------------------------------------

    def broken(self, among: Iterable[Asked], but: Conjunct | None = None) -> tuple[Verdict, str]:
        """Whether a goal can fail, and the first that does."""
        worst: Verdict = "proved"
        for asked in among:
            step = self.sweep.step(self.theory, asked.event)
            wanted = [(goal, step.want(goal)) for goal in asked.goals if goal is not but]
            if wanted:
                verdict, by = _first_broken(step, wanted)
                if verdict == "refuted":
                    return verdict, by
                worst = "unknown" if verdict == "unknown" else worst
        return worst, ""


def _in_history(conjunct: Conjunct) -> Conjunct:
    """One for which everything that is known of a run may be used."""
    if isinstance(conjunct, Remembered):
        return conjunct
    fields = ("rule", "place", "kind", "term", "event", "binding", "variable")
    return Remembered(**{field: getattr(conjunct, field) for field in fields})


def _first_broken(step: Step, wanted: Sequence[tuple[Conjunct, Any]]) -> tuple[Verdict, str]:
    solver = z3.Solver()
    solver.add(*map(step.say, step.assumptions(wanted[0][0])), z3.Not(z3.And(*(want for _, want in wanted))))
    verdict = decide(solver)
    if verdict != "refuted":
        return verdict, ""
    model = solver.model()
    failing = next(goal.name for goal, want in wanted if z3.is_false(model.eval(want, model_completion=True)))
    return verdict, f"{failing} after {step.event}"


def solved(*claims: Any) -> Verdict:
    solver = z3.Solver()
    solver.add(*claims)
    return decide(solver)
