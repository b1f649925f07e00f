"""What the term language refuses: a rule that is wrongly written never runs, and the error says what to write."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from schedspec.spec.printed import printed
from schedspec.spec.registry import Registry
from schedspec.spec.terms import (
    Bool,
    Event,
    Int,
    Key,
    Map,
    Set,
    State,
    Term,
    TermError,
    card,
    forall,
    implies,
    is_closed,
    ite,
    least,
    lift,
    most,
    rebuild,
    settled,
    sort_of,
    walk,
)


class Client(Key):
    __slots__ = ()


class Block(Key):
    __slots__ = ()


class Shop(State):
    count: Int
    limit: Int
    open: Bool
    queued: Set[Client]
    used: Set[Block]
    paid: Map[Client, Int]
    owed: Map[Client, Int]
    owns: Map[Client, Set[Block]]
    prices: Map[Client, Map[Int, Block]]


class Buy(Event):
    client: Client
    block: Block
    amount: Int


S, E, T = Shop("state"), Buy("field"), Shop("after")

Body = Callable[[Any, Any, Any], Any]


def registered(body: Body, rule: str = "KV-1", registry: Registry | None = None, **options: Any) -> Registry:
    """A registry with this one rule."""

    def documented(s: Shop, e: Buy, t: Shop) -> Any:
        """A statement."""
        return body(s, e, t)

    registry = registry or Registry(Shop, {})
    registry.rule(rule, on=Buy, **options)(documented)
    return registry


MISTAKES: dict[str, tuple[Body, str]] = {
    "and": (lambda s, e, t: s.open and s.count == 0, "use &, |, ~"),
    "or": (lambda s, e, t: s.open or s.count == 0, "use &, |, ~"),
    "not": (lambda s, e, t: not s.open, "use &, |, ~"),
    "a chained comparison": (lambda s, e, t: 0 <= s.count <= s.limit, "two comparisons"),
    "if": (lambda s, e, t: s.count == 0 if s.open else s.open, "has no truth value"),
    "in": (lambda s, e, t: e.client in s.queued, "use .has()"),
    "a loop": (lambda s, e, t: tuple(s.paid[c] == 0 for c in s.queued), "has no elements at hand"),
    "a truth value of Python": (lambda s, e, t: True, "returns terms"),
    "a set for a number": (lambda s, e, t: s.count == s.queued, "Int expected here, but this is Set[Client]"),
    "a key of another sort": (lambda s, e, t: s.queued.has(e.block), "Client expected here, but this is Block"),
    "a number for a truth value": (lambda s, e, t: s.open & s.count, "Bool expected here, but this is Int"),
    "True for a number": (lambda s, e, t: s.count == True, "Int expected here, but True is Bool"),  # noqa: E712
    "a string": (lambda s, e, t: e.client == "me", "is not a term, an int or a bool"),
    "a wrong cell": (lambda s, e, t: t.paid == s.paid.set(e.client, s.queued), "Int expected here"),
    "a sum of sets": (lambda s, e, t: s.queued + s.used == 1, "unsupported operand"),
    "a least value of no numbers": (lambda s, e, t: least(s.owns, s.queued, 0) == 0, "least takes"),
    "the size of a map": (lambda s, e, t: card(s.paid) == 0, "card takes"),
    "a quantifier in a guard": (
        lambda s, e, t: forall(Client, lambda c: s.paid[c] == 0),
        "a guard has no quantifier",
    ),
    "two definitions": (lambda s, e, t: (t.count == 1, t.count == 2), "count is defined by KV-1.1 already"),
    "a definition by the state after": (
        lambda s, e, t: t.count == t.limit + 1,
        "defined by the state before, not by an after-state",
    ),
    "another variable's map": (lambda s, e, t: t.paid == s.owed.set(e.client, 1), "must be an update of paid itself"),
    "another variable's set": (
        lambda s, e, t: t.paid == ite(s.open, s.paid, s.owed),
        "must be an update of paid itself",
    ),
    "another cell's set": (
        lambda s, e, t: t.owns == s.owns.set(e.client, s.used),
        "must be an update of owns itself",
    ),
    "a map of maps that changes": (
        lambda s, e, t: t.prices == s.prices.set(e.client, s.prices[e.client].set(e.amount, e.block)),
        "must be an update of prices itself",
    ),
    "equal maps": (lambda s, e, t: s.paid == s.owed, "a map is compared cell by cell"),
    "a least value of the state after": (
        lambda s, e, t: least(t.paid, s.queued, 0) == 0,
        "least ranges over a variable of the state before",
    ),
    "a greatest value of an update": (
        lambda s, e, t: most(s.paid.set(e.client, 1), s.queued, 0) == 0,
        "most ranges over a variable of the state before",
    ),
    "a name that is bound already": (
        lambda s, e, t: forall(Client, lambda c: forall(Client, lambda c: s.paid[c] == 0)),
        "c is bound already",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_refused(name: str) -> None:
    body, says = MISTAKES[name]
    with pytest.raises(TypeError, match=re.escape(says)):
        registered(body)


def test_a_rule_has_a_docstring() -> None:
    with pytest.raises(TermError, match="KV-1 has no docstring"):
        Registry(Shop, {}).rule("KV-1", on=Buy)(lambda s, e, t: s.open)


@pytest.mark.parametrize("rule", ["KV", "KV-x", "SHOP-1", "1"])
def test_ids_are_family_and_number(rule: str) -> None:
    with pytest.raises(TermError, match="FAMILY-number"):
        registered(lambda s, e, t: s.open, rule)


def test_a_rule_has_one_card() -> None:
    registry = registered(lambda s, e, t: s.open)
    with pytest.raises(TermError, match="further bodies use @also"):
        registered(lambda s, e, t: s.open, registry=registry)


def test_claims_are_known() -> None:
    with pytest.raises(TermError, match="'speed' is no claim"):
        registered(lambda s, e, t: s.open, claims=("speed",))


def test_edges_join_rules_that_exist() -> None:
    with pytest.raises(TermError, match="there is no rule KV-2"):
        registered(lambda s, e, t: s.open).edge("KV-1", "KV-2", "it is known")


@pytest.mark.parametrize("annotation", [int, list[Client], "Set[Client]"])
def test_annotations_are_sorts(annotation: Any) -> None:
    with pytest.raises(TermError, match="is not a sort"):
        sort_of(annotation)


def test_a_term_is_immutable() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        S.count.op = "field"


def test_conjuncts_are_named_by_rule_and_place() -> None:
    registry = registered(lambda s, e, t: (s.open, t.count == s.count + 1, implies(s.open, e.amount >= 1)))
    registry.invariant("KV-1")(lambda s: s.count >= 0)
    assert [(c.name, c.kind, c.variable) for c in registry.conjuncts] == [
        ("KV-1.1", "guard", None),
        ("KV-1.2", "effect", "count"),
        ("KV-1.3", "guard", None),
        ("KV-1.4", "invariant", None),
    ]


# --- rewriting -----------------------------------------------------------------------------------------------


def test_reads_of_updates_are_pushed_down() -> None:
    effects: dict[str, Term] = {"paid": S.paid.set(E.client, 7), "queued": S.queued.add(E.client)}
    other = S.prices.sort.args[0]
    assert printed(settled(T.paid[E.client], effects)) == "if client = client then 7 else paid[client]"
    assert printed(settled(T.owed[E.client], effects)) == "owed[client]"
    assert printed(settled(card(T.queued), effects)) == "|queued| + (if client ∈ queued then 0 else 1)"
    assert printed(settled(~T.queued.has(E.client), effects)) == "¬(client = client ∨ client ∈ queued)"
    assert other.name == "Client"


def test_an_updated_copy_is_never_read() -> None:
    """Not even where no state after is read."""
    term = settled(S.paid.set(E.client, 7)[E.client] == S.count, {})
    assert {part.op for part in walk(term)}.isdisjoint({"store", "with", "without", "after"})


def test_rebuilding_keeps_what_is_the_same() -> None:
    term = S.count + S.limit
    assert rebuild(term, term.args) is term
    assert printed(rebuild(term, (S.limit, S.limit))) == "limit + limit"


def test_closed_terms() -> None:
    whole = forall(Client, lambda c: S.paid[c] == 0)
    assert is_closed(whole)
    assert not is_closed(whole.args[1])


def test_a_quantifier_is_left_when_its_body_raises() -> None:
    def fails(c: Client) -> Bool:
        raise KeyError(c)

    with pytest.raises(KeyError):
        forall(Client, fails)
    assert printed(forall(Client, lambda c: S.open)) == "∀ c: open"


# --- the printed form -----------------------------------------------------------------------------------------

FORMULAS: dict[str, Term] = {
    "count′ = count + 1": T.count == S.count + 1,
    "queued′ = (queued ∪ {client}) ∖ {client}": T.queued == S.queued.add(E.client).remove(E.client),
    "count′ = if open then 1 else count": T.count == ite(S.open, 1, S.count),
    "(if open then 1 else count) = limit": ite(S.open, 1, S.count) == S.limit,
    "count - (limit - 1) < (count + 1) · 2": S.count - (S.limit - 1) < 2 * (S.count + 1),
    "amount ≥ 1": E.amount >= 1,
    "client ∉ queued ∧ count ≠ 1": ~S.queued.has(E.client) & ~(S.count == 1),
    "¬(open ∧ open)": ~(S.open & S.open),
    "(open ⇒ open) ⇒ open": implies(implies(S.open, S.open), S.open),
    "open ⇔ count = 1": S.open == (S.count == 1),
    "open ∧ (open ∨ open)": S.open & (S.open | S.open),
    "owns′ = owns[client ↦ owns[client] ∪ {block}]": T.owns == S.owns.set(E.client, S.owns[E.client].add(E.block)),
    "min(paid over queued ∖ {client}, else 0) = |used|": least(S.paid, S.queued.remove(E.client), 0) == card(S.used),
    "used = ∅": S.used.is_empty(),
    "∀ c, d: paid[c] = paid[d]": forall(Client, lambda c: forall(Client, lambda d: S.paid[c] == S.paid[d])),
}


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas(text: str) -> None:
    assert printed(FORMULAS[text]) == text


def test_phases_are_words_and_fields_stand_apart() -> None:
    class Life(State):
        phase: Map[Client, Int]
        step: Int

    class Move(Event):
        client: Client
        phase: Int
        step: Int

    s, e, t = Life("state"), Move("field"), Life("after")
    names = {0: "absent", 3: "running"}

    def shown(term: Term) -> str:
        return printed(term, names, Life.sorts)

    assert shown(t.phase == s.phase.set(e.client, e.phase)) == "phase′ = phase[client ↦ e.phase]"
    assert shown(t.phase == s.phase.set(e.client, 3)) == "phase′ = phase[client ↦ running]"
    assert shown(s.phase[e.client] >= 3) == "phase[client] ≥ running"
    assert shown(s.step < e.step) == "step < e.step"
    assert shown(e.step == 3) == "e.step = 3"
    assert lift(3, s.step.sort).args == (3,)
