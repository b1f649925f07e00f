"""Selection: who of the waiting is admitted next.

Most policies keep one queue, ordered by a key (`one_queue.py`).  The others keep a queue per client (`sharing.py`), or
one of clients per lane (`lanes.py`), and whoever has the least rank is next; a policy says what changes ranks.
"""

from collections.abc import Callable, Mapping

from ...spec.settings import Settings
from ..prefixes import Prefixes
from .lanes import shared_by_lanes
from .one_queue import WaitingQueue, by_age, by_arrival, by_deadline, by_length, by_priority
from .sharing import ClientQueues, Dlpm, Drr, RoundRobin, SharedQueue, Sharing, Vtc, shared_by_clients

Queue = WaitingQueue | SharedQueue

POLICIES: Mapping[str, Callable[[Settings, Prefixes], Queue]] = {
    "fcfs": lambda settings, prefixes: WaitingQueue(by_arrival),
    "priority": lambda settings, prefixes: WaitingQueue(by_priority),
    "edf": lambda settings, prefixes: WaitingQueue(by_deadline),
    "sjf": lambda settings, prefixes: WaitingQueue(by_length),
    "aging": lambda settings, prefixes: WaitingQueue(by_age),
    "vtc": lambda settings, prefixes: shared_by_clients(settings, Vtc()),
    "lcf": lambda settings, prefixes: shared_by_clients(settings, Sharing()),
    "round_robin": lambda settings, prefixes: shared_by_clients(settings, RoundRobin()),
    "drr": lambda settings, prefixes: shared_by_clients(settings, Drr(settings.quantum)),
    "dlpm": lambda settings, prefixes: shared_by_clients(settings, Dlpm(settings.quantum, prefixes)),
    "lanes": lambda settings, prefixes: shared_by_lanes(settings),
}

__all__ = [
    "POLICIES",
    "ClientQueues",
    "Queue",
    "RoundRobin",
    "SharedQueue",
    "Sharing",
    "Vtc",
    "WaitingQueue",
    "shared_by_clients",
]
