"""What all benches share: a quiet interpreter, medians, and the form of a result."""

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import median
from typing import Literal

from attrs import Factory, frozen

__all__ = ["Result", "Skipped", "median", "process_seconds", "quiet", "seconds"]


class Skipped(Exception):
    """What a bench needs is not here; one sentence says what, and how to get it."""


@frozen(kw_only=True)
class Result:
    """A line of the table.  `best`: whether more or less is better; `ratio` is at least 1 where what is asked holds."""

    name: str
    figure: float
    unit: str
    asked: float | None = None
    best: Literal["most", "least"] = "most"
    more: Mapping[str, float] = Factory(dict)

    @property
    def ratio(self) -> float | None:
        if self.asked is None:
            return None
        return self.figure / self.asked if self.best == "most" else self.asked / self.figure


@contextmanager
def quiet() -> Iterator[None]:
    """No garbage collection while a clock runs: it would be paid for by whoever comes next."""
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def seconds(work: Callable[..., object], *arguments: object) -> float:
    """Time of this thread alone: what else the machine does is not counted."""
    begun = time.thread_time()
    work(*arguments)
    return time.thread_time() - begun


def process_seconds(work: Callable[..., object], *arguments: object) -> float:
    """Time of all threads of this process: what another one is to be compared with."""
    begun = time.process_time()
    work(*arguments)
    return time.process_time() - begun
