"""How cells grow while rounds go on, and for how many of them a comparison comes out the same."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from schedspec.spec.terms import Term, walk

from .scans import cell_of

FOR_EVER = 1 << 62

Form = tuple[str | None, int] | None
"""What a cell holds, by what it was when the round began: a cell and a number more, or a number; None: unknown."""
Forms = Mapping[str, Form]


def is_scalar(term: Term) -> bool:
    """A number of the whole state."""
    return bool(term.op == "state" and term.sort.name == "Int")


def scalar_of(term: Term) -> str:
    """By what name its growth is known: no cell has it."""
    return f"W.{term.args[0]}"


def scalars_in(terms: Iterable[Term]) -> set[str]:
    return {str(part.args[0]) for term in terms for part in walk(term) if is_scalar(part)}


def form_of(term: Term, forms: Forms) -> Form:
    name = cell_of(term)
    if name is not None:
        return forms.get(name)
    if is_scalar(term):
        return scalar_of(term), 0
    if term.op == "const":
        return None, int(term.args[0])
    if term.op in ("add", "sub"):
        left, right = (form_of(part, forms) for part in term.args)
        if left is None or right is None:
            return None
        if term.op == "add" and left[0] is None:
            left, right = right, left
        if right[0] is None:
            return left[0], left[1] + right[1] if term.op == "add" else left[1] - right[1]
    return None


def growth_of(forms: Forms, scalars: Mapping[str, int] = MappingProxyType({})) -> dict[str | None, int]:
    """By how much a cell grows in a round of which these are the forms behind it, from the second round on; not named
    where that is unknown.  A number alone does not grow; `scalars`: by how much those of the state do."""
    alone: dict[str | None, int] = {n: form[1] for n, form in forms.items() if form is not None and form[0] == n}
    grows: dict[str | None, int] = {None: 0, **alone, **dict(scalars.items())}
    for name, form in forms.items():
        if form is not None and form[0] in (None, *alone, *scalars):
            grows.setdefault(name, grows[form[0]])
    return grows


def rise_of(term: Term, forms: Forms, grows: Mapping[str | None, int]) -> int | None:
    """By how much a term grows in a round; None if that is unknown."""
    form = form_of(term, forms)
    if form is not None:
        return grows.get(form[0])
    if term.op not in ("add", "sub"):
        return None
    left, right = (rise_of(part, forms, grows) for part in term.args)
    if left is None or right is None:
        return None
    return left + right if term.op == "add" else left - right


def rounds_left(op: str, value: bool, slope: int, least: int, most: int) -> int:
    """For how many more rounds a comparison comes out the same for all, if right less left is from `least` to `most`
    and grows by `slope` in each."""
    if slope == 0:
        return FOR_EVER
    if op == "eq":
        if value or least <= 0 <= most:
            return 0
        room = least - 1 if least > 0 else -most - 1
        towards = slope < 0 if least > 0 else slope > 0
    elif value:
        room, towards = least - (op == "lt"), slope < 0
    else:
        room, towards = -most - (op == "le"), slope > 0
    return room // abs(slope) if towards else FOR_EVER
