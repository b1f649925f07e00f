"""The optimized scheduler: the decisions of the reference, at the cost of what changes.

A step decides, releases, allocates and charges, as the reference does, on arrays.  While all who run decode and nobody
comes or goes, a calendar stands for those arrays (`calendar.py`).
"""

from collections.abc import Mapping, Sequence
from itertools import repeat
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
    Settings,
)
from .admission import Admission, Entrance, Room
from .arrays import FEW_ROWS, Rows
from .batch import Batch, Growth
from .blocks import Blocks, parts
from .calendar import Calendar
from .clients import ClientQueue
from .door import refusal
from .ints import LARGEST, NOTHING, Bools, Ints, integers
from .job import NO_ROW, Job
from .plain_clients import PlainClients, are_plain
from .promises import capabilities, refuse
from .queue import Queue, one_queue
from .sharing import SHARINGS


class Scheduler:
    """A subject (`schedspec.spec.vocabulary.Subject`), with a second door for engines that have arrays:
    `step_arrays` and `complete_arrays` do the same without deltas."""

    calm_steps = 2
    """So many steps without a change, and the calendar begins; it pays from a few on."""

    def __init__(self, settings: Settings, seed: int = 0) -> None:
        refuse(settings)
        self.settings = settings
        self.rows = Rows.of(FEW_ROWS)
        self.blocks = Blocks.of(settings.blocks, FEW_ROWS)
        self.queue = new_queue(settings)
        self.entrance = Entrance(settings, self.queue)
        self.order: Ints = NOTHING
        self.jobs: dict[str, Job] = {}
        self.seen: set[str] = set()
        self.in_flight: dict[int, Batch] = {}
        self.deltas: list[Delta] = []
        self.record = True
        self.calendar: Calendar | None = None
        self.calm = 0
        self.steps = 0
        self.arrivals = 0
        self.admissions = 0
        self.resident_tokens = 0

    # --- the protocol ------------------------------------------------------------------------------------

    def capabilities(self) -> Capabilities:
        return capabilities("optimized", self.settings)

    def submit(self, request: Request, now_ns: int) -> Receipt:
        if request.id in self.seen:
            return Receipt(verdict="duplicate", of=request.id)
        self.seen.add(request.id)
        refused = refusal(self.settings, request)
        if refused is not None:
            return refused
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

    # --- the same for engines that have arrays -------------------------------------------------------------

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

    # --- the same for simulations, which count calm steps by a clock ---------------------------------------------

    def run_ahead(self, steps: int, stopping: Sequence[str] = ()) -> tuple[int, Sequence[Delta]]:
        """Up to so many steps and their results in one go, as long as the calendar stands and nobody who waits could
        enter; the models of `stopping` stop in the last one.  How many were done, and the deltas of that one's result,
        if it was; the state is what as many single ones would have left."""
        self.deltas, self.record = [], False
        self.begin_at_once()
        calendar = self.calendar
        if calendar is None or self.in_flight or not self.is_shut(calendar):
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

    def step_calm(self, now_ns: int) -> Plan | list[tuple[str, int]]:
        """`step`, told in short if it is calm: all who run get their next position and an output, and those who are
        told enter, each with so many tokens, which is all that is known of it, and its next output."""
        self.record = True
        self.begin_at_once()
        batch = self.plan(in_short=True)
        if batch.calendar is None:
            return self.told(batch)
        fresh = batch.calendar.fresh
        if not fresh:
            return []
        return list(zip(self.ids_of(batch.row[-fresh:]), batch.tokens[-fresh:].tolist(), strict=True))

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

    def ids_of(self, rows: Ints) -> list[str]:
        return [job.request.id for job in self.rows.jobs_at(rows)]

    # --- a step ------------------------------------------------------------------------------------------------

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

    def decide(self) -> Batch:
        """Running requests first, in order of admission; victims if they do not all fit; else admissions."""
        growth = self.compose(self.order)
        admitted = []
        if growth.needed > self.blocks.free:
            growth, victims = self.with_victims(growth)
            self.release(victims, growth)
        else:
            admitted = self.admit(self.settings.token_budget - growth.scheduled, self.blocks.free - growth.needed)
        self.grow(growth)
        return self.issue(growth, admitted)

    def compose(self, order: Ints) -> Growth:
        """Each gets what it knows and has not issued, within the budget, which is clamped before blocks are counted."""
        rows, settings = self.rows, self.settings
        tokens = rows.left[order]
        if settings.chunked_prefill and settings.chunk_tokens:
            np.minimum(tokens, min(settings.chunk_tokens, LARGEST), out=tokens)
        if self.in_flight:  # else who has no samples left has ended
            tokens *= rows.samples_left[order] > 0
        scheduled = int(np.add.reduce(tokens))
        if scheduled > settings.token_budget:
            before = tokens.cumsum() - tokens
            np.minimum(tokens, np.maximum(settings.token_budget - before, 0), out=tokens)
            scheduled = settings.token_budget
        start = rows.issued[order]
        missing = start + tokens - rows.held[order] * settings.block_size
        growing = (missing > 0).nonzero()[0]
        blocks = -(-missing[growing] // settings.block_size)
        return Growth(order, start, tokens, growing, blocks, int(np.add.reduce(blocks)), scheduled)

    def with_victims(self, growth: Growth) -> tuple[Growth, Ints]:
        """What those who remain get, and who does not."""
        if self.settings.victim == "lowest_priority":
            return self.without_the_lowest(growth)
        kept = self.kept(growth)
        return growth.first(kept), growth.row[kept:][::-1]

    def kept(self, growth: Growth) -> int:
        """How many of the first fit into what is free and what all behind them hold."""
        held = self.rows.held[growth.row]
        needs = np.zeros_like(held)
        needs[growth.growing] = growth.blocks
        return int(np.searchsorted(np.cumsum(needs + held), self.blocks.free + held.sum(), side="right"))

    def without_the_lowest(self, growth: Growth) -> tuple[Growth, Ints]:
        """Largest (priority, admission) first.  Who leaves gives its budget back, so that the rest is composed anew."""
        line = sorted(self.rows.jobs_at(self.order), key=lambda job: (job.request.priority, job.admission))
        victims: list[int] = []
        free, order = self.blocks.free, self.order
        while growth.needed > free:
            victims.append(line.pop().row)
            free += int(self.rows.held[victims[-1]])
            order = order[order != victims[-1]]
            growth = self.compose(order)
        return growth, np.array(victims, dtype=np.int64)

    # --- admissions --------------------------------------------------------------------------------------

    def admit(self, tokens: int, blocks: int) -> list[Admission]:
        """Who enters where so many tokens and blocks are left."""
        settings, running = self.settings, len(self.order)
        if not self.queue.size or running >= settings.seats:
            return []
        room = Room(running, settings.seats - running, tokens, blocks, self.resident_tokens, self.prefilling())
        return self.entrance.admit(room)

    def prefilling(self) -> int:
        """Prompts in prefill, where that is asked; while a calendar stands there are none."""
        if not self.settings.prefilling_requests or self.calendar is not None:
            return 0
        return int((self.rows.issued[self.order] < self.rows.prefill_end[self.order]).sum())

    # --- the phases after DECIDE -----------------------------------------------------------------------------

    def release(self, victims: Ints, growth: Growth) -> None:
        """Back to their places; prompt and outputs stay, all else is computed again."""
        requester = self.ids_of(growth.row[growth.growing[:1]])
        for job, gave in self.leave_rows(victims):
            job.was_preempted = True
            self.queue.released(job)
            self.queue.push(job)
            if self.record:
                self.tell_given(job, gave)
                whose = requester[0] if requester else job.request.id
                self.deltas.append(("preempted", job.request.id, "recompute", whose))

    def grow(self, growth: Growth) -> None:
        """Blocks for those who run, in order of admission."""
        if not growth.needed:
            return
        rows = growth.row[growth.growing]
        if growth.needed == len(rows):
            self.grow_by_one(rows)
            return
        taken = self.blocks.append(rows, self.rows.held[rows], growth.blocks)
        self.rows.held[rows] += growth.blocks
        if self.record:
            ids = self.ids_of(rows)
            self.deltas += [("took", *told) for told in zip(ids, parts(taken, growth.blocks), strict=True)]

    def grow_by_one(self, rows: Ints) -> None:
        held = self.rows.held[rows]
        taken = self.blocks.append_one(rows, held)
        held += 1
        self.rows.held[rows] = held
        if self.record:
            ids = self.ids_of(rows)
            self.deltas += [("took", id, [block]) for id, block in zip(ids, taken.tolist(), strict=True)]

    def seat(self, admitted: list[Admission]) -> Ints:
        """Rows for the admitted, with their blocks."""
        jobs = [job for job, _, _ in admitted]
        for job in jobs:
            self.admissions += 1
            job.admission = self.admissions
            self.resident_tokens += job.length
        counts = np.array([needed for _, _, needed in admitted], dtype=np.int64)
        rows = self.rows.seat(jobs, counts)
        self.queue.seated(self.rows, rows, jobs)
        self.blocks.reach_rows(self.rows.count)
        taken = self.blocks.append(rows, integers(len(counts)), counts)
        if self.record:
            for job, blocks in zip(jobs, parts(taken, counts), strict=True):
                self.deltas.append(("took", job.request.id, blocks))
                self.deltas.append(("resumed" if job.was_preempted else "admitted", job.request.id, 0))
        for job in jobs:
            job.was_preempted = False
        return rows

    def issue(self, growth: Growth, admitted: list[Admission]) -> Batch:
        """Positions are scheduled; the last known one is followed by an output to come."""
        row, start, tokens = growth.row, growth.start, growth.tokens
        if np.count_nonzero(tokens) < len(tokens):
            some = tokens.nonzero()[0]
            row, start, tokens = row[some], start[some], tokens[some]
        if admitted:
            first = np.array([tokens for _, tokens, _ in admitted], dtype=np.int64)
            entering = self.seat(admitted)
            self.order = np.concatenate((self.order, entering))
            row = np.concatenate((row, entering))
            start = np.concatenate((start, integers(len(first))))
            tokens = np.concatenate((tokens, first))
        rows, end = self.rows, start + tokens
        left = rows.left[row] - tokens
        samples = (left == 0).astype(np.int64)
        all_sample = np.count_nonzero(samples) == len(samples)
        rows.issued[row] = end
        rows.left[row] = left + samples
        rows.samples_left[row] -= samples
        if self.queue.hears_of_chunks:
            self.tell_chunks(row, end)
        self.calm = self.calm + 1 if all_sample and len(row) == len(self.order) else 0
        left_so_far, generation = rows.left_so_far, rows.generation[row]
        return Batch(self.steps, row, start, tokens, samples, end, generation, left_so_far, all_sample)

    def tell_chunks(self, rows: Ints, ends: Ints) -> None:
        """Where a prompt is charged as it is scheduled."""
        prefilling = ends <= self.rows.prefill_end[rows]
        for job, end in zip(self.rows.jobs_at(rows[prefilling]), ends[prefilling].tolist(), strict=True):
            self.queue.ran(job, end)

    # --- results -------------------------------------------------------------------------------------------

    def served_by(self, batch: Batch) -> tuple[Bools | None, Ints]:
        """Which entries still stand (None: all), and the rows of those that bring an output."""
        standing = batch.standing(self.rows)
        if standing is None and batch.all_sample:
            return None, batch.row
        brings = batch.samples > 0 if standing is None else (batch.samples > 0) & standing
        return standing, batch.row[brings]

    def settle(self, batch: Batch, standing: Bools | None, served: Ints, stopped: Bools) -> Ints:
        """Results count for the entries that still stand; who ends, in order.  `served` are rows that got an output,
        `stopped` whether their model ended there."""
        calendar = self.calendar
        if calendar is not None and self.is_next(calendar, batch):
            ending = calendar.ending(stopped, calendar.done + 1)
            if len(ending) < len(calendar.order):
                return self.settle_tick(calendar, ending, stopped)
        if calendar is not None and (calendar.done or batch.calendar is calendar):
            self.leave_calendar()
        rows, row, computed = self.rows, batch.row, batch.ends()
        if standing is not None:
            row, computed = row[standing], computed[standing]
        rows.computed[row] = computed
        if not len(served):
            return NOTHING
        outputs = rows.outputs[served] + 1
        rows.outputs[served] = outputs
        self.queue.served(rows, served)
        ended = (stopped | (outputs >= rows.declared[served])).nonzero()[0]
        if len(ended):
            if self.calendar is not None or self.in_flight:
                self.leave_calendar()
            self.finish(served[ended], stopped[ended])
        return served[ended]

    def is_next(self, calendar: Calendar, batch: Batch) -> bool:
        """Whether it is the result that the calendar expects, and none of before it is still to come: who has its last
        token without an earlier one has not ended."""
        if batch.calendar is not calendar or batch.tick != calendar.done + 1:
            return False
        oldest = next(iter(self.in_flight.values()), batch)
        return oldest.calendar is calendar

    def finish(self, rows: Ints, stopped: Bools) -> None:
        for (job, gave), stop in zip(self.leave_rows(rows), stopped.tolist(), strict=True):
            self.queue.released(job)
            self.end(job)
            if self.record:
                self.tell_given(job, gave)
                self.deltas.append(("finished", job.request.id, "stop" if stop else "length"))

    # --- the calendar ----------------------------------------------------------------------------------------

    def begin_calendar(self) -> None:
        """All who run got a position and an output in the last steps; if that goes on for a while, clocks count it."""
        self.calm = 0
        order = self.order
        if not len(order):
            return
        calendar = Calendar.of(self.rows, order, self.settings.block_size)
        lasts = calendar.next_end > self.calm_steps or not self.in_flight
        if lasts and self.queue.may_tick(len(order), 1):
            self.calendar = calendar
            self.queue.join_clock(self.rows, order)

    def begin_at_once(self) -> None:
        """If all who run decode: there is no need to see that twice."""
        if self.calendar is not None or self.in_flight or len(self.order) > self.settings.token_budget:
            return
        if not np.count_nonzero(self.rows.left[self.order] != 1):
            self.begin_calendar()

    def tick(self, calendar: Calendar, *, in_short: bool = False) -> Batch | None:
        """A step in which all who run go on decoding, and whole prompts may enter; None if something else happens.
        `in_short`: then nothing is told of it."""
        running = len(calendar.order)
        growing = calendar.at_edge()
        budget, free = self.settings.token_budget - running, self.blocks.free - len(growing)
        ends = calendar.steps == calendar.next_end or not self.queue.may_tick(running, calendar.steps + 1)
        if ends or free < 0:
            self.leave_calendar()
            return None
        admitted = self.admit(budget, free)
        if self.queue.size and running < self.settings.seats:
            calendar.is_closed = self.queue.keeps_order and not admitted
        if admitted and not self.may_join(calendar, admitted):
            self.leave_calendar()
            growth = self.compose(self.order)
            self.grow(growth)
            return self.issue(growth, admitted)
        self.record = self.record and not in_short
        if len(growing):
            self.grow_by_one(calendar.grown(growing))
        start, tokens = calendar.starts + calendar.steps, calendar.one_each()
        calendar.steps += 1
        if admitted:
            first = self.join(calendar, admitted)
            start = np.concatenate((start, integers(len(first))))
            tokens = np.concatenate((tokens, first))
        return Batch(
            self.steps,
            calendar.order,
            start,
            tokens,
            calendar.one_each(),
            generation=calendar.generation,
            left_so_far=self.rows.left_so_far,
            all_sample=True,
            calendar=calendar,
            tick=calendar.steps,
        )

    def may_join(self, calendar: Calendar, admitted: list[Admission]) -> bool:
        """Whether the calendar goes on with them: nothing is in flight, and each has its first output in this step."""
        if self.in_flight or any(tokens < job.known for job, tokens, _ in admitted):
            return False
        return self.queue.may_tick(len(calendar.order) + len(admitted), calendar.steps + 1)

    def join(self, calendar: Calendar, admitted: list[Admission]) -> Ints:
        """How many tokens each of them runs in the step that was just begun."""
        rows, entering = self.rows, self.seat(admitted)
        known = rows.left[entering]
        rows.samples_left[entering] -= 1
        if self.queue.hears_of_chunks:
            self.tell_chunks(entering, known)
        calendar.join(rows, entering, known, rows.held[entering])
        self.queue.join_clock(rows, entering)
        self.order = calendar.order
        return known

    def is_shut(self, calendar: Calendar) -> bool:
        """Whether no step of the calendar will admit anybody, and each has the budget for all who run."""
        running, budget = len(calendar.order), self.settings.token_budget
        is_full = running >= self.settings.seats or running == budget
        return running <= budget and (not self.queue.size or is_full or calendar.is_closed)

    def open_calendar(self) -> None:
        """Others wait now than those who did not fit."""
        if self.calendar is not None:
            self.calendar.is_closed = False

    def tick_ahead(self, calendar: Calendar, steps: int) -> int:
        """So many ticks and their results, or as many as there are blocks for."""
        places, ticks = calendar.edges_ahead(steps)
        done = steps
        if len(places) > self.blocks.free:
            done = int(ticks[self.blocks.free])
            places = places[ticks < done]
        if len(places):
            self.grow_by_one(calendar.grown(places))
        calendar.steps += done
        calendar.done += done
        self.steps += done
        for _ in range(done):
            self.queue.tick()
        return done

    def settle_tick(self, calendar: Calendar, ending: Ints, stopped: Bools) -> Ints:
        """The result that the calendar expects; those at the places `ending` end by it."""
        calendar.done += 1
        calendar.fresh = 0
        self.queue.tick()
        return self.end_some(calendar, ending, stopped) if len(ending) else NOTHING

    def end_some(self, calendar: Calendar, ending: Ints, stopped: Bools) -> Ints:
        ended = calendar.leave(self.rows, ending)
        self.queue.leave_clock(self.rows, ended)
        self.order = calendar.order
        self.finish(ended, stopped[ending])
        return ended

    def leave_calendar(self) -> None:
        if self.calendar is not None:
            self.calendar.write(self.rows)
            self.queue.stop_clock()
            self.calendar = None
        self.calm = 0

    # --- who leaves --------------------------------------------------------------------------------------

    def end(self, job: Job) -> None:
        job.is_live = False
        self.queue.ended(job)
        del self.jobs[job.request.id]

    def tell_given(self, job: Job, blocks: list[int]) -> None:
        if blocks:
            self.deltas.append(("gave", job.request.id, blocks))

    def leave_rows(self, rows: Ints) -> list[tuple[Job, list[int]]]:
        """Out of the running set, in this order: who, and, where it is told, the blocks that it gave."""
        counts = self.rows.held[rows]
        given = self.blocks.give_all(rows, counts)
        jobs = self.rows.leave(rows)
        if self.calendar is None:  # else its order is the right one already
            self.order = self.order[self.rows.taken[self.order].nonzero()[0]]
        self.resident_tokens -= sum([job.length for job in jobs])
        return list(zip(jobs, parts(given, counts) if self.record else repeat([]), strict=False))


def new_queue(settings: Settings) -> Queue:
    if are_plain(settings):
        return PlainClients.of(settings)
    if settings.policy in SHARINGS:
        return ClientQueue.of(settings)
    return one_queue(settings)


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
