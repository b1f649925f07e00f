"""All rules, by family: importing this package fills the registry."""

from . import composition, door, life, liveness, memory, preemption, snapshots, steps

__all__ = ["composition", "door", "life", "liveness", "memory", "preemption", "snapshots", "steps"]
