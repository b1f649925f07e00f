"""Workloads as arrivals: when a request comes, how long its prompt is, how long its output will be.

`parse_workload("azure:FILE")` names one, `Workload.arrivals` reads it lazily, `to_requests` makes requests of it.  The
true output length stays beside the request: a scheduler must not see it before it has happened.  Clients are a closed
loop: whoever runs requests asks `Clients` who comes, leaves and comes back, and tells them what becomes of each.

A file per kind (`azure.py`, …, `generic.py`), all read by `reading.py`; `fits.py` and `fitted.py`, `hostile.py` need no
file; `public.py` and `fetch.py` know the public ones.  The README of the project lists kinds and columns.
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
