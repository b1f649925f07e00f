"""What has to be proved: every event keeps every invariant, and the initial state has them all.

For an invariant I and an event: (the invariants before) ∧ guards ∧ effects ⇒ I after.  A guard that binds
only subjects with a claim is used only for rules that ask for that claim, and a SHOULD is used for no MUST.
"""

import time
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, Literal

import z3
from attrs import frozen

from schedspec.spec.registry import Conjunct, Registry
from schedspec.spec.terms import Sort, Term, walk

from .history import Remembered
from .smt import Expr, Finite, Names, Reading, Unbounded
from .theory import Theory

Verdict = Literal["proved", "refuted", "unknown"]
# Steps of a solver, which are the same on every machine; the hardest proof takes a tenth.
LIMIT = 10_000_000
SEEDS = range(4)
# Both solvers slow down when they are told everything, and no proof needs what is farther from its goal.
NEAR = 3
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


def variables(term: Term) -> set[str]:
    return {part.args[0] for part in walk(term) if part.op in ("state", "after")}


def obligations(registry: Registry) -> Iterator[Obligation]:
    """All of them, save those of events that touch no variable of the goal: there nothing changes."""
    for goal in goals(registry):
        if goal.kind == "invariant":
            yield Obligation(goal, None)
        for event in registry.events:
            if touches(registry, event, goal):
                yield Obligation(goal, event)


def touches(registry: Registry, event: str, goal: Conjunct) -> bool:
    return not variables(goal.term).isdisjoint(registry.effects(event))


class Step:
    """One event between two states, as z3 expressions.

    A conjunct that is dropped is left out; a variable that no remaining effect defines stays as it is.
    """

    def __init__(self, theory: Theory, reading: Reading, event: str, dropped: str | None = None) -> None:
        self.theory, self.reading, self.event = theory, reading, event
        registry = theory.registry
        self.guards = [c for c in registry.guards(event) if c.name != dropped]
        self.effects = [c for c in registry.effects(event).values() if c.name != dropped]
        changed = {c.variable for c in self.effects}
        self.names: dict[tuple[str, str], Expr] = {}
        for name, sort in registry.events[event].sorts.items():
            self.names["field", name] = reading.constant(f"e.{name}", sort)
        for name, sort in registry.state.sorts.items():
            self.names["state", name] = reading.constant(name, sort)
            after = f"{name}.after" if name in changed else name
            self.names["after", name] = reading.constant(after, sort)
        self._later = {**self.names, **{("state", n): self.names["after", n] for n in registry.state.sorts}}
        self._said: dict[int, tuple[Term, Expr]] = {}  # a term is kept, so that no other gets its id
        self._wanted: dict[int, tuple[Term, Expr]] = {}

    def under(self, theory: Theory) -> "Step":
        """The same step where a conjunct says something else; what was made into an expression stays."""
        other = copy(self)
        other.theory = theory
        other.guards = theory.registry.guards(self.event)
        other.effects = list(theory.registry.effects(self.event).values())
        return other

    def assumptions(self, goal: Conjunct | None) -> list[Term]:
        """Everything from which the goal is to follow; without a goal, everything."""
        theory, registry = self.theory, self.theory.registry
        binding = registry.of_kind("invariant") + self.guards
        terms = [c.term for c in binding if goal is None or is_usable(registry, c, goal)]
        effects = [c.term for c in self.effects if goal is None or is_within(c, goal)]
        terms += theory.in_scope if isinstance(self.reading, Finite) else ()
        return [
            *theory.parameters,
            *terms,
            *theory.events.get(self.event, ()),
            *effects,
        ]

    def say(self, term: Term) -> Expr:
        return self._kept(self._said, term, self.names)

    def want(self, goal: Conjunct) -> Expr:
        """The goal, of the state after."""
        if goal.kind == "transition":
            return self.say(goal.term)
        return self._kept(self._wanted, goal.term, self._later)

    def _kept(self, kept: dict[int, tuple[Term, Expr]], term: Term, names: Names) -> Expr:
        if id(term) not in kept:
            kept[id(term)] = term, self.reading.expr(term, names)
        return kept[id(term)][1]


def is_usable(registry: Registry, conjunct: Conjunct, goal: Conjunct) -> bool:
    """It binds every subject that the goal's rule binds."""
    if not is_within(conjunct, goal):
        return False
    must = registry.rules[conjunct.rule].level == "MUST" or registry.rules[goal.rule].level == "SHOULD"
    return must and set(conjunct.binding.claims) <= set(goal.binding.claims)


def is_within(conjunct: Conjunct, goal: Conjunct) -> bool:
    """What a rule says is proved without the history of a run, so that its proofs stay as small as they are."""
    return isinstance(goal, Remembered) or not isinstance(conjunct, Remembered)


def near(terms: Sequence[Term], goal: Conjunct) -> list[Term]:
    """Terms that share a variable with the goal, or with such a term, and so on; and those of fields alone."""
    known, kept = variables(goal.term), list[Term]()
    for _ in range(NEAR):
        kept = [term for term in terms if not variables(term) or not variables(term).isdisjoint(known)]
        known = known.union(*map(variables, kept))
    return kept


def initially(theory: Theory, reading: Reading, goal: Conjunct) -> tuple[list[Expr], Expr]:
    """What is known of the initial state, and the goal: all is zero or empty, save what `theory` chooses."""
    sorts = theory.registry.state.sorts
    names = {("state", name): reading.constant(name, sort) for name, sort in sorts.items()}
    known = [reading.expr(term, names) for term in (*theory.parameters, *theory.initial)]
    for name in sorted(variables(goal.term) & theory.written() - theory.chosen_initially):
        zero = _zero(reading, sorts[name])
        if zero is not None:
            known.append(names["state", name] == zero)
    return known, reading.expr(goal.term, names)


def _zero(reading: Reading, sort: Sort) -> Expr:
    """What a variable is before anything has happened; None for keys, which are then anything."""
    if sort.name == "Int":
        return z3.IntVal(0)
    if sort.name == "Bool":
        return z3.BoolVal(False)
    if sort.name not in ("Set", "Map"):
        return None
    zero = z3.BoolVal(False) if sort.name == "Set" else _zero(reading, sort.args[1])
    return None if zero is None else z3.K(reading.sort(sort.args[0]), zero)


def query(theory: Theory, obligation: Obligation) -> Any:
    """A solver that has a solution exactly if the obligation fails; z3 finds none by itself (see `mutants.py`)."""
    reading, goal = Unbounded(), obligation.goal
    if obligation.event is None:
        known, wanted = initially(theory, reading, goal)
    else:
        step = Step(theory, reading, obligation.event)
        known = [step.say(term) for term in near(step.assumptions(goal), goal)]
        wanted = step.want(goal)
    return deductive(*known, z3.Not(wanted), *reading.facts)


def deductive(*claims: Any) -> Any:
    """A solver that proves, and seeks no counter-example."""
    solver = proving(z3.Solver())
    solver.add(*claims)
    return solver


def proving(solver: Any) -> Any:
    # Without a search for models a question ends where its patterns end, at the same place on every machine: with
    # it z3 5.4.1 seeks models of what is not provable until time is up, and has crashed when it was stopped.
    solver.set("auto_config", False)
    solver.set("smt.mbqi", False)
    return solver


def prove(theory: Theory, obligation: Obligation, limit: int = LIMIT) -> Outcome:
    """In which order patterns are tried depends on what the process was asked before, and now and then none of them
    leads to the end: then it is tried again in contexts of its own, which remember nothing, and in other orders.  A
    proof that is found in one of them is one."""
    start = time.perf_counter()
    verdict = decide(query(theory, obligation), limit)
    for seed in SEEDS:
        if verdict != "unknown":
            break
        solver = proving(query(theory, obligation).translate(z3.Context()))
        solver.set("random_seed", seed)
        verdict = decide(solver, limit)
    return Outcome(obligation, verdict, time.perf_counter() - start)


def decide(solver: Any, limit: int = LIMIT) -> Verdict:
    """Where the limit is reached it is `unknown`, and no proof."""
    solver.set("rlimit", limit)
    return _VERDICTS[str(solver.check())]


def can_fire(theory: Theory, event: str) -> Verdict:
    """`refuted`: a finite scope has a step in which every guard holds, those of all claims included.

    Of an event that cannot fire everything would be proved.
    """
    return can_be(Step(theory, Finite(theory.scope), event))


def can_be(step: Step, wanted: Sequence[Term] = (), claims: frozenset[str] | None = None) -> Verdict:
    """`refuted`: there is a step in which that holds, with every guard and invariant; if claims are named, with those
    that bind whoever makes these claims and no others."""
    binding = [*step.guards, *step.theory.registry.of_kind("invariant")]
    loose = {id(c.term) for c in binding if claims is not None and not claims.issuperset(c.binding.claims)}
    solver = z3.Solver()
    solver.add(*(step.say(term) for term in step.assumptions(None) if id(term) not in loose))
    solver.add(*map(step.say, wanted))
    return decide(solver)
