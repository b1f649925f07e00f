"""What a step is that must be possible: a sentence, and a formula of one event that some state must satisfy."""

from collections.abc import Callable
from typing import Any

from attrs import frozen

from schedspec.spec.registry import Registry, conjunction
from schedspec.spec.terms import Bool, Event, Term

Body = Callable[..., Any]


@frozen(eq=False)
class Possible:
    """`claims`: those whose guards bind; None: all of them at once."""

    name: str
    event: str
    sentence: str
    terms: tuple[Term, ...]
    claims: frozenset[str] | None


class Steps(list[Possible]):
    """The steps of one theory, in the order in which they are written down."""

    def __init__(self, registry: Registry) -> None:
        super().__init__()
        self.registry = registry

    def step(self, event: type[Event], claims: tuple[str, ...] | None = None) -> Callable[[Body], Body]:
        """A body says what holds before and after; its docstring is the sentence."""

        def register(body: Body) -> Body:
            state = self.registry.state
            terms = tuple(conjunction(body(state("state"), event("field"), state("after"))))
            sentence = " ".join((body.__doc__ or "").split())
            bound = None if claims is None else frozenset(claims)
            self.append(Possible(body.__name__, event.__name__, sentence, terms, bound))
            return body

        return register


def all_of(*terms: Bool) -> Bool:
    whole, *rest = terms
    for term in rest:
        whole = whole & term
    return whole
