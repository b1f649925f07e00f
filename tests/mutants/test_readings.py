"""The bulk monitor finds what the plain one finds; `readings.py` asks it of a thousand traces with a planted fault."""

from array import array
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
from attrs import evolve

pytest.importorskip("numpy")

import numpy as np
from tests.mutants.readings import (
    Tally,
    all_differences,
    batch,
    broken_batches,
    broken_busy,
    broken_rounds,
    differing,
    kept_traces,
    planted,
    recorded,
    summary,
)
from tests.mutants.traces import Run, corpus

from schedspec.optimized import in_place, steady, together
from schedspec.optimized.columns import Column
from schedspec.optimized.content import ColumnShadow
from schedspec.optimized.growth import FOR_EVER
from schedspec.optimized.later import Later
from schedspec.optimized.monitor import BulkMonitor
from schedspec.optimized.pool import HeldBy
from schedspec.optimized.steady import Rounds, Turn
from schedspec.spec.monitor import Monitor
from schedspec.spec.vocabulary import Message, Outcome, Plan

PLANTED = 60
BATCHES = 40
BUSY = 20


def test_clean_runs() -> None:
    tally = Tally()
    assert all_differences(((str(number), run) for number, run in enumerate(corpus())), tally) == []
    assert tally.together > 3_000


def test_kept_traces() -> None:
    tally = Tally()
    assert all_differences(((str(path), recorded(path)) for path in kept_traces()), tally) == []
    assert tally.broken > 50


def test_planted_faults() -> None:
    tally = Tally()
    assert all_differences(planted(PLANTED), tally) == []
    assert tally.broken > PLANTED // 3
    assert tally.together > 1_000


def test_faults_in_batches_that_decode() -> None:
    tally = Tally()
    assert all_differences(broken_batches(BATCHES), tally) == []
    assert tally.broken > BATCHES // 2
    assert tally.written > 2_000
    assert tally.forecast > 500


def test_faults_where_rounds_go_on_until_somebody_ends() -> None:
    tally = Tally()
    assert all_differences(broken_rounds(BUSY), tally) == []
    assert tally.broken > BUSY // 3
    assert tally.forecast > 500


def test_faults_where_requests_come_and_end() -> None:
    tally = Tally()
    assert all_differences(broken_busy(BUSY), tally) == []
    assert BUSY // 3 < tally.broken < 2 * BUSY
    assert tally.written > 2_000


def _one_too_few(self: Later, row: int, take: Any = Later.take) -> list[int]:
    numbers: list[int] = take(self, row)
    return numbers[:-1]


def _stops_nobody(self: BulkMonitor, group: Any, flight: Any, outcome: Outcome, stops: Any = BulkMonitor._stops) -> Any:
    return stops(self, group, flight, evolve(outcome, stop=[False] * len(outcome.stop)))


def _opens(self: ColumnShadow, tracks: Any, at: Any, positions: Any) -> bool:
    places = (positions // self.block_size).tolist()
    self.fronts.block[at] = [track.table[place] for track, place in zip(tracks, places, strict=True)]
    return True


def _deaf(self: Rounds, event: str, group: Any, goes_on: Any = Rounds._goes_on) -> Any:
    self.table.written.clear()
    return goes_on(self, event, group)


PLANTED_HERE: dict[str, tuple[Any, str, Any]] = {
    "whoever leaves the columns keeps what it wrote to itself": (ColumnShadow, "_tell", lambda *_: None),
    "a block may be opened by two": (ColumnShadow, "_opened", _opens),
    "a token that waited is lost": (Later, "take", _one_too_few),
    "nobody stops": (BulkMonitor, "_stops", _stops_nobody),
    "whoever ended stands there still": (BulkMonitor, "_retire", Monitor._retire),
    "a forecast is for ever": (steady, "rounds_left", lambda *_: FOR_EVER),
    "all cells stay as they are": (steady, "slope_of", lambda *_: 0),
    "a column is the same all through": (Column, "is_all", lambda *_: True),
    "blocks that were taken are forgotten": (BulkMonitor, "_have_taken", lambda *_: None),
    "takes are not asked for anything": (together._Together, "demands", lambda _: []),
    "nobody holds a block": (HeldBy, "__len__", lambda _: 0),
    "blocks that were given are held": (in_place._InPlace, "_update_alone", lambda *_: []),
}


@pytest.mark.parametrize("name", PLANTED_HERE)
def test_a_fault_of_the_bulk_monitor_shows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (in_place, together):
        monkeypatch.setattr(module, "_FUNCTIONS", {})
    monkeypatch.setattr(*PLANTED_HERE[name])
    runs = chain.from_iterable(zip(broken_busy(BUSY), broken_batches(2 * BUSY), broken_rounds(BUSY), strict=False))
    assert any(map(_shows, runs))


def _shows(named: tuple[str, Run]) -> bool:
    try:
        return Tally().compare(named[1]) is not None
    except IndexError:
        return True


# --- a batch in which everybody decodes ------------------------------------------------------------------------


def changed(run: Run, back: int, change: Callable[[Message], Message]) -> Run:
    """With one message from the end made another."""
    place = len(run.messages) - back
    return Run(run.header, (*run.messages[:place], change(run.messages[place]), *run.messages[place + 1 :]))


def in_plan(**columns: Any) -> Callable[[Message], Message]:
    def change(message: Message) -> Message:
        plan: Plan = message.answer
        return evolve(message, answer=evolve(plan, **{name: to(getattr(plan, name)) for name, to in columns.items()}))

    return change


def in_outcome(**columns: Any) -> Callable[[Message], Message]:
    def change(message: Message) -> Message:
        outcome: Outcome = message.given
        return evolve(message, given=evolve(outcome, **{n: to(getattr(outcome, n)) for n, to in columns.items()}))

    return change


def _with(row: int, to: Any) -> Callable[[Any], tuple[Any, ...]]:
    return lambda column: (*column[:row], to(column[row]), *column[row + 1 :])


FAULTS: dict[str, tuple[int, Callable[[Message], Message]]] = {
    "a range starts late": (10, in_plan(start=_with(5, lambda start: start + 1))),
    "two tokens in a decode": (10, in_plan(tokens=_with(0, lambda _: 2))),
    "nothing is computed": (10, in_plan(tokens=_with(11, lambda _: 0))),
    "no sample": (10, in_plan(samples=_with(3, lambda _: 0))),
    "the same request twice": (10, in_plan(request=lambda column: (*column[:-1], column[0]))),
    "a number of 2³¹": (10, in_plan(start=_with(4, lambda _: 1 << 31))),
    "a number of 2⁶²": (10, in_plan(start=_with(4, lambda _: 1 << 62))),
    "a number of 2⁶³": (10, in_plan(start=_with(4, lambda _: 1 << 63))),
    "a number of no machine": (10, in_plan(start=_with(4, lambda _: 10**30))),
    "less than nothing": (10, in_plan(start=_with(4, lambda _: -1))),
    "the same step twice": (10, in_plan(step=lambda step: step - 1)),
    "a step of 2⁶²": (10, in_plan(step=lambda _: 1 << 62)),
    "the engine computed another token": (9, in_outcome(token=_with(7, lambda token: token + 1))),
    "somebody stops": (9, in_outcome(stop=_with(7, lambda _: True))),
    "a result is missing": (
        9,
        in_outcome(request=lambda c: c[:-1], token=lambda c: c[:-1], stop=lambda c: c[:-1]),
    ),
    "a token of 2⁶⁴": (9, in_outcome(token=_with(7, lambda _: 1 << 64))),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_a_batch(name: str) -> None:
    tally = Tally()
    assert tally.compare(changed(batch(), *FAULTS[name])) is None
    assert tally.broken or name == "a number of 2⁶²" or tally.together


def differs_once_somebody_wrote(name: str) -> bool:
    """Rounds have long been forecast when a cell of one request becomes another, as if by an event of its own."""
    run = batch()
    plain, bulk = Monitor(run.header), BulkMonitor(run.header, fewest=1)
    for number, message in enumerate(run.messages, start=-len(run.messages)):
        if number == -10:
            assert bulk._rounds.forecast > 30
            for monitor in (plain, bulk):
                record = monitor.world.RequestId["r3"]
                setattr(record, name, getattr(record, name) + 1)
        if plain.feed(message) != bulk.feed(message):
            return True
    return differing(summary(plain), summary(bulk)) is not None


WRITTEN = ("phase", "known", "issued", "goal", "outputs")


@pytest.mark.parametrize("name", WRITTEN)
def test_what_another_event_writes_is_heard(name: str) -> None:
    assert not differs_once_somebody_wrote(name)


def test_a_step_that_is_not_the_next_one_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who was served in the step is asked of its number alone, while that goes on."""
    run = changed(batch(), *FAULTS["the same step twice"])
    assert Tally().compare(run) is None
    monkeypatch.setattr(Turn, "is_as_forecast", lambda *_: True)
    assert Tally().compare(run) is not None


def test_what_another_event_writes_and_nobody_hears_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rounds, "_goes_on", _deaf)
    assert sum(map(differs_once_somebody_wrote, WRITTEN)) > 2


def test_a_block_that_two_requests_take() -> None:
    run = batch()
    place = next(n for n, m in enumerate(run.messages) if n > 40 and m.kind == "step" and len(m.answer.deltas) > 1)
    plan: Plan = run.messages[place].answer
    first, second, *others = plan.deltas
    for deltas in ((first, (*second[:2], first[2]), *others), (first, first, second, *others)):
        message = evolve(run.messages[place], answer=evolve(plan, deltas=deltas))
        tally = Tally()
        assert tally.compare(Run(run.header, (*run.messages[:place], message, *run.messages[place + 1 :]))) is None
        assert tally.broken


def test_columns_may_be_arrays() -> None:
    run = batch()
    plain, bulk = Monitor(run.header), BulkMonitor(run.header, fewest=1)
    for message in run.messages:
        assert plain.feed(message) == bulk.feed(_in_arrays(message)) == []
    assert differing(summary(plain), summary(bulk)) is None
    assert bulk.together > 1_000


def _in_arrays(message: Message) -> Message:
    if message.kind == "step":
        return in_plan(**dict.fromkeys(("start", "tokens", "samples"), lambda column: array("q", column)))(message)
    if message.kind != "complete":
        return message
    deltas = [("delivered", d[1], array("q", d[2])) if d[0] == "delivered" else d for d in message.answer]
    changed = in_outcome(token=lambda column: array("q", column), stop=lambda column: np.array(column, np.bool_))(
        message
    )
    return evolve(changed, answer=deltas)


def test_a_list_of_tokens_stays_its_owners() -> None:
    run = batch()
    plain, bulk = Monitor(run.header), BulkMonitor(run.header, fewest=1)
    for message in run.messages:
        plain.feed(message)
        if message.kind == "complete":
            lists = [("delivered", list(d[1]), list(d[2])) if d[0] == "delivered" else d for d in message.answer]
            bulk.feed(evolve(message, answer=lists))
            for delta in lists:
                if delta[0] == "delivered":
                    delta[2][:] = [0] * len(delta[2])
        else:
            bulk.feed(message)
    assert differing(summary(plain), summary(bulk)) is None


def test_who_explains_judges_one_by_one() -> None:
    run = changed(batch(), *FAULTS["a range starts late"])
    plain, bulk = Monitor(run.header, explain=True), BulkMonitor(run.header, explain=True)
    for message in run.messages:
        assert plain.feed(message) == bulk.feed(message)
    assert bulk.together == 0


@pytest.mark.parametrize("dropped", ["STEP-4.1", "STEP-4.4", "STEP-3.1", "LIFE-4.1", "LIFE-5.1", "STEP-6.4"])
def test_a_conjunct_may_be_left_out(dropped: str) -> None:
    run = changed(batch(), *FAULTS["a range starts late"])
    plain, bulk = Monitor(run.header, dropped=dropped), BulkMonitor(run.header, dropped=dropped, fewest=1)
    for message in run.messages:
        assert plain.feed(message) == bulk.feed(message)
    assert differing(summary(plain), summary(bulk)) is None
