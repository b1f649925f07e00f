"""What the processes do: each function takes names and numbers, finds what they stand for, and asks a solver."""

import time
from functools import cache

from . import mutants
from .counters import COUNTERS
from .door import DOOR
from .obligations import Obligation, Step, Verdict, can_be, can_fire, obligations, prove
from .possible import POSSIBLE
from .smt import Finite
from .sweep import Fate, Sweep
from .theory import ENGINE, Theory
from .transfers import TRANSFERS
from .variants import Variant, variants

THEORIES = (ENGINE, COUNTERS, TRANSFERS, DOOR)


def theory(name: str) -> Theory:
    return next(theory for theory in THEORIES if theory.name == name)


@cache
def owed(name: str) -> tuple[Obligation, ...]:
    return tuple(obligations(theory(name).registry))


def solve(name: str, number: int, tool: str) -> tuple[Verdict, float]:
    """One obligation: what the tool says, and in how many seconds."""
    if tool == "z3":
        outcome = prove(theory(name), owed(name)[number])
    else:
        from .second import confirm  # it may not be installed

        outcome = confirm(theory(name), owed(name)[number])
    return outcome.verdict, outcome.seconds


def fires(name: str, event: str) -> Verdict:
    return can_fire(theory(name), event)


def is_possible(name: str, number: int) -> Verdict:
    wanted, of = POSSIBLE[name][number], theory(name)
    return can_be(Step(of, Finite(of.scope), wanted.event), wanted.terms, wanted.claims)


def mutate(name: str, conjunct: str) -> tuple[mutants.Fate, tuple[str, ...], str, float]:
    """The trial of a mutant, without the conjunct."""
    of = theory(name)
    dropped = next(c for c in mutants.conjuncts(of.registry) if c.name == conjunct)
    trial = mutants.mutate(of, dropped)
    return trial.fate, trial.breaks, trial.example, trial.seconds


@cache
def _sweep(name: str) -> Sweep:
    return Sweep(theory(name), POSSIBLE[name])


@cache
def changes(name: str, number: int) -> tuple[Variant, ...]:
    """The variants of a conjunct."""
    registry = theory(name).registry
    return tuple(variants(registry, registry.conjuncts[number]))


def change(name: str, number: int, place: int) -> tuple[Fate, str, float]:
    """One variant: its fate, by what, and in how many seconds."""
    start = time.process_time()
    trial = _sweep(name).trial(changes(name, number)[place])
    return trial.fate, trial.by, time.process_time() - start
