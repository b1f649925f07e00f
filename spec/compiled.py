"""The compiled reading: terms as Python source, all conjuncts of an event in one function.

Total maps live as attributes of one record per key, sets as Python sets, updated in place.  For each event there
is a function of its fields, and one of columns of fields that checks many in a row (the entries of a step).  A
guard that fails appends (number of the conjunct, row) to `world.failed`; effects are applied all the same.
What a guard was worth counts in `world.exercised`: an implication counts only when its condition held.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import attrs

from .printed import printed
from .registry import Conjunct, Registry, settled_after
from .terms import Sort, State, Term, rebuild, settled, walk

_BINARY = {"add": "+", "sub": "-", "mul": "*", "eq": "==", "le": "<=", "lt": "<", "and": "and", "or": "or"}


class Records(dict[Any, Any]):
    """One record per key, made with defaults when it is first asked for."""

    def __init__(self, make: Callable[[], Any]) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, key: Any) -> Any:
        record = self[key] = self.make()
        return record


class World:
    """A state of the relation: scalars and sets as attributes, records per key sort, what failed, what counted."""

    failed: list[tuple[int, int]]
    exercised: list[int]
    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Variables and records are made from the state class."""

        def __setattr__(self, name: str, value: Any) -> None:
            """Any of them may be set."""

    def __init__(self, state: type[State], conjuncts: int) -> None:
        self.failed = []
        self.events: Counter[str] = Counter()
        self.exercised = [0] * conjuncts
        zeros, makers = _makers(state)  # type: ignore[arg-type]  # a class is hashable
        vars(self).update(zeros)
        for name, make in makers:
            setattr(self, name, make())


@cache
def _makers(state: type[State]) -> tuple[dict[str, Any], list[tuple[str, Callable[[], Any]]]]:
    """First values of a world's attributes: those that all worlds share, and what makes the others."""
    zeros = {name: _default(sort) for name, sort in state.sorts.items() if sort.name not in ("Map", "Set")}
    makers: list[tuple[str, Callable[[], Any]]] = [
        (name, set) for name, sort in state.sorts.items() if sort.name == "Set"
    ]
    makers += [(key, partial(Records, record)) for key, record in _record_classes(state).items()]  # type: ignore[arg-type]
    return zeros, makers


@cache
def _record_classes(state: type[State]) -> dict[str, type[Any]]:
    """For each key sort a class whose attributes are the maps over it."""
    fields: dict[str, dict[str, Any]] = {}
    for name, sort in state.sorts.items():
        if sort.name == "Map":
            key, value = sort.args
            fields.setdefault(key.name, {})[name] = attrs.field(default=_default(value))
    return {key: attrs.make_class(f"{key}Record", columns, slots=True, eq=False) for key, columns in fields.items()}


_ZEROS: dict[str, Callable[[], Any]] = {"Int": int, "Bool": bool, "Set": set}


def _default(sort: Sort) -> Any:
    """What a record starts with; a call for each number would take longer than all else of it.  A key is None before
    anybody is named."""
    if sort.name == "Set":
        return attrs.Factory(set)
    return _ZEROS[sort.name]() if sort.name in _ZEROS else None


@attrs.frozen
class Program:
    """Functions over a `World`: `one[event](world, *fields)` and `many[event](world, *columns)`; `holds[name](world)`
    evaluates an invariant.  The docstring of each is its source."""

    registry: Registry
    active: frozenset[str]
    one: Mapping[str, Callable[..., None]]
    many: Mapping[str, Callable[..., None]]
    holds: Mapping[str, Callable[[World], bool]]

    def world(self) -> World:
        return World(self.registry.state, len(self.registry.conjuncts))


def compile_program(registry: Registry, active: Callable[[Conjunct], bool] = lambda conjunct: True) -> Program:
    """The guards that are active, and all effects."""
    numbers = registry.numbers

    def function(event: str, columns: bool) -> Callable[..., None]:
        return _event_function(registry, event, columns, active)

    def invariant(name: str) -> Callable[..., Any]:
        return _invariant_function(registry.conjuncts[numbers[name]])

    return Program(
        registry,
        frozenset(c.name for c in registry.conjuncts if active(c)),
        _OnDemand(lambda event: function(event, columns=False)),
        _OnDemand(lambda event: function(event, columns=True)),
        _OnDemand(invariant),
    )


def without(program: Program, dropped: str) -> Program:
    """The same program with one conjunct left out (to see what pins it); only its event is compiled anew."""
    registry = program.registry
    conjunct = next(c for c in registry.conjuncts if c.name == dropped)
    active = program.active - {dropped}

    def function(event: str, columns: bool) -> Callable[..., None]:
        if event != conjunct.event:
            return program.many[event] if columns else program.one[event]
        return _event_function(registry, event, columns, lambda c: c.name in active, dropped)

    return attrs.evolve(
        program,
        active=active,
        one=_OnDemand(lambda event: function(event, columns=False)),
        many=_OnDemand(lambda event: function(event, columns=True)),
    )


def _event_function(
    registry: Registry, event: str, columns: bool, active: Callable[[Conjunct], bool], dropped: str | None = None
) -> Callable[..., None]:
    guards, effects = registry.parts_of(event, active, dropped)
    key = (event, columns, guards, effects)
    if key not in _FUNCTIONS:
        source = EventFunction(registry, event, guards, effects, columns=columns).source()
        _FUNCTIONS[key] = defined(f"{'many' if columns else 'one'}_{event}", source)
    return _FUNCTIONS[key]


_FUNCTIONS: dict[tuple[str, bool, tuple[Conjunct, ...], tuple[Conjunct, ...]], Callable[..., None]] = {}
"""Subjects that claim different things have most guards in common: a search compiles few functions anew."""


@cache
def _invariant_function(conjunct: Conjunct) -> Callable[..., Any]:
    term = settled(conjunct.term, {})
    return defined("holds", f"def holds(W):\n    return {Expressions({}).text(term)}\n")


class _OnDemand(dict[str, Callable[..., Any]]):
    """Functions that are compiled when they are first asked for: a run needs few of them."""

    def __init__(self, make: Callable[[str], Callable[..., Any]]) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, name: str) -> Callable[..., Any]:
        function = self[name] = self.make(name)
        return function


def defined(name: str, source: str, given: Mapping[str, Any] | None = None) -> Callable[..., Any]:
    """The function of that name; `given` are global names that its source uses."""
    space: dict[str, Any] = dict(given or {})
    exec(compile(source, f"<{name}>", "exec"), space)
    function: Callable[..., Any] = space[name]
    function.__doc__ = source
    return function


class Expressions:
    """Python text of terms.  `names` maps what has been given a local name already."""

    def __init__(self, names: Mapping[tuple[Any, ...], str]) -> None:
        self.names = names

    def text(self, term: Term) -> str:
        name = self.names.get(term.key())
        return name if name is not None else self._text(term)

    def _text(self, term: Term) -> str:
        op, args = term.op, term.args
        if op == "const":
            return repr(args[0])
        if op == "state":
            return f"W.{args[0]}"
        if op in ("field", "bound"):
            return f"e_{args[0]}"
        if op == "select":
            return self._select(*args)
        if op == "eq" and args[1].op == "empty":
            return f"(not {self.text(args[0])})"
        if op in _BINARY:
            return f"({self.text(args[0])} {_BINARY[op]} {self.text(args[1])})"
        if op == "not":
            return f"(not {self.text(args[0])})"
        if op == "implies":
            return f"(not {self.text(args[0])} or {self.text(args[1])})"
        if op == "ite":
            return f"({self.text(args[1])} if {self.text(args[0])} else {self.text(args[2])})"
        if op == "has":
            return f"({self.text(args[1])} in {self.text(args[0])})"
        if op == "empty":
            return "set()"
        if op in ("with", "without"):
            sign = "|" if op == "with" else "-"
            return f"({self.text(args[0])} {sign} {{{self.text(args[1])}}})"
        if op == "card":
            return f"len({self.text(args[0])})"
        if op in ("least", "most"):
            return self._extreme(op, *args)
        if op == "forall":
            kind = args[0].sort.name
            return f"all({self.text(args[1])} for e_{args[0].args[0]} in list(W.{kind}))"
        raise AssertionError(f"no compiled form for {op}")

    def record(self, key: Term) -> str:
        name = self.names.get(("record", *key.key()))
        return name if name is not None else f"W.{key.sort.name}[{self.text(key)}]"

    def _select(self, table: Term, key: Term) -> str:
        if table.op == "state":
            return f"{self.record(key)}.{table.args[0]}"
        return f"{self.text(table)}[{self.text(key)}]"

    def _extreme(self, op: str, values: Term, among: Term, otherwise: Term) -> str:
        call = "min" if op == "least" else "max"
        record = f"W.{values.sort.args[0].name}[k].{values.args[0]}"
        return f"{call}(({record} for k in {self.text(among)}), default={self.text(otherwise)})"


class EventFunction:
    """Source of one event's function, row by row or over columns; `given` are names of what comes before the fields."""

    given = "W"

    def __init__(
        self,
        registry: Registry,
        event: str,
        guards: Sequence[Conjunct],
        effects: Sequence[Conjunct],
        *,
        columns: bool,
    ) -> None:
        numbers = registry.numbers
        self.event = event
        self.fields = registry.events[event].sorts
        self.guards = [(numbers[c.name], settled_after(c.term, effects)) for c in guards]
        self.conditional = {numbers[c.name] for c in guards if c.term.op == "implies"}  # as it was written
        self.effects = [rebuild(c.term, (c.term.args[0], _ready(c.term.args[1]))) for c in effects]
        self.terms = [term for _, term in self.guards] + [effect.args[1] for effect in self.effects]
        self.columns = columns
        self.scalars = self._written_scalars() if columns else []
        self.names: dict[tuple[Any, ...], str] = {}
        self.expressions = Expressions(self.names)

    def source(self) -> str:
        head, body, tail = self._head(), self._body(), self._tail()
        kind = "many" if self.columns else "one"
        fields = list(self.fields)
        if not self.columns:
            names = ", ".join(f"e_{field}" for field in fields)
            lines = [f"def {kind}_{self.event}({self.given}, {names}):", *_indent(head + body + tail)]
        else:
            names = ", ".join(f"c_{field}" for field in fields)
            targets = ", ".join(f"e_{field}" for field in fields)
            loop = f"for row, {targets} in zip(range(len(c_{fields[0]})), {names}, strict=True):"
            lines = [f"def {kind}_{self.event}({self.given}, {names}):", *_indent(head), "    " + loop]
            lines += _indent(body, 2)
            lines += _indent(tail)
        return "\n".join(lines) + "\n"

    def _written_scalars(self) -> list[tuple[str, Sort]]:
        names = {}
        for effect in self.effects:
            variable = effect.args[0]
            if variable.sort.name not in ("Set", "Map"):
                names[variable.args[0]] = variable.sort
        return sorted(names.items())

    def _parts(self) -> Iterator[Term]:
        """All that is asked, of guards first."""
        return (part for term in self.terms for part in walk(term))

    def _head(self) -> list[str]:
        """Locals for what the whole column shares: records, sets, scalars that are carried along."""
        lines = ["failed = W.failed", "row = 0"]
        if not self.columns:
            lines.append(f"W.events[{self.event!r}] += 1")
        if not self.columns:
            return lines
        for name, sort in self.scalars:
            lines.append(f"v_{name} = W.{name}")
            self.names[Term("state", (name,), sort).key()] = f"v_{name}"
        for part in _unique(part for part in self._parts() if part.op == "state"):
            if part.sort.name != "Map" and part.key() not in self.names:
                lines.append(f"v_{part.args[0]} = W.{part.args[0]}")
                self.names[part.key()] = f"v_{part.args[0]}"
        lines += [f"R_{sort} = W.{sort}" for sort in self._record_sorts()]
        lines += [f"n_{number} = 0" for number in sorted(self.conditional)]
        return lines

    def _record_sorts(self) -> list[str]:
        return sorted({key.sort.name for key in self._record_keys()})

    def _record_keys(self) -> list[Term]:
        keys = [
            part.args[1]
            for part in self._parts()
            if part.op in ("select", "store") and part.args[1].op == "field" and part.args[0].op != "select"
        ]
        return list(_unique(key for key in keys if key.sort.name not in ("Int", "Bool")))

    def _body(self) -> list[str]:
        lines = []
        for key in self._record_keys():
            lines += self._record(key)
        lines += self._shared()
        for number, term in self.guards:
            lines += self._guard(number, term)
        writes: list[str] = []
        for effect in self.effects:
            writes += self._effect(effect.args[0].args[0], effect.args[1], lines)
        return lines + writes or ["pass"]

    def _record(self, key: Term) -> list[str]:
        source = f"R_{key.sort.name}" if self.columns else f"W.{key.sort.name}"
        local = f"q_{key.args[0]}"
        self.names[("record", *key.key())] = local
        return [f"{local} = {source}[{self.expressions.text(key)}]"]

    def _shared(self) -> list[str]:
        """Common parts are computed once."""
        counts: Counter[tuple[Any, ...]] = Counter()
        first: dict[tuple[Any, ...], Term] = {}
        for part in self._parts():
            if part.sort.name in ("Int", "Bool") and part.op in _SHARED and part.key() not in self.names:
                counts[part.key()] += 1
                first.setdefault(part.key(), part)
        shared = [first[key] for key, count in counts.items() if count > 1]
        shared.sort(key=lambda part: sum(1 for _ in walk(part)))
        lines = []
        for number, part in enumerate(shared):
            lines.append(f"s_{number} = {self.expressions.text(part)}")
            self.names[part.key()] = f"s_{number}"
        return lines

    def _guard(self, number: int, term: Term) -> list[str]:
        fail = f"failed.append(({number}, row))"
        if number not in self.conditional:
            count = [] if self.columns else [f"W.exercised[{number}] += 1"]
            return [*count, f"if not {self.expressions.text(term)}:", f"    {fail}"]
        condition, then = (self.expressions.text(part) for part in term.args)
        count_line = f"n_{number} += 1" if self.columns else f"W.exercised[{number}] += 1"
        return [f"if {condition}:", f"    {count_line}", f"    if not {then}:", f"        {fail}"]

    def _effect(self, variable: str, value: Term, lines: list[str]) -> list[str]:
        """Reads go to `lines`, before any write; the writes are returned."""
        if value.sort.name not in ("Set", "Map"):
            target = f"v_{variable}" if self.columns else f"W.{variable}"
            return [f"{target} = {self._read(value, lines)}"]
        return self._update(variable, value, lines)

    def _read(self, term: Term, lines: list[str]) -> str:
        text = self.expressions.text(term)
        if term.op in ("const", "field") or (text.startswith(("s_", "t_")) and text.isidentifier()):
            return text
        local = f"t_{len(lines)}"
        lines.append(f"{local} = {text}")
        return local

    def _update(self, variable: str, value: Term, lines: list[str]) -> list[str]:
        op, args = value.op, value.args
        if op == "state":
            return []
        if op == "empty":
            return [f"{self._set(variable, value.sort)}.clear()"]
        if op == "ite":
            condition = self._read(args[0], lines)
            then, otherwise = (self._update(variable, part, lines) for part in args[1:])
            return _choice(condition, then, otherwise)
        below = self._update(variable, args[0], lines)
        if op in ("with", "without"):
            method = "add" if op == "with" else "discard"
            return [*below, f"{self._set(variable, value.sort)}.{method}({self._read(args[1], lines)})"]
        _, key, cell = args
        if key.op == "field":
            place = f"{self.expressions.record(key)}.{variable}"
        else:
            place = f"W.{key.sort.name}[{self._read(key, lines)}].{variable}"
        if cell.sort.name != "Set":
            return [*below, *self._put(variable, key, place, self._read(cell, lines))]
        return [*below, *self._cell(place, cell, lines)]

    def _set(self, variable: str, sort: Sort) -> str:
        """A set is updated in place, whatever it is called."""
        return self.expressions.text(Term("state", (variable,), sort))

    def _put(self, variable: str, key: Term, place: str, value: str) -> list[str]:
        """A cell of a map over `key` gets a value."""
        return [f"{place} = {value}"]

    def _cell(self, place: str, cell: Term, lines: list[str]) -> list[str]:
        if cell.op == "select":
            return []
        if cell.op == "empty":
            return [f"{place}.clear()"]
        method = "add" if cell.op == "with" else "discard"
        return [*self._cell(place, cell.args[0], lines), f"{place}.{method}({self._read(cell.args[1], lines)})"]

    def _tail(self) -> list[str]:
        if not self.columns:
            return []
        lines = [f"W.{name} = v_{name}" for name, _ in self.scalars]
        first = next(iter(self.fields))
        lines.append(f"W.events[{self.event!r}] += len(c_{first})")
        for number, _ in self.guards:
            amount = f"n_{number}" if number in self.conditional else f"len(c_{first})"
            lines.append(f"W.exercised[{number}] += {amount}")
        return lines


def text_of(term: Term) -> str:
    """A term as Python source, of a world `W` and fields `e_…`."""
    return Expressions({}).text(term)


def _ready(value: Term) -> Term:
    """What an effect assigns, with the reads in it pushed down; a chain of updates stays, and is made in place."""
    op, args = value.op, value.args
    if value.sort.name not in ("Set", "Map"):
        return settled(value, {})
    if op == "ite":
        return rebuild(value, (settled(args[0], {}), _ready(args[1]), _ready(args[2])))
    if op in ("with", "without"):
        return rebuild(value, (_ready(args[0]), settled(args[1], {})))
    if op == "store":
        return rebuild(value, (_ready(args[0]), settled(args[1], {}), _ready(args[2])))
    return value


_SHARED = ("add", "sub", "mul", "ite", "select", "eq", "le", "lt", "has", "and", "or", "not")


def _unique(terms: Iterator[Term]) -> Iterator[Term]:
    seen = set()
    for term in terms:
        if term.key() not in seen:
            seen.add(term.key())
            yield term


def _choice(condition: str, then: list[str], otherwise: list[str]) -> list[str]:
    if not then and not otherwise:
        return []
    if not then:
        return [f"if not {condition}:", *_indent(otherwise)]
    tail = ["else:", *_indent(otherwise)] if otherwise else []
    return [f"if {condition}:", *_indent(then), *tail]


def _indent(lines: list[str], levels: int = 1) -> list[str]:
    return ["    " * levels + line for line in lines]


def state_reads(registry: Registry, conjunct: Conjunct) -> dict[str, Callable[..., Any]]:
    """Printed text -> function(world, *fields), for every part of a guard that the state decides."""
    assert conjunct.event is not None
    fields = ", ".join(f"e_{field}" for field in registry.events[conjunct.event].sorts)
    reads = {}
    for part in walk(registry.settled(conjunct)):
        scalar = part.op == "state" and part.sort.name != "Map"
        cell = part.op == "select" and part.args[0].op == "state"
        if scalar or cell or part.op in ("card", "least", "most"):
            text = Expressions({}).text(part)
            reads[printed(part)] = eval(f"lambda W, {fields}: {text}")
    return reads
