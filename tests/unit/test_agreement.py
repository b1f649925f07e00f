"""The readings of a term are held against each other, on specifications made at random.

The rules that exist use a corner of the language: simultaneous assignment was wrong once, and no rule showed it.
So states, events and rules are drawn, compiled, and run beside a solver that is told the same step; guards, what
counts as exercised, the state after and invariants must be the same, row by row and over columns.  Faults that
are planted in the translators must show.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, cast

import pytest
import z3
from attrs import frozen

from schedspec.proofs import smt
from schedspec.proofs.obligations import Step
from schedspec.proofs.smt import Finite, Unbounded
from schedspec.proofs.theory import Theory
from schedspec.spec import compiled, registry, terms
from schedspec.spec.compiled import World, compile_program, without
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
            lambda: terms.card(self.set(A, down).add(self.key(A, down))),
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
        """`t.flag == …` would be an effect."""
        self.after = True
        while (term := self.truth(3)).op == "eq" and term.args[0].op == "after":
            pass
        return cast(Bool, term)

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
        whole = z3.K(self.reading.sort(at), self.expr(_rest(value, sort), cell))
        for key, part in value.items():
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


def _rest(value: Value, sort: Sort) -> Value:
    """What a map is at the keys that it does not list."""
    return keys(sort.args[1])[0] if sort.args[0].name == "Int" else next(iter(value.values()))


# --- one step, by both ----------------------------------------------------------------------------------------


class Case:
    """A specification with its compiled program and its step for the solver."""

    def __init__(self, seed: int) -> None:
        self.draw = Draw(seed)
        self.registry = specification(self.draw)
        self.dropped = self.draw.random.choice([None, *(c.name for c in self.registry.conjuncts if c.event)])
        whole = compile_program(self.registry)
        self.program = without(whole, self.dropped) if self.dropped else whole
        self.ground = Ground()
        self.step = Step(Theory(self.registry), self.ground.reading, "Happens", self.dropped)

    def state(self) -> dict[str, Value]:
        return {name: value_of(self.draw, sort) for name, sort in Things.sorts.items()}

    def event(self) -> dict[str, Value]:
        return {name: value_of(self.draw, sort) for name, sort in Happens.sorts.items()}

    def solved(self, state: dict[str, Value], event: dict[str, Value]) -> "Result":
        names, ground = self.step.names, self.ground
        solver = z3.Solver()
        for name, sort in Things.sorts.items():
            solver.add(names["state", name] == ground.expr(state[name], sort))
        for name, sort in Happens.sorts.items():
            solver.add(names["field", name] == ground.expr(event[name], sort))
        solver.add(*(self.step.say(effect.term) for effect in self.step.effects))
        assert solver.check() == z3.sat
        return self.read(solver.model(), state)

    def read(self, model: Any, state: dict[str, Value]) -> "Result":
        def holds(term: Term) -> bool:
            return bool(z3.is_true(model.eval(self.step.say(term), model_completion=True)))

        numbers = {c.name: number for number, c in enumerate(self.registry.conjuncts)}
        failed, counted = set(), set()
        for guard in self.step.guards:
            if not holds(guard.term):
                failed.add(numbers[guard.name])
            if guard.term.op != "implies" or holds(guard.term.args[0]):
                counted.add(numbers[guard.name])
        after = {
            n: self.ground.value(model, self.step.names["after", n], s) for n, s in Things.sorts.items() if n != "deep"
        }
        invariants = {c.name: holds(c.term) for c in self.registry.of_kind("invariant")}
        return Result(failed, counted, after | {"deep": state["deep"]}, invariants)


@frozen
class Result:
    failed: set[int]
    counted: set[int]
    after: dict[str, Value]
    invariants: dict[str, bool]


def disagreement(seed: int, rows: int = 3) -> str | None:
    """The first thing in which the compiled reading and the solver differ; None if nothing."""
    case = Case(seed)
    start = state = case.state()
    events, results = [case.event() for _ in range(rows)], []
    for event in events:
        result = case.solved(state, event)
        if differs := _one(case, state, event, result):
            return f"seed {seed}, {differs}"
        results.append(result)
        state = result.after
    differs = _many(case, start, events, results)
    return f"seed {seed}, over columns: {differs}" if differs else None


def _one(case: Case, state: dict[str, Value], event: dict[str, Value], result: Result) -> str | None:
    world = world_of(case.program.world(), state)
    for name, holds in result.invariants.items():
        if case.program.holds[name](world) != holds:
            return f"invariant {name}"
    case.program.one["Happens"](world, *event.values())
    counted = {number for number, times in enumerate(world.exercised) if times}
    return _compared(world, {number for number, _ in world.failed}, result.failed, counted == result.counted, result)


def _many(case: Case, start: dict[str, Value], events: list[dict[str, Value]], results: list[Result]) -> str | None:
    world = world_of(case.program.world(), start)
    case.program.many["Happens"](world, *([event[name] for event in events] for name in Happens.sorts))
    failed = {(number, row) for row, result in enumerate(results) for number in result.failed}
    counts = Counter(number for result in results for number in result.counted)
    counted = {number: times for number, times in enumerate(world.exercised) if times} == counts
    return _compared(world, set(world.failed), failed, counted, results[-1])


def _compared(world: World, failed: set[Any], expected: set[Any], counted: bool, result: Result) -> str | None:
    if failed != expected:
        return f"failed {sorted(failed)}, by the solver {sorted(expected)}"
    if not counted:
        return "what is counted as exercised"
    after = state_of(world)
    wrong = [name for name in after if name != "deep" and after[name] != result.after[name]]
    return f"after the event: {wrong}" if wrong else None


def test_readings_agree() -> None:
    assert [found for seed in range(120) if (found := disagreement(seed))] == []


# --- planted faults -------------------------------------------------------------------------------------------


def _reads_the_state_before(term: Term, effects: dict[str, Term]) -> Term:
    return _SETTLED(term, {})


def _forgets_the_else(term: Term) -> Term:
    found = _PUSHED(term)
    return terms.rebuild(found, (found.args[0], found.args[1], found.args[1])) if found.op == "ite" else found


def _counts_twice(base: Term) -> Int:
    if base.op == "with":
        return cast(Int, terms.make(terms.INT, "card", base.args[0])) + 1
    return _PUSHED_CARD(base)


def _reads_late(function: Any, term: Term, lines: list[str]) -> str:
    return str(function.expressions.text(term))


def _shares_carelessly(term: Term) -> tuple[Any, ...]:
    return (term.op, term.sort, *(part.op for part in term.parts))


def _extremes_swapped(reading: Finite, term: Term, parts: list[Any]) -> Any:
    swapped = {"least": "most", "most": "least"}.get(term.op, term.op)
    return _MEASURE(reading, Term(swapped, term.args, term.sort), parts)


def _drops_nothing(step: Step, theory: Theory, reading: Any, event: str, dropped: str | None = None) -> None:
    _STEP(step, theory, reading, event)


_SETTLED, _PUSHED, _PUSHED_CARD = terms.settled, terms.pushed, terms._pushed_card
_MEASURE, _STEP = Finite.measure, Step.__init__

FAULTS: dict[str, tuple[Any, str, Any]] = {
    "settled: t.x is s.x": (registry, "settled", _reads_the_state_before),
    "pushed: a read of an update has no else": (terms, "pushed", _forgets_the_else),
    "pushed: an element that is there already counts again": (terms, "_pushed_card", _counts_twice),
    "compiled: assignments are not simultaneous": (compiled.EventFunction, "_read", _reads_late),
    "compiled: what is alike is shared": (Term, "key", _shares_carelessly),
    "compiled: ≤ is <": (compiled, "_BINARY", compiled._BINARY | {"le": "<"}),
    "z3: removal adds": (smt, "_PLAIN", smt._PLAIN | {"without": smt._PLAIN["with"]}),
    "z3: least is most": (Finite, "measure", _extremes_swapped),
    "z3: ⇒ is ⇔": (smt, "_PLAIN", smt._PLAIN | {"implies": smt._PLAIN["eq"]}),
    "z3: nothing is left out": (Step, "__init__", _drops_nothing),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_shows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[name])
    assert any(_differs(seed) for seed in range(200))


def _differs(seed: int) -> bool:
    try:
        return disagreement(seed) is not None
    except (AssertionError, KeyError, NameError, terms.TermError):
        return True  # a translator that breaks down is noticed as well


# --- the unbounded reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_facts_of_the_unbounded_reading(seed: int) -> None:
    """What a proof is told of cardinalities and extremes is true, and enough to know them."""
    draw = Draw(seed)
    chosen = [draw.random.random() < 0.5 for _ in range(SIZE)]
    values = [draw.random.randint(-3, 3) for _ in range(SIZE)]
    reading, names, distinct = Unbounded(), *_named_keys(SIZE)
    group, table = draw.state.group.cleared(), draw.state.value
    for number, (inside, value) in enumerate(zip(chosen, values, strict=True)):
        key = cast(A, terms.make(Sort("A"), "field", f"k{number}"))
        group = group.add(key).add(key) if inside else group.remove(key)
        table = table.set(key, value)
    names["state", "value"] = reading.constant("value", draw.state.value.sort)
    kept = [value for inside, value in zip(chosen, values, strict=True) if inside]
    expected = {
        terms.card(group): len(kept),
        terms.least(table, group, 9): min(kept, default=9),
        terms.most(table, group, 9): max(kept, default=9),
    }
    for term, value in expected.items():
        found = reading.expr(term, names)
        assert _asked(reading, distinct, found != value, timeout_ms=20_000) == "unsat", printed(term)
        assert _asked(reading, distinct, found == value, timeout_ms=300) != "unsat", printed(term)


def _asked(reading: Unbounded, distinct: Any, claim: Any, timeout_ms: int) -> str:
    solver = z3.Solver()
    solver.set("timeout", timeout_ms)
    solver.add(distinct, claim, *reading.facts)
    return str(solver.check())


def _named_keys(size: int) -> tuple[dict[tuple[str, str], Any], Any]:
    of = z3.DeclareSort("A")
    constants = [z3.Const(f"k{number}", of) for number in range(size)]
    return {("field", str(key)): key for key in constants}, z3.Distinct(*constants)


# --- the printed reading --------------------------------------------------------------------------------------

Tree = tuple[Any, ...]


def test_formulas_can_be_read_back() -> None:
    """Print, parse, compare: what is printed means one thing."""
    for seed in range(300):
        draw = Draw(seed)
        for term in (draw.guard(), *draw.effects(), draw.invariant()):
            text = printed(term)
            assert Parser(text).whole() == tree(term), text


def test_a_wrong_print_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedspec.spec.printed._LEFT_OPEN", {"mul", "add", "sub", "and", "or", "implies"})
    with pytest.raises(AssertionError):
        test_formulas_can_be_read_back()


def tree(term: Term) -> Tree:
    """A term without its sorts; what is associative is one node."""
    if term.op in ("state", "after", "field", "bound", "const"):
        return (term.op, str(term.args[0]))
    return joined(term.op, *map(tree, term.parts))


def joined(op: str, *parts: Tree) -> Tree:
    if op not in ("and", "or", "mul"):
        return (op, *parts)
    flat: list[Any] = []
    for part in parts:
        flat += part[1:] if part[0] == op else [part]
    return (op, *flat)


class Parser:
    """Recursive descent over the printed formula, loosest sign first."""

    LEVELS = (("⇔",), ("⇒",), ("∨",), ("∧",), ("=", "≠", "≤", "<", "≥", ">", "∈", "∉"), ("∪", "∖"), ("+", "-"), ("·",))
    OPS: ClassVar = {"⇔": "eq", "⇒": "implies", "∨": "or", "∧": "and", "=": "eq", "≤": "le", "<": "lt", "+": "add"}

    def __init__(self, text: str) -> None:
        self.tokens = [*re.findall(r"-?\d+|\w+′?|[^\s\w]", text), "end"]

    def whole(self) -> Tree:
        found = self.expression()
        assert self.tokens == ["end"], self.tokens
        return found

    def take(self, token: str) -> bool:
        if self.tokens[0] != token:
            return False
        self.tokens.pop(0)
        return True

    def expect(self, token: str) -> None:
        assert self.take(token), f"{token} expected before {self.tokens}"

    def expression(self) -> Tree:
        if self.take("∀"):
            return self.quantified()
        if self.take("if"):
            condition = self.expression()
            self.expect("then")
            then = self.expression()
            self.expect("else")
            return ("ite", condition, then, self.expression())
        return self.infix(0)

    def quantified(self) -> Tree:
        bound = ("bound", self.tokens.pop(0))
        return ("forall", bound, self.quantified() if self.take(",") else self.body())

    def body(self) -> Tree:
        self.expect(":")
        return self.expression()

    def infix(self, level: int) -> Tree:
        if level == len(self.LEVELS):
            return self.postfix()
        left = self.infix(level + 1)
        while (sign := self.tokens[0]) in self.LEVELS[level]:
            self.tokens.pop(0)
            effect = sign in "=⇔" and left[0] == "after" and self.tokens[0] == "if"
            left = self.related(sign, left, self.right(level, sign, effect))
        return left

    def right(self, level: int, sign: str, whole: bool) -> Tree:
        if sign in ("∪", "∖"):
            self.expect("{")
            item = self.expression()
            self.expect("}")
            return item
        return self.expression() if whole else self.infix(level if sign == "⇒" else level + 1)

    def related(self, sign: str, left: Tree, right: Tree) -> Tree:
        if sign in ("≠", "∉"):
            return ("not", self.related({"≠": "=", "∉": "∈"}[sign], left, right))
        if sign in ("≥", ">", "∈"):
            return ({"≥": "le", ">": "lt", "∈": "has"}[sign], right, left)
        op = {"∪": "with", "∖": "without", "-": "sub", "·": "mul"}.get(sign) or self.OPS[sign]
        return joined(op, left, right)

    def postfix(self) -> Tree:
        found = self.primary()
        while self.take("["):
            key = self.expression()
            found = ("store", found, key, self.expression()) if self.take("↦") else ("select", found, key)
            self.expect("]")
        return found

    def primary(self) -> Tree:
        token = self.tokens.pop(0)
        if token == "(":
            return self.closed(self.expression(), ")")
        if token == "|":
            return ("card", self.closed(self.expression(), "|"))
        if token == "¬":
            return ("not", self.postfix())
        if token == "∅":
            return ("empty",)
        if token in ("min", "max"):
            return self.extreme("least" if token == "min" else "most")
        return self.leaf(token)

    def closed(self, found: Tree, token: str) -> Tree:
        self.expect(token)
        return found

    def extreme(self, op: str) -> Tree:
        self.expect("(")
        values = self.expression()
        self.expect("over")
        among = self.expression()
        self.expect(",")
        self.expect("else")
        return (op, values, among, self.closed(self.expression(), ")"))

    def leaf(self, token: str) -> Tree:
        if token.endswith("′"):
            return ("after", token[:-1])
        if token in Things.sorts:
            return ("state", token)
        if token in Happens.sorts:
            return ("field", token)
        return ("bound" if token in ("a", "b") else "const", token)
