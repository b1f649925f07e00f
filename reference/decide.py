"""DECIDE: who runs, with how many tokens, who is preempted, who is admitted.  On counts only; no table is touched."""

from collections import Counter

from attrs import define

from ..spec.vocabulary import blocks_for
from .state import Admission, Decision, Job, State


def decide(state: State) -> Decision:
    """Running requests first, in order of admission; victims if they do not all fit; else admissions."""
    remaining = list(state.running.values())
    victims: list[Job] = []
    while True:
        growth, need, budget_left = compose(state, remaining)
        if need <= state.pool.available + freed_by(state, victims):
            break
        victims.append(next_victim(state, remaining))
        remaining.remove(victims[-1])
    requester = next((job for job, tokens in growth if new_blocks(state, job, tokens)), None)
    if victims:
        return Decision(victims, requester, growth, [])
    return Decision([], requester, growth, admit(state, budget_left, state.pool.available - need))


def compose(state: State, jobs: list[Job]) -> tuple[list[tuple[Job, int]], int, int]:
    """Each job gets what it knows and has not issued, within the budget: entries, blocks needed, budget left."""
    budget, size = state.settings.token_budget, state.settings.block_size
    growth = []
    need = 0
    for job in jobs:
        tokens = min(job.known - job.issued, budget)
        if tokens <= 0 or job.is_sure_to_end:
            continue
        growth.append((job, tokens))
        budget -= tokens
        missing = job.issued + tokens - len(job.table) * size
        if missing > 0:
            need += blocks_for(missing, size)
    return growth, need, budget


def new_blocks(state: State, job: Job, tokens: int) -> int:
    size = state.settings.block_size
    return max(0, blocks_for(job.issued + tokens, size) - len(job.table))


def freed_by(state: State, victims: list[Job]) -> int:
    """Blocks that nobody else holds; with prefix sharing a block is free when its last holder leaves."""
    leaving = Counter(block for job in victims for block in job.table)
    return sum(count == state.pool.refs[block] for block, count in leaving.items())


def next_victim(state: State, jobs: list[Job]) -> Job:
    """The most recently admitted, or the one of lowest priority and among those the most recently admitted."""
    if state.settings.victim == "lowest_priority":
        return max(jobs, key=lambda job: (job.request.priority, job.admission))
    return jobs[-1]


@define
class Room:
    """What is left for admissions, and which evictable blocks earlier ones count on."""

    seats: int
    budget: int
    blocks: int
    counted: set[int]


def admit(state: State, budget: int, blocks: int) -> list[Admission]:
    """From the head of the queue, until somebody does not fit (break) or nobody does (skip)."""
    room = Room(state.settings.seats - len(state.running), budget, blocks, set())
    admissions: list[Admission] = []
    blocked: list[Job] = []
    while room.seats > 0 and room.budget > 0 and room.blocks > 0 and (job := state.queue.pop()):
        admission = fit(state, job, room, anything_runs=bool(state.running or admissions))
        if admission is not None:
            admissions.append(admission)
            continue
        blocked.append(job)
        if state.settings.at_blocked_head == "break":
            break
    for job in blocked:
        state.queue.push(job)
    return admissions


def fit(state: State, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
    """The admission of a job if it fits; test and charge are this one place."""
    settings, pool = state.settings, state.pool
    cached = cached_blocks(state, job)
    start = len(cached) * settings.block_size
    tokens = min(job.known - start, room.budget)
    if not settings.chunked_prefill and start + tokens < job.known:
        return None
    reserved = reserved_tokens(state, job, start + tokens)
    revived = {block for block in cached if block in pool.evictable} - room.counted
    need = blocks_for(reserved, settings.block_size) - len(cached) + len(revived)
    kept = settings.watermark_blocks if anything_runs else 0
    if need > room.blocks - kept:
        return None
    room.seats -= 1
    room.budget -= tokens
    room.blocks -= need
    room.counted |= revived
    return Admission(job, cached, tokens, reserved)


def reserved_tokens(state: State, job: Job, first: int) -> int:
    """Positions that an admission takes blocks for: its first chunk, all that is known, or its declared length."""
    if state.settings.reserve == "declared":
        return job.request.prompt_tokens + job.request.max_output_tokens - 1
    return job.known if state.settings.reserve == "known" else first


def cached_blocks(state: State, job: Job) -> list[int]:
    """Blocks of the longest cached prefix, short of the last token, which must be computed to be sampled from."""
    if not state.settings.prefix_caching:
        return []
    return state.pool.find(keys_of(state, job, (job.known - 1) // state.settings.block_size))


def keys_of(state: State, job: Job, blocks: int) -> list[int]:
    """Keys of its first blocks: a chain, so that equal keys mean equal prefixes."""
    size = state.settings.block_size
    while len(job.keys) < blocks:
        at = len(job.keys) * size
        parent = job.keys[-1] if job.keys else 0
        job.keys.append(hash((parent, *job.tokens[at : at + size])))
    return job.keys[:blocks]
