"""Selection: who of the waiting is admitted next.

Most policies keep one queue, ordered by a key (`one_queue.py`).  The others keep a queue per client (`sharing.py`), or
one of clients per lane (`lanes.py`), and whoever has the least rank is next; a policy says what changes ranks.
"""

from collections.abc import Callable, Mapping

from ...spec.settings import Settings
from ..adapters import Adapters
from ..prefixes import Prefixes
from .lanes import shared_by_lanes
from .one_queue import ORDERS, OneQueue, WaitingQueue, one_queue
from .sharing import ClientQueues, Dlpm, Drr, RoundRobin, SharedQueue, Sharing, Vtc, shared_by_clients

Queue = OneQueue | SharedQueue

POLICIES: Mapping[str, Callable[[Settings, Prefixes], SharedQueue]] = {
    "vtc": lambda settings, prefixes: shared_by_clients(settings, Vtc()),
    "lcf": lambda settings, prefixes: shared_by_clients(settings, Sharing()),
    "round_robin": lambda settings, prefixes: shared_by_clients(settings, RoundRobin()),
    "drr": lambda settings, prefixes: shared_by_clients(settings, Drr(settings.quantum)),
    "dlpm": lambda settings, prefixes: shared_by_clients(settings, Dlpm(settings.quantum, prefixes)),
    "lanes": lambda settings, prefixes: shared_by_lanes(settings),
}
"""Policies with a queue per client."""


def new_queue(settings: Settings, prefixes: Prefixes, adapters: Adapters) -> Queue:
    """The queue of the policy."""
    if settings.policy in ORDERS:
        return one_queue(settings, prefixes, adapters)
    return POLICIES[settings.policy](settings, prefixes)


__all__ = [
    "POLICIES",
    "ClientQueues",
    "OneQueue",
    "Queue",
    "RoundRobin",
    "SharedQueue",
    "Sharing",
    "Vtc",
    "WaitingQueue",
    "new_queue",
    "shared_by_clients",
]
