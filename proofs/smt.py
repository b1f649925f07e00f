"""The z3 reading: terms as z3 expressions, over unbounded sorts or in a finite scope.

`Unbounded` is for proofs: key sorts are uninterpreted, sets and maps are arrays, and the number of elements
is an uninterpreted function of which a proof is told what it needs.  `Finite` is for counter-examples: a few
keys of each sort, quantifiers written out, cardinalities and extremes by definition; there `sat` comes with a
model.

z3 is given terms as they were written, after-state variables as constants of their own: the rewriting that
the compiled reading does (`terms.settled`) is not shared, so a fault in it shows.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import z3

from schedspec.spec.terms import Sort, Term, walk

Expr = Any  # z3 has no types of its own
Names = Mapping[tuple[str, str], Expr]  # (operator of a leaf, its name) -> what it stands for

_PLAIN: dict[str, Callable[..., Expr]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "lt": lambda a, b: a < b,
    "and": z3.And,
    "or": z3.Or,
    "not": z3.Not,
    "implies": z3.Implies,
    "ite": z3.If,
    "has": z3.Select,
    "select": z3.Select,
    "store": z3.Store,
    "with": lambda group, item: z3.Store(group, item, True),
    "without": lambda group, item: z3.Store(group, item, False),
}


class Reading:
    """What both readings share.  `facts` are truths about the expressions made so far, for the solver."""

    def __init__(self) -> None:
        self.facts: list[Expr] = []

    def sort(self, sort: Sort) -> Expr:
        if sort.name == "Int":
            return z3.IntSort()
        if sort.name == "Bool":
            return z3.BoolSort()
        if sort.name == "Set":
            return z3.ArraySort(self.sort(sort.args[0]), z3.BoolSort())
        if sort.name == "Map":
            return z3.ArraySort(*map(self.sort, sort.args))
        return self.key_sort(sort)

    def constant(self, name: str, sort: Sort) -> Expr:
        return z3.Const(name, self.sort(sort))

    def expr(self, term: Term, names: Names) -> Expr:
        op, args = term.op, term.args
        if op == "const":
            return z3.BoolVal(args[0]) if isinstance(args[0], bool) else z3.IntVal(args[0])
        if op in ("state", "after", "field", "bound"):
            return names[op, args[0]]
        if op == "empty":
            return z3.K(self.sort(term.sort.args[0]), z3.BoolVal(False))
        if op == "forall":
            return self.forall(args[0], args[1], names)
        parts = [self.expr(part, names) for part in args]
        if op in ("card", "least", "most"):
            return self.measure(term, parts)
        return self.noted(term, parts, _PLAIN[op](*parts))

    def noted(self, term: Term, parts: list[Expr], expr: Expr) -> Expr:
        """A place to state facts about an expression."""
        return expr

    def key_sort(self, sort: Sort) -> Expr:
        raise NotImplementedError

    def forall(self, bound: Term, body: Term, names: Names) -> Expr:
        raise NotImplementedError

    def measure(self, term: Term, parts: list[Expr]) -> Expr:
        """How many elements a set has, or the least or greatest value among them."""
        raise NotImplementedError


class Unbounded(Reading):
    """Any number of keys.  What is said of `card` is a theorem about finite sets."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[Sort, Expr] = {}

    def key_sort(self, sort: Sort) -> Expr:
        return z3.DeclareSort(sort.name)

    def forall(self, bound: Term, body: Term, names: Names) -> Expr:
        variable = self.constant(bound.args[0], bound.sort)
        return z3.ForAll([variable], self.expr(body, {**names, ("bound", bound.args[0]): variable}))

    def noted(self, term: Term, parts: list[Expr], expr: Expr) -> Expr:
        if term.op in ("with", "without") and _is_ground(term):
            self._note_update(term, parts, expr)
        return expr

    def _note_update(self, term: Term, parts: list[Expr], expr: Expr) -> None:
        count = self._count(term.sort)
        group, item = parts
        inside = z3.Select(group, item)
        change = z3.If(inside, 0, 1) if term.op == "with" else z3.If(inside, -1, 0)
        self.facts.append(count(expr) == count(group) + change)

    def measure(self, term: Term, parts: list[Expr]) -> Expr:
        if term.op == "card":
            return self._count(term.args[0].sort)(*parts)
        return self._extreme(term, parts)

    def _count(self, sort: Sort) -> Expr:
        """The function that counts sets of a sort.  When first used, it states what holds of all sets."""
        if sort in self._counts:
            return self._counts[sort]
        of = self.sort(sort)
        count = self._counts[sort] = z3.Function(f"card_{sort.args[0]}", of, z3.IntSort())
        group, item = z3.Const("group", of), self.constant("item", sort.args[0])
        inside = z3.Select(group, item)
        patterns = [z3.MultiPattern(count(group), inside)]
        self.facts += [
            count(z3.K(of.domain(), z3.BoolVal(False))) == 0,
            z3.ForAll([group], count(group) >= 0, patterns=[count(group)]),
            z3.ForAll([group, item], z3.Implies(inside, count(group) >= 1), patterns=patterns),
        ]
        return count

    def _extreme(self, term: Term, parts: list[Expr]) -> Expr:
        """An uninterpreted function of its arguments, and for these arguments its definition."""
        values, among, otherwise = parts
        key = term.args[1].sort.args[0]
        function = z3.Function(f"{term.op}_{key}", *(part.sort() for part in parts), z3.IntSort())
        extreme = function(*parts)
        empty = z3.K(self.sort(key), z3.BoolVal(False))
        witness, other = z3.FreshConst(self.sort(key), "witness"), self.constant("item", key)
        reached = z3.And(z3.Select(among, witness), z3.Select(values, witness) == extreme)
        below, above = extreme, z3.Select(values, other)
        if term.op == "most":
            below, above = above, below
        self.facts += [
            z3.If(among == empty, extreme == otherwise, reached),
            z3.ForAll([other], z3.Implies(z3.Select(among, other), below <= above)),
        ]
        return extreme


class Finite(Reading):
    """A few keys of each sort: `sizes` says how many."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self.sizes = sizes

    def key_sort(self, sort: Sort) -> Expr:
        return _enumeration(sort.name, self.sizes[sort.name])[0]

    def keys(self, sort: Sort) -> tuple[Expr, ...]:
        return _enumeration(sort.name, self.sizes[sort.name])[1]

    def forall(self, bound: Term, body: Term, names: Names) -> Expr:
        name = bound.args[0]
        return z3.And(*(self.expr(body, {**names, ("bound", name): key}) for key in self.keys(bound.sort)))

    def measure(self, term: Term, parts: list[Expr]) -> Expr:
        if term.op == "card":
            return z3.Sum([z3.If(z3.Select(parts[0], key), 1, 0) for key in self.keys(term.args[0].sort.args[0])])
        values, among, result = parts
        found: Expr = z3.BoolVal(False)
        for key in self.keys(term.args[1].sort.args[0]):
            value, inside = z3.Select(values, key), z3.Select(among, key)
            better = value < result if term.op == "least" else result < value
            result = z3.If(z3.And(inside, z3.Or(z3.Not(found), better)), value, result)
            found = z3.Or(found, inside)
        return result


@functools.cache
def _enumeration(name: str, size: int) -> tuple[Expr, tuple[Expr, ...]]:
    word = name.removesuffix("Id").lower()
    sort, keys = z3.EnumSort(f"{name}{size}", [f"{word}{number}" for number in range(size)])
    return sort, tuple(keys)


def _is_ground(term: Term) -> bool:
    return all(part.op != "bound" for part in walk(term))
