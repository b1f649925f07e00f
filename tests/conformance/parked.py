"""Requests that depend on something, drawn by plain dice: at the door or in the middle, and news of what they need."""

from collections.abc import Iterator, Sequence
from random import Random

from attrs import evolve

from schedspec.spec.vocabulary import Settings

from .script import Op, answer, tool

TIMEOUTS_NS = (40, 200)
PERCENT = 12
"""Of worlds in which somebody is parked."""

AT_THE_DOOR = ("grammar", "transfer")


def with_parking(dice: Random, settings: Settings) -> Settings:
    """Now and then requests are parked, where nobody promises how long they wait."""
    if dice.randrange(100) >= PERCENT:
        return settings
    timeout_ns = dice.choice(TIMEOUTS_NS)
    hold_ns = dice.choice((0, timeout_ns // 4, timeout_ns)) if settings.prefix_caching else 0
    try:
        return evolve(settings, park_timeout_ns=timeout_ns, hold_ns=hold_ns)
    except ValueError:
        return settings


def of_parking(dice: Random, op: Op, settings: Settings) -> Sequence[Op]:
    """A submission may depend on something, or call tools; after a result there may be news of them, or time passes."""
    if not settings.park_timeout_ns:
        return (op,)
    if op.request is not None:
        return (_asking(dice, op),)
    return (op, *_news(dice)) if op.kind == "complete" else (op,)


def _asking(dice: Random, op: Op) -> Op:
    assert op.request is not None
    most = op.request.max_output_tokens - 1
    if dice.random() < 0.3:
        names = dice.sample(AT_THE_DOOR, dice.randint(1, len(AT_THE_DOOR)))
        op = evolve(op, request=evolve(op.request, dependencies=tuple(names)))
    if most > 0 and dice.random() < 0.5:
        op = evolve(op, pauses=tuple(sorted({dice.randint(1, most) for _ in range(dice.choice((1, 1, 2)))})))
    return op


def _news(dice: Random) -> Iterator[Op]:
    """Of anybody, be it parked or not: some come too early, twice, or about nobody."""
    for _ in range(dice.choice((0, 1, 1, 3))):
        dependency = dice.choice((*AT_THE_DOOR, *(tool(place) for place in (1, 1, 2, 3))))
        yield answer(f"r{dice.randint(1, 6)}", dependency, is_there=dice.random() < 0.85)
    if dice.random() < 0.2:
        yield Op("tick", ns=dice.choice((5, 30, 250)))
