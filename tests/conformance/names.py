"""Names and texts that others chose: too long to be read, or not fit for a terminal; and what is shown instead."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from schedspec.spec.errors import cut, printable
from schedspec.spec.vocabulary import Message

__all__ = ["Names", "bounded", "counted", "deltas_of", "is_call", "printable", "short_name"]

LONGEST_NAME = 60
END_LENGTH = 24
MOST_LINES_OF_OTHERS = 40
LONGEST_LINE_OF_OTHERS = 200
LONGEST_READ = 4_096


def counted(number: int, thing: str) -> str:
    """A number and its noun.

    >>> counted(1, "row"), counted(2_000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def bounded(lines: Sequence[str], most: int = MOST_LINES_OF_OTHERS) -> tuple[str, ...]:
    """Of what somebody else wrote: so many lines, both ends, each of a length that can be read."""
    if len(lines) > most:
        half = most // 2
        lines = [*lines[:half], f"  … {counted(len(lines) - 2 * half, 'line')} left out", *lines[-half:]]
    return tuple(cut(printable(cut(line, LONGEST_READ)), LONGEST_LINE_OF_OTHERS) for line in lines)


def short_name(name: str) -> str:
    """A name that fills half a line says enough by its ends and its length."""
    if len(name) <= LONGEST_NAME:
        return printable(name)
    return f"{printable(name[:END_LENGTH])}…{printable(name[-END_LENGTH:])} ({len(name):,} characters)"


class Names:
    """The long names of requests, clients and the like in a run.

    >>> run = [Message("cancel", 0, 30 * "ab " + "z", ())]
    >>> Names(run).short("cancel " + 30 * "ab " + "z")
    'cancel ab ab ab ab ab ab ab ab …b ab ab ab ab ab ab ab z (91 characters)'
    """

    def __init__(self, messages: Iterable[Message]) -> None:
        long = {name for message in messages for name in _named(message) if len(name) > LONGEST_NAME}
        self._short = {name: short_name(name) for name in sorted(long, key=len, reverse=True)}

    def short(self, text: str) -> str:
        """The text with every long name made short."""
        for name, short in self._short.items():
            text = text.replace(name, short)
        return text


def _named(message: Message) -> Iterator[str]:
    """Names that a message brings: whoever is in a plan or an outcome was submitted before, or is in a delta."""
    if message.kind == "submit":
        request = message.given
        yield from (request.id, request.client, request.lane, *request.dependencies)
        yield from (text for text in (request.idempotency_key, request.adapter) if text is not None)
    elif message.kind == "cancel":
        yield message.given
    elif message.kind == "notify":
        yield from _strings(list(message.given.values()))
    elif message.kind == "step":
        yield from message.answer.request
    elif message.kind == "complete":
        yield from message.given.request
        yield from message.given.pause
    yield from (name for delta in deltas_of(message) for name in _strings(delta))


def is_call(message: Message) -> bool:
    """What a step table counts: a snapshot and the end of a run decide nothing."""
    return message.kind not in ("observe", "end")


def deltas_of(message: Message) -> Any:
    """The deltas of its answer, in order."""
    if message.kind in ("submit", "step"):
        return message.answer.deltas
    return message.answer if message.kind in ("cancel", "notify", "complete") else ()


def _strings(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _strings(value)
