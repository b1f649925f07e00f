"""DECIDE: who runs, with how many tokens, who is preempted, who is admitted.  On counts only; no table is touched."""

from collections import Counter
from collections.abc import Collection
from functools import cached_property

from attrs import Factory, define

from ..spec.reserves import power_of_two
from ..spec.vocabulary import blocks_for
from .caps import prefilling
from .classes import CLASSES, has_classes
from .job import RUNNING, Job
from .peak import Course, peak_blocks
from .phases import in_turn, phase_at_entry, phase_of, turns
from .reasons import held_back, reason_of
from .selection import OneQueue
from .selection.one_queue import by_priority
from .state import Admission, Decision, State


@define
class Room:
    """What is left for admissions, and which evictable blocks earlier ones count on.  `staying` run already, `victims`
    lose their place, which releases blocks, and `entering` have been admitted.  `is_closed`: the step admits nobody."""

    seats: int
    budget: int
    blocks: int
    counted: set[int]
    staying: list[Job] = Factory(list)
    victims: list[Job] = Factory(list)
    released: set[int] = Factory(set)
    entering: list[Admission] = Factory(list)
    is_closed: bool = False

    @cached_property
    def resident_tokens(self) -> int:
        """Declared tokens of those who stay, and of those who have entered since."""
        return sum(job.request.declared_tokens for job in self.staying)

    @cached_property
    def prefilling(self) -> int:
        return prefilling(self.staying)

    @property
    def anything_runs(self) -> bool:
        return bool(self.staying or self.entering)

    @property
    def is_left(self) -> bool:
        return self.seats > 0 and self.budget > 0 and self.blocks > 0


class Deciding:
    """The first phase of a step."""

    state: State

    def decide(self) -> Decision:
        """The step is of the first phases in which somebody runs; as a rule it is of both at once."""
        state = self.state
        state.waits = {}
        state.since_round += 1
        decision = Decision([], None, [], 0)
        for phases in turns(state.settings, state.running.values(), state.phases):
            state.phases = phases
            decision = self.decide_turn(decision.victims)
            if decision.growth or decision.admissions:
                break
        if state.since_round and not decision.victims:
            self.note_closed(decision)
        return decision

    def decide_turn(self, victims: list[Job]) -> Decision:
        """Running requests first, in order of admission; victims if they do not all fit, beside those that there are;
        else admissions."""
        remaining = [job for job in self.state.running.values() if job not in victims]
        while True:
            growth, need, budget_left = self.compose(remaining)
            left = self.state.pool.available + self.freed_by(victims) - need
            if left >= 0:
                break
            victims.append(self.next_victim(remaining))
            remaining.remove(victims[-1])
        requester = next((job for job, tokens in growth if self.new_blocks(job, tokens)), None)
        decision = Decision(victims, requester, growth, budget_left)
        if not victims and self.is_round():
            decision.admissions = self.admit(budget_left, left)
            replaced = {job for admission in decision.admissions for job in admission.victims}
            if replaced:
                decision.growth, *_ = self.compose(self.without(replaced))
        return decision

    def is_round(self) -> bool:
        """Whether the step admits anybody: prefill may be in it, or somebody is swapped; and nobody runs, or batches
        are not request by request, and the last round was a period ago or began in this step."""
        state, settings = self.state, self.state.settings
        if "prefill" not in state.phases and not state.host.is_used:
            return False
        if not state.running:
            return True
        is_due = not state.since_round or state.since_round >= settings.admission_period_steps
        return settings.batching == "iteration" and is_due

    # --- running requests --------------------------------------------------------------------------------

    def compose(self, jobs: list[Job]) -> tuple[list[tuple[Job, int]], int, int]:
        """Each job gets what it knows and has not issued, within the budget: entries, blocks needed, budget left."""
        budget, size = self.state.settings.token_budget, self.state.settings.block_size
        growth = []
        need = 0
        for job in in_turn(jobs, self.state.phases, self.state.settings):
            tokens = min(self.chunk(job, job.issued), budget)
            if tokens <= 0 or self.waits_for_results(job):
                continue
            growth.append((job, tokens))
            budget -= tokens
            missing = job.issued + tokens - len(job.table) * size
            if missing > 0:
                need += blocks_for(missing, size)
        return growth, need, budget

    def waits_for_results(self, job: Job) -> bool:
        """It ends with them, or they keep it out of other steps."""
        return job.is_sure_to_end or self.is_under_way(job)

    def is_under_way(self, job: Job) -> bool:
        """In a step in flight, where that keeps it out of others."""
        return self.state.settings.disjoint_steps and job.computed < job.issued

    def chunk(self, job: Job, start: int) -> int:
        """What is known and not issued; of a prompt that may be split at most `chunk_tokens` in a step."""
        settings, left = self.state.settings, job.known - start
        return min(left, settings.chunk_tokens) if settings.chunked_prefill and settings.chunk_tokens else left

    def new_blocks(self, job: Job, tokens: int) -> int:
        size = self.state.settings.block_size
        return max(0, blocks_for(job.issued + tokens, size) - len(job.table))

    def freed_by(self, victims: list[Job]) -> int:
        """Blocks that nobody else holds; with prefix sharing a block is free when its last holder leaves."""
        return len(self.released_by(victims))

    def released_by(self, victims: list[Job]) -> set[int]:
        leaving = Counter(block for job in victims for block in job.table)
        return {block for block, count in leaving.items() if count == self.state.pool.refs[block]}

    def next_victim(self, jobs: list[Job]) -> Job:
        """The most recently admitted, or the one of lowest priority and among those the most recently admitted.  Where
        others may take the place of a lower class it is the lowest class: else each would evict the other for ever."""
        settings = self.state.settings
        if settings.victim == "lowest_priority":
            class_of = CLASSES[settings.policy](settings) if self.has_classes() else by_priority
            return max(jobs, key=lambda job: (class_of(job), job.admission))
        return jobs[-1]

    # --- admissions --------------------------------------------------------------------------------------

    def admit(self, budget: int, blocks: int) -> list[Admission]:
        """From the head of the queue, until somebody does not fit (break) or nobody does (skip)."""
        state = self.state
        state.since_round = 0
        room = Room(state.settings.seats - len(state.running), budget, blocks, set(), list(state.running.values()))
        admissions: list[Admission] = []
        blocked: list[Job] = []
        aside: list[Job] = []
        while (room.is_left or self.has_classes()) and (job := state.queue.pop()):
            if not state.adapters.can_serve(job):
                aside.append(job)
                continue
            if not self.is_before(job, room.victims):  # they are next, but not in the step that they had to leave
                blocked.append(job)
                break
            if phase_at_entry(job) not in state.phases:
                blocked.append(job)
                if state.settings.at_blocked_head == "break":
                    break
                continue
            admission = None
            if room.is_left:
                admission = self.fit(job, room, anything_runs=bool(room.staying or admissions))
            if admission is None and not blocked:
                admission, room = self.replace(job, admissions, room)
            if admission is not None:
                admission.by = self.rule_of_order(job, has_passed=bool(blocked))
                state.queue.picked(job)
                state.queue.ran(job, admission.start)
                state.adapters.enter(job)
                admissions.append(admission)
                continue
            blocked.append(job)
            if state.settings.at_blocked_head == "break" or not room.is_left:
                break
        for job in blocked + aside:
            self.note_wait(job, room)
            state.queue.put_back(job)
        self.note_next(room, is_known=bool(blocked))
        return admissions

    def rule_of_order(self, job: Job, *, has_passed: bool) -> str:
        """By which rule it is next, if not because it came first."""
        if self.state.queue.is_aged(job):
            return "aging"
        if has_passed:
            return "skip"
        return "adapter" if self.state.settings.policy == "fcfs" else "policy"

    # --- why somebody waits ------------------------------------------------------------------------------

    def note_wait(self, job: Job, room: Room) -> None:
        if self.state.settings.log_waits:
            self.state.waits[job] = reason_of(self, job, room)

    def note_closed(self, decision: Decision) -> None:
        """The step is none that admits."""
        state = self.state
        if not state.settings.log_waits:
            return
        seats, running = state.settings.seats - len(state.running), list(state.running.values())
        blocks = state.pool.available - sum(self.new_blocks(job, tokens) for job, tokens in decision.growth)
        self.note_next(Room(seats, decision.budget_left, blocks, set(), running, is_closed=True))

    def note_after(self, decision: Decision) -> None:
        """Where somebody lost its place nobody else is admitted, the victims neither."""
        victims = decision.victims + [job for admission in decision.admissions for job in admission.victims]
        if victims:
            self.note_next(Room(0, 0, 0, set(), victims=victims))

    def note_next(self, room: Room, *, is_known: bool = False) -> None:
        """Of whoever is next, and of those who are held back."""
        queue = self.state.queue
        if not self.state.settings.log_waits:
            return
        if not is_known and (job := queue.pop()) is not None:
            self.note_wait(job, room)
            queue.put_back(job)
        for held in held_back(queue):
            self.note_wait(held, room)

    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        """The admission of a job if it fits; test and charge are this one place."""
        settings = self.state.settings
        if not self.caps_allow(job, room, anything_runs=anything_runs):
            return None
        cached = self.cached_blocks(job)
        start = self.start(job)
        tokens = min(self.chunk(job, start), room.budget)
        if not settings.chunked_prefill and start + tokens < job.known:
            return None
        admission = Admission(job, cached, start, tokens, self.reserved_tokens(job, start + tokens))
        kept = settings.watermark_blocks if anything_runs else 0
        if self.blocks_of(admission, room) > room.blocks - kept:
            return None
        if settings.reserve == "peak" and not self.peak_fits(admission, room, kept):
            return None
        self.take(admission, room)
        return admission

    def caps_allow(self, job: Job, room: Room, *, anything_runs: bool) -> bool:
        """The caps on all who run, where tokens do not count for whoever is alone, and those of its client and lane."""
        if not (self.state.queue.may(job) and self.prefill_cap_allows(job, room)):
            return False
        most = self.state.settings.resident_tokens
        return not (most and anything_runs) or room.resident_tokens + job.request.declared_tokens <= most

    def prefill_cap_allows(self, job: Job, room: Room) -> bool:
        most = self.state.settings.prefilling_requests
        return not (most and job.enters_prefill) or room.prefilling < most

    def blocks_of(self, admission: Admission, room: Room) -> int:
        """What it takes of those that are available."""
        missing = blocks_for(admission.reserved_tokens, self.state.settings.block_size) - len(admission.cached_blocks)
        return missing + len(self.revived(admission, room))

    def revived(self, admission: Admission, room: Room) -> set[int]:
        """Cached blocks that nobody else holds."""
        is_cached, released = self.state.pool.is_cached, room.released
        return {block for block in admission.cached_blocks if is_cached(block) or block in released} - room.counted

    def take(self, admission: Admission, room: Room) -> None:
        room.blocks -= self.blocks_of(admission, room)
        room.counted |= self.revived(admission, room)
        room.seats -= 1
        room.budget -= admission.tokens
        if self.state.settings.resident_tokens:
            room.resident_tokens += admission.job.request.declared_tokens
        if self.state.settings.prefilling_requests:
            room.prefilling += admission.job.enters_prefill
        room.entering.append(admission)

    def reserved_tokens(self, job: Job, first: int) -> int:
        """Positions that an admission takes blocks for: its first chunk, all that is known, or a length that it may
        reach, of which the last token is never written."""
        settings, request = self.state.settings, job.request
        if settings.reserve in ("on_demand", "peak"):
            return first
        outputs = {
            "known": 0,
            "declared": request.max_output_tokens,
            "predicted": request.expected_output_tokens,
            "power_of_two": min(power_of_two(request.expected_output_tokens), request.max_output_tokens),
            "model": settings.max_model_tokens - request.prompt_tokens,
        }
        return max(job.known, request.prompt_tokens + outputs[settings.reserve] - 1)

    def peak_fits(self, admission: Admission, room: Room, kept: int) -> bool:
        """Whether the pool holds what all will need at any moment to come; whoever is alone was let in at the door."""
        s = self.state.settings
        courses = self.courses(room, admission)
        return len(courses) == 1 or peak_blocks(courses, s.block_size, s.overlap_depth - 1) <= s.blocks - kept

    def courses(self, room: Room, admission: Admission) -> list[Course]:
        """How those who run and enter go on.  Who is behind an unfinished prompt, or beyond the budget, may have to
        wait for it; who is sure to end holds what it has until its last result is there.  A prompt that runs alone is a
        token ahead of those who decode; where somebody else may go first, or has to sit out, everybody may fall behind.
        """
        settings = self.state.settings
        alone = int(settings.batch_mix == "exclusive")
        reached = [(job, job.issued + self.chunk(job, job.issued)) for job in room.staying]
        reached += [(entering.job, entering.start + entering.tokens) for entering in (*room.entering, admission)]
        courses = []
        lags = settings.disjoint_steps or (settings.phase_first != "admission" and not alone)
        for number, (job, end) in enumerate(reached):
            left = job.request.max_output_tokens - job.outputs - job.in_flight
            lags = lags or end < job.known or number >= settings.token_budget
            ahead = alone if left and not (job.state == RUNNING and phase_of(job) == "decode") else 0
            courses.append(Course(job.known + ahead, left - ahead, lags or not left))
        return courses

    def cached_blocks(self, job: Job) -> list[int]:
        """Who was swapped brings its own."""
        return [] if job.is_swapped else self.state.prefixes.cached_blocks(job)

    def start(self, job: Job) -> int:
        """What need not be computed: cached in the pool, or kept in host blocks."""
        return job.kept or len(self.cached_blocks(job)) * self.state.settings.block_size

    def keys_of(self, job: Job, blocks: int) -> list[int]:
        return self.state.prefixes.keys_of(job, blocks)

    # --- in the place of a lower class -------------------------------------------------------------------

    def has_classes(self) -> bool:
        return has_classes(self.state.settings)

    def replace(self, job: Job, admissions: list[Admission], room: Room) -> tuple[Admission | None, Room]:
        """The admission of a job in the place of the fewest running ones of a lower class, and the room after it; if
        all of them are too few, or cost more than the wait, nobody leaves."""
        lower = self.replaceable(job, room)
        for count in range(1, len(lower) + 1):
            victims = lower[:count]
            trial = self.room_without(room.victims + victims, admissions)
            admission = self.fit(job, trial, anything_runs=bool(trial.staying or admissions)) if trial.is_left else None
            if admission is not None:
                if not self.state.host.is_worth(victims, room.victims):
                    break
                admission.victims = victims
                return admission, trial
        return None, room

    def replaceable(self, job: Job, room: Room) -> list[Job]:
        """Running requests of a lower class than a job that seats or blocks are missing for, which would stand behind
        it: from the lowest class on, in it the newest first."""
        if not self.has_classes() or self.waits_for_budget(job, room):
            return []
        if not self.caps_allow(job, room, anything_runs=bool(room.staying or room.entering)):
            return []
        queue, class_of = self.state.queue, CLASSES[self.state.settings.policy](self.state.settings)
        assert isinstance(queue, OneQueue)
        lower = [o for o in room.staying if class_of(job) < class_of(o) and queue.may_replace(job, o)]
        return sorted(lower, key=lambda other: (class_of(other), other.admission), reverse=True)

    def waits_for_budget(self, job: Job, room: Room) -> bool:
        """Seats and blocks are there, but not the tokens: those come with the next step."""
        asked = 1 if self.state.settings.chunked_prefill else job.known - self.start(job)
        return room.seats > 0 and room.blocks > 0 and room.budget < asked

    def is_before(self, job: Job, others: list[Job]) -> bool:
        queue = self.state.queue
        return not others or (isinstance(queue, OneQueue) and all(queue.is_before(job, other) for other in others))

    def room_without(self, victims: list[Job], admissions: list[Admission]) -> Room:
        """What would be left, had these lost their place before anybody was admitted."""
        state = self.state
        staying, released = self.without(victims), self.released_by(victims)
        _, need, budget = self.compose(staying)
        blocks = state.pool.available + len(released) - need
        room = Room(state.settings.seats - len(staying), budget, blocks, set(), staying, victims, released)
        for admission in admissions:
            self.take(admission, room)
        return room

    def without(self, victims: Collection[Job]) -> list[Job]:
        return [job for job in self.state.running.values() if job not in victims]
