"""Times of arrivals where none are recorded: a renewal process of a given rate and burstiness."""

from collections.abc import Iterator
from random import Random

from ..vocabulary import NS_PER_S
from .arrival import WorkloadError

MOST_CV = 100.0


def times_ns(draw: Random, per_s: float = 1.0, cv: float = 1.0) -> Iterator[int]:
    """Endless.  The times in between are Gamma with this coefficient of variation: exponential at 1, so that arrivals
    are Poisson; equal at 0; in bursts above 1 (vLLM's benchmarks call 1/cv² their burstiness)."""
    now_ns = 0
    while True:
        now_ns += int(_gap_s(draw, cv) / per_s * NS_PER_S)
        yield now_ns


def _gap_s(draw: Random, cv: float) -> float:
    """1 on average."""
    if cv == 1:
        return draw.expovariate(1.0)
    return draw.gammavariate(1 / cv**2, cv**2) if cv else 1.0


def check_cv(cv: float) -> float:
    if not 0 <= cv <= MOST_CV:
        raise WorkloadError(
            f"cv is {cv:g}, but must be from 0 (evenly spaced) over 1 (Poisson) to {MOST_CV:g} (bursts)"
        )
    return cv
