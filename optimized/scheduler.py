"""The optimized scheduler: the decisions of the reference, at the cost of what changes.

A step decides, releases, allocates and charges, as the reference does, on arrays.  While all who run decode and nobody
comes or goes, a calendar stands for those arrays (`calendar.py`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..spec.vocabulary import (
    Capabilities,
    Delta,
    Observation,
    Outcome,
    Plan,
    Receipt,
    Request,
    RequestView,
)
from .arrays import Rows
from .batch import Batch
from .calendar import Calendar
from .calm import Calm
from .counted import Counted, are_countable
from .door import turned_away
from .ints import NOTHING, Bools, Ints
from .job import NO_ROW, Job
from .promises import capabilities
from .ticks import Ticks


class Scheduler(Ticks):
    """A subject (`schedspec.spec.vocabulary.Subject`), with a second door for engines that have arrays:
    `step_arrays` and `complete_arrays` do the same without deltas."""

    # --- the protocol ----------------------------------------------------------------------------------------

    def capabilities(self) -> Capabilities:
        return capabilities("optimized", self.settings)

    def submit(self, request: Request, now_ns: int) -> Receipt:
        away = turned_away(self.settings, self.seen, request)
        if away is not None:
            return away
        self.arrivals += 1
        self.open_calendar()
        job = self.jobs[request.id] = Job.of(request, self.arrivals)
        self.queue.push(job)
        return Receipt(verdict="accepted")

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        self.deltas, self.record = [], True
        job = self.jobs.get(request_id)
        if job is None:
            return self.deltas
        self.open_calendar()
        if job.row == NO_ROW:
            self.queue.left(job)
        else:
            self.leave_calendar()
            for _, gave in self.leave_rows(np.array([job.row], dtype=np.int64)):
                self.tell_given(job, gave)
                self.queue.released(job)
        self.end(job)
        self.deltas.append(("cancelled", request_id))
        return self.deltas

    def notify(self, event: Mapping[str, Any], now_ns: int) -> Sequence[Delta]:
        return []

    def step(self, now_ns: int) -> Plan:
        self.record = True
        return self.told(self.plan())

    def told(self, batch: Batch) -> Plan:
        return Plan(
            step=batch.step,
            request=self.ids_of(batch.row),
            start=batch.start.tolist(),
            tokens=batch.tokens.tolist(),
            samples=batch.samples.tolist(),
            deltas=self.deltas,
        )

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        self.deltas, self.record = [], True
        batch = self.in_flight.pop(outcome.step, None)
        tokens = dict(zip(outcome.request, outcome.token, strict=True))
        stops = {request for request, stop in zip(outcome.request, outcome.stop, strict=True) if stop}
        if batch is None:
            return self.deltas
        standing, served = self.served_by(batch)
        ids = self.ids_of(served)
        if ids:
            self.deltas.append(("delivered", ids, [tokens[request] for request in ids]))
        stopped = np.array([request in stops for request in ids], dtype=np.bool_)
        self.settle(batch, standing, served, stopped)
        return self.deltas

    def observe(self) -> Observation:
        rows = self.rows
        if self.calendar is not None:
            rows = rows.copy()
            self.calendar.write(rows)
        running = [job for job in self.jobs.values() if job.row != NO_ROW]
        tables = {job.request.id: self.blocks.table(job.row, int(rows.held[job.row])) for job in running}
        return Observation(
            counters={
                "running": len(self.order),
                "waiting": self.queue.size,
                "free_blocks": self.blocks.free,
                "used_blocks": self.settings.blocks - self.blocks.free,
            },
            requests={job.request.id: view(job, rows) for job in self.jobs.values()},
            tables={request: table for request, table in tables.items() if table},
            free=self.blocks.stack[: self.blocks.free].tolist(),
            evictable=[],
            ref_counts={block: 1 for table in tables.values() for block in table},
            index=[],
            client_counters=self.queue.counters(),
        )

    # --- the same for engines that have arrays ---------------------------------------------------------------

    def step_arrays(self) -> Batch:
        """The plan of a step.  Whose rows these are, `ids_of` tells until they end; arrays are the engine's to read."""
        self.record = False
        return self.plan()

    def complete_arrays(self, batch: Batch, stop: Bools) -> Ints:
        """The results of a step: of each entry that sampled, in order, whether the model ended there.  The rows of
        those who have ended now.  Raises ValueError where `stop` has another length."""
        sampled = len(batch.row) if batch.all_sample else np.count_nonzero(batch.samples)
        if len(stop) != sampled:
            raise ValueError(
                f"stop has {len(stop)} entries, but {sampled} entries of step {batch.step} sampled: "
                "give one for each that did, in order"
            )
        self.deltas, self.record = [], False
        if self.in_flight.get(batch.step) is not batch:
            return NOTHING
        del self.in_flight[batch.step]
        standing, served = self.served_by(batch)
        if standing is not None:
            stop = stop[standing[batch.samples > 0]]
        return self.settle(batch, standing, served, stop)

    # --- the same for simulations, which count calm steps by a clock -----------------------------------------

    def runs_ahead(self) -> bool:
        """Whether `run_ahead` would do a step, if there are blocks for it."""
        self.begin_at_once()
        return self.calendar is not None and not self.in_flight and self.is_shut(self.calendar)

    def run_ahead(self, steps: int, stopping: Sequence[str] = ()) -> tuple[int, Sequence[Delta]]:
        """Up to so many steps and their results in one go, as long as the calendar stands and nobody who waits could
        enter; the models of `stopping` stop in the last one.  How many were done, and the deltas of that one's result,
        if it was; the state is what as many single ones would have left."""
        self.deltas, self.record = [], False
        calendar = self.calendar if self.runs_ahead() else None
        if calendar is None:
            return 0, ()
        ends = 0 < len(stopping) < len(calendar.order) and steps <= calendar.next_end - calendar.steps
        before = calendar.steps
        todo = steps if ends else min(steps - bool(stopping), calendar.next_end - 1 - before)
        while todo > 0 and (done := self.tick_ahead(calendar, min(todo, calendar.block_size))):
            todo -= done
        if ends and not todo:
            self.stop_ahead(calendar, stopping)
        return calendar.steps - before, self.deltas

    def stop_ahead(self, calendar: Calendar, stopping: Sequence[str]) -> None:
        """These, and who has its last output, end by a result that has been counted."""
        self.record = True
        stopped = np.zeros(len(calendar.order), dtype=np.bool_)
        for request in stopping:
            stopped[calendar.order == self.jobs[request].row] = True
        self.end_some(calendar, calendar.ending(stopped, calendar.done), stopped)

    def in_counts(self) -> Counted | None:
        """The same decisions of a fresh scheduler that names no blocks, where there is one for these settings.  What
        somebody changes in a subclass it would not know."""
        return Counted(self.settings) if type(self) is Scheduler and are_countable(self.settings) else None

    def step_calm(self, now_ns: int) -> Plan | Calm:
        """`step`, told in short if it is calm: all who run get their next position and an output, and those who are
        told enter, each with all that is known of it, and its next output."""
        self.record = True
        self.begin_at_once()
        batch = self.plan(in_short=True)
        if batch.calendar is None:
            return self.told(batch)
        fresh = batch.calendar.fresh
        if not fresh:
            return Calm()
        entering = zip(self.ids_of(batch.row[-fresh:]), batch.tokens[-fresh:].tolist(), strict=True)
        return Calm([(request, 0, tokens, 1) for request, tokens in entering])

    def complete_calm(self, stopping: Sequence[str], now_ns: int) -> Sequence[Delta]:
        """The result of the only step in flight, if it was told in short: the models of these stop.  Deltas without
        who got an output: all who were in it and are still there."""
        self.deltas, self.record = [], True
        _, batch = self.in_flight.popitem()
        standing, served = self.served_by(batch)
        stopped = np.zeros(len(served), dtype=np.bool_)
        for request in stopping:
            stopped[served == self.jobs[request].row] = True
        self.settle(batch, standing, served, stopped)
        return self.deltas

    # --- a step ----------------------------------------------------------------------------------------------

    def plan(self, *, in_short: bool = False) -> Batch:
        self.deltas = []
        self.steps += 1
        if self.calendar is None and self.calm >= self.calm_steps:
            self.begin_calendar()
        batch = None if self.calendar is None else self.tick(self.calendar, in_short=in_short)
        if batch is None:
            batch = self.decide()
        if len(batch.row):
            self.in_flight[batch.step] = batch
        return batch


def view(job: Job, rows: Rows) -> RequestView:
    if job.row == NO_ROW:
        return RequestView(state="waiting", issued=0, computed=0, outputs=job.outputs, in_flight=0)
    outputs = int(rows.outputs[job.row])
    return RequestView(
        state="running",
        issued=int(rows.issued[job.row]),
        computed=int(rows.computed[job.row]),
        outputs=outputs,
        in_flight=job.declared - int(rows.samples_left[job.row]) - outputs,
    )
