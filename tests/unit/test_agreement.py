"""The readings of a term are held against each other, on specifications made at random.

The rules that exist use a corner of the language: simultaneous assignment was wrong once, and no rule showed it.
So states, events and rules are drawn, compiled, and run beside a solver that is told the same step; guards, what
counts as exercised, the state after and invariants must be the same, row by row and over columns.  Faults that
are planted in the translators must show.
"""

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import z3

from schedspec.proofs import smt
from schedspec.proofs.obligations import Step
from schedspec.proofs.smt import Finite, Unbounded
from schedspec.proofs.theory import Theory
from schedspec.spec import compiled, registry, terms
from schedspec.spec.compiled import World, compile_program
from schedspec.spec.printed import printed
from schedspec.spec.registry import Registry
from schedspec.spec.terms import Bool, Event, Int, Key, Map, Set, Sort, State, Term

SIZE = 3


class A(Key):
    __slots__ = ()


class B(Key):
    __slots__ = ()


class Things(State):
    number: Int
    total: Int
    flag: Bool
    group: Set[A]
    other: Set[A]
    marks: Set[B]
    value: Map[A, Int]
    weight: Map[A, Int]
    price: Map[B, Int]
    ready: Map[A, Bool]
    friend: Map[A, B]
    holds: Map[A, Set[B]]
    deep: Map[A, Map[Int, B]]  # a parameter


class Happens(Event):
    x: A
    y: A
    z: B
    i: Int
    j: Int
    yes: Bool


class Draw:
    """Terms at random.  `after` says whether the state after may be read."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.state, self.event, self.later = Things("state"), Happens("field"), Things("after")
        self.after = False
        self.bound: list[Term] = []

    def one(self, *makers: Callable[[], Any]) -> Any:
        return self.random.choice(makers)()

    def view(self) -> Things:
        return self.later if self.after and self.random.random() < 0.5 else self.state

    def key(self, sort: type[Key], depth: int) -> Any:
        e = self.event
        bound = [b for b in self.bound if b.sort.name == sort.__name__]
        if bound and self.random.random() < 0.7:
            return self.random.choice(bound)
        if self.bound:
            return self.view().friend[self.key(A, 0)] if sort is B else self.random.choice(self.bound)
        if sort is A:
            return self.one(lambda: e.x, lambda: e.y)
        if depth <= 0:
            return e.z
        return self.one(
            lambda: e.z,
            lambda: self.view().friend[self.key(A, depth - 1)],
            lambda: self.state.deep[self.key(A, depth - 1)][self.integer(depth - 1)],
            lambda: terms.ite(self.truth(depth - 1), self.key(B, depth - 1), self.key(B, depth - 1)),
        )

    def table(self, name: str, depth: int) -> Any:
        """A map: a variable, an update of it, or a choice."""
        plain = getattr(self.view(), name)
        if depth <= 0 or self.random.random() < 0.6:
            return plain
        if self.random.random() < 0.3:
            return terms.ite(self.truth(depth - 1), self.table(name, depth - 1), plain)
        sort = plain.sort.args[0].name
        key = self.key(A if sort == "A" else B, depth - 1)
        cell = self.any(plain.sort.args[1], depth - 1)
        return self.table(name, depth - 1).set(key, cell)

    def any(self, sort: Sort, depth: int) -> Any:
        if sort.name == "Int":
            return self.integer(depth)
        if sort.name == "Bool":
            return self.truth(depth)
        if sort.name == "Set":
            return self.set(A if sort.args[0].name == "A" else B, depth)
        return self.key(A if sort.name == "A" else B, depth)

    def integer(self, depth: int) -> Any:
        e, down = self.event, depth - 1
        leaves = [lambda: terms.lift(self.random.randint(-1, 3), terms.INT)]
        leaves += [lambda: self.view().number, lambda: self.view().total]
        if not self.bound:
            leaves += [lambda: e.i, lambda: e.j]
        if depth <= 0:
            return self.one(*leaves)
        return self.one(
            *leaves,
            lambda: self.table(self.one(lambda: "value", lambda: "weight"), down)[self.key(A, down)],
            lambda: self.table("price", down)[self.key(B, down)],
            lambda: terms.card(self.set(self.random.choice([A, B]), down)),
            lambda: self.integer(down) + self.integer(down),
            lambda: self.integer(down) - self.integer(down),
            lambda: self.integer(down) * self.integer(down),
            lambda: terms.ite(self.truth(down), self.integer(down), self.integer(down)),
            lambda: terms.least(self.state.value, self.set(A, down), self.integer(down)),
            lambda: terms.most(self.state.weight, self.set(A, down), self.integer(down)),
        )

    def set(self, sort: type[Key], depth: int) -> Any:
        view, down = self.view(), depth - 1
        leaves = [lambda: view.group, lambda: view.other] if sort is A else [lambda: view.marks]
        if depth <= 0:
            return self.one(*leaves)
        if sort is B:
            leaves.append(lambda: self.table("holds", down)[self.key(A, down)])
        return self.one(
            *leaves,
            lambda: self.set(sort, down).add(self.key(sort, down)),
            lambda: self.set(sort, down).remove(self.key(sort, down)),
            lambda: self.set(sort, down).cleared(),
            lambda: terms.ite(self.truth(down), self.set(sort, down), self.set(sort, down)),
        )

    def truth(self, depth: int) -> Any:
        e, down = self.event, depth - 1
        leaves = [lambda: self.view().flag]
        leaves += [] if self.bound else [lambda: e.yes]
        if depth <= 0:
            return self.one(*leaves)
        return self.one(
            *leaves,
            lambda: terms.lift(self.random.random() < 0.5, terms.BOOL),
            lambda: self.integer(down) <= self.integer(down),
            lambda: self.integer(down) < self.integer(down),
            lambda: self.integer(down) == self.integer(down),
            lambda: self.key(A, down) == self.key(A, down),
            lambda: self.key(B, down) == self.key(B, down),
            lambda: self.set(A, down).has(self.key(A, down)),
            lambda: self.set(B, down).has(self.key(B, down)),
            lambda: self.set(A, down) == self.set(A, down),
            lambda: self.set(B, down).is_empty(),
            lambda: self.table("ready", down)[self.key(A, down)],
            lambda: self.truth(down) & self.truth(down),
            lambda: self.truth(down) | self.truth(down),
            lambda: ~self.truth(down),
            lambda: terms.implies(self.truth(down), self.truth(down)),
            lambda: terms.iff(self.truth(down), self.truth(down)),
            lambda: terms.ite(self.truth(down), self.truth(down), self.truth(down)),
        )

    def guard(self) -> Bool:
        self.after = True
        return cast(Bool, self.truth(3))

    def effects(self) -> Iterator[Bool]:
        self.after = False
        for name, sort in Things.sorts.items():
            if name != "deep" and self.random.random() < 0.7:
                yield getattr(self.later, name) == self.update(name, sort)

    def update(self, name: str, sort: Sort) -> Any:
        """A chain of updates of the variable, or for a scalar any value."""
        if sort.name not in ("Set", "Map"):
            return self.any(sort, 2)
        value = getattr(self.state, name)
        for _ in range(self.random.randint(1, 3)):
            value = self.updated(value, getattr(self.state, name), sort)
        return value

    def updated(self, value: Any, start: Any, sort: Sort) -> Any:
        key = self.key(A if sort.args[0].name == "A" else B, 1)
        if self.random.random() < 0.3:
            return terms.ite(self.truth(1), value, self.updated(start, start, sort))
        if sort.name == "Set":
            return self.one(lambda: value.add(key), lambda: value.remove(key), lambda: value.cleared())
        if sort.args[1].name != "Set":
            own = sort.args[1].name == "Int" and self.random.random() < 0.5
            return value.set(key, value[key] + 1 if own else self.any(sort.args[1], 2))
        item = self.key(B, 1)
        cell = self.one(lambda: value[key].add(item), lambda: value[key].remove(item), lambda: value[key].cleared())
        return value.set(key, self.one(lambda: cell, lambda: cell.add(self.key(B, 1))))

    def invariant(self) -> Bool:
        self.after = False
        first, second = terms.make(Sort("A"), "bound", "a"), terms.make(Sort("A"), "bound", "b")
        self.bound = [first, second]
        try:
            inner = terms.make(terms.BOOL, "forall", second, self.truth(3))
            return cast(Bool, terms.make(terms.BOOL, "forall", first, inner))
        finally:
            self.bound = []


def specification(draw: Draw) -> Registry:
    made = Registry(Things, {})
    body = (*(draw.guard() for _ in range(4)), *draw.effects())

    def rule(s: Things, e: Happens, t: Things) -> tuple[Bool, ...]:
        """Anything."""
        return body

    made.rule("KV-1", on=Happens)(rule)
    made.invariant("KV-1")(lambda s: (draw.invariant(), draw.invariant()))
    return made


# --- states and events as values -----------------------------------------------------------------------------

Value = Any  # int, bool, a key (a string), a set of keys, or a dict


def keys(sort: Sort) -> list[str]:
    return [f"{sort.name.lower()}{number}" for number in range(SIZE)]


def value_of(draw: Draw, sort: Sort) -> Value:
    pick = draw.random
    if sort.name == "Int":
        return pick.randint(-1, 3)
    if sort.name == "Bool":
        return pick.random() < 0.5
    if sort.name == "Set":
        return {key for key in keys(sort.args[0]) if pick.random() < 0.5}
    if sort.name == "Map" and sort.args[0].name == "Int":
        return defaultdict(lambda: "b0", {place: pick.choice(keys(sort.args[1])) for place in range(-3, 8)})
    if sort.name == "Map":
        return {key: value_of(draw, sort.args[1]) for key in keys(sort.args[0])}
    return pick.choice(keys(sort))


def world_of(world: World, state: dict[str, Value]) -> World:
    for name, sort in Things.sorts.items():
        if sort.name == "Map":
            for key, cell in state[name].items():
                copy = set(cell) if isinstance(cell, set) else cell
                setattr(getattr(world, sort.args[0].name)[key], name, copy)
        else:
            setattr(world, name, set(state[name]) if sort.name == "Set" else state[name])
    return world


def state_of(world: World) -> dict[str, Value]:
    state = {}
    for name, sort in Things.sorts.items():
        if sort.name == "Map":
            records = getattr(world, sort.args[0].name)
            state[name] = {key: getattr(records[key], name) for key in keys(sort.args[0])}
        else:
            state[name] = getattr(world, name)
    return state


class Ground:
    """The solver's view of values."""

    def __init__(self) -> None:
        self.reading = Finite({"A": SIZE, "B": SIZE})

    def key(self, name: str) -> Any:
        return self.reading.keys(Sort(name[0].upper()))[int(name[1:])]

    def expr(self, value: Value, sort: Sort) -> Any:
        if sort.name == "Int":
            return z3.IntVal(value)
        if sort.name == "Bool":
            return z3.BoolVal(value)
        if sort.name == "Set":
            whole = z3.K(self.reading.sort(sort.args[0]), z3.BoolVal(False))
            for key in sorted(value):
                whole = z3.Store(whole, self.key(key), True)
            return whole
        if sort.name != "Map":
            return self.key(value)
        at, cell = sort.args
        rest = value["rest"] if at.name == "Int" else next(iter(value.values()))
        whole = z3.K(self.reading.sort(at), self.expr(rest, cell))
        for key, part in sorted(value.items(), key=str):
            if key != "rest":
                whole = z3.Store(whole, self.expr(key, at), self.expr(part, cell))
        return whole

    def value(self, model: Any, expr: Any, sort: Sort) -> Value:
        if sort.name == "Set":
            return {key for key in keys(sort.args[0]) if self.value(model, expr[self.key(key)], terms.BOOL)}
        if sort.name == "Map" and sort.args[0].name != "Int":
            return {key: self.value(model, expr[self.key(key)], sort.args[1]) for key in keys(sort.args[0])}
        found = model.eval(expr, model_completion=True)
        if sort.name == "Int":
            return found.as_long()
        return z3.is_true(found) if sort.name == "Bool" else str(found)
