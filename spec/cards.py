"""Cards as plain data: what `schedspec rules` and `schedspec explain` print."""

from collections.abc import Mapping
from typing import Any

from .catalogue import registry
from .fleets.rules import EDGES
from .fleets.rules import RULES as FLEET
from .printed import printed
from .registry import Rule
from .transfers import registry as transfers

NONE: Mapping[str, str] = {}


def cards(
    proved: Mapping[str, str],
    related: Mapping[str, str],
    exhausted: Mapping[str, str] = NONE,
) -> list[dict[str, Any]]:
    """All cards in catalogue order; `proved` says of a rule which proof there is (the proofs' manifest), `related`
    which theorems are about it, but no proof of it; `exhausted` in which bounds every run was looked at."""
    every = sorted((*registry.sorted_rules(), *FLEET.values()), key=lambda rule: rule.order)
    return [card(rule, proved, related, exhausted) for rule in every]


def card(
    rule: Rule,
    proved: Mapping[str, str],
    related: Mapping[str, str],
    exhausted: Mapping[str, str],
) -> dict[str, Any]:
    evidence = "proved" if rule.id in proved else "exhausted in a bound" if rule.id in exhausted else "tested"
    return {
        "id": rule.id,
        "level": rule.level,
        "since": rule.since,
        "statement": rule.statement,
        "why": rule.why,
        "form": rule.form,
        "needs": rule.binding.needs,
        "ordered": rule.binding.ordered,
        "claims": list(rule.binding.claims),
        "unless": list(rule.binding.unless),
        "evidence": evidence,
        "bugs": list(rule.bugs),
        "formal": [
            {
                "name": conjunct.name,
                "kind": conjunct.kind,
                "on": conjunct.event,
                "claims": list(conjunct.binding.claims),
                "formula": printed(conjunct.term, relation.names, relation.state.sorts),
            }
            for relation in (registry, transfers)
            for conjunct in relation.conjuncts
            if conjunct.rule == rule.id
        ],
        "checked_by": list(rule.checked_by),
        "proved_by": proved.get(rule.id),
        "theorems": related.get(rule.id),
        "exhausted": exhausted.get(rule.id),
        "implies": [{"also": edge.also, "why": edge.why} for edge in (*registry.edges, *EDGES) if edge.rule == rule.id],
    }
