"""Steps and results while a calendar stands, and when it does."""

import numpy as np

from .admission import Admission
from .batch import Batch
from .calendar import Calendar
from .ints import NOTHING, Bools, Ints, integers
from .step import Step


class Ticks(Step):
    """A tick costs what changes.  What a calendar cannot count ends it, and the general step goes on."""

    calm_steps = 2
    """So many steps without a change, and the calendar begins; it pays from a few on."""

    # --- steps -----------------------------------------------------------------------------------------------

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

    # --- results ---------------------------------------------------------------------------------------------

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

    # --- when it stands --------------------------------------------------------------------------------------

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

    def is_shut(self, calendar: Calendar) -> bool:
        """Whether no step of the calendar will admit anybody, and each has the budget for all who run."""
        running, budget = len(calendar.order), self.settings.token_budget
        is_full = running >= self.settings.seats or running == budget
        return running <= budget and (not self.queue.size or is_full or calendar.is_closed)

    def open_calendar(self) -> None:
        """Others wait now than those who did not fit."""
        if self.calendar is not None:
            self.calendar.is_closed = False

    def leave_calendar(self) -> None:
        if self.calendar is not None:
            self.calendar.write(self.rows)
            self.queue.stop_clock()
            self.calendar = None
        self.calm = 0
