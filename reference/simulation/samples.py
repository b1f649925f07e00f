"""Samples of times: what distributions and curves are told of.

Percentiles are nearest-rank: the smallest value that at least so many percent of the sample do not exceed.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from operator import mul, sub

from attrs import frozen

from .record import Record

PERCENTS = (50, 95, 99)


@frozen
class Sample:
    """Values, ascending, and up to which place (from 1) each of them goes."""

    values: Sequence[int]
    ends: Sequence[int]

    @classmethod
    def of(cls, values: Iterable[int]) -> "Sample":
        ordered = sorted(values)
        return cls(ordered, range(1, len(ordered) + 1))

    @classmethod
    def of_counts(cls, counts: Mapping[int, int]) -> "Sample":
        """Each value so many times."""
        values = sorted(counts)
        return cls(values, list(accumulate([counts[value] for value in values])))

    @property
    def count(self) -> int:
        return self.ends[-1] if self.ends else 0

    @property
    def mean(self) -> int:
        counts = map(sub, self.ends, [0, *self.ends[:-1]])
        total: int = sum(map(mul, self.values, counts))
        return total // self.count

    def at(self, part: int, whole: int) -> int:
        """The smallest value that at least this part of the sample does not exceed."""
        return self.values[bisect_right(self.ends, max(0, -(-part * self.count // whole) - 1))]


def distribution(values: Sample | Iterable[int]) -> dict[str, int] | None:
    """Sample size, mean, percentiles and maximum; None of nothing."""
    sample = values if isinstance(values, Sample) else Sample.of(values)
    if not sample.count:
        return None
    percentiles = {f"p{percent}": sample.at(percent, 100) for percent in PERCENTS}
    return {"count": sample.count, "mean": sample.mean, **percentiles, "max": sample.values[-1]}


def itl(records: Sequence[Record]) -> Sample:
    """From one token of a request to its next, of all of them.

    Whoever gets tokens in the same steps has the same times between them: each of these is counted for all at once.
    """
    times = next((record.delivery_ns for record in records if record.deliveries), ())
    changes, counts = [0] * (len(times) + 1), Counter[int]()
    for record in records:
        before = None
        for first, after in record.deliveries:
            if before is not None:
                counts[times[first] - times[before]] += 1
            changes[first + 1] += 1
            changes[after] -= 1
            before = after - 1
    getting = list(accumulate(changes[:-1]))[1:]
    for gap, count in zip(map(sub, times[1:], times), getting, strict=True):
        if count:
            counts[gap] += count
    return Sample.of_counts(counts)
