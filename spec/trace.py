"""Recorded runs: JSONL, one message per line, so that a scheduler can be judged without being run again.

The first line is the header; the others are the messages in the order of their calls::

    {"schema":"schedspec/1","type":"header","settings":{…},"capabilities":{…},"seed":0,"subject":"…"}
    {"schema":"schedspec/1","type":"submit","now_ns":0,"request":{…},"receipt":{…}}
    {"schema":"schedspec/1","type":"step","now_ns":5,"plan":{"step":1,"request":["r1"],"start":[0],…}}
    {"schema":"schedspec/1","type":"complete","now_ns":9,"outcome":{…},"deltas":[["delivered",["r1"],[7]]]}
    {"schema":"schedspec/1","type":"end","now_ns":9}

`trace.schema.json` says the same to other languages.  A trace without an `end` is a run that was cut off: all
that it holds can be judged, only not whether every request came to its end.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from os import PathLike
from typing import IO, Any, cast

from .encoding import encode
from .errors import MISSING, ProtocolError, shown
from .hints import did_you_mean
from .protocol import (
    read_capabilities,
    read_deltas,
    read_event,
    read_now_ns,
    read_observation,
    read_outcome,
    read_plan,
    read_receipt,
    read_request,
    read_settings,
    read_text,
    read_whole,
)
from .shared_texts import shared
from .strict_json import Ambiguous
from .strict_json import loads as strict
from .vocabulary import SCHEMA, Header, Message

Source = str | PathLike[str] | IO[str] | IO[bytes]

Loads = Callable[[str | bytes], Any]

LONGEST_LINE = 1 << 26
"""A file that is no trace, or a packed one, may have a line that no memory holds."""

LONG_LINE = 1 << 16
"""From here on it is worth a look for names that every line repeats."""

_Part = tuple[str, Callable[[Any], Any]] | None


def _text(field: str) -> Callable[[Any], Any]:
    return lambda value: read_text(value, "cancel", field)


def _deltas(kind: str) -> Callable[[Any], Any]:
    return lambda value: read_deltas(value, kind)


# Type of a line -> under which names its call and its answer stand, and what reads them.
_PARTS: Mapping[str, tuple[_Part, _Part]] = {
    "submit": (("request", read_request), ("receipt", read_receipt)),
    "cancel": (("request_id", _text("request_id")), ("deltas", _deltas("cancel"))),
    "notify": (("event", read_event), ("deltas", _deltas("notify"))),
    "step": (None, ("plan", read_plan)),
    "complete": (("outcome", read_outcome), ("deltas", _deltas("complete"))),
    "observe": (None, ("observation", read_observation)),
    "end": (None, None),
}
_HEADER = ("settings", "capabilities", "seed", "subject")
_FIELDS = {
    kind: frozenset({"schema", "type", "now_ns", *(part[0] for part in parts if part)})
    for kind, parts in _PARTS.items()
}
_TYPES = ("header", *_PARTS)


class TraceError(ValueError):
    """A file that is no trace: `source:line: sentence`."""

    def __init__(self, source: str, line: int, problem: str) -> None:
        super().__init__(source, line, problem)
        self.source = source
        self.line = line
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: {self.problem}"


class TraceWriter:
    """Writes the header at once and one line per message.  The file stays the caller's to close.

    >>> with open("run.jsonl", "w") as file:                                          # doctest: +SKIP
    ...     writer = TraceWriter(file, header)
    ...     writer.write(message)
    """

    def __init__(self, file: IO[str], header: Header) -> None:
        self._file = file
        self._put(line_of(header))

    def write(self, message: Message) -> None:
        self._put(line_of(message))

    def _put(self, line: Mapping[str, Any]) -> None:
        self._file.write(encode({"schema": SCHEMA, **line}) + "\n")


def line_of(item: Header | Message) -> dict[str, Any]:
    """What stands in a line of the header or of a message, but for the schema."""
    if isinstance(item, Header):
        fleet = {"engine": item.engine} if item.engine else {}
        return {"type": "header", **{name: getattr(item, name) for name in _HEADER}, **fleet}
    parts = zip(_PARTS[item.kind], (item.given, item.answer), strict=True)
    return {"type": item.kind, "now_ns": item.now_ns} | {part[0]: value for part, value in parts if part is not None}


def read_trace(source: Source, loads: Loads = strict, *, arrays: bool = False) -> tuple[Header, Iterator[Message]]:
    """The header, and the messages as they are read: memory does not grow with the file.

    A file of lines or of columns (`trace_columns.py`): it says itself which.  The iterator raises TraceError where it
    is wrong.  A file that is given open is left open.  `loads` reads a line as JSON, as `strict_json.loads` does;
    `arrays` leaves columns as they stand in a file of columns, instead of tuples.
    """
    items = _read(source, loads, arrays)
    # A generator that has yielded once closes its file even if nobody reads on.
    header = cast(Header, next(items))
    return header, cast(Iterator[Message], items)


def _read(source: Source, loads: Loads, arrays: bool) -> Iterator[Header | Message]:
    if isinstance(source, (str, PathLike)):
        with open(source, "rb") as file:
            yield from _read_open(str(source), file, loads, arrays)
    else:
        yield from _read_open(str(getattr(source, "name", "trace")), source, loads, arrays)


def _read_open(name: str, file: IO[Any], loads: Loads, arrays: bool) -> Iterator[Header | Message]:
    from .trace_columns import MAGIC, read_columns  # it reads its messages with what stands here

    first = file.readline(len(MAGIC))
    if first == MAGIC:
        return read_columns(name, file, arrays=arrays)
    return _items(name, _whole_lines(first, file), loads)


def _whole_lines(first: Any, file: IO[Any]) -> Iterator[Any]:
    """The lines of a file of which the beginning was read; a byte order mark there says nothing."""
    first = first.removeprefix(b"\xef\xbb\xbf" if isinstance(first, bytes) else "\ufeff")
    if first:
        yield first if first[-1:] in ("\n", b"\n") else first + file.readline(LONGEST_LINE)
    yield from iter(partial(file.readline, LONGEST_LINE), first[:0])


def _items(name: str, lines: Iterable[str | bytes], loads: Loads) -> Iterator[Header | Message]:
    header: Header | None = None
    last: Message | None = None
    number = 0
    for number, line in enumerate(lines, start=1):
        if line.isspace() and len(line) < LONGEST_LINE:
            continue
        try:
            item = message_of(_object(line, loads), last, number) if header else header_of(_object(line, loads))
        except (Wrong, ProtocolError) as error:
            raise TraceError(name, number, str(error)) from error
        if isinstance(item, Header):
            header = item
        else:
            last = item
        yield item
    if header is None:
        raise TraceError(name, max(number, 1), "the trace is empty: its first line must be the header")


class Wrong(Exception):
    """What is wrong with a line, before it is known which."""


def _object(line: str | bytes, loads: Loads) -> dict[str, Any]:
    if len(line) >= LONGEST_LINE:
        raise Wrong(f"the line has {LONGEST_LINE:,} bytes or more, longer than any message")
    try:
        found = loads(line)
    except Ambiguous as error:
        raise Wrong(f"the line has {error}") from error
    except ValueError as error:
        if line[-1:] not in ("\n", b"\n"):
            problem = "the last line is cut off: the run that wrote it was ended in the middle, delete this line"
            raise Wrong(problem) from error
        raise Wrong(f"the line is not JSON: {error}") from error
    return of_schema(shared(found) if len(line) > LONG_LINE else found)


def of_schema(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise Wrong(f"the line is {shown(found)}, but must be an object with schema and type")
    if found.get("schema") != SCHEMA:
        raise Wrong(_schema_problem(found.get("schema", MISSING)))
    return found


def _schema_problem(schema: object) -> str:
    older_or_newer = isinstance(schema, str) and schema.startswith("schedspec/")
    hint = "another version of schedspec wrote it" if older_or_newer else "is this a trace of schedspec?"
    return f"schema is {shown(schema)}, but this version reads {SCHEMA!r}: {hint}"


def header_of(line: dict[str, Any]) -> Header:
    """The header of its line."""
    if line.get("type") != "header":
        kind = shown(line.get("type", MISSING))
        raise Wrong(f"type is {kind}, but the first line must be the header: settings and capabilities")
    _known_fields(line, "header", {"schema", "type", "engine", *_HEADER})
    return Header(
        settings=read_settings(line.get("settings", MISSING), "header"),
        capabilities=read_capabilities(line.get("capabilities", MISSING), "header"),
        seed=read_whole(line.get("seed", 0), "header", "seed"),
        subject=read_text(line.get("subject", "unknown"), "header", "subject"),
        engine=read_text(line["engine"], "header", "engine") if "engine" in line else "",
    )


def message_of(line: dict[str, Any], last: Message | None, number: int = 0) -> Message:
    """The message of its line, which is that of this number; `last` is the one before."""
    kind = line.get("type", MISSING)
    fields = _FIELDS.get(kind) if isinstance(kind, str) else None
    if fields is None:
        raise Wrong(_type_problem(kind))
    if line.keys() != fields:
        _known_fields(line, kind, fields)
        missing = min(fields - line.keys())
        raise ProtocolError(kind, missing, MISSING, f"a line of type {kind} has it")
    now_ns = read_now_ns(line["now_ns"], kind)
    if last is not None:
        _after(last, now_ns)
    given, answer = (None if part is None else part[1](line[part[0]]) for part in _PARTS[kind])
    return Message(kind, now_ns, given, answer, number)


def _after(last: Message, now_ns: int) -> None:
    if last.kind == "end":
        raise Wrong("this line stands after the end: one file holds one run")
    if now_ns < last.now_ns:
        raise Wrong(f"now_ns is {now_ns}, but the message before had {last.now_ns}: time never goes back")


def _type_problem(kind: object) -> str:
    if kind == "header":
        return "type is 'header', but a trace has one header: one file holds one run"
    return f"type is {shown(kind)}, but there is no such type: {did_you_mean(kind, _TYPES)}"


def _known_fields(line: Mapping[str, Any], kind: str, fields: Iterable[str]) -> None:
    for name in line:
        if name not in fields:
            problem = f"a line of type {kind} has no such field"
            raise ProtocolError(kind, name, line[name], problem, did_you_mean(name, sorted(fields)))
