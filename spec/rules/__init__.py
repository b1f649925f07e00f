"""All rules, by family: importing this package fills the registry."""

from . import admit, batches, composition, departures, door, fairness, lanes, life, liveness  # isort: skip
from . import log, memory, preemption, shares, snapshots, steps, transfers, turns  # isort: skip
from . import implications  # isort: skip  (speaks of all of them)

__all__ = [
    "admit",
    "batches",
    "composition",
    "departures",
    "door",
    "fairness",
    "implications",
    "lanes",
    "life",
    "liveness",
    "log",
    "memory",
    "preemption",
    "shares",
    "snapshots",
    "steps",
    "transfers",
    "turns",
]
