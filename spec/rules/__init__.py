"""All rules, by family: importing this package fills the registry."""

from . import composition, door, life, memory, preemption

__all__ = ["composition", "door", "life", "memory", "preemption"]
