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
from operator import add, ge
from typing import Protocol, cast

from attrs import Factory, define, field

from ...spec.vocabulary import Delta, Outcome, Plan, Subject
from ...spec.workloads import Clients, Incoming
from .costs import CostModel
from .decoding import Decoding
from .record import Log, Record

IDLE_NS = 1_000_000
MOST_IDLE_STEPS = 1_000
MOST_STEPS_OF_A_HOLD = 1_000_000
"""The door may hold requests in an empty system until a window of a rate is over."""
MOST_AHEAD = 64
COPIES = ("swapped_out", "swapped_in")
ENDS = ("finished", "failed", "cancelled", "expired")
VOCABULARY = 32_003


class SimulationError(RuntimeError):
    """A run that cannot go on.  Its text is one sentence."""


class RunsAhead(Protocol):
    """An optional ability of a subject: `schedspec.optimized` has it."""

    def run_ahead(self, steps: int) -> int:
        """Up to `steps` steps and their results in one go, each without a stop, as long as in each all who run get
        their next position and an output, and nobody enters, leaves or ends.  How many were done, maybe none.  The
        state is what as many calls of `step` and `complete` would have left."""
        ...


@define(eq=False)
class Flight:
    """A planned step on its way: it runs so many `tokens`."""

    plan: Plan
    tokens: int
    resident_tokens: int
    begin_ns: int
    end_ns: int


@define(eq=False)
class Simulation:
    """One subject and one cost model; `run` may be called once.  A block that goes to the host or comes back takes
    `swap_block_ns`, before the next step begins.

    With `fast_forward`, and a subject that `run_ahead`s, decode steps in which nothing changes are not asked for one by
    one.  What is logged is the same.  With `until_ns` the run stops there, whoever is still under way.
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
    _moved_blocks: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._decoding = Decoding(self.log.records)

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
        times = [due] if due is not None else []
        if self._flights:
            times.append(self._flights[0].end_ns)
        elif self._live:
            self._idle += 1
            most = MOST_IDLE_STEPS if self._live > len(self._held) else MOST_STEPS_OF_A_HOLD
            if self._idle > most:
                raise SimulationError(
                    f"{self._live} requests are unfinished, but {self._idle} steps in a row ran nothing"
                )
            times.append(now + IDLE_NS)
        return max(now, min(times)) if times else now

    def _happen(self) -> None:
        """What is due now."""
        now = self.log.now_ns
        if self._flights and self._flights[0].end_ns <= now:
            self._complete(self._flights.popleft())
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
        while len(self._flights) < self.depth and self._live:
            plan = self.subject.step(self.log.now_ns)
            self._apply(plan.deltas)
            if not plan.request:
                return
            self._idle = 0
            self._launch(plan)

    def _launch(self, plan: Plan) -> None:
        batch = self._decoding.runs(plan)
        ready = self.log.now_ns + self.host_ns
        begin = max(ready, self._flights[-1].end_ns) if self._flights else ready
        end = begin + max(1, self.cost.step_ns(batch)) + self._moves_ns()
        self._flights.append(Flight(plan, batch.tokens, self._decoding.resident_tokens, begin, end))

    def _moves_ns(self) -> int:
        """Copies since the last step."""
        moved, self._moved_blocks = self._moved_blocks, 0
        return moved * self.swap_block_ns

    def _complete(self, flight: Flight) -> None:
        self.log.counts(flight.begin_ns, flight.end_ns, flight.tokens, flight.resident_tokens)
        self._apply(self.subject.complete(self._outcome(flight.plan), self.log.now_ns))

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
                records[fields[0]].enters(now, fields[1])
                self._decoding.enters(fields[0], fields[1])
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

    def _leave(self, request: str) -> None:
        self.log.leaves(request)
        self._decoding.leaves(request)

    # --- fast forward ------------------------------------------------------------------------------------

    def _skip(self) -> None:
        """Decode steps until something else is due: in as many calls as it takes."""
        if not self.fast_forward or self.depth > 1 or self._flights or not hasattr(self.subject, "run_ahead"):
            return
        subject = cast(RunsAhead, self.subject)
        while self._decoding.is_steady:
            ends = self._ends_ahead()
            done = subject.run_ahead(len(ends)) if ends else 0
            if done:
                self._skipped(ends[:done])
            if not done or done < len(ends):
                return

    def _ends_ahead(self) -> list[int]:
        """When the next steps would end, as far as no other event comes before and no model stops."""
        now, due, batch = self.log.now_ns, self._clients.next_ns, self._decoding.batch
        ends: list[int] = []
        for step in range(min(self._decoding.steps_before_an_end, MOST_AHEAD)):
            now += self.host_ns + max(1, self.cost.step_ns(batch.after(step)))
            if due is not None and now > due:
                break
            ends.append(now)
        return ends

    def _skipped(self, ends: list[int]) -> None:
        """The log of these steps, as if they had been asked for one by one."""
        log, width, resident = self.log, self._decoding.batch.decodes, self._decoding.resident_tokens
        for end in ends:
            resident += width
            log.counts(log.now_ns + self.host_ns, end, width, resident)
            log.now_ns = end
        self._decoding.skips(len(ends))
        log.delivered_again(array("q", ends))
        log.skipped_steps += len(ends)
