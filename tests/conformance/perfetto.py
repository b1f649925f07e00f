"""A run for https://ui.perfetto.dev and chrome://tracing: JSON of the Chrome trace event format.

Three processes: the scheduler (a slice per step, what breaks a rule as a global instant), requests (a track each: what
it does, in it what it runs in each step, as instants what happens to it), and memory (counters).  `ts` and `dur` are
microseconds by the format.  Where the clock of the run moves they are its time; where it stands still a step is
1,000 of them.  The file says which in `otherData` and in the name of the first process.

It is written as it is read: memory is that of the requests that live.
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

from attrs import Factory, define, evolve

from schedspec.spec.vocabulary import Delta, Header, Message, Outcome, Plan

from .archives import read_recorded
from .files import open_new
from .holdings import STATES, Holdings
from .names import deltas_of, short_name
from .narrate import Teller
from .timeline import Doing, Known, at_the_door, turn

Clock = Literal["steps", "time"]

SCHEDULER, REQUESTS, MEMORY = 1, 2, 3
STEP_US = 1_000
LOOKED_AT = 10_000
"""So many messages are read to see whether the clock moves."""

SLICES: Mapping[Doing, str] = {
    "door": "held at the door",
    "waits": "waits",
    "parked": "parked",
    "runs": "runs",
    "again": "waits (preempted)",
    "swapped": "waits (swapped)",
    "between": "between the pools",
}
UNITS: Mapping[Clock, str] = {
    "steps": f"ts counts steps: one step is {STEP_US:,} µs, since the clock of the run stands still",
    "time": "ts is the time of the run, in µs",
}


def clock_of(messages: Iterable[Message]) -> Clock:
    """Time, if any of the first messages comes later than another."""
    times = {message.now_ns for message in islice(messages, LOOKED_AT)}
    return "time" if len(times) > 1 else "steps"


def write_perfetto(
    path: Path, header: Header, messages: Iterable[Message], clock: Clock, broken: Mapping[int, str]
) -> int:
    """How many events were written.  `broken`: message -> the rule that it breaks."""
    with open_new(path) as file:
        export = Export(file, header, clock, broken)
        for message in messages:
            export.feed(message)
        return export.end()


def export_trace(trace: Path, path: Path, broken: Mapping[int, str], most: int | None = None) -> int:
    """The same of the first messages of a recorded run, read twice: its beginning tells which clock it has."""
    clock = clock_of(islice(read_recorded(trace)[1], most))
    header, messages = read_recorded(trace)
    return write_perfetto(path, header, islice(messages, most), clock, broken)


@define
class Track:
    """A request on the page: what it does since when, and until when its last entry lasts."""

    tid: int
    known: Known
    since_us: float
    ran_until_us: float = 0.0


@define
class Flight:
    """A step whose results are not there yet."""

    plan: Plan
    begun_us: float
    lane: int


@define
class Export:
    file: IO[str]
    header: Header
    clock: Clock
    broken: Mapping[int, str]
    message: int = 0
    events: int = 0
    now_us: float = 0.0
    steps: int = 0
    tracks: dict[str, Track] = Factory(dict)
    flights: dict[int, Flight] = Factory(dict)
    holdings: Holdings = Factory(lambda self: Holdings(self.header.settings), takes_self=True)
    teller: Teller = Factory(Teller)
    last_tid: int = 0
    lanes: int = 0
    running: int = 0

    def __attrs_post_init__(self) -> None:
        subject = short_name(self.header.subject)
        about = {"subject": subject, "seed": self.header.seed, "ts": UNITS[self.clock]}
        self.file.write('{"displayTimeUnit": "ms", "otherData": ' + json.dumps(about) + ', "traceEvents": [\n')
        for pid, name in (
            (SCHEDULER, f"scheduler {subject} ({UNITS[self.clock]})"),
            (REQUESTS, "requests"),
            (MEMORY, "memory"),
        ):
            self.put("M", "process_name", pid, 0, args={"name": name})
            self.put("M", "process_sort_index", pid, 0, args={"sort_index": pid})

    # --- the run -----------------------------------------------------------------------------------------

    def feed(self, message: Message) -> None:
        self.message += 1
        self.now_us = self._time_of(message)
        if message.kind == "step":
            self._planned(message.answer)
        elif message.kind == "complete":
            self._completed(message.given)
        elif message.kind == "submit":
            self._submitted(message)
        elif message.kind == "cancel":
            self._instant(message.given, "cancel")
        for delta in deltas_of(message):
            self._delta(delta)
        if message.kind in ("step", "complete", "cancel"):
            self._counters()
        if (rule := self.broken.get(self.message)) is not None:
            self.put("i", f"{rule} is broken", SCHEDULER, 0, s="g", args={"message": self.message})

    def end(self) -> int:
        """What is still open lasts until now."""
        for step in list(self.flights):
            self._land(step)
        for track in self.tracks.values():
            self._close(track, track.known)
        self.file.write("\n]}\n")
        return self.events

    def _time_of(self, message: Message) -> float:
        if self.clock == "time":
            return message.now_ns / 1_000
        self.steps += message.kind == "step"
        return self.steps * STEP_US if message.kind != "step" else (self.steps - 1) * STEP_US

    # --- steps -------------------------------------------------------------------------------------------

    def _planned(self, plan: Plan) -> None:
        busy = {flight.lane for flight in self.flights.values()}
        lane = next(n for n in range(len(busy) + 1) if n not in busy)
        if lane >= self.lanes:
            self.lanes = lane + 1
            self.put(
                "M",
                "thread_name",
                SCHEDULER,
                lane,
                args={"name": "steps" if not lane else f"steps in flight {lane + 1}"},
            )
        old = self.flights.pop(plan.step, None)  # a step that was planned twice: the run is wrong, the page is not
        flight = self.flights[plan.step] = Flight(plan, self.now_us, old.lane if old is not None else lane)
        if self.clock == "steps" or not plan.request:
            self._slices(flight, self.now_us + (STEP_US if self.clock == "steps" else 0))
            del self.flights[plan.step]

    def _completed(self, outcome: Outcome) -> None:
        if outcome.step in self.flights:
            self._land(outcome.step)

    def _land(self, step: int) -> None:
        self._slices(self.flights.pop(step), self.now_us)

    def _slices(self, flight: Flight, until_us: float) -> None:
        """The step, and in the track of each request what it ran."""
        plan = flight.plan
        args: dict[str, Any] = {"requests": len(plan.request), "tokens": sum(plan.tokens)}
        args |= {"pool": plan.pool} if plan.pool else {}
        self._span(f"step {plan.step}", SCHEDULER, flight.lane, flight.begun_us, until_us, args)
        for request, start, tokens, samples in zip(plan.request, plan.start, plan.tokens, plan.samples, strict=True):
            track = self.tracks.get(request)
            if track is None:
                continue
            begun_us = max(flight.begun_us, track.since_us, track.ran_until_us)  # slices of a track are nested or apart
            track.ran_until_us = max(begun_us, until_us)
            args = {"step": plan.step, "start": start, "tokens": tokens, "samples": samples}
            args |= {"drafts": plan.drafts[request]} if request in plan.drafts else {}
            name = "decode" if track.known.decodes(start, tokens) else "prefill"
            self._span(name, REQUESTS, track.tid, begun_us, track.ran_until_us, args)

    # --- requests ----------------------------------------------------------------------------------------

    def _submitted(self, message: Message) -> None:
        request, receipt = message.given, message.answer
        doing = at_the_door(self.header, request, receipt)
        is_new = request.id not in self.tracks
        if is_new:
            self.last_tid += 1
            known = Known(self.last_tid, doing, request.prompt_tokens)
            self.tracks[request.id] = Track(self.last_tid, known, self.now_us)
            name = short_name(request.id) or '""'
            self.put("M", "thread_name", REQUESTS, self.last_tid, args={"name": name})
            self.put("M", "thread_sort_index", REQUESTS, self.last_tid, args={"sort_index": self.last_tid})
        self._instant(request.id, receipt.verdict, says=short_name(self.teller.receipt(receipt)))
        if doing == "over" and is_new:
            del self.tracks[request.id]

    def _delta(self, delta: Delta) -> None:
        self.holdings.hear(delta)
        if delta[0] in ("delivered", "unindexed"):
            return
        request = delta[1]
        track = self.tracks.get(request)
        if track is None:
            return
        before = evolve(track.known)
        turn(track.known, delta)
        if track.known != before:
            self._close(track, before)
            track.since_us = max(self.now_us, track.ran_until_us)
            self.running += (track.known.doing == "runs") - (before.doing == "runs")
        if delta[0] not in ("took", "gave", "shared", "indexed"):
            self._instant(request, delta[0], says=short_name(self.teller.delta(delta)))
        if track.known.doing == "over":
            del self.tracks[request]

    def _close(self, track: Track, known: Known) -> None:
        """What it did until now is a slice."""
        if name := SLICES.get(known.doing, ""):
            why = f" for {known.why}" if known.why else ""
            until_us = max(self.now_us, track.ran_until_us)
            self._span(name + why, REQUESTS, track.tid, track.since_us, until_us, {})

    def _instant(self, request: str, name: str, says: str = "") -> None:
        if request in self.tracks:
            args = {"says": says} if says else {}
            self.put("i", name, REQUESTS, self.tracks[request].tid, s="t", args={"message": self.message, **args})

    def _counters(self) -> None:
        for pool in self.holdings.pools:
            used = {state: self.holdings.counts[pool, state] for state in STATES[:4]}
            free = self.holdings.size(pool) - sum(used.values())
            self.put("C", f"blocks {pool}".strip(), MEMORY, 0, args={**used, "free": max(free, 0)})
        if self.header.settings.host_blocks:
            self.put("C", "host blocks", MEMORY, 0, args={"used": self.holdings.counts["host", "host"]})
        run = self.running
        self.put("C", "requests", MEMORY, 0, args={"run": run, "wait": len(self.tracks) - run})

    # --- events ------------------------------------------------------------------------------------------

    def _span(self, name: str, pid: int, tid: int, since_us: float, until_us: float, args: Mapping[str, Any]) -> None:
        self.put("X", name, pid, tid, ts=since_us, dur=max(until_us - since_us, 0), args=args)

    def put(self, phase: str, name: str, pid: int, tid: int, **more: Any) -> None:
        event = {"ph": phase, "name": name, "pid": pid, "tid": tid, "ts": self.now_us, **more}
        self.file.write((",\n" if self.events else "") + json.dumps(event))
        self.events += 1
