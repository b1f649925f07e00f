"""A fast scheduler, decision for decision the reference's: struct of arrays, heaps and a calendar (`README.md`)."""

import importlib.util
from typing import TYPE_CHECKING

from ..spec.vocabulary import Settings

if TYPE_CHECKING:
    from .scheduler import Scheduler

__all__ = ["make"]

NEEDS_NUMPY = "the optimized scheduler needs numpy: pip install 'schedspec[optimized]'"


class Factory:
    """Makes schedulers.  numpy is loaded with the first of them, so that nobody else needs it."""

    def prepare(self) -> None:
        """Raises RuntimeError with one sentence where numpy is not installed."""
        if importlib.util.find_spec("numpy") is None:
            raise RuntimeError(NEEDS_NUMPY)

    def __call__(self, settings: Settings, seed: int) -> "Scheduler":
        self.prepare()
        from .scheduler import Scheduler

        return Scheduler(settings, seed)


make = Factory()
