"""Selection: who of the waiting is admitted next.

Most policies keep one queue, ordered by a key (`one_queue.py`).  The others keep a queue per client, and the client
with the least counter is next (`sharing.py`); a policy says what changes the counters.
"""

from collections.abc import Callable, Mapping

from ...spec.settings import Settings
from ..prefixes import Prefixes
from .one_queue import WaitingQueue, by_age, by_arrival, by_deadline, by_length, by_priority
from .sharing import ClientQueues, RoundRobin, Sharing, Vtc

Queue = WaitingQueue | ClientQueues

POLICIES: Mapping[str, Callable[[Settings, Prefixes], Queue]] = {
    "fcfs": lambda settings, prefixes: WaitingQueue(by_arrival),
    "priority": lambda settings, prefixes: WaitingQueue(by_priority),
    "edf": lambda settings, prefixes: WaitingQueue(by_deadline),
    "sjf": lambda settings, prefixes: WaitingQueue(by_length),
    "aging": lambda settings, prefixes: WaitingQueue(by_age),
    "vtc": lambda settings, prefixes: ClientQueues(Vtc()),
    "lcf": lambda settings, prefixes: ClientQueues(Sharing()),
    "round_robin": lambda settings, prefixes: ClientQueues(RoundRobin()),
}

__all__ = ["POLICIES", "ClientQueues", "Queue", "RoundRobin", "Sharing", "Vtc", "WaitingQueue"]
