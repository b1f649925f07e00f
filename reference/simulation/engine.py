"""A scheduler on a virtual clock: arrivals when they come, steps as long as the cost model says.

The clock goes from event to event in nanoseconds: a result, a cancel, an arrival, in this order where they coincide.
After each the scheduler is asked for a step if fewer than `depth` are in flight.  The device runs one step after
another; planning takes `host_ns`, which a second step in flight hides.  Clients are a closed loop: they leave, lose
patience, and ask again (`spec/workloads/clients.py`).
"""

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from math import inf
from operator import add, ge
from typing import Protocol, cast

from attrs import Factory, define, field

from ...spec.vocabulary import Delta, Outcome, Plan, Subject
from ...spec.workloads import Clients, Incoming
from .costs import Batch, CostModel, decodes_ns
from .decoding import Decoding, Entry
from .record import Log, Record

IDLE_NS = 1_000_000
MOST_IDLE_STEPS = 1_000
MOST_STEPS_OF_A_HOLD = 1_000_000
"""The door may hold requests in an empty system until a window of a rate is over."""
MOST_AHEAD = 64
COPIES = ("swapped_out", "swapped_in")
AHEAD = ("runs_ahead", "run_ahead", "step_calm", "complete_calm")
ENDS = ("finished", "failed", "cancelled", "expired")
VOCABULARY = 32_003


class SimulationError(RuntimeError):
    """A run that cannot go on.  Its text is one sentence."""


class Calm(Protocol):
    """A step in short: what runs beside those who decode.  Who starts at 0 enters, with nothing cached; `deltas` say
    who is preempted."""

    @property
    def entries(self) -> Sequence[Entry]: ...

    @property
    def deltas(self) -> Sequence[Delta]: ...


class RunsAhead(Protocol):
    """An optional ability of a subject: `schedspec.optimized` has it.  With `in_counts()` it may give another one, not
    used yet, with the same decisions and this ability, that names no blocks; or None."""

    def runs_ahead(self) -> bool:
        """Whether it is worth asking: `run_ahead` would do a step, if there are blocks for it."""
        ...

    def run_ahead(self, steps: int, stopping: Sequence[str] = ()) -> tuple[int, Sequence[Delta]]:
        """Up to so many steps and their results in one go, as long as in each all who run get their next position and
        an output, and nobody enters or leaves; but the models of `stopping` stop in the last of them.  How many were
        done, maybe none, and the deltas of the last one's result, if it was, without `delivered`.  The state is what
        as many calls of `step` and `complete` would have left."""
        ...

    def step_calm(self, now_ns: int) -> Plan | Calm:
        """`step`, told in short if whoever decoded in the last step, and is not preempted, gets its next position and
        an output."""
        ...

    def complete_calm(self, stopping: Sequence[str], now_ns: int) -> Sequence[Delta]:
        """`complete` for a step that was told in short: the models of these stop.  Its deltas, without `delivered`."""
        ...


@define(eq=False)
class Flight:
    """A planned step on its way: it runs so many `tokens`.  A calm one has no plan, but who is `fresh`: begins to
    decode with it."""

    plan: Plan | None
    tokens: int
    resident_tokens: int
    begin_ns: int
    end_ns: int
    fresh: Sequence[str] = ()


@define(eq=False)
class Simulation:
    """One subject and one cost model; `run` may be called once.  A block that goes to the host or comes back takes
    `swap_block_ns`, before the next step begins.

    With `fast_forward`, and a subject that `run_ahead`s, decode steps in which nothing changes are not asked for one by
    one, and others tell only what changes.  What is logged is the same.  With `until_ns` the run stops there, whoever
    is still under way.
    """

    subject: Subject
    cost: CostModel
    depth: int = 1
    host_ns: int = 0
    swap_block_ns: int = 0
    fast_forward: bool = True
    until_ns: int | None = None
    log: Log = Factory(Log)
    _clients: Clients = field(init=False, factory=Clients)
    _decoding: Decoding = field(init=False)
    _flights: deque[Flight] = field(init=False, factory=deque)
    _last_ends: dict[str, int] = field(init=False, factory=dict)
    _live: int = field(init=False, default=0)
    _held: set[str] = field(init=False, factory=set)
    _idle: int = field(init=False, default=0)
    _came: bool = field(init=False, default=False)
    _ahead: RunsAhead | None = field(init=False, default=None)
    _moved_blocks: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._decoding = Decoding(self.log.records)
        if not self.fast_forward or self.depth != 1:
            return
        if hasattr(self.subject, "in_counts"):
            self.subject = self.subject.in_counts() or self.subject
        if all(hasattr(self.subject, name) for name in AHEAD):
            self._ahead = cast(RunsAhead, self.subject)

    def run(self, workload: Iterable[Incoming], progress: Callable[[int], None] = lambda requests: None) -> Log:
        """Until everybody has ended.  `progress` is told how many requests have come.  Raises SimulationError if the
        scheduler does nothing although requests wait."""
        self._clients = Clients(workload)
        while self._goes_on():
            self._happen()
            self._skip()
            self._fill()
            self.log.now_ns = self._when()
            progress(len(self.log.records))
        self._decoding.close()
        self.log.close()
        return self.log

    def _goes_on(self) -> bool:
        if self.until_ns is not None and self.log.now_ns >= self.until_ns:
            return False
        return bool(self._clients.may_come or self._live or self._flights)

    # --- events ------------------------------------------------------------------------------------------

    def _when(self) -> int:
        """The next event; if there is none but requests are live, the scheduler is asked again a little later."""
        now, due = self.log.now_ns, self._clients.next_ns
        if self._flights:
            end = self._flights[0].end_ns
        elif self._live:
            self._idle += 1
            most = MOST_IDLE_STEPS if self._live > len(self._held) else MOST_STEPS_OF_A_HOLD
            if self._idle > most:
                raise SimulationError(
                    f"{self._live} requests are unfinished, but {self._idle} steps in a row ran nothing"
                )
            end = now + IDLE_NS
        else:
            end = now if due is None else due
        return max(now, end if due is None else min(due, end))

    def _happen(self) -> None:
        """What is due now."""
        now = self.log.now_ns
        if self._flights and self._flights[0].end_ns <= now:
            self._complete(self._flights.popleft())
        due = self._clients.next_ns
        if due is None or due > now:
            return
        for request in self._clients.leaving(now):
            self._apply(self.subject.cancel(request, now))
        for incoming in self._clients.coming(now):
            self._submit(incoming)

    def _submit(self, incoming: Incoming) -> None:
        request, now = incoming.request, self.log.now_ns
        record = self._record(incoming)
        receipt = self.subject.submit(request, now)
        self._apply(receipt.deltas)
        record.instead = receipt.how or (receipt.verdict if receipt.verdict == "deferred" else None)
        if receipt.verdict in ("accepted", "deferred") or receipt.how == "asynchronous":
            record.waits_since_ns = now
            self._live += 1
            self._came = True
            if receipt.verdict != "accepted":
                self._held.add(request.id)
            if receipt.how is None:  # else its client need not stay
                self._clients.accepted(incoming, now)
        elif receipt.verdict != "converted":  # else another pool or model serves its client
            record.refused = receipt.reason or receipt.verdict
            self._clients.refused(incoming, now, receipt.retry_after_ns)

    def _record(self, incoming: Incoming) -> Record:
        request = incoming.request
        if request.id in self.log.records:
            raise SimulationError(f"the workload has two requests of the name {request.id!r}")
        output = min(incoming.output_tokens, request.max_output_tokens)
        record = Record(request.id, request.client, request.lane, incoming.now_ns, request.prompt_tokens, output)
        self.log.records[request.id] = record
        self._last_ends[request.id] = record.last_end
        return record

    # --- steps -------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Plan steps until enough are in flight, or the scheduler has none."""
        self._came = False
        while len(self._flights) < self.depth and self._live:
            plan = self._ahead.step_calm(self.log.now_ns) if self._ahead else self.subject.step(self.log.now_ns)
            if plan.deltas:
                self._apply(plan.deltas)
            if not isinstance(plan, Plan):
                self._idle = 0
                self._launch_calm(plan.entries)
                return
            if not plan.request:
                return
            self._idle = 0
            self._launch(self._decoding.runs(plan), plan)

    def _launch_calm(self, entries: Sequence[Entry]) -> None:
        for request, start, _, _ in entries:
            if not start:
                self._enter(request, 0)
        fresh = [request for request, _, _, samples in entries if samples]
        self._launch(self._decoding.runs_calm(entries), None, fresh)

    def _launch(self, batch: Batch, plan: Plan | None, fresh: Sequence[str] = ()) -> None:
        ready = self.log.now_ns + self.host_ns
        begin = max(ready, self._flights[-1].end_ns) if self._flights else ready
        end = begin + max(1, self.cost.step_ns(batch)) + self._moves_ns()
        self._flights.append(Flight(plan, batch.tokens, self._decoding.resident_tokens, begin, end, fresh))

    def _moves_ns(self) -> int:
        """Copies since the last step."""
        moved, self._moved_blocks = self._moved_blocks, 0
        return moved * self.swap_block_ns

    def _complete(self, flight: Flight) -> None:
        self.log.counts(flight.begin_ns, flight.end_ns, flight.tokens, flight.resident_tokens)
        if flight.plan is not None:
            self._apply(self.subject.complete(self._outcome(flight.plan), self.log.now_ns))
        elif self._ahead is not None:
            decoding = self._decoding
            deltas = self._ahead.complete_calm(decoding.at_their_end(), self.log.now_ns)
            if decoding.count:
                self.log.delivered_to_all(decoding.requests, flight.fresh)
                self._clients.got_tokens(flight.fresh)
            self._apply(deltas)

    def _outcome(self, plan: Plan) -> Outcome:
        """A token for each entry that samples; the model ends where the workload says.  All requests have the same
        token at a position, so that what follows an equal prompt is equal."""
        request = list(compress(plan.request, plan.samples))
        end = list(compress(map(add, plan.start, plan.tokens), plan.samples))
        last = map(self._last_ends.__getitem__, request)
        token = [7_919 * position % VOCABULARY for position in end]
        return Outcome(step=plan.step, request=request, token=token, stop=list(map(ge, end, last)))

    # --- what deltas say ---------------------------------------------------------------------------------

    def _apply(self, deltas: Sequence[Delta]) -> None:
        now, records = self.log.now_ns, self.log.records
        got: list[str] = []
        for name, *fields in deltas:
            if name == "delivered":
                got += fields[0]
            elif name in ("admitted", "resumed"):
                self._enter(fields[0], fields[1])
            elif name == "preempted":
                got = self._deliver(got)
                records[fields[0]].is_preempted(now, is_swapped=fields[1] == "swap")
                self._leave(fields[0])
            elif name in COPIES:
                self._moved_blocks += len(fields[1])
            elif name in ENDS:
                got = self._deliver(got)
                records[fields[0]].ends(now, name)
                self._leave(fields[0])
                self._clients.ended(fields[0])
                self._held.discard(fields[0])
                self._live -= 1
            elif name == "entered":
                self._held.discard(fields[0])
        self._deliver(got)

    def _deliver(self, requests: list[str]) -> list[str]:
        """What is left to deliver: nobody."""
        if requests:
            self.log.delivered(requests)
            self._clients.got_tokens(requests)
        return []

    def _enter(self, request: str, cached_tokens: int) -> None:
        self.log.records[request].enters(self.log.now_ns, cached_tokens)
        self._decoding.enters(request, cached_tokens)

    def _leave(self, request: str) -> None:
        self.log.leaves(request)
        self._decoding.leaves(request)

    # --- fast forward ------------------------------------------------------------------------------------

    def _skip(self) -> None:
        """Decode steps until something else is due: in as many calls as it takes."""
        if self._ahead is None or self._flights or self._came:
            return  # whoever has just come is looked at first
        while self._decoding.is_steady and self._ahead.runs_ahead():
            ends, stopping = self._ends_ahead()
            done, deltas = self._ahead.run_ahead(len(ends), stopping) if ends else (0, ())
            if done:
                self._skipped(ends[:done])
                self._apply(deltas)
            if not done or done < len(ends):
                return

    def _ends_ahead(self) -> tuple[list[int], list[str]]:
        """When the next steps would end, as far as no other event comes before, and whose models stop in the last."""
        decoding, host_ns = self._decoding, self.host_ns
        now, due, until = self.log.now_ns, self._clients.next_ns, inf if self.until_ns is None else self.until_ns
        most = decoding.steps_to_an_end
        decodes, context = decoding.batch[:2]
        ends: list[int] = []
        for step_ns in decodes_ns(self.cost, decodes, context, min(most, MOST_AHEAD)):
            now += host_ns + max(1, step_ns)
            if now >= until or (due is not None and now > due):
                break
            ends.append(now)
        return ends, decoding.at_their_end(most) if len(ends) == most else []

    def _skipped(self, ends: list[int]) -> None:
        """The log of these steps, as if they had been asked for one by one."""
        log, decoding = self.log, self._decoding
        log.counts_decodes(ends, decoding.count, decoding.resident_tokens, self.host_ns)
        decoding.skips(len(ends))
        log.delivered_again(array("q", ends))
