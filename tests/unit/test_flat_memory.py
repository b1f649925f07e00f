"""Memory of a soak: the same runs once more leave nothing behind, and no cache of theirs grows without an end.  A trace
need not be a file."""

import gc
import os
from collections import Counter
from collections.abc import Callable, Iterator
from functools import _lru_cache_wrapper
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis.stateful import RuleBasedStateMachine

from schedspec.conformance.check import Check, Depth
from schedspec.conformance.recorded import judge
from schedspec.conformance.soak import PERIOD, Soak, kind_of
from schedspec.reference import make
from schedspec.spec.trace import TraceWriter
from schedspec.spec.vocabulary import Header, Message, Settings

SMALL = [number for number in range(PERIOD) if kind_of(number) in ("tiny", "varied")][:8]
DRAWN = next(number for number in range(PERIOD) if kind_of(number) == "drawn")
MOST_LEFT = len(SMALL) // 2
"""Less than an object a run: a count may have got its first value."""
ENDLESS = {
    "words_of": "a sentence of each conjunct",
    "guard_reads": "functions of each event",
    "_reads": "functions of each event between two pools",
    "_invariant_function": "a function of each invariant",
}
"""Caches without a limit that runs fill, and what there is one of in them: no more than rules are written."""


def new() -> Soak:
    depth = Depth(name="soak", search_s=0.0, workload_s=0.0, shrink_s=0.0, examples=0, reruns=False)
    check = Check(name="reference", factory=make, seed=3, depth=depth, only=frozenset({"KV-7", "STEP-2"}))
    soak = Soak(check)
    soak.policies = ("fcfs", "vtc")
    return soak


def objects() -> Counter[str]:
    gc.collect()
    return Counter(type(one).__name__ for one in gc.get_objects())


def left_by_again(run: Callable[[int], object]) -> Counter[str]:
    """What the same runs leave when they are made for the third time: caches know them all."""
    for _ in range(2):
        for number in SMALL:
            run(number)
    before = objects()
    for number in SMALL:
        run(number)
    return objects() - before


def test_the_same_runs_once_more_leave_nothing() -> None:
    soak = new()
    left = left_by_again(soak.run_one)
    assert soak.runs == 3 * len(SMALL)
    assert left.total() <= MOST_LEFT, left.most_common(5)


def test_a_leak_of_an_object_a_run_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    count = Soak._count

    def keeps(self: Soak, driver: Any, number: int, past: frozenset[str]) -> None:
        kept.append(driver.ear)
        count(self, driver, number, past)

    monkeypatch.setattr(Soak, "_count", keeps)
    assert left_by_again(new().run_one).total() > MOST_LEFT


def machines() -> int:
    gc.collect()
    return len(RuleBasedStateMachine.__subclasses__())


def test_what_hypothesis_draws_is_drawn_by_one_machine() -> None:
    """It remembers the class of each, and its strategies, for good; what it knows of runs has an end."""
    soak = new()
    soak.run_one(DRAWN)
    before = machines()
    soak.run_one(DRAWN + PERIOD)
    assert machines() == before
    soak.check._drawn = None  # as if each run had a machine of its own
    soak.run_one(DRAWN)
    assert machines() > before


def caches() -> Iterator[Any]:
    for one in gc.get_objects():
        if isinstance(one, _lru_cache_wrapper) and str(one.__module__).startswith("schedspec."):
            yield one


def test_caches_that_runs_fill_have_an_end() -> None:
    """Of those without a limit none may know more after other runs."""
    soak = new()
    soak.run_one(0)
    before = {one: one.cache_info().currsize for one in caches()}
    for number in SMALL:
        soak.run_one(number + PERIOD)
    grown = {
        one.__name__
        for one in caches()
        if one.cache_info().maxsize is None and one.cache_info().currsize > before.get(one, 0) + 1
    }
    assert grown <= ENDLESS.keys()


def test_a_trace_is_read_from_a_pipe(tmp_path: Path) -> None:
    """A long one is judged while it is written, and kept nowhere."""
    settings = Settings(blocks=4, block_size=2, seats=1, token_budget=4)
    header = Header(settings=settings, capabilities=make(settings, 0).capabilities())
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("w") as file:
            TraceWriter(file, header).write(Message("end", 0))

    writer = Thread(target=write)
    writer.start()
    judged = judge(pipe)
    writer.join()
    assert judged.messages == 1
    assert not judged.exit_status()
