"""Vectors of rules that compare two runs: a pair of traces, in which everything is given alike and something is
answered otherwise.

Which run it was, in another process, at another pace, with another future, no trace says.  So the seeded fault is run
twice here, with the one thing changed that it should not look at.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from math import inf
from types import SimpleNamespace
from typing import Any
from unittest import mock

from attrs import evolve

from schedspec.conformance.driver import Driver, replay
from schedspec.conformance.foresight import twins
from schedspec.conformance.scenarios import scenarios
from schedspec.conformance.script import COMPLETE, Script
from schedspec.conformance.shrink import Shrinker, Target, script_size
from schedspec.reference.faults import others
from schedspec.spec.errors import ProtocolError
from schedspec.spec.vocabulary import Message, Unsupported

from .records import Trace, Vector, factory_of

TRIES = 600
CLAIRVOYANCE = "ADMIT-9"
SLOW_S = 1.0
"""Between two looks at the clock, in the second run."""

World = Callable[[bool], Any]


@contextmanager
def _hashed(again: bool) -> Iterator[None]:
    """Another hash seed."""
    salt = b"another" if again else b""
    with mock.patch.object(others, "hash", lambda text: zlib.crc32(salt + text.encode()), create=True):
        yield


@contextmanager
def _remembered(again: bool) -> Iterator[None]:
    """The second run in a process."""
    with mock.patch.object(others.RemembersFormerRuns, "made", int(again)):
        yield


@contextmanager
def _paced(again: bool) -> Iterator[None]:
    """Another pace of the wall clock."""
    ticks = iter(range(1_000_000))
    clock = SimpleNamespace(monotonic=lambda: next(ticks) * SLOW_S if again else 0.0)
    with mock.patch.object(others, "time", clock):
        yield


WORLDS: dict[str, World] = {
    "DET-1": _hashed,
    "DET-2": _remembered,
    "DET-3": _paced,
    CLAIRVOYANCE: lambda again: nullcontext(),
}


def find(rule: str) -> list[Vector]:
    """The shortest script on which the fault's two runs differ; the reference answers it, too."""
    subject = f"fault:{rule}"
    for script in sorted((s.script for s in scenarios(0)), key=script_size):
        if _differs(rule, subject, script) is not None:
            short = _Pairs(rule, subject, script).shrink()
            if rule == CLAIRVOYANCE:
                short = evolve(short, ops=(*short.ops, COMPLETE))  # it shows that the futures are two
            return [Vector(rule, "pass", "reference", short, snapshots="none"), _failing(rule, subject, short)]
    return []


def _failing(rule: str, subject: str, script: Script) -> Vector:
    return Vector(rule, "fail", subject, script, snapshots="none")


class _Always(Target):
    def is_hit_by(self, driver: Driver) -> bool:
        return True


class _Pairs(Shrinker):
    """A candidate is good if its two runs differ."""

    def __init__(self, rule: str, subject: str, script: Script) -> None:
        super().__init__(factory_of(subject), script, _Always(rule, frozenset()), inf, most_tries=TRIES)
        self.rule, self.subject = rule, subject

    def _run(self, script: Script) -> Driver | None:
        self.tries += 1
        return _differs(self.rule, self.subject, script)


def _differs(rule: str, subject: str, script: Script) -> Driver | None:
    """The first run, if there is a difference."""
    try:
        first, second = _runs(rule, subject, script)
    except (Unsupported, ProtocolError, ValueError):
        return None
    return None if first.over or difference(calls(first), calls(second)) is None else first


def _runs(rule: str, subject: str, script: Script) -> tuple[Driver, Driver]:
    other = next(twins(script), script) if rule == CLAIRVOYANCE else script
    with WORLDS[rule](False):
        first = replay(factory_of(subject), script, name=subject)
    with WORLDS[rule](True):
        second = replay(factory_of(subject), other, name=subject)
    return first, second


def calls(driver: Driver) -> tuple[Message, ...]:
    return tuple(message for message in driver.messages if message.kind not in ("observe", "end"))


def difference(one: Sequence[Message], other: Sequence[Message]) -> int | None:
    """Number of the first message, from 1, that is answered otherwise though all until then was given alike."""
    for number, (left, right) in enumerate(zip(one, other, strict=False), start=1):
        if (left.kind, left.now_ns, left.given) != (right.kind, right.now_ns, right.given):
            return None
        if left.answer != right.answer:
            return number
    return None


def traces_of(vector: Vector) -> tuple[Trace, Trace]:
    """Both runs; of a failing vector up to the difference, but where what follows shows what the two futures are."""
    first, second = _runs(vector.rule, vector.subject, vector.script)
    is_cut = vector.verdict == "fail" and vector.rule != CLAIRVOYANCE
    until = difference(calls(first), calls(second)) if is_cut else None
    one, other = (Trace(driver.header, calls(driver)[:until]) for driver in (first, second))
    return one, other
