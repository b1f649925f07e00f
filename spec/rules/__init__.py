"""All rules, by family: importing this package fills the registry."""

from . import admit, alternatives, batches, composition, departures, door, fairness, iterations, lanes  # isort: skip
from . import life, liveness, log, memory, preemption, recovery, shares, snapshots, steps, swapping  # isort: skip
from . import transfers, turns  # isort: skip
from . import implications  # isort: skip  (speaks of all of them)

__all__ = [
    "admit",
    "alternatives",
    "batches",
    "composition",
    "departures",
    "door",
    "fairness",
    "implications",
    "iterations",
    "lanes",
    "life",
    "liveness",
    "log",
    "memory",
    "preemption",
    "recovery",
    "shares",
    "snapshots",
    "steps",
    "swapping",
    "transfers",
    "turns",
]
