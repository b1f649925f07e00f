"""Lengths to be drawn: a table of quantiles, or a log-normal."""

from bisect import bisect_right
from math import log
from random import Random
from statistics import NormalDist
from typing import Protocol

from attrs import frozen

_MILLIONTHS = 1_000


class Lengths(Protocol):
    def draw(self, random: Random) -> int:
        """A length in tokens, at least 1."""
        ...


@frozen
class Quantiles:
    """(per mille, tokens), from 0 to 1,000; in between it is linear.  Integers only, so the same on every machine."""

    table: tuple[tuple[int, int], ...]

    def draw(self, random: Random) -> int:
        at = random.randrange(1_000 * _MILLIONTHS)
        place = bisect_right(self.table, at // _MILLIONTHS, key=lambda row: row[0])
        (low, least), (high, most) = self.table[place - 1], self.table[place]
        return least + (most - least) * (at - low * _MILLIONTHS) // ((high - low) * _MILLIONTHS)


@frozen
class LogNormal:
    """`sigma`: the deviation of the logarithm.  What is beyond `most` becomes it."""

    median: int
    sigma: float
    most: int

    def draw(self, random: Random) -> int:
        return max(1, min(self.most, round(random.lognormvariate(log(self.median), self.sigma))))


def through_p90(median: int, p90: int, most: int) -> LogNormal:
    """The log-normal with this median and this 90th percentile."""
    return LogNormal(median, log(p90 / median) / NormalDist().inv_cdf(0.9), most)
