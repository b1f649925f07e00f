"""One legal scheduler in pure Python: continuous batching over paged KV blocks."""

from .scheduler import Scheduler, make

__all__ = ["Scheduler", "make"]
