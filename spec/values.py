"""What a field of an answer may hold: each check gives back the canonical value, or a ProtocolError of one sentence."""

from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from inspect import isawaitable
from typing import Any, TypeVar

from attrs import NOTHING, fields_dict

from .errors import MISSING, ProtocolError
from .hints import closest, did_you_mean

T = TypeVar("T")

Check = Callable[[str, str, Any], Any]
"""(method, field, value) -> the canonical value, or a ProtocolError."""


def _integer(least: int | None) -> Check:
    wanted = "must be an integer" if least is None else f"must be an integer of at least {least}"

    def check(method: str, field: str, value: Any) -> int:
        if type(value) is not int:
            raise ProtocolError(method, field, value, wanted, _hint_integer(value))
        if least is not None and value < least:
            raise ProtocolError(method, field, value, wanted)
        return value

    return check


def _hint_integer(value: object) -> str:
    if isinstance(value, bool):
        return "true and false are no numbers, write 1 or 0"
    if isinstance(value, float):
        return f"write {int(value)} instead of {value}" if value.is_integer() else "round it in the subject"
    if isinstance(value, str):
        return "write it without quotes" if value.lstrip("-").isdigit() else ""
    if hasattr(value, "__index__"):
        return f"{type(value).__name__} is no int, convert it with int() or .tolist()"
    return ""


def text(method: str, field: str, value: Any) -> str:
    if type(value) is not str:
        raise ProtocolError(method, field, value, "must be a string", _hint_text(value))
    return value


def _hint_text(value: object) -> str:
    if isinstance(value, str):
        return f"{type(value).__name__} is no plain string, convert it with str()"
    return f"ids and names are strings, write {str(value)!r}" if type(value) is int else ""


def flag(method: str, field: str, value: Any) -> bool:
    if type(value) is not bool:
        raise ProtocolError(method, field, value, "must be true or false", "convert it with bool()")
    return value


def optional(check: Check) -> Check:
    return lambda method, field, value: None if value is None else check(method, field, value)


def one_of(*allowed: str) -> Check:
    wanted = "must be " + (" or ".join(allowed) if len(allowed) < 3 else "one of " + ", ".join(allowed))

    def check(method: str, field: str, value: Any) -> str:
        if type(value) is not str or value not in allowed:
            close = closest(value, allowed)
            raise ProtocolError(method, field, value, wanted, f"did you mean {close!r}?" if close else "")
        return value

    return check


any_integer = _integer(None)
natural = _integer(0)
positive = _integer(1)

# --- columns ------------------------------------------------------------------------------------------------


class Naturals(array):  # type: ignore[type-arg]
    """Integers of 64 bits, none below 0: whoever reads a file of columns has looked."""

    @cached_property
    def are_bits(self) -> bool:
        return set(self) <= _ZERO_ONE


class Texts(tuple[str, ...]):
    """Strings, and nothing else."""

    @cached_property
    def are_distinct(self) -> bool:
        return len(set(self)) == len(self)


class Flags(tuple[bool, ...]):
    """Booleans, and nothing else."""

    __slots__ = ()


_INTEGERS = {int}
_TEXTS = {str}
_FLAGS = {bool}
_ZERO_ONE = {0, 1}


def column_of(method: str, field: str, value: Any) -> tuple[Any, ...]:
    """A column as a tuple of its own: the subject may reuse its list."""
    if type(value) is list or type(value) is tuple:
        return tuple(value)
    if isinstance(value, (list, tuple, range, array)):
        return tuple(value)
    one = "one array for each field, even of one entry"
    hint = "convert the array with .tolist()" if hasattr(value, "tolist") else one
    raise ProtocolError(method, field, value, "must be a list", hint)


def naturals(method: str, field: str, value: Any) -> Sequence[int]:
    if type(value) is Naturals:
        return value
    column = column_of(method, field, value)
    if column and not (set(map(type, column)) <= _INTEGERS and min(column) >= 0):
        _blame(natural, method, field, column)
    return column


def texts(method: str, field: str, value: Any) -> tuple[str, ...]:
    if type(value) is Texts:
        return value
    column = column_of(method, field, value)
    if not set(map(type, column)) <= _TEXTS:
        _blame(text, method, field, column)
    return column


def flags(method: str, field: str, value: Any) -> tuple[bool, ...]:
    if type(value) is Flags:
        return value
    column = column_of(method, field, value)
    if not set(map(type, column)) <= _FLAGS:
        _blame(flag, method, field, column)
    return column


def samples(method: str, field: str, value: Any) -> Sequence[int]:
    column = naturals(method, field, value)
    if not (column.are_bits if type(column) is Naturals else set(column) <= _ZERO_ONE):
        place = next(i for i, item in enumerate(column) if item > 1)
        problem = "must be 0 or 1"
        hint = "one token after the last position, or none while a prompt is unfinished"
        raise ProtocolError(method, f"{field}[{place}]", column[place], problem, hint)
    return column


def _blame(check: Check, method: str, field: str, column: Sequence[Any]) -> None:
    """Raise for the first entry that is wrong.  Almost all columns are right, so they are checked whole."""
    for place, item in enumerate(column):
        check(method, f"{field}[{place}]", item)


def equally_long(method: str, first: str, columns: Mapping[str, Sequence[Any]]) -> None:
    expected = len(columns[first])
    for name, column in columns.items():
        if len(column) != expected:
            problem = f"has {entries(len(column))} where {first} has {expected}"
            hint = "columns have one entry for each request"
            raise ProtocolError(method, name, list(column), problem, hint)


def entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def each(check: Check) -> Check:
    def check_all(method: str, field: str, value: Any) -> tuple[Any, ...]:
        column = column_of(method, field, value)
        return tuple(check(method, f"{field}[{i}]", item) for i, item in enumerate(column))

    return check_all


def mapping(keys: Check, values: Check) -> Check:
    def check(method: str, field: str, value: Any) -> dict[Any, Any]:
        if not isinstance(value, Mapping):
            raise ProtocolError(method, field, value, "must be an object", "a dict from name to value")
        return {
            keys(method, f"a key of {field}", key): values(method, f"{field}[{key!r}]", item)
            for key, item in value.items()
        }

    return check


def block_key(method: str, field: str, value: Any) -> int:
    """A block id as a key: JSON knows only strings there."""
    if type(value) is str and value.isascii() and value.isdigit():
        return int(value)
    number: int = natural(method, field, value)
    return number


# --- records ------------------------------------------------------------------------------------------------


def record(method: str, cls: type[T], checks: Mapping[str, Check], answer: Any, prefix: str = "") -> T:
    """Build `cls` of checked fields.  `prefix` names the record where it is part of a larger answer."""
    if isinstance(answer, cls):
        values: Mapping[str, Any] = {name: getattr(answer, name) for name in checks}
    else:
        values = _fields_of(method, cls, checks, answer, prefix)
    return cls(**{name: checks[name](method, prefix + name, value) for name, value in values.items()})


def _fields_of(method: str, cls: type, checks: Mapping[str, Check], answer: Any, prefix: str) -> Mapping[str, Any]:
    what = cls.__name__
    if not isinstance(answer, Mapping):
        problem = f"must be {_article(what)} or an object with its fields"
        field = prefix.rstrip(".") or what.lower()
        raise ProtocolError(method, field, answer, problem, hint_record(answer))
    for name in answer:
        if name not in checks:
            problem, hint = f"{what} has no such field", did_you_mean(name, checks)
            raise ProtocolError(method, f"{prefix}{name}", answer[name], problem, hint)
    for name in _required(cls):
        if name not in answer:
            fields = "of " + ", ".join(checks)
            raise ProtocolError(method, f"{prefix}{name}", MISSING, f"{what} needs it", fields)
    return answer


@cache
def _required(cls: type) -> tuple[str, ...]:
    return tuple(name for name, a in fields_dict(cls).items() if a.default is NOTHING)


def _article(word: str) -> str:
    return f"an {word}" if word[0] in "AEIOU" else f"a {word}"


def hint_record(answer: object) -> str:
    if answer is None:
        return "has the method a return statement?"
    if isawaitable(answer):
        return "the method is async, the adapter has to wait for it"
    return ""
