"""Rules and their cards, and what the relation is made of.

A rule is written once, as a function whose docstring is its card: the first paragraph is the statement, a
paragraph that starts with `Why:` gives the public bug or theorem behind it.  `@rule` registers a card together with
a first body, `@also` further bodies of the same rule on other events, `@invariant` and `@transition` what the
bodies together keep true, `@monitor` a rule that is a plain class with a small explicit state.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeVar

from attrs import Factory, define, evolve, frozen

from .terms import Bool, Event, State, Term, TermError, settled, walk
from .vocabulary import CLAIMS, LEVELS, Capabilities
from .vocabulary import Level as Observed

Body = Callable[..., Any]
Kind = Literal["guard", "effect", "invariant", "transition"]
Form = Literal["term", "monitor", "shadow", "snapshot", "run", "fleet"]


@frozen(kw_only=True)
class Binding:
    """When a conjunct binds a subject: what it must show, what it must have claimed, and (`unless`) what not."""

    needs: Observed = "decisions"
    claims: tuple[str, ...] = ()
    ordered: bool = False
    unless: tuple[str, ...] = ()

    def missing(self, capabilities: Capabilities) -> Literal["not observable", "not claimed"] | None:
        """Why a subject is not judged by it; None if it is."""
        if not set(self.claims) <= capabilities.claims or not capabilities.claims.isdisjoint(self.unless):
            return "not claimed"
        if LEVELS.index(self.needs) > LEVELS.index(capabilities.observes):
            return "not observable"
        if self.ordered and not capabilities.ordered:
            return "not observable"
        return None


@frozen(kw_only=True, eq=False)
class Conjunct:
    """One term of a rule, named by the rule and its place: `STEP-4.2`."""

    rule: str
    place: int
    kind: Kind
    term: Term
    event: str | None
    binding: Binding
    variable: str | None = None

    @property
    def name(self) -> str:
        return f"{self.rule}.{self.place}"


@define(kw_only=True)
class Rule:
    """A card.  `form`: term (inside the relation), monitor (a plain class), shadow (content of blocks), snapshot
    (what `observe` shows), run (compares whole runs) or fleet (compares engines).  `counts`: the events that exercise
    it; if empty, its guards do (an implication only when its condition holds)."""

    id: str
    statement: str
    why: str
    level: Literal["MUST", "SHOULD"]
    since: str
    binding: Binding
    form: Form
    bugs: tuple[str, ...]
    counts: tuple[str, ...]
    checked_by: list[str] = Factory(list)

    @property
    def family(self) -> str:
        return self.id.split("-")[0]

    @property
    def order(self) -> tuple[int, int]:
        return FAMILIES.index(self.family), int(self.id.split("-")[1])


@frozen
class Edge:
    """Where `rule` breaks, `also` breaks with it, or may; one reason each."""

    rule: str
    also: str
    why: str


FAMILIES = ("KV", "STEP", "LIFE", "PRE", "FAIR", "LIVE", "ADMIT", "LANE", "XFER", "OUT", "OBS", "DET", "FLEET")

C = TypeVar("C", bound=type)


@define
class Registry:
    """All rules, the conjuncts of those that are terms, and the graph of implications."""

    state: type[State]
    names: dict[int, str]
    rules: dict[str, Rule] = Factory(dict)
    events: dict[str, type[Event]] = Factory(dict)
    conjuncts: list[Conjunct] = Factory(list)
    monitors: dict[str, type] = Factory(dict)
    edges: list[Edge] = Factory(list)

    # --- writing rules ---------------------------------------------------------------------------------

    def rule(
        self,
        rule_id: str,
        *,
        on: type[Event],
        needs: Observed = "decisions",
        claims: Sequence[str] = (),
        ordered: bool = False,
        level: Literal["MUST", "SHOULD"] = "MUST",
        bugs: Sequence[str] = (),
        counts: Sequence[type[Event]] = (),
        since: str = "0.1",
    ) -> Callable[[Body], Body]:
        """A card and its first body."""
        binding = Binding(needs=needs, claims=tuple(claims), ordered=ordered)

        def register(body: Body) -> Body:
            self._add_card(rule_id, body, binding, level, "term", bugs, since)
            self.rules[rule_id].counts = tuple(event.__name__ for event in counts)
            self._add_body(rule_id, on, body, binding)
            return body

        return register

    def also(
        self,
        rule_id: str,
        *,
        on: type[Event],
        needs: Observed | None = None,
        claims: Sequence[str] | None = None,
        ordered: bool | None = None,
    ) -> Callable[[Body], Body]:
        """A further body of a rule, on another event; it binds as the card says unless it says otherwise."""

        def register(body: Body) -> Body:
            binding = self.rules[rule_id].binding
            if needs is not None:
                binding = evolve(binding, needs=needs)
            if claims is not None:
                binding = evolve(binding, claims=tuple(claims))
            if ordered is not None:
                binding = evolve(binding, ordered=ordered)
            self._add_body(rule_id, on, body, binding)
            return body

        return register

    def invariant(self, rule_id: str) -> Callable[[Body], Body]:
        """What every event keeps true: a property of one state."""

        def register(body: Body) -> Body:
            for term in conjunction(body(self.state("state"))):
                self._append(rule_id, "invariant", term, None, self.rules[rule_id].binding)
            return body

        return register

    def transition(self, rule_id: str) -> Callable[[Body], Body]:
        """What every event keeps true: a property of a state and the one after it."""

        def register(body: Body) -> Body:
            for term in conjunction(body(self.state("state"), self.state("after"))):
                self._append(rule_id, "transition", term, None, self.rules[rule_id].binding)
            return body

        return register

    def monitor(
        self,
        rule_id: str,
        *,
        needs: Observed = "decisions",
        claims: Sequence[str] = (),
        ordered: bool = False,
        level: Literal["MUST", "SHOULD"] = "MUST",
        form: Form = "monitor",
        bugs: Sequence[str] = (),
        since: str = "0.1",
        unless: Sequence[str] = (),
    ) -> Callable[[C], C]:
        """A rule that is a plain class with a small explicit state (`trace_rules.py`)."""
        binding = Binding(needs=needs, claims=tuple(claims), ordered=ordered, unless=tuple(unless))

        def register(cls: C) -> C:
            self._add_card(rule_id, cls, binding, level, form, bugs, since)
            self.rules[rule_id].checked_by.append(place_of(cls))
            self.monitors[rule_id] = cls
            return cls

        return register

    def adopt(self, rule: Rule) -> None:
        """The card of a rule whose terms are of another relation."""
        if rule.id in self.rules:
            raise TermError(f"{rule.id} has a card already")
        self.rules[rule.id] = rule

    def edge(self, rule_id: str, also: str, why: str) -> None:
        """Declare that a break of one rule may bring a break of another."""
        for name in (rule_id, also):
            if name not in self.rules:
                raise TermError(f"edge {rule_id} -> {also}: there is no rule {name}")
        self.edges.append(Edge(rule_id, also, why))

    # --- reading them ----------------------------------------------------------------------------------

    def effects(self, event: str) -> dict[str, Conjunct]:
        """Variable -> the one conjunct that defines it after the event."""
        return {c.variable: c for c in self.conjuncts if c.event == event and c.kind == "effect" and c.variable}

    def guards(self, event: str) -> list[Conjunct]:
        return [c for c in self.conjuncts if c.event == event and c.kind == "guard"]

    def parts_of(
        self, event: str, is_active: Callable[[Conjunct], bool], dropped: str | None = None
    ) -> tuple[tuple[Conjunct, ...], tuple[Conjunct, ...]]:
        """Its guards that are active, and all its effects; without the dropped one."""
        guards = tuple(c for c in self.guards(event) if is_active(c) and c.name != dropped)
        effects = tuple(c for c in self.effects(event).values() if c.name != dropped)
        return guards, effects

    @property
    def numbers(self) -> dict[str, int]:
        """Name of a conjunct -> its place among all."""
        return {c.name: n for n, c in enumerate(self.conjuncts)}

    def of_kind(self, kind: Kind) -> list[Conjunct]:
        return [c for c in self.conjuncts if c.kind == kind]

    def missing(self, rule_id: str, capabilities: Capabilities) -> Literal["not observable", "not claimed"] | None:
        """Why a subject is not judged by a rule; None if the card or one of the guards binds it."""
        return self.all_missing(capabilities).get(rule_id)

    def all_missing(self, capabilities: Capabilities) -> dict[str, Literal["not observable", "not claimed"]]:
        """The rules that a subject is not judged by, and why."""
        bound = {c.rule for c in self.conjuncts if c.kind == "guard" and c.binding.missing(capabilities) is None}
        reasons = ((rule.id, rule.binding.missing(capabilities)) for rule in self.rules.values())
        return {rule: why for rule, why in reasons if why is not None and rule not in bound}

    def settled(self, conjunct: Conjunct) -> Term:
        """A guard with its after-state replaced by the event's effects."""
        assert conjunct.event is not None
        return settled_after(conjunct.term, self.effects(conjunct.event).values())

    def with_(self, old: Conjunct, new: Conjunct) -> "Registry":
        """The same with one conjunct instead of another."""
        return evolve(self, conjuncts=[new if c is old else c for c in self.conjuncts])

    def closure(self, rule_id: str) -> set[str]:
        """The rules that may break where this one does, itself included."""
        seen = {rule_id}
        todo = [rule_id]
        while todo:
            for edge in self.edges:
                if edge.rule == todo[-1] and edge.also not in seen:
                    seen.add(edge.also)
                    todo.insert(0, edge.also)
            todo.pop()
        return seen

    def weakest(self, broken: set[str]) -> list[str]:
        """The broken rules that no other broken rule explains, in catalogue order."""
        explained = {also for rule in broken for also in self.closure(rule) - {rule} if rule not in self.closure(also)}
        return sorted(broken - explained, key=lambda r: self.rules[r].order)

    def sorted_rules(self) -> list[Rule]:
        return sorted(self.rules.values(), key=lambda r: r.order)

    # --- checks at registration ------------------------------------------------------------------------

    def _add_card(
        self,
        rule_id: str,
        source: Any,
        binding: Binding,
        level: Literal["MUST", "SHOULD"],
        form: Form,
        bugs: Sequence[str],
        since: str,
    ) -> None:
        family, _, number = rule_id.partition("-")
        if family not in FAMILIES or not number.isdigit():
            raise TermError(f"{rule_id}: a rule's id is FAMILY-number, with a family of {', '.join(FAMILIES)}")
        if rule_id in self.rules:
            raise TermError(f"{rule_id} has a card already: further bodies use @also")
        if unknown := [claim for claim in (*binding.claims, *binding.unless) if claim not in CLAIMS]:
            raise TermError(f"{rule_id}: {unknown[0]!r} is no claim: add it to CLAIMS with its meaning")
        statement, why = card_of(rule_id, source)
        self.rules[rule_id] = Rule(
            id=rule_id,
            statement=statement,
            why=why,
            level=level,
            since=since,
            binding=binding,
            form=form,
            bugs=tuple(bugs),
            counts=(),
        )

    def _add_body(self, rule_id: str, on: type[Event], body: Body, binding: Binding) -> None:
        self.events.setdefault(on.__name__, on)
        self.rules[rule_id].checked_by.append(place_of(body))
        terms = conjunction(body(self.state("state"), on("field"), self.state("after")))
        for term in terms:
            if any(part.op == "forall" for part in walk(term)):
                raise TermError(f"{rule_id} on {on.__name__}: a guard has no quantifier: use least, most or card")
            effect = term.op == "eq" and term.args[0].op == "after"
            kind: Kind = "effect" if effect else "guard"
            variable = term.args[0].args[0] if effect else None
            _check_reads(f"{rule_id} on {on.__name__}", term if variable is None else term.args[1])
            if variable is not None:
                self._check_effect(rule_id, on.__name__, variable, term.args[1])
            self._append(rule_id, kind, term, on.__name__, binding, variable)

    def _check_effect(self, rule_id: str, event: str, variable: str, value: Term) -> None:
        other = self.effects(event).get(variable)
        if other is not None:
            raise TermError(f"{rule_id} on {event}: {variable} is defined by {other.name} already")
        if any(part.op == "after" for part in walk(value)):
            raise TermError(f"{rule_id} on {event}: {variable}′ is defined by the state before, not by an after-state")
        if value.sort.name in ("Set", "Map") and not is_update(variable, value):
            raise TermError(f"{rule_id} on {event}: {variable}′ must be an update of {variable} itself")

    def _append(
        self, rule_id: str, kind: Kind, term: Term, event: str | None, binding: Binding, variable: str | None = None
    ) -> None:
        place = 1 + sum(c.rule == rule_id for c in self.conjuncts)
        self.conjuncts.append(
            Conjunct(rule=rule_id, place=place, kind=kind, term=term, event=event, binding=binding, variable=variable)
        )


def settled_after(guard: Term, effects: Iterable[Conjunct]) -> Term:
    """A guard with its after-state replaced by what these effects make of it."""
    return settled(guard, {c.variable: settled(c.term.args[1], {}) for c in effects if c.variable is not None})


def _check_reads(where: str, term: Term) -> None:
    """Neither a whole map nor an updated copy of one is ever made."""
    for part in walk(term):
        if part.op == "eq" and part.args[0].sort.name == "Map":
            raise TermError(f"{where}: a map is compared cell by cell")
        if part.op in ("least", "most") and part.args[0].op != "state":
            raise TermError(f"{where}: {part.op} ranges over a variable of the state before")


def is_update(variable: str, value: Term) -> bool:
    """The value is the variable, or a chain of point updates (or a choice between such) on it."""
    if value.op == "state":
        return bool(value.args[0] == variable)
    if value.op == "ite":
        return is_update(variable, value.args[1]) and is_update(variable, value.args[2])
    if value.op in ("with", "without"):
        return is_update(variable, value.args[0])
    if value.op == "store":
        return is_update(variable, value.args[0]) and _is_cell_update(value)
    return value.op == "empty"


def _is_cell_update(value: Term) -> bool:
    """What a store puts into a set-valued cell is an update of that cell."""
    below, key, cell = value.args
    if cell.sort.name not in ("Set", "Map"):
        return True
    while cell.op in ("with", "without"):
        cell = cell.args[0]
    return bool(
        cell.op == "empty"
        or (cell.op == "select" and cell.args[0].key() == below.key() and cell.args[1].key() == key.key())
    )


def conjunction(result: Bool | tuple[Bool, ...]) -> Iterator[Term]:
    for term in result if isinstance(result, tuple) else (result,):
        if not isinstance(term, Bool):
            raise TermError(f"a rule's body returns terms, but one of its conjuncts is {term!r}")
        yield term


def card_of(rule_id: str, source: Any) -> tuple[str, str]:
    text = inspect.getdoc(source)
    if not text:
        raise TermError(f"{rule_id} has no docstring: its first paragraph is the statement")
    paragraphs = [" ".join(p.split()) for p in text.split("\n\n")]
    why = " ".join(p.removeprefix("Why:").strip() for p in paragraphs[1:])
    return paragraphs[0], why


def place_of(source: Any) -> str:
    return f"{source.__module__.removeprefix('schedspec.')}:{source.__name__}"
