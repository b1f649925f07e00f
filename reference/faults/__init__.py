"""Seeded faults: for each rule a scheduler that breaks it, as a subject `fault:ID`.

Each is the reference with one small change, such as a hurried person might make, and knows nothing of the rules.  They
show that a rule can fail, that the search finds it, and what else breaks with it.
"""

from ...spec.vocabulary import SubjectFactory
from . import (
    admission,
    alternatives,
    fairness,
    iterations,
    lanes,
    life,
    lines,
    liveness,
    memory,
    others,
    parking,
    preemption,
    progress,
    steps,
    swapping,
    transfers,
)
from .base import FAULTS, OTHERS
from .fairness import CallsArrivalFair, SharesOtherwise
from .memory import LeaksAtCancel
from .parking import KINDS
from .preemption import PreemptsTheOldest
from .transfers import FOREIGN

FAMILIES = (
    admission,
    alternatives,
    fairness,
    iterations,
    lanes,
    life,
    lines,
    liveness,
    memory,
    others,
    parking,
    preemption,
    progress,
    steps,
    swapping,
    transfers,
)
"""Importing them fills FAULTS."""


def factory(rule: str) -> SubjectFactory:
    """The subject `fault:RULE`."""
    made: SubjectFactory = FAULTS[rule]
    return made


__all__ = [
    "FAULTS",
    "FOREIGN",
    "KINDS",
    "OTHERS",
    "CallsArrivalFair",
    "LeaksAtCancel",
    "PreemptsTheOldest",
    "SharesOtherwise",
    "factory",
]
