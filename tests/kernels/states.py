"""Random states as arrays, for kernels and their twins; the same seed is the same state."""

from collections.abc import Iterable, Sequence
from random import Random

import torch
from torch import Tensor

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL_TILE = 16
EDGES = (0, 1, 2, SMALL_TILE - 1, SMALL_TILE, SMALL_TILE + 1, 2 * SMALL_TILE, 2 * SMALL_TILE + 1, 50)
"""Lengths around the edges of small tiles."""
FULL_EDGES = (1_023, 1_024, 1_025, 2_049)
"""And around those of the tiles that run on a device."""


def array(values: Iterable[int]) -> Tensor:
    return torch.tensor(list(values), dtype=torch.int64, device=DEVICE)


def padded(values: Sequence[int], rng: Random, most: int = 1 << 40) -> Tensor:
    """With a few entries behind the last that counts: what is left there from another step must not matter."""
    return array([*values, *(rng.randint(1, most) for _ in range(3))])


def first(values: Tensor, count: int) -> list[int]:
    return [int(value) for value in values[:count].tolist()]


def draw(rng: Random, count: int, least: int, most: int, rare: int = 0) -> list[int]:
    """Mostly between two bounds; now and then something large."""
    return [rng.randint(most, rare) if rare and rng.random() < 0.1 else rng.randint(least, most) for _ in range(count)]
