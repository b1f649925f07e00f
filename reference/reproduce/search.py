"""The largest rate that still meets an objective, by bisection, and percentiles by nearest rank."""

from collections.abc import Callable, Iterable

MOST_TRIES = 20
"""Sarathi-Serve's capacity search (osdi-sarathi-serve branch, capacity_search.py) tries no more often."""


def largest(meets: Callable[[float], bool], guess: float, within: float = 0.025) -> float:
    """Of the rates that were tried the largest that meets it, once the next one up is within that share of it; 0 if
    none does.  From a guess upwards in doublings, else downwards by halving the interval."""
    low, high = 0.0, guess
    for _ in range(MOST_TRIES):
        if meets(high):
            low, high = high, 2 * high
            continue
        break
    for _ in range(MOST_TRIES):
        if high - low <= within * high:
            break
        middle = (low + high) / 2
        low, high = (middle, high) if meets(middle) else (low, middle)
    return low


def percentile(values: Iterable[float], percent: int) -> float:
    """Nearest rank; 0 of nothing."""
    ordered = sorted(values)
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)] if ordered else 0.0
