"""Selection: who of the waiting is admitted next.

Most policies keep one queue, ordered by a key (`one_queue.py`).  The others keep a queue per client, and the client
with the least counter is next (`sharing.py`); a policy says what changes the counters.
"""

from collections.abc import Callable, Mapping

from ...spec.settings import Settings
from ..adapters import Adapters
from ..prefixes import Prefixes
from .one_queue import ORDERS, OneQueue, WaitingQueue, one_queue
from .sharing import ClientQueues, RoundRobin, Sharing, Vtc

Queue = OneQueue | ClientQueues

POLICIES: Mapping[str, Callable[[Settings, Prefixes], ClientQueues]] = {
    "vtc": lambda settings, prefixes: ClientQueues(Vtc()),
    "lcf": lambda settings, prefixes: ClientQueues(Sharing()),
    "round_robin": lambda settings, prefixes: ClientQueues(RoundRobin()),
}
"""Policies with a queue per client."""


def new_queue(settings: Settings, prefixes: Prefixes, adapters: Adapters) -> Queue:
    """The queue of the policy."""
    if settings.policy in ORDERS:
        return one_queue(settings, prefixes, adapters)
    return POLICIES[settings.policy](settings, prefixes)


__all__ = ["POLICIES", "ClientQueues", "OneQueue", "Queue", "RoundRobin", "Sharing", "Vtc", "WaitingQueue", "new_queue"]
