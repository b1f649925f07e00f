"""What is said of a name that is not on a list: the one that was probably meant, or where the list is."""

from collections.abc import Iterable
from difflib import get_close_matches

MOST_LISTED = 12


def did_you_mean(name: object, known: Iterable[str], where: str = "") -> str:
    """The hint for a name that is not on a list: the one it resembles, else the list, or of a long one `where` it is or
    its beginning.

    >>> did_you_mean("Polcy", ["blocks", "policy"]), did_you_mean("x", ["blocks", "policy"])
    ("did you mean 'policy'?", 'known are blocks, policy')
    """
    names = list(known)
    if (close := closest(name, names)) is not None:
        return f"did you mean {close!r}?"
    if len(names) <= MOST_LISTED:
        return f"known are {', '.join(names)}"
    first, more = ", ".join(names[:MOST_LISTED]), len(names) - MOST_LISTED
    return f"{where} has them all" if where else f"known are {first} and {more} more"


def closest(name: object, known: Iterable[str]) -> str | None:
    """The name on the list that it resembles, small or capital; None where it resembles none."""
    plain = {one.casefold(): one for one in known}
    found = get_close_matches(str(name)[:200].casefold(), plain, n=1)
    return plain[found[0]] if found else None
