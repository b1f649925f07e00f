"""All rules, by family: importing this package fills the registry."""

from . import composition, door, fairness, lanes, life, liveness, memory, preemption, snapshots, steps  # isort: skip
from . import implications  # isort: skip  (speaks of all of them)

__all__ = [
    "composition",
    "door",
    "fairness",
    "implications",
    "lanes",
    "life",
    "liveness",
    "memory",
    "preemption",
    "snapshots",
    "steps",
]
