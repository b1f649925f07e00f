"""ADMIT-9: the same run with another future, in this process.

When a request stops is the model's secret until its last token is there.  So where nothing but that is swapped, all
answers have to be the same up to the first result that tells it.
"""

from collections.abc import Iterator, Sequence

from attrs import evolve

from schedspec.spec.errors import ProtocolError
from schedspec.spec.vocabulary import Message, SubjectFactory, Unsupported

from .determinism import answers, first_difference
from .driver import Driver, replay
from .script import Op, Script

FORESEEN = "foreseen"
"""Stands for an answer that another future has changed."""

CLAIRVOYANT = "clairvoyant"


def foretold(factory: SubjectFactory, scripts: Sequence[Script]) -> list[list[str]]:
    """The answers to each script, the first marked that differs under another future before that one shows; a run that
    cannot be made has none."""
    return [_foretold(factory, script) for script in scripts]


def _foretold(factory: SubjectFactory, script: Script) -> list[str]:
    try:
        run = replay(factory, script)
        own = answers(run)
        found = [place for twin in twins(script) if (place := _foreseen(run, own, replay(factory, twin))) is not None]
    except (Unsupported, ProtocolError):
        return []
    if found:
        own[min(found)] = FORESEEN
    return own


def twins(script: Script) -> Iterator[Script]:
    """With another future of everybody, of those who come later, and of the last one: who comes early tells it soon."""
    comers = [number for number, op in enumerate(script.ops) if _has_two_futures(op)]
    for first in sorted({0, len(comers) // 2, len(comers) - 1} if comers else ()):
        swapped = frozenset(comers[first:])
        ops = [_swapped(op) if number in swapped else op for number, op in enumerate(script.ops)]
        yield evolve(script, ops=ops)


def _has_two_futures(op: Op) -> bool:
    return op.request is not None and op.request.max_output_tokens > 1


def _swapped(op: Op) -> Op:
    """Who runs to the declared length stops at once, who stops early runs to the declared length."""
    assert op.request is not None
    runs_on = op.stop_after is None or op.stop_after >= op.request.max_output_tokens
    return evolve(op, stop_after=1 if runs_on else None)


def _foreseen(run: Driver, own: list[str], twin: Driver) -> int | None:
    """The first answer that differs though all that was told until then is the same."""
    one, other = _calls(run), _calls(twin)
    told = next((n for n, pair in enumerate(zip(one, other, strict=False)) if _given(pair[0]) != _given(pair[1])), None)
    number = first_difference(own[:told], answers(twin)[:told])
    return None if number is None or number > len(own) else number - 1


def _calls(driver: Driver) -> list[Message]:
    return [message for message in driver.messages if message.kind not in ("observe", "end")]


def _given(message: Message) -> tuple[object, ...]:
    return message.kind, message.now_ns, message.given
