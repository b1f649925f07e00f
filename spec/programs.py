"""The compiled program that a subject is judged by, and the words for what it finds."""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any, Literal

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
        return cls(capabilities.observes, capabilities.ordered, capabilities.claims & _asked_of_conjuncts())

    @classmethod
    def of_cards(cls, capabilities: Capabilities) -> "Key":
        """With every claim: rules that are no terms go by some more."""
        return cls(capabilities.observes, capabilities.ordered, capabilities.claims)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(observes=self.observes, ordered=self.ordered, claims=self.claims)  # type: ignore[arg-type]


@cache
def _asked_of_conjuncts() -> frozenset[str]:
    return frozenset(claim for conjunct in registry.conjuncts for claim in conjunct.binding.claims)


MOST_PROGRAMS = 512
"""Kept at a time: a search of many hours meets many sets of claims."""


@lru_cache(MOST_PROGRAMS)
def program_of(key: Key, dropped: str | None) -> Program:
    if dropped is not None:
        return without(program_of(key, None), dropped)
    capabilities = key.capabilities

    def active(conjunct: Conjunct) -> bool:
        binding: Binding = conjunct.binding
        return binding.missing(capabilities) is None

    return compile_program(registry, active)


def missing_for(capabilities: Capabilities) -> Mapping[str, Literal["not observable", "not claimed"]]:
    """The rules that such a subject is not judged by, and why."""
    return _missing(Key.of_cards(capabilities))


@lru_cache(MOST_PROGRAMS)
def _missing(key: Key) -> Mapping[str, Literal["not observable", "not claimed"]]:
    return registry.all_missing(key.capabilities)


def bound(capabilities: Capabilities) -> frozenset[str]:
    """The rules that such a subject is judged by."""
    return _bound(Key.of_cards(capabilities))


@lru_cache(MOST_PROGRAMS)
def _bound(key: Key) -> frozenset[str]:
    return frozenset(registry.rules.keys() - _missing(key).keys())


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
