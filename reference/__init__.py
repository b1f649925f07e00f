"""One legal scheduler in pure Python: continuous batching over paged KV blocks, in one pool or in two."""

from typing import Any

from ..spec.vocabulary import Settings
from .scheduler import Scheduler
from .scheduler import make as in_one_pool
from .systems.distserve import make as in_two_pools


def make(settings: Settings, seed: int) -> Any:
    """The factory: of a `Scheduler`, or of a `Disaggregated` where there are two pools."""
    return in_two_pools(settings, seed) if settings.pools.are_two else in_one_pool(settings, seed)


__all__ = ["Scheduler", "in_one_pool", "in_two_pools", "make"]
