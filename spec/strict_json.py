"""JSON that has one reading: UTF-8, no name twice in an object, and no number that is none."""

import json
from math import isinf
from typing import Any, NoReturn

from .errors import cut, shown


class Ambiguous(ValueError):
    """What other readers would read otherwise, or not at all; goes on from "the line has"."""


def loads(text: str | bytes) -> Any:
    """Like `json.loads`.  Raises ValueError with a sentence; it is an Ambiguous where the text is JSON all the same."""
    try:
        return _decoder.decode(text.decode("utf-8") if isinstance(text, (bytes, bytearray)) else text)
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} is no UTF-8") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (Ambiguous, json.JSONDecodeError):
        raise
    except ValueError:
        raise Ambiguous("an integer of more than 4,300 digits") from None  # the most that int() reads


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For `object_pairs_hook`: an object, if it has no name twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise Ambiguous(f"{shown(next(name for name in names if names.count(name) > 1))} twice in an object")
    return found


def _no_number(text: str) -> NoReturn:
    raise Ambiguous(f"{text}, which is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise Ambiguous(f"{cut(text)}, which is too large a number")
    return number


_decoder = json.JSONDecoder(object_pairs_hook=once, parse_constant=_no_number, parse_float=_finite)
