"""How far the figures of one run can be trusted: 95 % intervals by a bootstrap of blocks.

Requests that come one after the other wait for each other, so they are no independent sample.  What is drawn again is
blocks of as many consecutive requests as there are blocks (Carlstein, 1986), each with all its tokens.  It says how
much a figure would differ for other arrivals of this kind, not what another day would bring.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import ceil, isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from ..reference.simulation import PERCENTS, Objective, Record, ttft_ns

FEWEST_REQUESTS = 100
"""Ten blocks of ten."""
FEWEST_BEYOND = 5
"""A percentile that fewer values exceed has no interval."""
RESAMPLES = 400
LEVEL = (2.5, 97.5)
MOST_VALUES = 2_000
"""More distinct ones are rounded up to so many of them."""

Floats = npt.NDArray[np.float64]


def intervals(records: Iterable[Record], objective: Objective) -> dict[str, Any]:
    """Of each figure that has one: (least, most).  `requests`, and in how many `blocks`; no figures of too few."""
    line = sorted(records, key=lambda record: record.arrived_ns)
    length = isqrt(len(line))
    told: dict[str, Any] = {"requests": len(line), "blocks": 0}
    if len(line) < FEWEST_REQUESTS:
        return told
    blocks = [line[first : first + length] for first in range(0, len(line) - length + 1, length)]
    blocks[-1] += line[len(blocks) * length :]
    weights = _weights(len(blocks))
    told["blocks"] = len(blocks)
    for name, values in VALUES.items():
        told[name] = _percentiles([[v for record in block for v in values(record)] for block in blocks], weights)
    met = [sum(objective.is_met(record) for record in block) for block in blocks]
    told["goodput_share"] = _ends(weights @ met / (weights @ [len(block) for block in blocks]), 6)
    return told


def _itl_ns(record: Record) -> list[int]:
    return [later - earlier for earlier, later in pairwise(record.token_ns)]


VALUES: Mapping[str, Callable[[Record], Sequence[int]]] = {
    "ttft_ns": lambda record: [ttft_ns(record)] if record.token_ns else [],
    "itl_ns": _itl_ns,
    "queue_age_ns": lambda record: [] if record.admitted_ns is None else [record.admitted_ns - record.arrived_ns],
    "end_to_end_ns": lambda record: [record.ended_ns - record.arrived_ns] if record.has_finished else [],  # type: ignore[operator]
}
"""What a request adds to each distribution, as `metrics` has it."""


def _weights(blocks: int) -> Floats:
    """How often each block is drawn, in each resample."""
    dice = np.random.default_rng(0)
    return dice.multinomial(blocks, [1 / blocks] * blocks, size=RESAMPLES).astype(np.float64)


def _percentiles(of_blocks: Sequence[Sequence[int]], weights: Floats) -> dict[str, list[int]]:
    """Nearest-rank, as everywhere."""
    values = np.array([value for block in of_blocks for value in block], dtype=np.int64)
    block = np.repeat(np.arange(len(of_blocks)), [len(block) for block in of_blocks])
    distinct = np.unique(values)
    if len(distinct) > MOST_VALUES:
        distinct = distinct[np.linspace(0, len(distinct) - 1, MOST_VALUES).astype(np.int64)]
    place = np.searchsorted(distinct, values)
    flat = np.bincount(block * len(distinct) + place, minlength=len(of_blocks) * len(distinct))
    counts = np.cumsum(weights @ flat.reshape(len(of_blocks), -1), axis=1)
    told = {}
    for percent in PERCENTS:
        if len(values) - ceil(percent * len(values) / 100) >= FEWEST_BEYOND:
            ranks = np.maximum(1, np.ceil(counts[:, -1:] * percent / 100))
            found = distinct[np.argmax(counts >= ranks, axis=1)]
            told[f"p{percent}"] = [int(end) for end in _ends(found)]
    return told


def _ends(found: npt.NDArray[Any], digits: int = 0) -> list[float]:
    return [round(float(end), digits) for end in np.percentile(found, LEVEL, method="nearest")]
