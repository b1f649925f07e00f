"""Long names that a trace repeats in each of its lines are held once: an id of a megabyte stands in ten of them."""

from sys import intern
from typing import Any

LONG_TEXT = 1_000
DEEPEST = 6
"""No message has more in each other."""


def shared(found: Any, depth: int = DEEPEST) -> Any:
    """The same, in which each long text is the one that equal ones are, as long as somebody holds it.

    >>> one, other = (shared(["x" * 2_000, 7]) for _ in range(2))
    >>> one[0] is other[0]
    True
    """
    if type(found) is str:
        return intern(found) if len(found) > LONG_TEXT else found
    if not depth or not found:
        return found
    if type(found) is dict:
        return {shared(name): shared(value, depth - 1) for name, value in found.items()}
    if type(found) is list and type(found[0]) in (str, list, dict):
        return [shared(value, depth - 1) for value in found]
    return found
