"""Files, a row at a time: each fault is a WorkloadError that names file, line and column, and what helps."""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

from attrs import frozen

from ..errors import shown
from ..strict_json import Ambiguous, loads
from ..vocabulary import NS_PER_S
from .arrival import MOST_S, MOST_TOKENS, WorkloadError

OTHER_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars"}
INSTEAD = {
    "hash_tokens": "it says how many tokens each of hash_ids stands for, so leave it out where that is 512",
    "max_output_tokens": "leave it out where the client declares nothing",
    "priority": "priorities only say who comes first, so write smaller numbers",
    "retries": "leave it out where nobody asks again",
}
"""What to do about a number that is too small; a request without tokens is none."""
_DECIMAL = re.compile(r"[+-]?\d{1,30}(\.\d{0,30})?([eE][+-]?\d{1,2})?")


@frozen
class Row:
    """The fields of one request.  Those of a CSV file are texts; in JSON a number is a number."""

    place: str
    fields: Mapping[str, Any]
    is_text: bool

    def has(self, column: str) -> bool:
        return self.fields.get(column) not in (None, "")

    def whole(self, column: str, least: int = 1, most: int = MOST_TOKENS) -> int:
        """A length in tokens, or another integer between two bounds."""
        return whole(self.place, column, self.fields.get(column), least, most, is_text=self.is_text)

    def seconds_ns(self, column: str) -> int:
        """Seconds, as exact as they are written, cut to nanoseconds."""
        value = self.fields.get(column)
        number = None if isinstance(value, bool) or (isinstance(value, str) and not self.is_text) else str(value)
        if number is None or not _DECIMAL.fullmatch(number):
            raise WorkloadError(f"{self.place}: {column} is {shown(value)}, but must be seconds, such as 12.5")
        seconds = Fraction(number)
        if not 0 <= seconds <= MOST_S:
            raise WorkloadError(
                f"{self.place}: {column} is {shown(value)}, but must be seconds from 0 to {MOST_S:,}: is it a date?"
            )
        return int(seconds * NS_PER_S)

    def text(self, column: str) -> str:
        value = self.fields.get(column)
        if not (self.is_text or isinstance(value, str)):
            raise WorkloadError(f"{self.place}: {column} is {shown(value)}, but must be a text: put it in quotes")
        text = str(value)
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise WorkloadError(f"{self.place}: {column} has half of a letter (a lone surrogate), which is no text")
        return text


def whole(place: str, column: str, value: object, least: int, most: int, *, is_text: bool) -> int:
    number = _integer(value, is_text=is_text)
    if number is None:
        is_open = is_text and "\n" in str(value)
        hint = ": is a quote not closed, there or above?" if is_open else ""
        raise WorkloadError(f"{place}: {column} is {shown(value)}, but must be an integer{hint}")
    if number < least:
        hint = INSTEAD.get(column, "leave such requests out")
        raise WorkloadError(f"{place}: {column} is {number}, but must be at least {least:,}: {hint}")
    if number > most:
        raise WorkloadError(
            f"{place}: {column} is {shown(number)}, but must be at most {most:,}: is it in another unit or column?"
        )
    return number


def _integer(value: object, *, is_text: bool) -> int | None:
    """The integer that a field stands for, 374 or 374.0 or 3.74e2; None if it is none."""
    if isinstance(value, str) and is_text:
        if re.fullmatch(r"\s*[+-]?\d{1,30}\s*", value):
            return int(value)
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if type(value) is int else None


# --- CSV ----------------------------------------------------------------------------------------------------


def csv_rows(path: Path, columns: Sequence[str], what: str) -> Iterator[Row]:
    """The rows of a file whose first line has the names of its columns, `columns` among them."""
    with _opened(path) as file:
        reader = csv.DictReader(_lines(path, file))
        try:
            _check_names(path, reader.fieldnames or (), columns, what)
            is_empty = True
            for row in reader:
                is_empty = False
                yield _csv_row(f"{path}:{reader.line_num}", row, columns)
            if is_empty:
                raise WorkloadError(f"{path} has no requests: it ends after its line of columns")
        except csv.Error as error:
            raise WorkloadError(f"{path}:{reader.line_num}: is no line of a CSV file ({error})") from error


def csv_names(path: Path) -> Sequence[str]:
    with _opened(path) as file:
        try:
            names = csv.DictReader(_lines(path, file)).fieldnames or ()
        except csv.Error as error:
            raise WorkloadError(f"{path}:1: is no line of a CSV file ({error})") from error
    _check_form(path, names)
    return names


def _check_form(path: Path, names: Sequence[str]) -> None:
    for delimiter, called in OTHER_DELIMITERS.items():
        if len(names) == 1 and delimiter in names[0]:
            raise WorkloadError(f"{path}:1: its columns are separated by {called}: separate them by commas")
    if names and all(_integer(name, is_text=True) is not None for name in names):
        raise WorkloadError(f"{path}:1: is a line of numbers: put a line with the names of its columns before it")


def _check_names(path: Path, names: Sequence[str], columns: Sequence[str], what: str) -> None:
    if not names:
        raise WorkloadError(
            f"{path} is empty: {what} has a line of columns, {', '.join(columns)}, and a row per request"
        )
    _check_form(path, names)
    missing = [column for column in columns if column not in names]
    if missing:
        raise WorkloadError(f"{path}:1: has no column {missing[0]}: {what} has {', '.join(columns)}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise WorkloadError(f"{path}:1: has the column {twice} twice: leave one out")


def _csv_row(place: str, row: Mapping[str | None, Any], columns: Sequence[str]) -> Row:
    if None in row:
        raise WorkloadError(f"{place}: has more fields than there are columns: is there a comma too many?")
    missing = sorted((name for name in row if row[name] is None), key=lambda name: name not in columns)
    if missing:
        hint = "" if missing[0] in columns else ", or write a comma before each empty field"
        raise WorkloadError(f"{place}: has no {missing[0]}: the line is cut off{hint}")
    return Row(place, row, is_text=True)  # type: ignore[arg-type]  # None was looked for above


def _opened(path: Path) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise WorkloadError(f"{path} cannot be read: {error.strerror}") from error


def _lines(path: Path, file: BinaryIO) -> Iterator[str]:
    for number, line in enumerate(file, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise WorkloadError(f"{path}:{number}: is not UTF-8 ({error.reason}): save the file as UTF-8") from None


# --- JSON lines ---------------------------------------------------------------------------------------------


def json_rows(path: Path, names: Iterable[str], what: str) -> Iterator[Row]:
    """An object per line, with at least these names."""
    names = tuple(names)
    is_empty = True
    with _opened(path) as file:
        for number, line in enumerate(_lines(path, file), start=1):
            if line.strip():
                is_empty = False
                yield Row(f"{path}:{number}", _object(f"{path}:{number}", line, names, what), is_text=False)
    if is_empty:
        raise WorkloadError(f"{path} is empty: {what} has an object per line, with {listed(names)}")


def _object(place: str, line: str, names: Sequence[str], what: str) -> Mapping[str, Any]:
    try:
        row = loads(line)
    except Ambiguous as error:
        raise WorkloadError(f"{place}: has {error}") from None
    except ValueError as error:
        raise WorkloadError(_no_line(place, line, names, what)) from error
    if not isinstance(row, dict):
        raise WorkloadError(_no_line(place, line, names, what))
    missing = [name for name in names if name not in row]
    if missing:
        raise WorkloadError(f"{place}: has no {missing[0]}: each line of {what} is an object with {listed(names)}")
    return row


def _no_line(place: str, line: str, names: Sequence[str], what: str) -> str:
    return f"{place}: {shown(line.strip())} is no line of {what}, an object with {listed(names)}"


def listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
