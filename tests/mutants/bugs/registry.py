"""Which bugs there are."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from attrs import frozen

from schedspec.reference.faults import FAULTS, FOREIGN, KINDS
from schedspec.spec.catalogue import registry
from schedspec.spec.vocabulary import SubjectFactory

Where = Literal["scheduler", "router", "transfer"]
Made = TypeVar("Made", bound=Callable[..., Any])

REFERENCE: dict[str, SubjectFactory] = {
    **FAULTS,
    **{does: factory for does, (_, factory) in FOREIGN.items()},
    **{says: factory for says, (_, factory) in KINDS.items()},
}
"""The seeded faults of the reference, by rule or by what they do."""


@frozen(kw_only=True)
class Bug:
    """`rules`: those that may name it; `of`: of which bug it is a sibling."""

    id: str
    title: str
    url: str
    kind: str
    rules: tuple[str, ...]
    factory: SubjectFactory
    where: Where = "scheduler"
    of: str = ""


CATALOGUE: dict[str, Bug] = {}
"""Bugs, and siblings of them, by id."""


def reused(
    id: str,
    factory: SubjectFactory,
    *,
    rules: tuple[str, ...],
    title: str,
    url: str,
    kind: str,
    where: Where = "scheduler",
) -> None:
    """This factory is that bug."""
    _add(Bug(id=id, title=title, url=url, kind=kind, rules=rules, factory=factory, where=where))


def bug(id: str, **card: Any) -> Callable[[Made], Made]:
    """Decorates a factory; the card is that of `reused`."""

    def register(made: Made) -> Made:
        reused(id, made, **card)
        return made

    return register


def sibling(of: str, says: str, *, rules: tuple[str, ...] = (), where: Where | None = None) -> Callable[[Made], Made]:
    """Decorates a factory: the same kind of fault in another place, or under another condition."""

    def register(made: Made) -> Made:
        first = CATALOGUE[of]
        number = sum(other.of == of for other in CATALOGUE.values()) + 1
        _add(
            Bug(
                id=f"{of}.{number}",
                title=says,
                url=first.url,
                kind=first.kind,
                rules=rules or first.rules,
                factory=made,
                where=where or first.where,
                of=of,
            )
        )
        return made

    return register


def _add(bug: Bug) -> None:
    if bug.id in CATALOGUE:
        raise ValueError(f"{bug.id} is there twice")
    unknown = [rule for rule in bug.rules if rule not in registry.rules]
    if unknown or not bug.rules:
        raise ValueError(f"{bug.id} names {', '.join(unknown) or 'no rule'}, which is no rule")
    CATALOGUE[bug.id] = bug
