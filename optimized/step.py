"""A step on arrays, in the phases of the reference: decide, release, allocate, charge."""

import numpy as np

from .admission import Admission, Room
from .batch import Batch, Growth
from .blocks import parts
from .ints import LARGEST, Bools, Ints, integers
from .running import Running


class Step(Running):
    """Every row that runs is looked at; the sequential loops of the reference are scans."""

    # --- DECIDE ----------------------------------------------------------------------------------------------

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

    def admit(self, tokens: int, blocks: int) -> list[Admission]:
        """Who enters where so many tokens and blocks are left."""
        settings, running = self.settings, len(self.order)
        if not self.queue.size or running >= settings.seats:
            return []
        room = Room(running, settings.seats - running, tokens, blocks, self.resident_tokens, self.prefilling())
        return self.entrance.admit(room)

    # --- RELEASE ---------------------------------------------------------------------------------------------

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

    # --- ALLOCATE --------------------------------------------------------------------------------------------

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

    # --- CHARGE ----------------------------------------------------------------------------------------------

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

    def served_by(self, batch: Batch) -> tuple[Bools | None, Ints]:
        """Which entries still stand (None: all), and the rows of those that bring an output."""
        standing = batch.standing(self.rows)
        if standing is None and batch.all_sample:
            return None, batch.row
        brings = batch.samples > 0 if standing is None else (batch.samples > 0) & standing
        return standing, batch.row[brings]

    def finish(self, rows: Ints, stopped: Bools) -> None:
        left = self.leave_rows(rows)
        if not (self.record or self.queue.hears_who_leaves):
            for job, _ in left:
                job.is_live = False
                del self.jobs[job.request.id]
            return
        for (job, gave), stop in zip(left, stopped.tolist(), strict=True):
            self.queue.released(job)
            self.end(job)
            if self.record:
                self.tell_given(job, gave)
                self.deltas.append(("finished", job.request.id, "stop" if stop else "length"))
