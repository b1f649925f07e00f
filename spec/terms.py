"""The term language: a rule's body is called once, on symbolic views, and returns terms.

A *term* is an immutable tree over integers, booleans, keys (uninterpreted ids), finite sets and total maps.
It has several readings: printed (`printed.py`), compiled to Python (`compiled.py`), and translated to z3
(`schedspec.proofs.smt`).  The language is small on purpose: no lists, no folds, no division.  What a tuple of
terms says is their conjunction.  `and`, `or`, `not` and chained comparisons need a truth value, which a term
does not have: they raise when the registry is built, so a rule that is wrongly written never runs.

A *state* and an *event* are annotated classes; `t.x == term` in a rule defines x after the event, and what no
rule of an event mentions stays as it is.
"""

import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Generic, NoReturn, Self, TypeVar, cast

from attrs import frozen


class TermError(TypeError):
    """A rule says something that the language does not have."""


@frozen
class Sort:
    """Int, Bool, a key sort, or Set/Map of sorts."""

    name: str
    args: tuple["Sort", ...] = ()

    def __str__(self) -> str:
        return self.name + (f"[{', '.join(map(str, self.args))}]" if self.args else "")


INT = Sort("Int")
BOOL = Sort("Bool")


class Term:
    """A node: operator, arguments (terms, or names and literals at the leaves) and sort."""

    __slots__ = ("args", "op", "sort")
    op: str
    args: tuple[Any, ...]
    sort: Sort

    def __init__(self, op: str, args: tuple[Any, ...], sort: Sort) -> None:
        object.__setattr__(self, "op", op)
        object.__setattr__(self, "args", args)
        object.__setattr__(self, "sort", sort)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a term is immutable")

    def __bool__(self) -> bool:
        raise TermError(
            f"a term has no truth value, so `and`, `or`, `not`, `in` and chained comparisons do not work on it:"
            f" use &, |, ~, .has() and two comparisons ({self.op} term)"
        )

    def __iter__(self) -> NoReturn:
        raise TermError("a term has no elements at hand: use .has() for `in`, and forall, card, least or most")

    def __contains__(self, item: object) -> NoReturn:
        self.__iter__()

    def __eq__(self, other: object) -> "Bool":  # type: ignore[override]
        right = lift(other, self.sort)
        return _bool("eq", self, right)

    def __ne__(self, other: object) -> "Bool":  # type: ignore[override]
        return ~(self == other)

    __hash__ = object.__hash__

    @property
    def parts(self) -> tuple["Term", ...]:
        return tuple(arg for arg in self.args if isinstance(arg, Term))

    def key(self) -> tuple[Any, ...]:
        """A structural identity: two terms with one key mean the same."""
        return (self.op, self.sort, *(a.key() if isinstance(a, Term) else a for a in self.args))


class Int(Term):
    __slots__ = ()

    def __add__(self, other: "Int | int") -> "Int":
        return _int("add", self, lift(other, INT))

    __radd__ = __add__

    def __sub__(self, other: "Int | int") -> "Int":
        return _int("sub", self, lift(other, INT))

    def __mul__(self, other: "Int | int") -> "Int":
        return _int("mul", self, lift(other, INT))

    __rmul__ = __mul__

    def __le__(self, other: "Int | int") -> "Bool":
        return _bool("le", self, lift(other, INT))

    def __lt__(self, other: "Int | int") -> "Bool":
        return _bool("lt", self, lift(other, INT))

    def __ge__(self, other: "Int | int") -> "Bool":
        return _bool("le", lift(other, INT), self)

    def __gt__(self, other: "Int | int") -> "Bool":
        return _bool("lt", lift(other, INT), self)


class Bool(Term):
    __slots__ = ()

    def __and__(self, other: "Bool | bool") -> "Bool":
        return _bool("and", self, lift(other, BOOL))

    def __or__(self, other: "Bool | bool") -> "Bool":
        return _bool("or", self, lift(other, BOOL))

    def __invert__(self) -> "Bool":
        return _bool("not", self)


class Key(Term):
    """An id of an uninterpreted sort: subclass it to name the sort."""

    __slots__ = ()


K = TypeVar("K", bound=Term)
V = TypeVar("V", bound=Term)


class Set(Term, Generic[K]):
    __slots__ = ()

    def has(self, item: K) -> Bool:
        return _bool("has", self, lift(item, self.sort.args[0]))

    def add(self, item: K) -> Self:
        return cast(Self, make(self.sort, "with", self, lift(item, self.sort.args[0])))

    def remove(self, item: K) -> Self:
        return cast(Self, make(self.sort, "without", self, lift(item, self.sort.args[0])))

    def is_empty(self) -> Bool:
        return self == make(self.sort, "empty")

    def cleared(self) -> Self:
        return cast(Self, make(self.sort, "empty"))


class Map(Term, Generic[K, V]):
    """A total map: what was never set is 0, False or empty."""

    __slots__ = ()

    def __getitem__(self, key: K) -> V:
        return cast(V, make(self.sort.args[1], "select", self, lift(key, self.sort.args[0])))

    def set(self, key: K, value: "V | int | bool") -> Self:
        at = lift(key, self.sort.args[0])
        return cast(Self, make(self.sort, "store", self, at, lift(value, self.sort.args[1])))


_KEY_SORTS: dict[str, type[Key]] = {}


def sort_of(annotation: Any) -> Sort:
    """The sort that an annotation of a state or event names."""
    origin = typing.get_origin(annotation) or annotation
    args = typing.get_args(annotation)
    if origin in (Set, Map):
        return Sort(origin.__name__, tuple(sort_of(arg) for arg in args))
    if isinstance(origin, type) and issubclass(origin, Key):
        _KEY_SORTS.setdefault(origin.__name__, origin)
        return Sort(origin.__name__)
    if origin in (Int, Bool):
        return Sort(origin.__name__)
    raise TermError(f"{annotation!r} is not a sort: use Int, Bool, a Key, Set[...] or Map[..., ...]")


def make(sort: Sort, op: str, *args: Any) -> Term:
    """A term of the class that its sort asks for, with its arguments' sorts checked."""
    _check_sorts(sort, op, args)
    surface = {"Int": Int, "Bool": Bool, "Set": Set, "Map": Map} | _KEY_SORTS
    return surface[sort.name](op, args, sort)


def _check_sorts(sort: Sort, op: str, args: tuple[Any, ...]) -> None:
    want: tuple[Sort, ...] | None = None
    if op in ("add", "sub", "mul", "lt", "le"):
        want = (INT, INT)
    elif op in ("and", "or", "implies"):
        want = (BOOL, BOOL)
    elif op == "not":
        want = (BOOL,)
    elif op == "eq":
        want = (args[0].sort, args[0].sort)
    elif op == "ite":
        want = (BOOL, sort, sort)
    elif op in ("with", "without"):
        want = (sort, sort.args[0])
    elif op == "has":
        want = (args[0].sort, args[0].sort.args[0])
    elif op == "select":
        want = (Sort("Map", (args[1].sort, sort)), args[0].sort.args[0])
    elif op == "store":
        want = (sort, *sort.args)
    elif op in ("least", "most"):
        key = args[1].sort.args[:1]
        want = (Sort("Map", (*key, INT)), Sort("Set", key), INT)
    elif op == "card":
        want = (Sort("Set", args[0].sort.args),)
    if want is None:
        return
    got = tuple(arg.sort for arg in args)
    if got != want:
        raise TermError(f"{op} takes {', '.join(map(str, want))}, but got {', '.join(map(str, got))}")


def lift(value: Any, sort: Sort) -> Any:
    """A literal as a term; a term as it is, if it has the sort that its place asks for."""
    if isinstance(value, Term):
        if value.sort != sort:
            raise TermError(f"{sort} expected here, but this is {value.sort}")
        return value
    if isinstance(value, bool):
        literal = BOOL
    elif isinstance(value, int):
        literal = INT
    else:
        raise TermError(f"{value!r} is not a term, an int or a bool")
    if literal != sort:
        raise TermError(f"{sort} expected here, but {value!r} is {literal}")
    return make(sort, "const", value)


def _int(op: str, *args: Any) -> Int:
    return cast(Int, make(INT, op, *args))


def _bool(op: str, *args: Any) -> Bool:
    return cast(Bool, make(BOOL, op, *args))


def implies(condition: Bool, then: "Bool | bool") -> Bool:
    """`then` holds whenever `condition` does; a guard of this form is exercised only when it does."""
    return _bool("implies", condition, lift(then, BOOL))


def iff(left: Bool, right: "Bool | bool") -> Bool:
    return _bool("eq", left, lift(right, BOOL))


def ite(condition: Bool, then: "V | int | bool", otherwise: "V | int | bool") -> V:
    """`then` if `condition` holds, else `otherwise`; one of the two must be a term."""
    sort = then.sort if isinstance(then, Term) else cast(Term, otherwise).sort
    return cast(V, make(sort, "ite", condition, lift(then, sort), lift(otherwise, sort)))


def card(group: Set[Any]) -> Int:
    """How many elements."""
    return _int("card", group)


def least(values: Map[K, Int], among: Set[K], otherwise: "Int | int") -> Int:
    """The least value among keys of a set; `otherwise` if the set is empty."""
    return _int("least", values, among, lift(otherwise, INT))


def most(values: Map[K, Int], among: Set[K], otherwise: "Int | int") -> Int:
    """The greatest value among keys of a set; `otherwise` if the set is empty."""
    return _int("most", values, among, lift(otherwise, INT))


def forall(kind: type[K], body: Callable[[K], Bool]) -> Bool:
    """Every key has the property.  In invariants and theorems only: a guard has no free quantifier.  The bound
    variable is called what the body calls it."""
    (name,) = inspect.signature(body).parameters
    if name in _BOUND:
        raise TermError(f"{name} is bound already: the inner quantifier needs a name of its own")
    bound = make(sort_of(kind), "bound", name)
    _BOUND.append(name)
    try:
        return _bool("forall", bound, lift(body(cast(K, bound)), BOOL))
    finally:
        _BOUND.pop()


_BOUND: list[str] = []


class View:
    """Base of states and events: a class whose annotations are sorts."""

    sorts: ClassVar[dict[str, Sort]] = {}

    def __init_subclass__(cls) -> None:
        hints = typing.get_type_hints(cls)
        cls.sorts = {name: sort_of(hint) for name, hint in hints.items() if name != "sorts"}

    def __init__(self, op: str) -> None:
        for name, sort in self.sorts.items():
            setattr(self, name, make(sort, op, name))


class State(View):
    """Variables of a specification.  Those that no event changes are its parameters."""


class Event(View):
    """Something that happened, with what the subject chose or reported as fields."""


def walk(term: Term) -> Iterator[Term]:
    """The term and all its parts."""
    yield term
    for part in term.parts:
        yield from walk(part)


def rebuild(term: Term, args: tuple[Any, ...]) -> Term:
    """The same operator on other arguments."""
    same = all(new is old for new, old in zip(args, term.args, strict=True))
    return term if same else make(term.sort, term.op, *args)


def is_closed(term: Term) -> bool:
    """No bound variable stands free in it."""
    bound = {part.args[0].args[0] for part in walk(term) if part.op == "forall"}
    return all(part.args[0] in bound for part in walk(term) if part.op == "bound")


# --- reading after-state through effects -------------------------------------------------------------------


def settled(term: Term, effects: dict[str, Term]) -> Term:
    """The term with every after-state variable replaced by what the event makes of it."""
    if term.op == "after":
        name = term.args[0]
        return effects[name] if name in effects else make(term.sort, "state", name)
    args = tuple(settled(a, effects) if isinstance(a, Term) else a for a in term.args)
    return pushed(rebuild(term, args))


def pushed(term: Term) -> Term:
    """Reads of an updated map or set, pushed to the variable below, so that no updated copy is ever made."""
    if term.op not in ("select", "has", "card") or term.args[0].op not in ("ite", "store", "with", "without", "empty"):
        return term
    base = term.args[0]
    if base.op == "ite":
        condition, then, otherwise = base.args
        return make(term.sort, "ite", condition, _read(term, then), _read(term, otherwise))
    if term.op == "card":
        return _pushed_card(base)
    if base.op == "empty":
        return make(BOOL, "const", False)
    if term.op == "select":
        below, key, value = base.args
        return make(term.sort, "ite", term.args[1] == key, value, _read(term, below))
    below, item = base.args
    same, before = cast(Bool, term.args[1] == item), cast(Bool, _read(term, below))
    return same | before if base.op == "with" else ~same & before


def _read(term: Term, base: Term) -> Term:
    return pushed(make(term.sort, term.op, base, *term.args[1:]))


def _pushed_card(base: Term) -> Int:
    if base.op == "empty":
        return cast(Int, lift(0, INT))
    below, item = base.args
    inside = cast(Bool, pushed(_bool("has", below, item)))
    before = cast(Int, pushed(_int("card", below)))
    if base.op == "with":
        return before + ite(inside, cast(Int, lift(0, INT)), 1)
    return before - ite(inside, cast(Int, lift(1, INT)), 0)
