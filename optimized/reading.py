"""Lines of a trace as JSON, without reading again a column that stood in the lines before.

Most of the text of a step and its result are columns that most often are the same as in the step before: who runs, one
token each, nobody stops.  Where the text of a known column stands in its place, a short mark is put there instead, and
the column itself where the mark was read.  A line of which anything else is true is read whole.
"""

import json
from itertools import product
from typing import Any

from schedspec.spec.strict_json import loads

PARTS = {"request": ("plan", "outcome"), "tokens": ("plan",), "samples": ("plan",), "stop": ("outcome",)}
"""Columns that may be known, and in which parts of a line they stand.  Where else their text stands, no mark is found
afterwards, and the line is read whole."""
DELIVERED = (b'["delivered",', b'["delivered", ')
RESULTS = (b'"token":', b'"token": ')
MARK = "\u0000column "
FEWEST = 24
KNOWN = 2

Known = list[tuple[bytes, tuple[Any, ...]]]


class ColumnLoads:
    """Called like `loads` of `strict_json`; `spared` counts columns that were not read again."""

    def __init__(self) -> None:
        self.spared = 0
        self._known: dict[str, Known] = {name: [] for name in PARTS}
        self._last: dict[str, list[Any]] = {}

    def __call__(self, line: str | bytes) -> Any:
        if not isinstance(line, bytes):
            return loads(line)
        found = self._read(line) if self._known["request"] else None
        if found is None:
            found = loads(line)
        if isinstance(found, dict):
            self._learn(found, line)
        return found

    def _read(self, line: bytes) -> Any:
        marked = _Marked(line)
        for name, known in self._known.items():
            for before in (f'"{name}":'.encode(), f'"{name}": '.encode()):
                marked.replace(before, known)
        for before in DELIVERED:
            after = marked.replace(before, self._known["request"])
            if after:
                marked.repeat(after)
        if not marked.columns or MARK[1:].encode() in line:
            return None
        try:
            found = loads(marked.text())
        except ValueError:
            return None  # read whole, it says where
        if not isinstance(found, dict) or _put(found, marked.columns) != len(marked.columns):
            return None
        self.spared += len(marked.columns)
        return found

    def _learn(self, found: dict[str, Any], line: bytes) -> None:
        """A column that stood there twice will be there again."""
        for name, parts in PARTS.items():
            for part in parts:
                column = found[part].get(name) if isinstance(found.get(part), dict) else None
                if type(column) is not list or len(column) < FEWEST:
                    continue
                if column == self._last.get(name) and set(map(type, column)) <= _PLAIN:
                    self._known[name] = [(_text(column, line), tuple(column)), *self._known[name][: KNOWN - 1]]
                self._last[name] = column


_PLAIN = {str, int, bool}


def _text(column: list[Any], line: bytes) -> bytes:
    """As it is written here: JSON leaves the spaces free, and has two ways for what is not ASCII."""
    forms = product((",", ", "), (True, False))
    texts = [json.dumps(column, separators=(comma, ":"), ensure_ascii=ascii).encode() for comma, ascii in forms]
    return next((text for text in texts if text in line), texts[0])


class _Marked:
    """A line in which marks replace columns; `columns` has what each mark stands for, None for the results."""

    def __init__(self, line: bytes) -> None:
        self.line = line
        self.columns: dict[str, tuple[Any, ...] | None] = {}
        self.cuts: list[tuple[int, int, bytes]] = []

    def replace(self, before: bytes, known: Known) -> int:
        """Where the column behind these words ends, if it is a known one; else 0."""
        place = self.line.find(before)
        if place < 0:
            return 0
        place += len(before)
        for text, column in known:
            if self.line.startswith(text, place):
                self._cut(place, place + len(text), column)
                return place + len(text)
        return 0

    def repeat(self, after: int) -> None:
        """Delivered tokens that are written as the results are."""
        for before in RESULTS:
            place = self.line.find(before)
            if place >= 0:
                start = place + len(before)
                text = self.line[start : self.line.find(b"]", start) + 1]
                here = after + self.line.startswith(b", ", after) + 1
                if len(text) > FEWEST and self.line.startswith(text, here):
                    self._cut(here, here + len(text), None)

    def _cut(self, start: int, end: int, column: tuple[Any, ...] | None) -> None:
        mark = f"{MARK}{len(self.cuts)}"
        self.columns[mark] = column
        self.cuts.append((start, end, json.dumps(mark).encode()))

    def text(self) -> bytes:
        parts, read = [], 0
        for start, end, mark in sorted(self.cuts):
            parts += [self.line[read:start], mark]
            read = end
        return b"".join([*parts, self.line[read:]])


def _put(found: dict[str, Any], columns: dict[str, tuple[Any, ...] | None]) -> int:
    """The columns where their marks were read; how many."""
    put = 0
    for name, parts in PARTS.items():
        for part in parts:
            holder = found.get(part)
            mark = holder.get(name) if isinstance(holder, dict) else None
            if isinstance(mark, str) and columns.get(mark) is not None:
                holder[name] = columns[mark]  # type: ignore[index]
                put += 1
    return put + _put_delivered(found, columns)


def _put_delivered(found: dict[str, Any], columns: dict[str, tuple[Any, ...] | None]) -> int:
    put = 0
    outcome, deltas = found.get("outcome"), found.get("deltas")
    for delta in deltas if isinstance(deltas, list) else ():
        if not isinstance(delta, list):
            continue
        for place, mark in enumerate(delta):
            if not isinstance(mark, str) or mark not in columns:
                continue
            column = columns[mark]
            if column is None and isinstance(outcome, dict) and isinstance(outcome.get("token"), list):
                outcome["token"] = tuple(outcome["token"])
            if column is None and isinstance(outcome, dict):
                column = outcome.get("token")
            if type(column) is tuple:
                delta[place] = column
                put += 1
    return put
