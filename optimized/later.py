"""What tracks are told later: numbers that come for many requests at once, and are read one request at a time.

A track of which something has not been told is *listening*: whoever looks at it has it told first, and it is plain
again.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from schedspec.spec.tracks import Track

WIDTH = 128

IDS: Any = vars(Track)["ids"]
VERIFIED: Any = vars(Track)["verified_blocks"]
LAST: Any = vars(Track)["last_content"]
TOKENS: Any = vars(Track)["tokens"]
TABLE: Any = vars(Track)["table"]


class Later:
    """By row, up to WIDTH numbers that wait; a line of `kept` for each time."""

    def __init__(self) -> None:
        self.rows = self.times = 0
        self.used: Any = np.zeros(0, np.int64)
        self.kept: Any = np.zeros((WIDTH, 0), np.int64)

    def reach(self, rows: int) -> None:
        if rows > self.rows:
            kept = np.zeros((WIDTH, rows), np.int64)
            kept[:, : self.rows] = self.kept
            self.used, self.kept, self.rows = grown(self.used, rows), kept, rows

    @property
    def is_full(self) -> bool:
        """Somebody has no place left: take all."""
        if self.times >= WIDTH:
            self.times = int(self.used.max())
        return self.times >= WIDTH

    def put(self, at: Any, values: Any) -> None:
        """One for each of these rows, none of which comes twice; `at`: an array of them, or a slice."""
        used = self.used[at]
        first = int(used[0])
        if np.count_nonzero(used == first) == len(used):  # most often all have waited as long
            self.kept[first, at] = values
        else:
            rows = np.arange(at.start, at.stop) if isinstance(at, slice) else at
            self.kept.ravel()[used * self.rows + rows] = values
        self.used[at] = used + 1
        self.times += 1

    def take(self, row: int) -> list[int]:
        count = int(self.used[row])
        self.used[row] = 0
        numbers: list[int] = self.kept[:count, row].tolist()
        return numbers

    def take_all(self) -> Iterator[tuple[int, list[int]]]:
        """Row -> what waited for it, of all for whom something did."""
        rows = np.flatnonzero(self.used)
        counts = self.used[rows].tolist()
        lines = self.kept[: max(counts, default=0), rows].T.tolist()
        self.used[rows] = 0
        self.times = 0
        for row, count, line in zip(rows.tolist(), counts, lines, strict=True):
            yield row, line[:count]


def grown(column: Any, rows: int) -> Any:
    """The column, with zeros behind it."""
    if len(column) >= rows:
        return column
    longer = np.zeros(rows, column.dtype)
    longer[: len(column)] = column
    return longer


def listening(settle: Callable[[Track], None]) -> type[Track]:
    """Tracks that are settled before somebody looks at what they may not have been told."""

    def watched(slot: Any) -> property:
        def get(self: Track) -> Any:
            settle(self)
            return slot.__get__(self)

        def put(self: Track, value: Any) -> None:
            settle(self)
            slot.__set__(self, value)

        return property(get, put)

    slots = {"tokens": TOKENS, "ids": IDS, "verified_blocks": VERIFIED, "last_content": LAST, "table": TABLE}
    heard = {name: watched(slot) for name, slot in slots.items()}
    return type("ListeningTrack", (Track,), {"__slots__": (), **heard})
