"""An event as a *scan*: many of it in a row, where no entry sees another.

The event names one key; every map and set is touched at that key alone; numbers of the state are only added to.  If
then no key comes twice, the entries do not see each other, and all can be judged by the state before the first.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from schedspec.spec.registry import Conjunct, Registry, settled_after
from schedspec.spec.terms import Sort, Term, rebuild, settled, walk

MOST_CASES = 3
OFTEN = 2
OPERATORS = ("add", "sub", "mul", "eq", "le", "lt", "and", "or", "not", "implies", "ite")
_PLAIN = ("Int", "Bool")


class NoScan(Exception):
    """The entries of such an event see each other: they have to be judged one by one."""


@frozen
class Guard:
    """`condition`: it is exercised only where that holds; None is always."""

    number: int
    condition: Term | None
    then: Term

    def told(self, to: Callable[[Term], Term]) -> "Guard":
        return Guard(self.number, None if self.condition is None else to(self.condition), to(self.then))


@frozen(kw_only=True, eq=False)
class Scan:
    """What an event asks and does.  `key`: the field that it names, `over` its sort.  `cells` are left behind at the
    key, `added` goes to numbers, `assigned` is the same for all.  `reads`: maps and sets that are read."""

    event: str
    fields: Mapping[str, Sort]
    sorts: Mapping[str, Sort]
    key: str
    over: str
    guards: Sequence[Guard]
    cells: Mapping[str, Term]
    added: Mapping[str, Term]
    assigned: Mapping[str, Term]
    reads: frozenset[str]

    @property
    def names(self) -> set[str]:
        """Maps and sets that have to be in the table."""
        return {*self.reads, *self.cells}

    @property
    def terms(self) -> list[Term]:
        """All that differs from entry to entry, guards first."""
        asked = [term for guard in self.guards for term in (guard.condition, guard.then) if term is not None]
        return [*asked, *self.cells.values(), *self.added.values()]

    def atoms(self) -> list[Term]:
        """Comparisons that stand in several places: often they are the same for all entries."""
        found: dict[tuple[Any, ...], Term] = {}
        counts: Counter[tuple[Any, ...]] = Counter()
        for part in (part for term in self.terms for part in walk(term)):
            if part.sort.name == "Bool" and part.op in ("eq", "le", "lt", "has", "select") and varies(part):
                counts[part.key()] += 1
                found[part.key()] = part
        return [found[key] for key, times in counts.most_common(MOST_CASES) if times >= OFTEN]

    def where(self, known: Mapping[tuple[Any, ...], bool]) -> "Scan":
        """The same, where these terms are known to be true or false of all entries."""
        return self.told(lambda term: folded(term, known))

    def told(self, to: Callable[[Term], Term]) -> "Scan":
        """The same in other terms."""
        return evolve(
            self,
            guards=[guard.told(to) for guard in self.guards],
            cells={name: to(cell) for name, cell in self.cells.items()},
            added={name: to(term) for name, term in self.added.items()},
        )


def scan_of(registry: Registry, event: str, active: Collection[str], dropped: str | None) -> Scan:
    """The event as a scan, with the guards that are active and all effects but the dropped one.  Raises NoScan."""
    guards, effects = registry.parts_of(event, lambda c: c.name in active, dropped)
    return _Reader(registry, event).scan(guards, effects)


class _Reader:
    """Takes an event apart, or raises NoScan."""

    def __init__(self, registry: Registry, event: str) -> None:
        self.event = event
        self.fields = registry.events[event].sorts
        self.sorts = registry.state.sorts
        self.numbers = registry.numbers
        keys = [name for name, sort in self.fields.items() if sort.name not in _PLAIN]
        if len(keys) != 1:
            raise NoScan(f"{event} has no key, or more than one")
        self.key, self.over = keys[0], self.fields[keys[0]].name
        self.written: set[str] = set()
        self.reads: set[str] = set()

    def scan(self, guards: Sequence[Conjunct], effects: Sequence[Conjunct]) -> Scan:
        written = {str(c.variable): c.term.args[1] for c in effects if c.term.args[1].op != "state"}
        self.written = set(written)
        asked = [self._guard(conjunct, effects) for conjunct in guards]
        kinds: dict[str, dict[str, Any]] = {"cells": {}, "added": {}, "assigned": {}}
        for name in sorted(written):
            kind, value = self._effect(name, written[name])
            kinds[kind][name] = value
        return Scan(
            event=self.event,
            fields=self.fields,
            sorts=self.sorts,
            key=self.key,
            over=self.over,
            guards=asked,
            reads=frozenset(self.reads),
            **kinds,
        )

    def _guard(self, conjunct: Conjunct, effects: Sequence[Conjunct]) -> Guard:
        term = settled_after(conjunct.term, effects)
        number = self.numbers[conjunct.name]
        if conjunct.term.op != "implies":  # as it was written
            return Guard(number, None, self._checked(term))
        condition, then = map(self._checked, term.args)
        return Guard(number, condition, then)

    def _checked(self, term: Term) -> Term:
        term = folded(term, {})
        self._check(term)
        return term

    def _is_key(self, term: Term) -> bool:
        return bool(term.op == "field" and term.args[0] == self.key)

    def _check(self, term: Term) -> None:
        """Whatever a term reads has to be a cell at a key, a field, or the same for all entries."""
        if not varies(term):
            if read := {part.args[0] for part in walk(term) if part.op == "state"} & self.written:
                raise NoScan(f"{min(read)} is read while it changes")
            return
        if term.op == "field":
            if self._is_key(term):
                raise NoScan("keys are compared")
            return
        if (name := cell_of(term)) is not None:
            if not self._is_key(term.args[1]):
                raise NoScan(f"{name} is not read at the key")
            self.reads.add(name)
            return
        if term.op not in OPERATORS or any(part.sort.name not in _PLAIN for part in term.parts):
            raise NoScan(f"{term.op} has no columns")
        for part in term.parts:
            self._check(part)

    # --- effects -----------------------------------------------------------------------------------------

    def _effect(self, name: str, value: Term) -> tuple[str, Any]:
        """Of which kind an effect is, and what it says."""
        sort = self.sorts[name]
        if sort.name in _PLAIN:
            value = folded(settled(value, {}), {})
            if varies(value) or _reads(value, name):
                added = self._increment(name, value)
                return "added", _number(0) if added is None else added
            return "assigned", self._checked(value)
        if sort.args[-1].name == "Set":
            raise NoScan(f"{name} has sets in its cells")
        return "cells", self._checked(settled(self._cell(name, value), {}))

    def _increment(self, name: str, value: Term) -> Term | None:
        """What an entry adds to a number; None is nothing."""
        if value.sort.name != "Int":
            raise NoScan(f"{name} is no number that is added to")
        if value.op == "state" and value.args[0] == name:
            return None
        if value.op in ("add", "sub"):
            left, right = value.args
            if value.op == "add" and _reads(right, name):
                left, right = right, left
            self._check(right)
            before = self._increment(name, left)
            if before is None and value.op == "add":
                added: Term = right
                return added
            before = _number(0) if before is None else before
            return Term(value.op, (before, right), value.sort)
        if value.op == "ite":
            condition, then, otherwise = value.args
            self._check(condition)
            parts = [self._increment(name, part) for part in (then, otherwise)]
            parts = [_number(0) if part is None else part for part in parts]
            return Term("ite", (condition, *parts), value.sort)
        raise NoScan(f"{name} is not only added to")

    def _cell(self, name: str, value: Term) -> Term:
        """What becomes of the cell at the key."""
        sort = self.sorts[name]
        if value.op == "state":
            return self._before(name)
        if value.op == "ite":
            then, otherwise = (self._cell(name, part) for part in value.args[1:])
            return Term("ite", (value.args[0], then, otherwise), then.sort)
        if value.op in ("with", "without", "store") and self._is_key(value.args[1]):
            if sort.name == "Set":
                return Term("const", (value.op == "with",), Sort("Bool"))
            if sort.args[1].name in _PLAIN:
                cell: Term = value.args[2]
                return cell
        raise NoScan(f"{name} is not touched at the key alone")

    def _before(self, name: str) -> Term:
        """The cell as it was."""
        sort = self.sorts[name]
        if sort.args[0].name != self.over:
            raise NoScan(f"{name} is over keys that the event does not name")
        state, key = Term("state", (name,), sort), Term("field", (self.key,), Sort(self.over))
        kind = Sort("Bool") if sort.name == "Set" else sort.args[1]
        return Term("has" if sort.name == "Set" else "select", (state, key), kind)


# --- terms ------------------------------------------------------------------------------------------------


def cell_of(term: Term) -> str | None:
    """The map or set of which a term reads one cell: a number or flag, or whether a key is in a set."""
    if term.sort.name not in _PLAIN or term.op not in ("select", "has") or term.args[0].op != "state":
        return None
    return str(term.args[0].args[0])


def varies(term: Term) -> bool:
    """It differs from entry to entry."""
    return any(part.op == "field" for part in walk(term))


def _reads(term: Term, name: str) -> bool:
    return any(part.op == "state" and part.args[0] == name for part in walk(term))


def _number(value: int) -> Term:
    return Term("const", (value,), Sort("Int"))


def _flag(value: bool) -> Term:
    return Term("const", (value,), Sort("Bool"))


def _is_const(term: Term, *values: bool) -> bool:
    return term.op == "const" and (not values or term.args[0] in values)


def folded(term: Term, known: Mapping[tuple[Any, ...], bool]) -> Term:
    """The term with what is known put in, and what follows from it; a key is itself."""
    value = known.get(term.key()) if known else None
    if value is not None:
        return _flag(value)
    term = rebuild(term, tuple(folded(a, known) if isinstance(a, Term) else a for a in term.args))
    return _FOLDS[term.op](term) if term.op in _FOLDS else term


def _fold_eq(term: Term) -> Term:
    left, right = term.args
    if left.key() == right.key():
        return _flag(True)
    if left.sort.name != "Bool":
        return term
    for one, other in ((left, right), (right, left)):
        if _is_const(one):
            same: Term = other if one.args[0] else _fold_not(Term("not", (other,), other.sort))
            return same
    return term


def _fold_not(term: Term) -> Term:
    (inner,) = term.args
    return _flag(not inner.args[0]) if _is_const(inner) else term


def _fold_and(term: Term) -> Term:
    if any(_is_const(arg, False) for arg in term.args):
        return _flag(False)
    return _rest(term, [arg for arg in term.args if not _is_const(arg)], True)


def _fold_or(term: Term) -> Term:
    if any(_is_const(arg, True) for arg in term.args):
        return _flag(True)
    return _rest(term, [arg for arg in term.args if not _is_const(arg)], False)


def _rest(term: Term, rest: list[Term], empty: bool) -> Term:
    if len(rest) == len(term.args):
        return term
    return rest[0] if rest else _flag(empty)


def _fold_implies(term: Term) -> Term:
    condition, then = term.args
    if _is_const(condition):
        kept: Term = then if condition.args[0] else _flag(True)
        return kept
    if _is_const(then):
        return _flag(True) if then.args[0] else _fold_not(Term("not", (condition,), condition.sort))
    return term


def _fold_ite(term: Term) -> Term:
    condition, then, otherwise = term.args
    chosen: Term = term
    if _is_const(condition):
        chosen = then if condition.args[0] else otherwise
    elif then.key() == otherwise.key():
        chosen = then
    return chosen


_FOLDS: dict[str, Any] = {
    "eq": _fold_eq,
    "not": _fold_not,
    "and": _fold_and,
    "or": _fold_or,
    "implies": _fold_implies,
    "ite": _fold_ite,
}


def largest(terms: Iterable[Term], wanted: Any) -> Iterator[Term]:
    """Parts that are wanted, and are not part of one that is."""
    for term in terms:
        if wanted(term):
            yield term
        else:
            yield from largest(term.parts, wanted)
