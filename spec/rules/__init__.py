"""All rules, by family: importing this package fills the registry."""

from . import admit, aging, alternatives, batches, composition, deferred, departures, door, early  # isort: skip
from . import fairness, iterations, lanes, life, liveness, log, memory, output, parking, preemption  # isort: skip
from . import prefixes, recovery, shares, snapshots, steps, swapping, transfers, turns, waking  # isort: skip
from . import implications  # isort: skip  (speaks of all of them)

__all__ = [
    "admit",
    "aging",
    "alternatives",
    "batches",
    "composition",
    "deferred",
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
    "prefixes",
    "recovery",
    "shares",
    "snapshots",
    "steps",
    "swapping",
    "transfers",
    "turns",
    "waking",
]
