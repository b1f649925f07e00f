"""DECIDE: who runs, with how many tokens, who is preempted, who is admitted.  On counts only; no table is touched."""

from collections import Counter

from attrs import define

from ..spec.vocabulary import blocks_for
from .job import Job
from .state import Admission, Decision, State


@define
class Room:
    """What is left for admissions, and which evictable blocks earlier ones count on."""

    seats: int
    budget: int
    blocks: int
    counted: set[int]


class Deciding:
    """The first phase of a step."""

    state: State

    def decide(self) -> Decision:
        """Running requests first, in order of admission; victims if they do not all fit; else admissions."""
        remaining = list(self.state.running.values())
        victims: list[Job] = []
        while True:
            growth, need, budget_left = self.compose(remaining)
            left = self.state.pool.available + self.freed_by(victims) - need
            if left >= 0:
                break
            victims.append(self.next_victim(remaining))
            remaining.remove(victims[-1])
        requester = next((job for job, tokens in growth if self.new_blocks(job, tokens)), None)
        decision = Decision(victims, requester, growth, budget_left)
        if not victims:
            decision.admissions = self.admit(budget_left, left)
        return decision

    # --- running requests --------------------------------------------------------------------------------

    def compose(self, jobs: list[Job]) -> tuple[list[tuple[Job, int]], int, int]:
        """Each job gets what it knows and has not issued, within the budget: entries, blocks needed, budget left."""
        budget, size = self.state.settings.token_budget, self.state.settings.block_size
        growth = []
        need = 0
        for job in jobs:
            tokens = min(self.chunk(job, job.issued), budget)
            if tokens <= 0 or job.is_sure_to_end:
                continue
            growth.append((job, tokens))
            budget -= tokens
            missing = job.issued + tokens - len(job.table) * size
            if missing > 0:
                need += blocks_for(missing, size)
        return growth, need, budget

    def chunk(self, job: Job, start: int) -> int:
        """What is known and not issued; of a prompt that may be split at most `chunk_tokens` in a step."""
        settings, left = self.state.settings, job.known - start
        return min(left, settings.chunk_tokens) if settings.chunked_prefill and settings.chunk_tokens else left

    def new_blocks(self, job: Job, tokens: int) -> int:
        size = self.state.settings.block_size
        return max(0, blocks_for(job.issued + tokens, size) - len(job.table))

    def freed_by(self, victims: list[Job]) -> int:
        """Blocks that nobody else holds; with prefix sharing a block is free when its last holder leaves."""
        leaving = Counter(block for job in victims for block in job.table)
        return sum(count == self.state.pool.refs[block] for block, count in leaving.items())

    def next_victim(self, jobs: list[Job]) -> Job:
        """The most recently admitted, or the one of lowest priority and among those the most recently admitted."""
        if self.state.settings.victim == "lowest_priority":
            return max(jobs, key=lambda job: (job.request.priority, job.admission))
        return jobs[-1]

    # --- admissions --------------------------------------------------------------------------------------

    def admit(self, budget: int, blocks: int) -> list[Admission]:
        """From the head of the queue, until somebody does not fit (break) or nobody does (skip)."""
        state = self.state
        room = Room(state.settings.seats - len(state.running), budget, blocks, set())
        admissions: list[Admission] = []
        blocked: list[Job] = []
        while room.seats > 0 and room.budget > 0 and room.blocks > 0 and (job := state.queue.pop()):
            admission = self.fit(job, room, anything_runs=bool(state.running or admissions))
            if admission is not None:
                state.queue.picked(job)
                admissions.append(admission)
                continue
            blocked.append(job)
            if state.settings.at_blocked_head == "break":
                break
        for job in blocked:
            state.queue.put_back(job)
        return admissions

    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        """The admission of a job if it fits; test and charge are this one place."""
        settings, pool = self.state.settings, self.state.pool
        cached = self.cached_blocks(job)
        start = len(cached) * settings.block_size
        tokens = min(self.chunk(job, start), room.budget)
        if not settings.chunked_prefill and start + tokens < job.known:
            return None
        reserved = self.reserved_tokens(job, start + tokens)
        revived = {block for block in cached if block in pool.evictable} - room.counted
        need = blocks_for(reserved, settings.block_size) - len(cached) + len(revived)
        kept = settings.watermark_blocks if anything_runs else 0
        if need > room.blocks - kept:
            return None
        room.seats -= 1
        room.budget -= tokens
        room.blocks -= need
        room.counted |= revived
        return Admission(job, cached, start, tokens, reserved)

    def reserved_tokens(self, job: Job, first: int) -> int:
        """Positions that an admission takes blocks for: its first chunk, all that is known, or its declared length."""
        if self.state.settings.reserve == "declared":
            return job.request.prompt_tokens + job.request.max_output_tokens - 1
        return job.known if self.state.settings.reserve == "known" else first

    def cached_blocks(self, job: Job) -> list[int]:
        return self.state.prefixes.cached_blocks(job)

    def keys_of(self, job: Job, blocks: int) -> list[int]:
        return self.state.prefixes.keys_of(job, blocks)
