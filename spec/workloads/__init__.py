"""Workloads as arrivals: when a request comes, how long its prompt is, how long its output will be.

`parse_workload("azure:FILE")` names one, `Workload.arrivals` reads it lazily, `to_requests` makes requests of it.  The
true output length stays beside the request: a scheduler must not see it before it has happened.  `README.md` lists the
kinds, their columns, and what a client does that is not served.
"""

from .arrival import Arrival, Draws, MissingWorkload, Patience, WorkloadError
from .clients import Clients
from .public import locate
from .requests import Incoming, again, to_requests
from .workload import KINDS, Workload, parse_workload

__all__ = [
    "KINDS",
    "Arrival",
    "Clients",
    "Draws",
    "Incoming",
    "MissingWorkload",
    "Patience",
    "Workload",
    "WorkloadError",
    "again",
    "locate",
    "parse_workload",
    "to_requests",
]
