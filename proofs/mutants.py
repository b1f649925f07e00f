"""What pins a conjunct: it is left out, and in a finite scope an invariant must break.

An effect that is left out leaves its variable as it is.  The scope holds a few requests, blocks and prefixes, with
cardinalities by definition: there a solver finds a real step, where over unbounded sorts it says `unknown`.  A
conjunct that no invariant needs survives, and something else must pin it (`pins.py`).
"""

import time
from collections.abc import Iterator
from typing import Any

import z3
from attrs import frozen

from schedspec.spec.printed import printed
from schedspec.spec.registry import Conjunct, Registry
from schedspec.spec.terms import Sort

from .obligations import TIMEOUT_MS, Step, Verdict, goals, variables, verdict_of
from .smt import Expr, Finite
from .theory import Theory

SCOPE = {"RequestId": 2, "BlockId": 3, "PrefixId": 2}


@frozen
class Break:
    """An invariant that breaks without the conjunct, with a step that shows it."""

    invariant: Conjunct
    example: str


@frozen
class Mutant:
    """`verdict` is refuted if some invariant breaks, proved if none does."""

    dropped: Conjunct
    verdict: Verdict
    breaks: tuple[Break, ...]
    seconds: float
