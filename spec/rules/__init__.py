"""All rules, by family: importing this package fills the registry."""

from . import admit, alternatives, batches, composition, departures, door, early, fairness, iterations  # isort: skip
from . import lanes, life, liveness, log, memory, output, parking, preemption, recovery, shares  # isort: skip
from . import snapshots, steps, swapping, transfers, turns, waking  # isort: skip
from . import implications  # isort: skip  (speaks of all of them)

__all__ = [
    "admit",
    "alternatives",
    "batches",
    "composition",
    "departures",
    "door",
    "early",
    "fairness",
    "implications",
    "iterations",
    "lanes",
    "life",
    "liveness",
    "log",
    "memory",
    "output",
    "parking",
    "preemption",
    "recovery",
    "shares",
    "snapshots",
    "steps",
    "swapping",
    "transfers",
    "turns",
    "waking",
]
