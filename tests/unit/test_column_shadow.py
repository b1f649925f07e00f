"""The identities of prefixes that are made together are those that are made one by one."""

import random

import pytest

pytest.importorskip("numpy")

import numpy as np

from schedspec.optimized.content import IS_CHAINED, LARGEST_TOKEN, chained_all
from schedspec.spec.tracks import chained

EDGES = [0, 1, 2, (1 << 31) - 1, 1 << 31, 1 << 32, (1 << 61) - 2]


def test_identities_are_those_of_the_plain_shadow() -> None:
    rng = random.Random(3)
    signs = [*EDGES, (1 << 61) - 1, 1 << 61, (1 << 62) - 2, (1 << 63) - 1]
    parents = [sign * edge for edge in signs for sign in (1, -1)] + [-(1 << 63), -2, -1]
    pairs = [(parent, token) for parent in parents for token in EDGES]
    pairs += [(rng.randrange(-(1 << 63), 1 << 63), rng.randint(0, LARGEST_TOKEN)) for _ in range(20_000)]
    columns = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    assert IS_CHAINED
    assert chained_all(*columns).tolist() == [chained(*pair) for pair in pairs]


def test_a_chain_of_identities() -> None:
    tokens = list(range(7, 3_000, 7))
    one, all_of_them = 0x5EED, np.full(3, 0x5EED, np.int64)
    for token in tokens:
        one = chained(one, token)
        all_of_them = chained_all(all_of_them, np.full(3, token, np.int64))
    assert all_of_them.tolist() == [one] * 3
