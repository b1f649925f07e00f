"""A scheduler on a virtual clock: arrivals when they come, steps as long as the cost model says.

The clock goes from event to event in nanoseconds: a result, a cancel, an arrival, in this order where they coincide.
After each the scheduler is asked for a step if fewer than `depth` are in flight.  The device runs one step after
another; planning takes `host_ns`, which a second step in flight hides.
"""

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, cast

from attrs import Factory, define, field

from ...spec.vocabulary import Delta, Outcome, Plan, Request, Subject
from ...spec.workloads import Incoming
from .costs import Batch, CostModel
from .record import Log, Record

IDLE_NS = 1_000_000
MOST_IDLE_STEPS = 1_000
MOST_AHEAD = 64
ENDS = ("finished", "failed", "cancelled", "expired")
VOCABULARY = 32_003


class SimulationError(RuntimeError):
    """A run that cannot go on.  Its text is one sentence."""


class RunsAhead(Protocol):
    """An optional ability of a subject: `schedspec.optimized` has it."""

    def run_ahead(self, steps: int) -> int:
        """Up to `steps` steps and their results in one go, each without a stop, as long as each is the one before with
        every entry one position further, and nobody enters, leaves or ends.  How many were done, maybe none.  The state
        is what as many calls of `step` and `complete` would have left."""
        ...


@define(eq=False)
class Flight:
    """A planned step on its way."""

    plan: Plan
    batch: Batch
    resident_tokens: int
    begin_ns: int
    end_ns: int


@define(eq=False)
class Steady:
    """The last step, if all of it was decodes, and nobody has come to run or left since."""

    requests: Sequence[str]
    batch: Batch


@define(eq=False)
class Simulation:
    """One subject and one cost model; `run` may be called once.

    With `fast_forward`, and a subject that `run_ahead`s, decode steps in which nothing changes are not asked for one by
    one.  What is logged is the same.
    """

    subject: Subject
    cost: CostModel
    depth: int = 1
    host_ns: int = 0
    fast_forward: bool = True
    log: Log = Factory(Log)
    _incoming: Iterator[Incoming] = field(init=False, factory=lambda: iter(()))
    _next: Incoming | None = field(init=False, default=None)
    _cancels: deque[tuple[int, str]] = field(init=False, factory=deque)
    _flights: deque[Flight] = field(init=False, factory=deque)
    _steady: Steady | None = field(init=False, default=None)
    _reached: dict[str, int] = field(init=False, factory=dict)
    _resident_tokens: int = field(init=False, default=0)
    _live: int = field(init=False, default=0)
    _idle: int = field(init=False, default=0)

    def run(
        self,
        workload: Iterable[Incoming],
        *,
        cancels: Mapping[str, int] | None = None,
        progress: Callable[[int], None] = lambda requests: None,
    ) -> Log:
        """Until everybody has ended.  `cancels`: request -> when its client leaves, after it has come.  `progress` is
        told how many requests have come.  Raises SimulationError if the scheduler does nothing although requests wait.
        """
        self._incoming = iter(workload)
        self._next = next(self._incoming, None)
        self._cancels.extend(sorted((when, request) for request, when in (cancels or {}).items()))
        while self._next is not None or self._live or self._flights:
            self._happen()
            self._skip()
            self._fill()
            self.log.now_ns = self._when()
            progress(len(self.log.records))
        return self.log

    # --- events ------------------------------------------------------------------------------------------

    def _when(self) -> int:
        """The next event; if there is none but requests are live, the scheduler is asked again a little later."""
        times = [self._flights[0].end_ns] if self._flights else []
        times += [self._cancels[0][0]] if self._cancels else []
        times += [self._next.now_ns] if self._next is not None else []
        if self._live and not self._flights:
            self._idle += 1
            if self._idle > MOST_IDLE_STEPS:
                raise SimulationError(
                    f"{self._live} requests are unfinished, but {self._idle} steps in a row ran nothing"
                )
            times.append(self.log.now_ns + IDLE_NS)
        return max(self.log.now_ns, min(times)) if times else self.log.now_ns

    def _happen(self) -> None:
        """What is due now."""
        now = self.log.now_ns
        if self._flights and self._flights[0].end_ns <= now:
            self._complete(self._flights.popleft())
        while self._cancels and self._cancels[0][0] <= now:
            _, request = self._cancels.popleft()
            if request in self.log.records:
                self._apply(self.subject.cancel(request, now))
        while self._next is not None and self._next.now_ns <= now:
            self._submit(self._next)
            self._next = next(self._incoming, None)

    def _submit(self, incoming: Incoming) -> None:
        request = incoming.request
        record = self._record(request, incoming)
        receipt = self.subject.submit(request, self.log.now_ns)
        self._apply(receipt.deltas)
        if receipt.verdict == "accepted":
            record.waits_since_ns = self.log.now_ns
            self._live += 1
        else:
            record.refused = receipt.reason or receipt.verdict

    def _record(self, request: Request, incoming: Incoming) -> Record:
        if request.id in self.log.records:
            raise SimulationError(f"the workload has two requests of the name {request.id!r}")
        output = min(incoming.output_tokens, request.max_output_tokens)
        record = Record(request.id, request.client, request.lane, incoming.now_ns, request.prompt_tokens, output)
        self.log.records[request.id] = record
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
        records, chunks = self.log.records, []
        decodes = context = 0
        for request, start, tokens in zip(plan.request, plan.start, plan.tokens, strict=True):
            record = records[request]
            record.runs(start, tokens)
            self._reach(request, start + tokens)
            if tokens == 1 and start >= record.prompt_tokens:
                decodes, context = decodes + 1, context + start + 1
            else:
                chunks.append((start, tokens))
        batch = Batch(decodes, context, tuple(chunks))
        ready = self.log.now_ns + self.host_ns
        begin = max(ready, self._flights[-1].end_ns) if self._flights else ready
        end = begin + max(1, self.cost.step_ns(batch))
        self._flights.append(Flight(plan, batch, self._resident_tokens, begin, end))

    def _complete(self, flight: Flight) -> None:
        self._count(flight.begin_ns, flight.end_ns, flight.batch.tokens, flight.resident_tokens)
        plan, batch = flight.plan, flight.batch
        is_steady = batch.decodes == len(plan.request) == sum(plan.samples)
        self._steady = Steady(plan.request, batch) if is_steady else None
        self._apply(self.subject.complete(self._outcome(plan), self.log.now_ns))

    def _count(self, begin_ns: int, end_ns: int, tokens: int, resident_tokens: int) -> None:
        log = self.log
        log.steps += 1
        log.run_tokens += tokens
        log.busy_ns += end_ns - begin_ns
        log.resident.add(begin_ns, end_ns, resident_tokens)

    def _outcome(self, plan: Plan) -> Outcome:
        """A token for each entry that samples; the model ends where the workload says."""
        requests, tokens, stops = [], [], []
        for request, start, count, samples in zip(plan.request, plan.start, plan.tokens, plan.samples, strict=True):
            if samples:
                record = self.log.records[request]
                outputs = start + count - record.prompt_tokens + 1
                requests.append(request)
                tokens.append((7_919 * outputs + record.prompt_tokens) % VOCABULARY)
                stops.append(outputs >= record.output_tokens)
        return Outcome(step=plan.step, request=requests, token=tokens, stop=stops)

    # --- what deltas say ---------------------------------------------------------------------------------

    def _apply(self, deltas: Sequence[Delta]) -> None:
        now, log = self.log.now_ns, self.log
        for name, *fields in deltas:
            if name == "delivered":
                log.delivered(fields[0], now)
                continue
            if name in ("admitted", "resumed", "preempted", *ENDS):
                self._steady = None
            if name in ("admitted", "resumed"):
                log.records[fields[0]].enters(now, fields[1])
                self._reach(fields[0], fields[1])
            elif name == "preempted":
                log.records[fields[0]].is_preempted(now)
                self._leave(fields[0])
            elif name in ENDS:
                log.records[fields[0]].ends(now, name)
                self._leave(fields[0])
                self._live -= 1

    def _reach(self, request: str, end: int) -> None:
        self._resident_tokens += end - self._reached.get(request, 0)
        self._reached[request] = end

    def _leave(self, request: str) -> None:
        self._resident_tokens -= self._reached.pop(request, 0)

    # --- fast forward ------------------------------------------------------------------------------------

    def _skip(self) -> None:
        """Decode steps that are as the last one, until something else is due: in as many calls as it takes."""
        if not self.fast_forward or self.depth > 1 or self._flights or not hasattr(self.subject, "run_ahead"):
            return
        subject = cast(RunsAhead, self.subject)
        while self._steady is not None:
            ends = self._ends_ahead(self._steady)
            done = subject.run_ahead(len(ends)) if ends else 0
            if done:
                self._skipped(self._steady, ends[:done])
            if not done or done < len(ends):
                return

    def _ends_ahead(self, steady: Steady) -> list[int]:
        """When the next steps would end, as far as no other event comes before and no model stops."""
        records = self.log.records
        left = min(records[r].output_tokens - len(records[r].token_ns) for r in steady.requests) - 1
        due = [self._next.now_ns] if self._next is not None else []
        due += [self._cancels[0][0]] if self._cancels else []
        ends: list[int] = []
        now = self.log.now_ns
        while len(ends) < min(left, MOST_AHEAD):
            now += self.host_ns + max(1, self.cost.step_ns(steady.batch.after(len(ends) + 1)))
            if due and now > min(due):
                break
            ends.append(now)
        return ends

    def _skipped(self, steady: Steady, ends: list[int]) -> None:
        """The log of these steps, as if they had been asked for one by one."""
        count, width = len(ends), len(steady.requests)
        for end in ends:
            self._resident_tokens += width
            self._count(self.log.now_ns + self.host_ns, end, width, self._resident_tokens)
            self.log.now_ns = end
        times = array("q", ends)
        for request in steady.requests:
            record = self.log.records[request]
            record.runs(self._reached[request], count)
            record.token_ns.extend(times)
            self._reached[request] += count
        steady.batch = steady.batch.after(count)
        self.log.skipped_steps += count
