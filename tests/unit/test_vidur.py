"""Vidur's schedulers as subjects, as far as they can be tested without Vidur."""

import importlib.metadata
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import define, field

from schedspec.conformance.subjects import vidur_release
from schedspec.conformance.subjects.resolve import UnknownSubject
from schedspec.conformance.subjects.vidur import Blocks
from schedspec.spec.vocabulary import Settings, Unsupported


@pytest.fixture
def nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def find(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", find)
    vidur_release.vidur.cache_clear()
    yield
    vidur_release.vidur.cache_clear()


@pytest.mark.usefixtures("nothing_is_installed")
def test_missing_says_what_to_type() -> None:
    with pytest.raises(UnknownSubject, match="Vidur is not installed in this environment: `make vidur`"):
        vidur_release.vidur()


@pytest.mark.parametrize(
    ("kind", "settings", "name"),
    [
        ("sarathi", Settings(reserve="on_demand"), "reserve"),
        ("sarathi", Settings(reserve="known"), "phase_first"),
        ("sarathi", Settings(reserve="known", phase_first="decode", chunk_tokens=2), "chunk_tokens"),
        ("vllm", Settings(reserve="known"), "batch_mix"),
        ("vllm", Settings(reserve="known", overlap_depth=2), "overlap_depth"),
    ],
)
def test_what_it_does_not_do_is_refused_by_name(kind: str, settings: Settings, name: str) -> None:
    with pytest.raises(Unsupported, match=name):
        vidur_release.new_scheduler(kind, settings)


@define(slots=False)
class Counted:
    """What is asked of Vidur's scheduler here."""

    given: list[Any] = field(factory=list)

    def allocate(self, number: int, count: int) -> None:
        self.given.append((number, count))

    def free(self, number: int) -> None:
        self.given.append(number)


def test_whoever_is_freed_in_a_decision_is_a_victim_and_comes_back() -> None:
    scheduler = Counted()
    blocks = Blocks(scheduler, 4, {1: "a", 2: "b"})
    scheduler.allocate(1, 2)
    scheduler.allocate(1, 1)
    with blocks.of_a_decision():
        scheduler.free(1)
        scheduler.allocate(1, 1)
    scheduler.free(1)
    assert scheduler.given == [(1, 2), (1, 1), 1, (1, 1), 1]
    first, second = [3, 2], [1]
    assert blocks.take() == [
        ("took", "a", first),
        ("admitted", "a", 0),
        ("took", "a", second),
        ("gave", "a", [*first, *second]),
        ("preempted", "a", "recompute", None),
        ("took", "a", [1]),
        ("resumed", "a", 0),
        ("gave", "a", [1]),
    ]
    assert sorted(blocks.free) == [0, 1, 2, 3]
