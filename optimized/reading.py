"""Lines of a trace as JSON, without reading again a column of requests that stood in the lines before.

Of a step's line and its result's, the ids are most of the text, and most often they are the same ones.  Where the text
of a known column stands in its place, a short mark is put there instead, and the column itself where the mark was read.
A line of which anything else is true is read whole.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

PLACES = (b'"request":', b'"request": ', b'["delivered",', b'["delivered", ')
"""What stands before such a column.  Where else it stands, no mark is found afterwards, and the line is read whole."""
MARK = "\u0000column"
_MARK = json.dumps(MARK).encode()
FEWEST = 24
KNOWN = 2


class ColumnLoads:
    """Called like `json.loads`; `spared` counts columns that were not read again."""

    def __init__(self) -> None:
        self.spared = 0
        self._known: list[tuple[bytes, tuple[str, ...]]] = []
        self._last: Sequence[str] = ()

    def __call__(self, line: str | bytes) -> Any:
        found = self._read(line) if self._known and isinstance(line, bytes) else None
        if found is None:
            found = json.loads(line)
            if isinstance(line, bytes):
                self._learn(found, line)
        return found

    def _read(self, line: bytes) -> Any:
        for text, column in self._known:
            short, marks = _marked(line, text)
            if not marks or _MARK in line:
                continue
            try:
                found = json.loads(short)
            except ValueError:
                return None  # read whole, it says where
            if _put(found, column) == marks:
                self.spared += marks
                return found
        return None

    def _learn(self, found: Any, line: bytes) -> None:
        """A column that stood there twice will be there again."""
        for column in _columns(found):
            if len(column) < FEWEST or not all(type(name) is str for name in column):
                continue
            if column == self._last:
                text = _text(column, line)
                self._known = [(text, tuple(column)), *self._known[: KNOWN - 1]]
            self._last = column
            return


def _text(column: list[str], line: bytes) -> bytes:
    """As it is written here: JSON leaves the spaces free, and has two ways for what is not ASCII."""
    forms = product((",", ", "), (True, False))
    texts = [json.dumps(column, separators=(comma, ":"), ensure_ascii=ascii).encode() for comma, ascii in forms]
    return next((text for text in texts if text in line), texts[0])


def _marked(line: bytes, text: bytes) -> tuple[bytes, int]:
    """The line with a mark for each place in which the text stands."""
    parts, read, marks = [], 0, 0
    for place in _places(line):
        if place >= read and line.startswith(text, place):
            parts += [line[read:place], _MARK]
            read, marks = place + len(text), marks + 1
    return b"".join([*parts, line[read:]]), marks


def _places(line: bytes) -> list[int]:
    found = []
    for before in PLACES:
        place = line.find(before)
        if place >= 0:
            found.append(place + len(before))
    return sorted(found)


def _put(found: Any, column: tuple[str, ...]) -> int:
    """The column where its mark was read; how often."""
    put = 0
    if not isinstance(found, dict):
        return put
    for name in ("plan", "outcome"):
        part = found.get(name)
        if isinstance(part, dict) and part.get("request") == MARK:
            part["request"] = column
            put += 1
    deltas = found.get("deltas")
    for delta in deltas if isinstance(deltas, list) else ():
        if isinstance(delta, list) and len(delta) > 1 and delta[1] == MARK:
            delta[1] = column
            put += 1
    return put


def _columns(found: Any) -> list[Any]:
    if not isinstance(found, dict):
        return []
    parts = (found.get(name) for name in ("plan", "outcome"))
    columns = (part.get("request") for part in parts if isinstance(part, Mapping))
    return [column for column in columns if isinstance(column, list)]
