"""The same decisions on counts alone, for simulations: nobody asks there which blocks somebody has.

While all who run decode, a step changes a clock and how many blocks are free: each crosses an edge once in `block_size`
steps, so it is enough to count how many do at which step of a block.  What a step costs is who comes, who goes, and
the one prompt that may be cut.
"""

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

from attrs import define, field

from ..spec.vocabulary import Capabilities, Delta, Plan, Receipt, Request, Settings
from .admission import Entrance, Room
from .calm import Calm, Told
from .door import turned_away
from .job import Job
from .promises import capabilities
from .queue import ORDERS, Queue, one_queue

ACCEPTED = Receipt(verdict="accepted")


def are_countable(settings: Settings) -> bool:
    """One queue, in which nobody is charged; every seat has its token; and only the last one's prompt may be cut."""
    s = settings
    is_last_cut = not (s.chunked_prefill and s.chunk_tokens)
    has_tokens = s.seats <= s.token_budget
    return s.policy in ORDERS and has_tokens and is_last_cut and s.victim == "newest" and s.overlap_depth == 1


@define(eq=False)
class Course:
    """One that decodes, on the clock of steps: it has `outputs` and the clock's, and its last with step `end`.  It
    holds `held` blocks and one for each of its edges that were crossed, the first in the step after `edge`.
    `is_counted`: among those who cross at that step of a block."""

    job: Job
    outputs: int
    held: int
    edge: int
    end: int
    is_counted: bool = False

    def held_at(self, clock: int, size: int) -> int:
        return self.held + max(0, -(-(clock - self.edge) // size))


@define(eq=False)
class Cut:
    """The one whose prompt is not all scheduled yet: so much is, and so many blocks are held."""

    job: Job
    issued: int
    held: int

    def needs(self, left: int, size: int) -> tuple[int, int]:
        """Of so many tokens that are left: how many it runs, and how many blocks it needs for them."""
        tokens = min(self.job.known - self.issued, left)
        return tokens, max(0, -(-(self.issued + tokens) // size) - self.held)


@define(eq=False)
class Counted:
    """A subject of which a simulation asks a step at a time or many; it names no blocks and shows no snapshots.

    `running`: who decodes, in order of admission; the `cut` one stands behind them.  `crossing[e]` of them need a block
    at step `e` of each block.  `_later`: whose first edge is more than a block away.  In this heap and in `_ends` are
    some who have left.  `is_closed`: who waits does not fit until somebody comes or leaves.
    """

    settings: Settings
    size: int = field(init=False)
    queue: Queue = field(init=False)
    entrance: Entrance = field(init=False)
    free: int = field(init=False)
    crossing: list[int] = field(init=False)
    jobs: dict[str, Job] = field(init=False, factory=dict)
    seen: set[str] = field(init=False, factory=set)
    running: dict[str, Course] = field(init=False, factory=dict)
    cut: Cut | None = field(init=False, default=None)
    clock: int = field(init=False, default=0)
    steps: int = field(init=False, default=0)
    admissions: int = field(init=False, default=0)
    arrivals: int = field(init=False, default=0)
    resident_tokens: int = field(init=False, default=0)
    is_closed: bool = field(init=False, default=False)
    _later: list[tuple[int, int, Course]] = field(init=False, factory=list)
    _ends: list[tuple[int, int, Course]] = field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        self.size, self.free = self.settings.block_size, self.settings.blocks
        self.queue = one_queue(self.settings)
        self.entrance = Entrance(self.settings, self.queue)
        self.crossing = [0] * self.size

    def capabilities(self) -> Capabilities:
        return capabilities("optimized", self.settings)

    # --- who comes and goes ------------------------------------------------------------------------------

    def submit(self, request: Request, now_ns: int) -> Receipt:
        away = turned_away(self.settings, self.seen, request)
        if away is not None:
            return away
        self.arrivals += 1
        self.is_closed = False
        job = self.jobs[request.id] = Job.of(request, self.arrivals)
        self.queue.push(job)
        return ACCEPTED

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        job = self.jobs.get(request_id)
        if job is None:
            return []
        if request_id in self.running:
            self._stops(self.running[request_id])
        elif self.cut is not None and self.cut.job is job:
            self._stops_prefill(self.cut)
        else:
            self.is_closed = False
            self.queue.left(job)
        self._is_over(job)
        return [("cancelled", request_id)]

    def notify(self, event: Mapping[str, Any], now_ns: int) -> Sequence[Delta]:
        return []

    # --- a step ------------------------------------------------------------------------------------------

    def step_calm(self, now_ns: int) -> Plan | Calm:
        """In short, unless it runs nobody."""
        self.steps += 1
        was_cut, deltas = self.cut is not None, self._make_room()
        left = self.settings.token_budget - len(self.running)
        self._grow(1)
        entries = self._go_on(left)
        if self.queue.size and not (deltas or self.is_closed):
            entries += self._admit(left - sum(told[2] for told in entries), was_cut=was_cut)
        return Calm(entries, deltas) if entries or self.running else Plan(step=self.steps)

    def complete_calm(self, stopping: Sequence[str], now_ns: int) -> Sequence[Delta]:
        """The result of that step: who ends by it, since its model does or by its length."""
        ends = self._ends
        ended = [self.running[request] for request in stopping]
        while ends and (ends[0][0] <= self.clock or not self._runs(ends[0][2])):
            course = heappop(ends)[2]
            if self._runs(course) and course not in ended:
                ended.append(course)
        if len(ended) > 1:
            ended.sort(key=lambda course: course.job.admission)
        return [self._finish(course, stopping) for course in ended]

    # --- many steps --------------------------------------------------------------------------------------

    def runs_ahead(self) -> bool:
        """Whether `run_ahead` would do a step, if there are blocks for it."""
        running = len(self.running)
        is_full = running in (self.settings.seats, self.settings.token_budget)
        return running > 0 and self.cut is None and (is_full or self.is_closed or not self.queue.size)

    def run_ahead(self, steps: int, stopping: Sequence[str] = ()) -> tuple[int, Sequence[Delta]]:
        """Up to so many steps and their results, as far as there are blocks and nobody who waits could enter; the
        models of `stopping` stop in the last one.  None in which somebody ends comes before others."""
        if not self.runs_ahead():
            return 0, ()
        done = self._grow(min(steps, self._next_end - self.clock))
        self.steps += done
        is_last = done == steps or self.clock == self._next_end
        return done, self.complete_calm(stopping if done == steps else (), 0) if is_last else ()

    @property
    def _next_end(self) -> int:
        while not self._runs(self._ends[0][2]):
            heappop(self._ends)
        return self._ends[0][0]

    # --- DECIDE ------------------------------------------------------------------------------------------

    def _make_room(self) -> list[Delta]:
        """The newest make room until there are blocks for all others; who they are."""
        needed = self._needed()
        if needed <= self.free:
            return []
        victims = []
        while self._needed() > self.free:
            victims.append(self._preempt())
        for job in victims:
            job.was_preempted = True
            self.queue.push(job)
        return [("preempted", job.request.id, "recompute", None) for job in victims]

    def _needed(self) -> int:
        """Blocks that those who run need for this step."""
        self._count_due()
        needed = self.crossing[self.clock % self.size]
        if self.cut is not None:
            needed += self.cut.needs(self.settings.token_budget - len(self.running), self.size)[1]
        return needed

    def _preempt(self) -> Job:
        if self.cut is not None:
            return self._stops_prefill(self.cut)
        return self._stops(self.running[next(reversed(self.running))])

    # --- ALLOCATE ----------------------------------------------------------------------------------------

    def _grow(self, steps: int) -> int:
        """So many steps of those who decode, or as many as there are blocks for."""
        crossing, size, free = self.crossing, self.size, self.free
        for clock in range(self.clock, self.clock + steps):
            if self._later:
                self._count_due(clock)
            needed = crossing[clock % size]
            if needed > free:
                steps = clock - self.clock
                break
            free -= needed
        self.free = free
        self.clock += steps
        return steps

    def _count_due(self, clock: int | None = None) -> None:
        """Whose first edge has come is counted from now on."""
        clock = self.clock if clock is None else clock
        while self._later and self._later[0][0] <= clock:
            course = heappop(self._later)[2]
            if self._runs(course):
                self._count(course)

    def _count(self, course: Course) -> None:
        course.is_counted = True
        self.crossing[course.edge % self.size] += 1

    # --- CHARGE ------------------------------------------------------------------------------------------

    def _go_on(self, left: int) -> list[Told]:
        """The prompt that is cut gets what those who decode leave."""
        cut = self.cut
        if cut is None:
            return []
        tokens, blocks = cut.needs(left, self.size)
        start, job = cut.issued, cut.job
        cut.issued, cut.held = start + tokens, cut.held + blocks
        self.free -= blocks
        is_whole = cut.issued == job.known
        if is_whole:
            self.cut = None
            self._decodes(job, cut.held)
        return [(job.request.id, start, tokens, int(is_whole))] if tokens else []

    def _admit(self, left: int, *, was_cut: bool) -> list[Told]:
        """`was_cut`: somebody is in prefill, which may end with this step."""
        running = len(self.running) + (self.cut is not None)
        seats = self.settings.seats - running
        if seats <= 0:
            return []
        admitted = self.entrance.admit(Room(running, seats, left, self.free, self.resident_tokens, int(was_cut)))
        self.is_closed = self.queue.keeps_order and not (admitted or was_cut)
        entries: list[Told] = []
        for job, tokens, blocks in admitted:
            self.admissions += 1
            job.admission, job.was_preempted = self.admissions, False
            self.resident_tokens += job.length
            self.free -= blocks
            is_whole = tokens == job.known
            entries.append((job.request.id, 0, tokens, int(is_whole)))
            if is_whole:
                self._decodes(job, blocks)
            else:
                self.cut = Cut(job, tokens, blocks)
        return entries

    def _decodes(self, job: Job, held: int) -> None:
        """From the next step on; this one, which the clock has counted, brings its next output."""
        clock, outputs = self.clock, job.outputs + 1
        course = Course(
            job, outputs - clock, held, held * self.size - job.known + clock, clock + job.declared - outputs
        )
        self.running[job.request.id] = course
        heappush(self._ends, (course.end, job.admission, course))
        if course.edge < clock + self.size:
            self._count(course)
        elif course.edge < course.end:
            heappush(self._later, (course.edge, job.admission, course))

    # --- who leaves --------------------------------------------------------------------------------------

    def _runs(self, course: Course) -> bool:
        return self.running.get(course.job.request.id) is course

    def _finish(self, course: Course, stopping: Sequence[str]) -> Delta:
        job = self._stops(course)
        self._is_over(job)
        return "finished", job.request.id, "stop" if job.request.id in stopping else "length"

    def _stops(self, course: Course) -> Job:
        job = course.job
        self.free += course.held_at(self.clock, self.size)
        if course.is_counted:
            self.crossing[course.edge % self.size] -= 1
        job.outputs = course.outputs + self.clock
        del self.running[job.request.id]
        return self._leaves(job)

    def _stops_prefill(self, cut: Cut) -> Job:
        self.free += cut.held
        self.cut = None
        return self._leaves(cut.job)

    def _leaves(self, job: Job) -> Job:
        self.is_closed = False
        self.resident_tokens -= job.length
        self.queue.released(job)
        return job

    def _is_over(self, job: Job) -> None:
        job.is_live = False
        self.queue.ended(job)
        del self.jobs[job.request.id]
