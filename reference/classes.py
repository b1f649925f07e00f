"""Classes of requests: who may take the place of whom."""

from collections.abc import Callable, Mapping

from ..spec.settings import Settings
from .job import Job
from .selection.one_queue import by_level, by_priority

CLASSES: Mapping[str, Callable[[Settings], Callable[[Job], int]]] = {
    "priority": lambda settings: by_priority,
    "edf": lambda settings: by_priority,
    "sjf": lambda settings: by_priority,
    "srpt": lambda settings: by_priority,
    "aging": lambda settings: by_priority,
    "mlfq": lambda settings: by_level(settings.quantum),
}
"""Policy -> the class of a request, smaller is higher.  Under the others nobody is of a lower class than anybody: they
promise an order of arrival, or of clients."""


def has_classes(settings: Settings) -> bool:
    """Whether anybody may take the place of a lower class."""
    return settings.preempt_lower_class and settings.policy in CLASSES
