"""Every conjunct with one token changed: what somebody might have written instead.

A comparison the other way round, or strict; + for -; a constant one larger or smaller; ∧ for ∨; ⇔ for ⇒; a set or a
truth negated; the least for the greatest; in for out of a set; the branches of a choice; the state before for the one
after; a variable, a field or a bound name for the next of its sort, and the next but one, among those that the same
event speaks of, or the same rule where no event is named.
"""

from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen

from schedspec.spec.registry import Conjunct, Registry, is_update
from schedspec.spec.terms import BOOL, INT, Sort, Term, make, rebuild, walk

_OTHER = {"add": "sub", "sub": "add", "and": "or", "or": "and", "with": "without", "without": "with"}
_OTHER |= {"least": "most", "most": "least", "le": "lt", "lt": "le", "mul": "add"}
_OTHER_NAMES = 2
_NAMES = ("state", "after", "field", "bound")
Leaves = Mapping[Sort, list[Term]]


@frozen(eq=False)
class Variant:
    """`term` stands where that of the conjunct stood; `kind` says what sort of token is another; `place` counts the
    variants of a conjunct."""

    conjunct: Conjunct
    kind: str
    term: Term
    place: int

    @property
    def name(self) -> str:
        return f"{self.conjunct.name}~{self.place}"


def variants(registry: Registry, conjunct: Conjunct) -> Iterator[Variant]:
    """No two mean the same by their structure alone, and none is what the registry would refuse."""
    seen, place = {conjunct.term.key()}, 0
    for kind, term in _changed(conjunct, _leaves(registry, conjunct)):
        if term.key() not in seen and _is_writable(conjunct, term):
            seen.add(term.key())
            place += 1
            yield Variant(conjunct, kind, term, place)


def _changed(conjunct: Conjunct, leaves: Leaves) -> Iterator[tuple[str, Term]]:
    if conjunct.kind != "effect":
        yield from _anywhere(conjunct.term, leaves)
        return
    defined, value = conjunct.term.args
    for kind, other in _anywhere(value, leaves):
        yield kind, make(BOOL, "eq", defined, other)


def _is_writable(conjunct: Conjunct, term: Term) -> bool:
    if conjunct.kind != "effect":
        return True
    value = term.args[1]
    return value.sort.name not in ("Set", "Map") or is_update(str(conjunct.variable), value)


# --- one token of a term -----------------------------------------------------------------------------------------


def _anywhere(term: Term, leaves: Leaves) -> Iterator[tuple[str, Term]]:
    """The term with one token of it changed; of a quantifier, in its body."""
    yield from _here(term, leaves)
    for number, part in enumerate(term.args):
        if isinstance(part, Term) and not (term.op == "forall" and number == 0):
            for kind, other in _anywhere(part, _with_bound(term, leaves)):
                yield kind, rebuild(term, (*term.args[:number], other, *term.args[number + 1 :]))


def _with_bound(term: Term, leaves: Leaves) -> Leaves:
    if term.op != "forall":
        return leaves
    bound = term.args[0]
    return {**leaves, bound.sort: [*leaves.get(bound.sort, ()), bound]}


def _here(term: Term, leaves: Leaves) -> Iterator[tuple[str, Term]]:
    op, args = term.op, term.args
    if op in _OTHER:
        yield _KINDS[op], make(term.sort, _OTHER[op], *args)
    if op in ("le", "lt"):
        yield "comparison", make(BOOL, op, args[1], args[0])
    if op == "eq" and args[0].sort == INT:
        yield "comparison", make(BOOL, "le", *args)
        yield "comparison", make(BOOL, "le", args[1], args[0])
    if op == "implies":
        yield "connective", make(BOOL, "eq", *args)
    if op == "not":
        yield "negation", args[0]
    elif op in ("eq", "has", "forall") or (term.sort == BOOL and op in (*_NAMES, "select")):
        yield "negation", _negated(term)
    if op == "ite":
        yield "branches", make(term.sort, "ite", args[0], args[2], args[1])
    if op == "const":
        values = [not args[0]] if isinstance(args[0], bool) else [args[0] + 1, args[0] - 1]
        yield from (("constant", make(term.sort, "const", value)) for value in values)
    if op in _NAMES:
        yield from (("name", leaf) for leaf in _next(term, leaves.get(term.sort, ())))


def _next(name: Term, leaves: Sequence[Term]) -> Iterator[Term]:
    """Those that come after it, round and round."""
    keys = [leaf.key() for leaf in leaves]
    place = keys.index(name.key())
    others = [*leaves[place + 1 :], *leaves[:place]]
    return iter(others[:_OTHER_NAMES])


def _negated(term: Term) -> Term:
    if term.op == "forall":
        return make(BOOL, "forall", term.args[0], make(BOOL, "not", term.args[1]))
    return make(BOOL, "not", term)


_KINDS = {"add": "arithmetic", "sub": "arithmetic", "mul": "arithmetic", "and": "connective", "or": "connective"}
_KINDS |= {"with": "set", "without": "set", "least": "extreme", "most": "extreme"}
_KINDS |= {"le": "comparison", "lt": "comparison"}


# --- what may stand for a name -----------------------------------------------------------------------------------


def _leaves(registry: Registry, conjunct: Conjunct) -> Leaves:
    """Names that are near: those of the same event, or of the same rule where no event is named.  Where there is an
    after-state, each of its variables may stand for the one before, and the other way round."""
    found: dict[tuple[object, ...], Term] = {}
    for other in registry.conjuncts:
        if _is_near(registry, conjunct, other):
            for part in walk(other.term):
                if part.op in ("state", "after", "field"):
                    found.setdefault(part.key(), part)
    if conjunct.event is not None:
        fields = registry.events[conjunct.event].sorts
        found |= {leaf.key(): leaf for leaf in (make(sort, "field", name) for name, sort in fields.items())}
    if conjunct.kind == "transition":
        states = [part for part in found.values() if part.op == "state"]
        found |= {leaf.key(): leaf for leaf in (make(part.sort, "after", part.args[0]) for part in states)}
    sorted_leaves: dict[Sort, list[Term]] = {}
    for leaf in found.values():
        if _may_read(conjunct, leaf):
            sorted_leaves.setdefault(leaf.sort, []).append(leaf)
    return sorted_leaves


def _is_near(registry: Registry, conjunct: Conjunct, other: Conjunct) -> bool:
    if type(other) is not type(conjunct) and type(conjunct) is Conjunct:
        return False  # no rule reads history
    return other.event == conjunct.event if conjunct.event is not None else other.rule == conjunct.rule


def _may_read(conjunct: Conjunct, leaf: Term) -> bool:
    if leaf.op == "after":
        return conjunct.kind in ("guard", "transition")
    return leaf.op != "field" or conjunct.event is not None
