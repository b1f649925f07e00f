"""(request, step) pairs that the bulk monitor judges in a second, beside the plain one on the same messages: from
arrays, from the tuples of messages, from a file of columns, and from the lines of a file.

`plain` is the plain monitor on the same form, for a file of columns on the lines.  `readings`: pairs a second if there
were nothing to do but the numpy readings themselves, as they were timed inside of the run from arrays.  `floor`: if
there were nothing to do but to move the numbers that they read and write, `bytes` a pair, at the speed at which this
machine copies memory; `operations` is what is computed of them."""

import io
import math
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from attrs import evolve, frozen

from schedspec.optimized.monitor import BulkMonitor
from schedspec.optimized.reading import ColumnLoads
from schedspec.optimized.scans import OPERATORS
from schedspec.optimized.steady import Rounds
from schedspec.spec.monitor import Monitor
from schedspec.spec.terms import walk
from schedspec.spec.trace import TraceWriter, read_trace
from schedspec.spec.trace_columns import ColumnsWriter
from schedspec.spec.vocabulary import Capabilities, Header, Message, Outcome, Plan, Settings

from .floors import NUMBER, bytes_a_second
from .measure import Result, median, quiet, seconds
from .recording import Recorder, requests

ASKED_ARRAYS = 3_000_000.0
BEGIN = "<!-- printed by tests/bench/run.py --only bulk --write -->"
ASKED_FILE = 1_000_000.0


@frozen(kw_only=True)
class Size:
    requests: tuple[int, ...] = (1024, 8192)
    prompt: tuple[int, int] = (256, 2048)
    warm_rounds: int = 120
    rounds: int = 8
    repeats: int = 9


TINY = Size(requests=(96,), prompt=(16, 40), warm_rounds=20, rounds=2, repeats=2)

SomeRounds = Callable[[], list[Message]]


class Beside:
    """Monitors that hear the same messages in different forms."""

    def __init__(self, header: Header, *, content: bool = False) -> None:
        self.header = header
        self.plain = Monitor(header, content=content)
        self.bulk = BulkMonitor(header, content=content)
        self.arrays = BulkMonitor(header, content=content)
        self.lines = BulkMonitor(header, content=content)
        self.file = BulkMonitor(header, content=content)
        self.lines_plain = Monitor(header, content=content)
        self.loads = ColumnLoads()
        self.readings = Readings()

    def feed(self, message: Message) -> None:
        for monitor in self.monitors:
            monitor.feed(message)

    @property
    def monitors(self) -> tuple[Monitor, ...]:
        return self.plain, self.bulk, self.arrays, self.lines, self.file, self.lines_plain

    def round(self, messages: list[Message]) -> Iterator[tuple[str, float]]:
        """Form -> seconds."""
        forms = {"plain": (self.plain, messages), "tuples": (self.bulk, messages)}
        forms["arrays"] = (self.arrays, [in_arrays(message) for message in messages])
        self.readings.listen(self.arrays)
        for form, (monitor, given) in forms.items():
            with quiet():
                yield form, seconds(_fed, monitor, given)
        yield "readings", self.readings.take()
        lines, columns = lines_of(self.header, messages), columns_of(self.header, messages)
        with quiet():
            yield "lines_plain", seconds(lambda: _fed(self.lines_plain, read_trace(io.BytesIO(lines))[1]))
        with quiet():
            yield "lines", seconds(lambda: _fed(self.lines, read_trace(io.BytesIO(lines), self.loads)[1]))
        with quiet():
            yield "file", seconds(lambda: _fed(self.file, read_trace(io.BytesIO(columns), arrays=True)[1]))


class Readings:
    """How long the numpy readings of a monitor take."""

    def __init__(self) -> None:
        self.spent_s = 0.0

    def listen(self, monitor: BulkMonitor) -> None:
        if not isinstance(monitor._rounds, TimedRounds):
            monitor._rounds = TimedRounds(self, monitor._rounds)  # type: ignore[assignment]

    def take(self) -> float:
        spent, self.spent_s = self.spent_s, 0.0
        return spent


class TimedRounds:
    def __init__(self, readings: Readings, rounds: Rounds) -> None:
        self.readings, self.rounds = readings, rounds

    def fire(self, *arguments: Any) -> bool:
        begun = time.thread_time()
        done = self.rounds.fire(*arguments)
        self.readings.spent_s += time.thread_time() - begun
        return done


def _fed(monitor: Monitor, messages: object) -> None:
    for message in messages:  # type: ignore[attr-defined]
        monitor.feed(message)


def lines_of(header: Header, messages: list[Message]) -> bytes:
    file = io.StringIO()
    writer = TraceWriter(file, header)
    for message in messages:
        writer.write(message)
    return file.getvalue().encode()


def columns_of(header: Header, messages: list[Message]) -> bytes:
    file = io.BytesIO()
    writer = ColumnsWriter(file, header)
    for message in messages:
        writer.write(message)
    return file.getvalue()


def in_arrays(message: Message) -> Message:
    """Its columns of numbers and flags as arrays, which numpy reads where they are."""
    if message.kind == "step":
        plan: Plan = message.answer
        start, tokens, samples = (array("q", column) for column in (plan.start, plan.tokens, plan.samples))
        changed = evolve(plan, request=tuple(plan.request), start=start, tokens=tokens, samples=samples)
        return evolve(message, answer=changed)
    if message.kind == "complete":
        outcome: Outcome = message.given
        stop: Any = np.array(outcome.stop, np.bool_)
        given = evolve(outcome, request=tuple(outcome.request), token=array("q", outcome.token), stop=stop)
        deltas = [(d[0], tuple(d[1]), array("q", d[2])) if d[0] == "delivered" else d for d in message.answer]
        return evolve(message, given=given, answer=deltas)
    return message


def bench(size: Size) -> Iterator[Result]:
    for running in size.requests:
        yield from decode(size, running, "tables")
    yield from decode(size, size.requests[0], "decisions")
    yield from decode(size, size.requests[0], "tables", content=True)
    yield from mixed(size, size.requests[0])
    yield from mixed(size, size.requests[0] // 4, content=True)


def decode(size: Size, running: int, shows: str, *, content: bool = False) -> Iterator[Result]:
    """Nobody comes or goes: each request gets a token a step."""
    blocks = running * (size.prompt[1] + 512) // 16
    recorder = Recorder(Settings(blocks=blocks, seats=running, token_budget=8 * running))
    beside = Beside(_showing(recorder.header, shows), content=content)
    told = _without_blocks if shows == "decisions" else (lambda message: message)
    recorder.fill(requests(1, size.prompt, (512, 512)), running, lambda message: beside.feed(told(message)))
    name = f"bulk.decode.{running}" + (f".{shows}" if shows != "tables" else "") + (".content" if content else "")
    asked = running == size.requests[0]
    yield from results(name, size, beside, lambda: list(map(told, recorder.round())), asked=asked)


def _showing(header: Header, shows: str) -> Header:
    capabilities: Capabilities = header.capabilities
    return evolve(header, capabilities=evolve(capabilities, observes=shows))  # type: ignore[arg-type]


def _without_blocks(message: Message) -> Message:
    """Who shows decisions alone tells nothing of blocks."""
    if message.kind != "step":
        return message
    deltas = [delta for delta in message.answer.deltas if delta[0] != "took"]
    return evolve(message, answer=evolve(message.answer, deltas=deltas))


def mixed(size: Size, running: int, *, content: bool = False) -> Iterator[Result]:
    """Requests come and end; chunks of prompts ride along."""
    settings = Settings(blocks=64 * running, seats=running, token_budget=4 * running)
    recorder = Recorder(settings)
    beside = Beside(recorder.header, content=content)
    arrivals, waiting = requests(2, (64, 512), (32, 256)), running // 16 + 1
    for _ in range(size.warm_rounds):
        for message in recorder.busy_round(arrivals, waiting):
            beside.feed(message)
    name = f"bulk.mixed.{running}" + (".content" if content else "")
    yield from results(name, size, beside, lambda: recorder.busy_round(arrivals, waiting), asked=False)


def results(name: str, size: Size, beside: Beside, one_round: SomeRounds, *, asked: bool) -> Iterator[Result]:
    speeds: dict[str, list[float]] = {}
    for _ in range(size.repeats):
        messages = [message for _ in range(size.rounds) for message in one_round()]
        pairs = sum(len(message.answer.request) for message in messages if message.kind == "step")
        for form, took in beside.round(messages):
            speeds.setdefault(form, []).append(pairs / took if took else math.inf)
    if any(beside.plain.violations != monitor.violations for monitor in beside.monitors):
        raise AssertionError("the monitors differ")
    least = floor(beside.arrays)
    for form in ("arrays", "tuples", "file", "lines"):
        wanted = {"arrays": ASKED_ARRAYS, "file": ASKED_FILE}.get(form) if asked else None
        plain = median(speeds["lines_plain" if form in ("file", "lines") else "plain"])
        figure = median(speeds[form])
        more = {"best": max(speeds[form]), "plain": plain, "over_plain": figure / plain, **least}
        if form == "arrays" and min(speeds["readings"]) < math.inf:
            more["readings"] = median(speeds["readings"])
        yield Result(name=f"{name}.{form}", figure=figure, unit="pairs/s", asked=wanted, more=more)


def table(figures: Mapping[str, Mapping[str, Any]], about: str) -> str:
    """The figures of the bulk monitor, as they were printed, and those of the numpy readings alone and of the floor."""
    rows = [about, "", "| what | asked | pairs a second | best | plain | ratio | numpy alone | floor |"]
    rows.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, value in figures.items():
        if name.startswith("bulk."):
            asked = "–" if value["asked"] is None else f"{value['asked']:,.0f}"
            readings = f"{value['readings']:,.0f}" if "readings" in value else "–"
            cells = [
                asked,
                *(f"{value[key]:,.0f}" for key in ("figure", "best", "plain")),
                f"{value['over_plain']:.1f}",
            ]
            rows.append(
                f"| `{name.removeprefix('bulk.')}` | {' | '.join(cells)} | {readings} | {value['floor']:,.0f} |"
            )
    return "\n".join(rows)


def floor(monitor: BulkMonitor) -> dict[str, float]:
    """What a pair costs at least: each field and cell that the scans read, and each cell that they write, once."""
    scans = list(monitor.scans.values())
    numbers = sum(len(scan.fields) - 1 + len(scan.reads) + len(scan.cells) for scan in scans)
    operations = sum(part.op in OPERATORS for scan in scans for term in scan.terms for part in walk(term))
    speed = bytes_a_second(1 << 24)
    return {"bytes": NUMBER * numbers, "operations": operations, "floor": speed / (NUMBER * numbers)}
