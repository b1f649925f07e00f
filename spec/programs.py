"""The compiled program that a subject is judged by, and the words for what it finds."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from attrs import define

from .compiled import Program, compile_program, state_reads, without
from .printed import printed
from .registry import Binding, Conjunct
from .relation import PHASES, registry
from .vocabulary import Capabilities


@define(frozen=True)
class Key:
    """What of the capabilities decides which conjuncts are active."""

    observes: str
    ordered: bool
    claims: frozenset[str]

    @classmethod
    def of(cls, capabilities: Capabilities) -> "Key":
        asked = {claim for conjunct in registry.conjuncts for claim in conjunct.binding.claims}
        return cls(capabilities.observes, capabilities.ordered, capabilities.claims & asked)


@cache
def program_of(key: Key, dropped: str | None) -> Program:
    if dropped is not None:
        return without(program_of(key, None), dropped)
    capabilities = Capabilities(observes=key.observes, ordered=key.ordered, claims=key.claims)  # type: ignore[arg-type]

    def active(conjunct: Conjunct) -> bool:
        binding: Binding = conjunct.binding
        return binding.missing(capabilities) is None

    return compile_program(registry, active)


@cache
def bound(capabilities: Capabilities) -> frozenset[str]:
    """The rules that such a subject is judged by."""
    return frozenset(rule for rule in registry.rules if registry.missing(rule, capabilities) is None)


@cache
def words_of(number: int) -> str:
    return printed(registry.conjuncts[number].term, registry.names, registry.state.sorts)


@cache
def guard_reads(event: str) -> Mapping[str, Mapping[str, Callable[..., Any]]]:
    return {c.name: state_reads(registry, c) for c in registry.guards(event)}


def in_words(name: str, value: Any) -> Any:
    """Phases by their names."""
    return PHASES.get(value, value) if name.split("[")[0] == "phase" else value


def shown(value: Any) -> Any:
    return sorted(value) if isinstance(value, set) else value
