"""Tokens of tracks in arrays: what was delivered to many is handed to each without making an object of any."""

from array import array
from collections.abc import Callable, MutableSequence

import numpy as np

from schedspec.spec.tracks import Track

from .later import TOKENS, Later


def hand_over(later: Later, track_at: Callable[[int], Track]) -> None:
    """All that waits reaches the tracks for which it does."""
    rows = np.flatnonzero(later.used)
    counts = later.used[rows].tolist()
    width = 8 * max(counts, default=0)
    told = memoryview(later.kept[: width // 8, rows].T.tobytes())
    for place, (row, count) in enumerate(zip(rows.tolist(), counts, strict=True)):
        start = place * width
        _extend(track_at(row), told[start : start + 8 * count])
    later.used[rows] = later.times = 0


def _extend(track: Track, told: memoryview) -> None:
    tokens = TOKENS.__get__(track)
    if isinstance(tokens, list):
        tokens = _in_array(tokens)
        TOKENS.__set__(track, tokens)
    if isinstance(tokens, array):
        tokens.frombytes(told)
    else:
        tokens.extend(told.cast("q"))


def _in_array(tokens: list[int]) -> MutableSequence[int]:
    """As they are where one is no number of 64 bits."""
    try:
        return array("q", tokens)
    except OverflowError:
        return tokens
