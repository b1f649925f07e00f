"""Recorded runs as a file of columns: what `trace.py` writes as lines, with long columns beside the text.

A long run is mostly columns: who runs, from where, how many tokens.  As text each entry has to be read; here a column
is read as one piece of memory, and one that stood there before is named instead of written again.  The file is a row of
parts, each a head of 16 bytes and its content, filled up with zeros to a multiple of 8::

    8 bytes     what it is: "schedspc" (the first part, empty), "message", "naturals", "texts" or "flags", then zeros
    8 bytes     how long the content is, in bytes; little-endian, as all numbers
    …           message: a line of a JSONL trace, in which an object {"column": n} may stand for a column
                naturals: integers of 64 bits, none below 0;  texts: a JSON array of strings;  flags: bytes 0 and 1

Columns are numbered from 0 in the order in which they stand in the file, each before the message that names it.  A
message may name the 16 columns that were written or named last before it, and at most 8 new ones.  The first message is
the header.
"""

import json
import sys
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from .encoding import as_object, encode
from .errors import ProtocolError, shown
from .strict_json import Ambiguous, loads
from .trace import (
    LONGEST_LINE,
    TraceError,
    TraceWriter,
    Wrong,
    header_of,
    line_of,
    message_of,
    of_schema,
    read_trace,
)
from .values import Flags, Naturals, Texts
from .vocabulary import SCHEMA, Header, Message

MAGIC = b"schedspc"
KEPT = 16
MOST_NEW = 8
FEWEST = 24
"""Shorter columns stay in the text."""
LONGEST = LONGEST_LINE
"""Bytes of a part: what says that it is longer is no part."""
HEAD = 16

# Where a column may stand: part of a line, field, kind.
_PLACES = (
    ("request", "prompt_ids", "naturals"),
    ("plan", "request", "texts"),
    ("plan", "start", "naturals"),
    ("plan", "tokens", "naturals"),
    ("plan", "samples", "naturals"),
    ("outcome", "request", "texts"),
    ("outcome", "token", "naturals"),
    ("outcome", "stop", "flags"),
)
_DELIVERED = ((1, "texts"), (2, "naturals"))


# --- writing ------------------------------------------------------------------------------------------------


class ColumnsWriter:
    """Writes the header at once, and each message with its columns.  The file stays the caller's to close."""

    def __init__(self, file: IO[bytes], header: Header) -> None:
        self._file = file
        self._numbers: OrderedDict[tuple[str, bytes], int] = OrderedDict()
        self._columns = self._new = 0
        self._part(MAGIC, b"")
        self._put(line_of(header))

    def write(self, message: Message) -> None:
        line, self._new = line_of(message), 0
        for part, field, kind in _PLACES:
            if line.get(part) is not None and type(line[part]) is not str:
                fields = line[part] = as_object(line[part])
                if field in fields:
                    fields[field] = self._column(fields[field], kind)
        if "deltas" in line:
            line["deltas"] = [self._delta(delta) for delta in line["deltas"]]
        self._put(line)

    def _delta(self, delta: Sequence[Any]) -> Sequence[Any]:
        if delta[0] != "delivered":
            return delta
        return [delta[0], *(self._column(delta[place], kind) for place, kind in _DELIVERED)]

    def _column(self, values: Sequence[Any], kind: str) -> Any:
        """How a message names the column, which is written if it does not stand there; or the values."""
        content = _CONTENTS[kind](values) if len(values) >= FEWEST else None
        if content is None or ((kind, content) not in self._numbers and self._new == MOST_NEW):
            return values
        number = self._numbers.pop((kind, content), None)
        if number is None:
            number, self._columns, self._new = self._columns, self._columns + 1, self._new + 1
            self._part(kind.encode(), content)
        self._numbers[kind, content] = number
        if len(self._numbers) > KEPT:
            self._numbers.popitem(last=False)
        return {"column": number}

    def _put(self, line: Mapping[str, Any]) -> None:
        self._part(b"message", encode({"schema": SCHEMA, **line}).encode())

    def _part(self, kind: bytes, content: bytes) -> None:
        self._file.write(kind.ljust(8, b"\0") + len(content).to_bytes(8, "little") + content + _filling(len(content)))


def convert_trace(source: Path, target: Path) -> int:
    """Lines become columns, and columns lines; how many messages.  Where the source is wrong, what came before is
    written, and TraceError says where."""
    with source.open("rb") as file:
        to_lines = file.read(len(MAGIC)) == MAGIC
    header, messages = read_trace(source)
    if not target.parent.is_dir():
        raise ValueError(f"{target.parent} is no folder: make it before the trace is written there")
    if target.exists() and target.samefile(source):
        raise ValueError(f"{target} is the trace itself: name another file to write to")
    with target.open("w" if to_lines else "wb") as file:
        writer = TraceWriter(file, header) if to_lines else ColumnsWriter(file, header)
        return sum(writer.write(message) is None for message in messages)


def _filling(length: int) -> bytes:
    return b"\0" * (-length % 8)


def _naturals(values: Sequence[int]) -> bytes | None:
    try:
        column = array("q", values)
    except OverflowError:
        return None
    return _little(column).tobytes()


def _little(column: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column


def _texts(values: Sequence[str]) -> bytes:
    return json.dumps(list(values), separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


_CONTENTS: Mapping[str, Callable[[Sequence[Any]], bytes | None]] = {
    "naturals": _naturals,
    "texts": _texts,
    "flags": bytes,
}


# --- reading ------------------------------------------------------------------------------------------------


class ColumnsError(TraceError):
    """A file of columns that is none: `source: byte n: sentence`."""

    def __str__(self) -> str:
        return f"{self.source}: byte {self.line:,}: {self.problem}"


def read_columns(name: str, file: IO[bytes], *, arrays: bool) -> Iterator[Header | Message]:
    """The header and the messages of a file of which MAGIC was read.  Raises ColumnsError where it is wrong."""
    reader = _Reader(file, arrays)
    try:
        yield from reader.items()
    except (Wrong, ProtocolError) as error:
        raise ColumnsError(name, reader.start, str(error)) from error


class _Reader:
    """`start`: where the part at hand begins."""

    def __init__(self, file: IO[bytes], arrays: bool) -> None:
        self.file = file
        self.arrays = arrays
        self.start, self.end = 0, HEAD
        self.columns: OrderedDict[int, Any] = OrderedDict()
        self.read = 0

    def items(self) -> Iterator[Header | Message]:
        header: Header | None = None
        last: Message | None = None
        if any(self.file.read(HEAD - len(MAGIC))):
            raise Wrong("the head of the file is damaged: its first part has no content")
        while (part := self._part()) is not None:
            kind, content = part
            if kind in _COLUMNS:
                self._keep(self.read, _COLUMNS[kind](content))
                self.read += 1
            elif kind == b"message":
                line = _object(content)
                if header is None:
                    header = header_of(line)
                    yield header
                else:
                    self._fill(line)
                    last = message_of(line, last)
                    yield last
            else:
                raise Wrong(f"a part is called {shown(kind)}, but there is no such part: was the file damaged?")
        if header is None:
            raise Wrong("the trace is empty: its first message must be the header")

    def _part(self) -> tuple[bytes, bytes] | None:
        self.start = self.end
        head = self.file.read(HEAD)
        if not head:
            return None
        length = int.from_bytes(head[8:], "little")
        if len(head) == HEAD and length > LONGEST:
            raise Wrong(f"a part says that it has {length:,} bytes, but none has more than {LONGEST:,}")
        padded = length + -length % 8
        content = self.file.read(padded) if len(head) == HEAD else b""
        if len(head) < HEAD or len(content) < padded:
            raise Wrong("the file is cut off in the middle of a part: the run that wrote it was ended there")
        self.end = self.start + HEAD + padded
        return head[:8].rstrip(b"\0"), content[:length]

    def _keep(self, number: int, column: Any) -> None:
        self.columns[number] = column if self.arrays else tuple(column)
        if len(self.columns) > KEPT + MOST_NEW:
            self.columns.popitem(last=False)

    def _fill(self, line: dict[str, Any]) -> None:
        """Columns where the message names them."""
        for part, field, _ in _PLACES:
            holder = line.get(part)
            if type(holder) is dict and type(holder.get(field)) is dict:
                holder[field] = self._named(holder[field])
        deltas = line.get("deltas")
        for delta in deltas if type(deltas) is list else ():
            if type(delta) is list and delta and delta[0] == "delivered":
                delta[1:] = [self._named(item) if type(item) is dict else item for item in delta[1:]]

    def _named(self, name: dict[str, Any]) -> Any:
        number = name.get("column")
        column = self.columns.pop(number, None) if type(number) is int else None
        if column is None:
            raise Wrong(f"a message names the column {shown(number)}, but it is none of the last {KEPT}")
        self.columns[number] = column  # type: ignore[index]
        return column


def _object(content: bytes) -> dict[str, Any]:
    try:
        return of_schema(loads(content))
    except Ambiguous as error:
        raise Wrong(f"a message has {error}") from error
    except ValueError as error:
        raise Wrong(f"a message is not JSON: {error}") from error


def _read_naturals(content: bytes) -> Naturals:
    if len(content) % 8:
        raise Wrong(f"a column of integers has {len(content)} bytes: each of them has 8")
    if not content[7::8].isascii():  # the top byte of one that is negative has the top bit
        raise Wrong("a column of integers has one below 0")
    column = Naturals("q")
    column.frombytes(content)
    return Naturals("q", _little(column)) if sys.byteorder == "big" else column


def _read_texts(content: bytes) -> Texts:
    try:
        column = json.loads(content.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise Wrong(f"a column of texts is not JSON: {error}") from error
    if type(column) is not list or not set(map(type, column)) <= {str}:
        raise Wrong("a column of texts must be an array of strings")
    return Texts(column)


def _read_flags(content: bytes) -> Flags:
    if content.translate(None, b"\0\1"):
        raise Wrong("a column of flags has a byte that is neither 0 nor 1")
    return Flags(map(bool, content))


_COLUMNS: Mapping[bytes, Callable[[bytes], Any]] = {
    b"naturals": _read_naturals,
    b"texts": _read_texts,
    b"flags": _read_flags,
}
