"""The reference scheduler: one legal scheduler, obviously right.

A step has four phases, always in this order: DECIDE (`decide.py`), RELEASE what victims hold, ALLOCATE blocks for those
who run, CHARGE positions and write the plan down.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve

from ..spec.vocabulary import (
    Capabilities,
    Delta,
    Observation,
    Outcome,
    Plan,
    Receipt,
    Request,
    Settings,
    Unsupported,
)
from .admission import claims_of_door
from .canonical import Names, canonical, plainly
from .classes import has_classes
from .decide import Deciding
from .door import AtTheDoor
from .drafting import Drafting
from .job import ENDED, RUNNING, WAITING, Job
from .parking import Parks
from .selection.promises import claims_of_sharing, constants_of_sharing
from .state import Admission, Decision, Entry, State
from .swapping import Swapping, view_of

__version__ = "1"

ONE_QUEUE = ("fcfs", "priority", "edf", "sjf", "aging")
"""Policies under which a preempted request has the place that it had, and nobody behind it is resumed before."""


class Scheduler(Parks, AtTheDoor, Deciding, Swapping, Drafting):
    """A subject (`schedspec.spec.vocabulary.Subject`).  `record=False` leaves deltas out, for measurements."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        if settings.pools.are_two:  # `schedspec.reference.make` has both
            raise Unsupported("pools", settings.pools)
        self.state = State.of(settings)
        self.record = record

    # --- the protocol ------------------------------------------------------------------------------------

    def capabilities(self) -> Capabilities:
        return Capabilities(
            name="reference",
            version=__version__,
            observes="tables",
            ordered=True,
            claims=claims_of(self.state.settings),
            constants=constants_of(self.state.settings),
            lookahead_tokens=self.state.settings.draft_tokens,
            admission_period_steps=self.state.settings.admission_period_steps,
        )

    def submit(self, request: Request, now_ns: int) -> Receipt:
        """The door: a duplicate, a refusal with the limit that is broken, or a place in the queue."""
        self.begin_call(now_ns)
        receipt = self.answer(request)
        return evolve(receipt, deltas=[*self.state.deltas, *receipt.deltas]) if self.state.deltas else receipt

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        self.begin_call(now_ns)
        self.end_anywhere(request_id, ("cancelled", request_id))
        return self.state.deltas

    def notify(self, event: Mapping[str, Any], now_ns: int) -> Sequence[Delta]:
        """News of the world; those that nobody knows change nothing."""
        self.begin_call(now_ns)
        request = event.get("request")
        is_gone = event.get("type") == "disconnected" and isinstance(request, str)
        if is_gone and self.state.settings.cancel_on_disconnect:
            self.disconnect(str(request))
        self.hear_of(event)
        return self.state.deltas

    def step(self, now_ns: int) -> Plan:
        self.begin_call(now_ns)
        self.state.step += 1
        decision = self.decide()
        self.log_choices(decision)
        self.release(decision)
        self.allocate(decision)
        drafts = self.draft(decision)
        self.log_waits(decision)
        plan = self.charge(decision)
        return evolve(plan, drafts=drafts) if drafts else plan

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        """Results of a step count for the entries that still stand; a step that is not in flight changes nothing."""
        state = self.state
        if outcome.step not in state.in_flight:
            return []
        self.begin_call(now_ns)
        entries = state.in_flight.pop(outcome.step)
        state.pool.completes(outcome.step)
        if state.gate is not None:
            state.gate.completes(outcome.step, now_ns)
        tokens, further = dict(zip(outcome.request, outcome.token, strict=True)), outcome.further
        stops = {request for request, stop in zip(outcome.request, outcome.stop, strict=True) if stop}
        delivered = [entry.job for entry in entries if self.settle(entry, tokens)]
        rows = [(job.id, tokens[job.id]) for job in delivered]
        for job in delivered if further else ():
            rows += self.verified(job, further.get(job.id, ()))
        if rows and self.record:
            state.deltas.append(("delivered", [request for request, _ in rows], [token for _, token in rows]))
        if state.settings.prefix_caching:
            for entry in entries:
                if entry.epoch == entry.job.epoch:
                    self.name_blocks(entry.job, entry.job.computed)
        pauses = outcome.pauses if state.settings.park_timeout_ns else {}
        for job in delivered:
            if not self.go_on(job, has_stopped=job.id in stops) and job.id in pauses:
                self.pause(job, pauses[job.id])
        return state.deltas

    def go_on(self, job: Job, *, has_stopped: bool) -> bool:
        """After a token: it ends if that was the last, which is told."""
        if not has_stopped and not self.is_at_its_length(job):
            return False
        self.end(job, ("finished", job.id, "stop" if has_stopped else "length"))
        return True

    def observe(self) -> Observation:
        state, pool = self.state, self.state.pool
        live = list(state.live())
        swapped = [job for job in live if job.is_swapped]
        counters = {
            "running": len(state.running),
            "waiting": state.queue.size - len(swapped),
            "free_blocks": pool.available,
            "used_blocks": len(pool.refs),
        }
        if state.settings.host_blocks:
            counters |= {"swapped": len(swapped), "free_host_blocks": len(state.host.free)}
        return Observation(
            counters=counters,
            requests={job.id: view_of(job) for job in live},
            tables={job.id: list(job.table) for job in live if job.table},
            free=list(pool.free),
            evictable=[*pool.evictable, *pool.leased],
            obligations=(*state.leases.obligations(), *pool.obligations()),
            ref_counts=dict(pool.refs),
            index=sorted(pool.key_of),
            client_counters=state.queue.counters(),
            host_tables={job.id: list(job.saved) for job in swapped},
            host_free=tuple(state.host.free),
        )

    def canonical(self, requests: Mapping[str, int], clients: Mapping[str, int]) -> Hashable:
        """What a decision to come can depend on, with requests and clients called by these numbers: for a search that
        takes one state for another.  Whatever a subclass adds is part of it."""
        names = Names(requests, clients)
        beside = {name: value for name, value in vars(self).items() if name not in ("state", "record")}
        return canonical(self.state, names), plainly(beside, names)

    # --- the phases after DECIDE ---------------------------------------------------------------------------------

    def release(self, decision: Decision) -> None:
        for job in decision.victims:
            self.preempt(job, decision.requester or job)
            self.log_displaced(job, "blocks")
        for admission in decision.admissions:
            for job in admission.victims:
                self.preempt(job, admission.job)
                self.log_displaced(job, "class")

    def allocate(self, decision: Decision) -> None:
        """Cached blocks are secured before anything is taken, or growth might evict them."""
        for admission in decision.admissions:
            self.share(admission.job, admission.cached_blocks)
        for job, tokens in decision.growth:
            self.grow(job, job.issued + tokens)
        for admission in decision.admissions:
            self.place(admission)

    def place(self, admission: Admission) -> None:
        self.grow(admission.job, admission.reserved_tokens)
        self.bring_back(admission.job)
        self.seat(admission.job, admission.start)

    def log_displaced(self, job: Job, cause: str) -> None:
        log, state = self.state.log, self.state
        if log is not None:
            log.turns(job.id, WAITING, state.now_ns)
            log.joins(job.arrival)
            state.deltas.append(("displaced", job.id, cause))

    def log_waits(self, decision: Decision) -> None:
        """What has changed; who was next and is not any more waits for the order, like all others."""
        self.note_after(decision)
        state = self.state
        before = {job: limit for job, limit in state.logged.items() if job.state == WAITING}
        now = dict.fromkeys(before, "order") | state.waits
        state.deltas += [("waits", job.id, limit) for job, limit in now.items() if before.get(job, "order") != limit]
        state.logged = {job: limit for job, limit in now.items() if limit != "order"}

    def log_choices(self, decision: Decision) -> None:
        """By places in the line as it stood before the step: who goes no earlier than it came is next in line."""
        log = self.state.log
        if log is None:
            return
        for after, admission in enumerate(decision.admissions, 1):
            job, before = admission.job, log.place(admission.job.arrival)
            by = "line" if before <= after and admission.by != "aging" else admission.by
            self.state.chosen[job] = ("chosen", job.id, by, before, after)

    def charge(self, decision: Decision) -> Plan:
        return self.plan(decision.growth + [(admission.job, admission.tokens) for admission in decision.admissions])

    def plan(self, runs: Iterable[tuple[Job, int]]) -> Plan:
        state = self.state
        entries = [self.issue(job, tokens) for job, tokens in runs]
        if entries:
            state.in_flight[state.step] = entries
            if state.gate is not None:
                state.gate.plans(state.step, sum(entry.tokens for entry in entries), state.now_ns)
        return Plan(
            step=state.step,
            request=[entry.job.id for entry in entries],
            start=[entry.start for entry in entries],
            tokens=[entry.tokens for entry in entries],
            samples=[entry.samples for entry in entries],
            deltas=state.deltas,
        )

    # --- transitions of one request ----------------------------------------------------------------------

    def seat(self, job: Job, cached_tokens: int) -> None:
        state = self.state
        if state.gate is not None:
            state.gate.leaves_queue(job)
        state.admissions += 1
        job.admission = state.admissions
        job.state = RUNNING
        job.issued = job.computed = cached_tokens
        if job.is_swapped:
            job.kept = job.indexed_blocks = 0
        else:
            job.prefill_end = job.known
            job.indexed_blocks = cached_tokens // state.settings.block_size
        state.running[job.id] = job
        if self.record:
            state.deltas.append(("resumed" if job.was_preempted else "admitted", job.id, cached_tokens))
        self.end_lease(job.id, "resumed")
        job.was_preempted = False
        state.logged.pop(job, None)
        if state.log is not None:
            state.log.turns(job.id, RUNNING, state.now_ns)
            state.log.leaves(job.arrival)
            state.deltas.append(state.chosen.pop(job))

    def issue(self, job: Job, tokens: int) -> Entry:
        """Positions are scheduled; the last known one is followed by a placeholder for the token to come."""
        start = job.issued
        job.issued = start + tokens
        self.state.queue.ran(job, job.issued)
        samples = 1 if job.issued == job.known else 0
        job.known += samples
        job.in_flight += samples
        return Entry(job, start, tokens, samples, job.epoch)

    def settle(self, entry: Entry, tokens: Mapping[str, int]) -> bool:
        """A completed entry; true if it brought its job a token."""
        job = entry.job
        if entry.epoch != job.epoch:
            return False
        job.computed = entry.start + entry.tokens
        if not entry.samples:
            return False
        job.in_flight -= 1
        job.outputs += 1
        job.tokens.append(tokens[job.id])
        self.state.queue.served(job)
        return True

    def is_at_its_length(self, job: Job) -> bool:
        return job.outputs >= job.request.max_output_tokens

    def preempt(self, job: Job, requester: Job) -> None:
        """Out of the running set and back to its place; prompt and outputs stay, all else is saved or lost."""
        how = self.recovery_of(job)
        if how == "swap":
            self.save(job)
        self.stand_up(job)
        job.state = WAITING
        job.was_preempted = True
        self.state.queue.push(job)
        if self.state.gate is not None:
            self.state.gate.waits(job)
        if self.record:
            self.state.deltas.append(("preempted", job.id, how, requester.id))

    def defer_frees(self, job: Job) -> None:
        """Blocks that steps in flight may write to are not free when it ends."""
        state, size = self.state, self.state.settings.block_size
        for step, entries in state.in_flight.items() if state.settings.defer_frees else ():
            for entry in entries:
                if entry.job is job and entry.epoch == job.epoch:
                    last = (entry.start + entry.tokens - 1) // size
                    state.pool.defer(step, set(job.table[entry.start // size : last + 1]))

    def stand_up(self, job: Job) -> None:
        """Out of the running set; results that are under way are not its own any more."""
        self.give_all(job)
        del self.state.running[job.id]
        self.state.adapters.leave(job)
        job.epoch += 1
        job.known -= job.in_flight
        job.issued = job.computed = job.in_flight = 0
        self.state.logged.pop(job, None)
        self.state.queue.released(job)

    def end(self, job: Job, event: Delta) -> None:
        state = self.state
        self.defer_frees(job)
        self.give_all(job)
        self.end_lease(job.id, "ended")
        state.parking.leave(job)
        self.drop(job)
        if state.gate is not None:
            state.gate.ends(job, event[0], state.now_ns)
        waited = job.state == WAITING
        state.adapters.leave(job)
        job.state = ENDED
        if state.running.pop(job.id, None) is not None:
            state.queue.released(job)
        if waited:
            state.queue.left(job)
        state.queue.ended(job)
        job.epoch += 1
        del state.jobs[job.id]
        if self.record:
            state.deltas.append(event)
        if state.log is not None:
            state.log.leaves(job.arrival)
        self.log_end(job.id)

    # --- blocks of one request ---------------------------------------------------------------------------

    def share(self, job: Job, blocks: list[int]) -> None:
        for block in blocks:
            self.state.pool.share(block)
        job.table.extend(blocks)
        if blocks and self.record:
            self.state.deltas.append(("shared", job.id, blocks))

    def grow(self, job: Job, positions: int) -> None:
        """Blocks until the table covers so many positions."""
        size = self.state.settings.block_size
        if len(job.table) * size >= positions:
            return
        taken: list[int] = []
        while len(job.table) * size < positions:
            if self.state.pool.has_all_leased:
                self.took(job, taken)
                taken = []
                self.end_leases_for_a_block()
            block, evicted = self.state.pool.take()
            if evicted and self.record:
                self.state.deltas.append(("unindexed", [block]))
            job.table.append(block)
            taken.append(block)
        self.took(job, taken)

    def took(self, job: Job, blocks: list[int]) -> None:
        if blocks and self.record:
            self.state.deltas.append(("took", job.id, blocks))

    def give_all(self, job: Job) -> None:
        """From the end of the table, so that the blocks of a shared prefix are evicted last."""
        blocks = job.table[::-1]
        for block in blocks:
            self.state.pool.give(block)
        job.table = []
        job.indexed_blocks = 0
        if blocks and self.record:
            self.state.deltas.append(("gave", job.id, blocks))

    def name_blocks(self, job: Job, positions: int) -> None:
        """Full blocks among its first positions, as far as their tokens are known, are named by the index."""
        size = self.state.settings.block_size
        full = min(positions, len(job.tokens)) // size
        if full <= job.indexed_blocks:
            return
        keys = self.keys_of(job, full)
        named = []
        for place in range(job.indexed_blocks, full):
            if self.state.pool.name(job.table[place], keys[place]):
                named.append(job.table[place])
        job.indexed_blocks = full
        if named and self.record:
            self.state.deltas.append(("indexed", job.id, named))


def claims_of(settings: Settings) -> frozenset[str]:
    """What the settings make the scheduler promise."""
    claims = {"hard_budget", settings.policy, settings.at_blocked_head, "watermark"}
    claims |= _of_victims(settings) | _of_order(settings) | _of_composition(settings) | _of_iterations(settings)
    claims.add("full_reserve" if settings.reserve == "known" else f"{settings.reserve}_reserve")
    if settings.prefix_caching:
        claims.add("prefix_cache")
    if settings.adapter_slots:
        claims.add("adapters")
    if settings.overlap_depth > 1:
        claims.add("overlap")
    if settings.recover != "recompute":
        claims.add("swap")
    if settings.recover == "cheaper":
        claims.add("cheaper_recovery")
    if settings.decode_step_ns:
        claims.add("urgency_pays")
    if settings.log_waits and _has_one_reason_to_wait(settings):
        claims.add("wait_log")
    if settings.log_decisions:
        claims.add("decision_log")
    if settings.cancel_on_disconnect:
        claims.add("disconnects")
    if settings.park_timeout_ns:
        claims.add("parking")
    if settings.defer_frees:
        claims.add("deferred_frees")
    if settings.draft_tokens:
        claims.add("drafts")
    return frozenset(claims | claims_of_sharing(settings) | claims_of_door(settings))


def _has_one_reason_to_wait(settings: Settings) -> bool:
    """Every step admits, and what drafts take of the budget is not taken from admissions."""
    return settings.batch_mix == "hybrid" and admits_in_each_step(settings) and not settings.draft_tokens


def admits_in_each_step(settings: Settings) -> bool:
    return settings.batching == "iteration" and settings.admission_period_steps == 1


def _of_victims(settings: Settings) -> set[str]:
    """Who takes the place of a lower class does not ask who is newest; nor for priorities alone, where the class does
    not come first in the order, or somebody who waited long keeps its place.  Who is first, and may take it, is
    declared unless somebody who waited long is, of whom nothing is promised."""
    if not has_classes(settings):
        return {"lowest_priority" if settings.victim == "lowest_priority" else "newest_first"}
    by_priority = settings.policy == "priority" and not settings.max_overtaken
    claims = {"lowest_priority"} if settings.victim == "lowest_priority" and by_priority else set()
    is_declared = not settings.max_overtaken or settings.at_blocked_head == "break"
    is_declared = is_declared and not settings.decode_step_ns  # it is waited for, where that costs less
    return claims | {"class_preemption"} if is_declared else claims


def _of_order(settings: Settings) -> set[str]:
    """Promises that hold while nobody goes past a head that does not fit.  A victim stands behind who took its place
    only if the class comes first in the order."""
    if settings.at_blocked_head == "skip":
        return set()
    if settings.max_overtaken:
        return {"bounded_overtaking"}
    keeps_places = settings.policy == "priority" or not has_classes(settings)
    if settings.policy in ONE_QUEUE and keeps_places and not settings.adapter_slots:
        return {"resume_order"}
    return set()


def _of_composition(settings: Settings) -> set[str]:
    """No decode is left out if the budget has a chunk for every seat, or a token where prompts run in one piece or
    decodes come first."""
    limited = settings.chunked_prefill and settings.chunk_tokens > 0
    chunk = 1 if not settings.chunked_prefill else settings.chunk_tokens or settings.token_budget
    chunk = 1 if settings.phase_first == "decode" else chunk
    claims = {"prompt_share"} if limited else set()
    is_free = settings.batch_mix == "hybrid" and settings.seats * chunk <= settings.token_budget
    return claims | {"stall_free", "mixes_prefill"} if is_free else claims


def _of_iterations(settings: Settings) -> set[str]:
    """Of the phases of a step, and of who is in which.  Nobody is preempted whose whole life is reserved, or fits at
    every moment to come; if it is reserved, all are in one queue and the budget goes to the first, who came earlier
    runs as often."""
    claims = {settings.batch_mix, "full_chunks"} if settings.chunked_prefill else {settings.batch_mix}
    claims |= {"iteration_level"} if admits_in_each_step(settings) and settings.batch_mix == "hybrid" else set()
    claims |= {"disjoint_steps"} if settings.disjoint_steps else set()
    if settings.reserve not in ("declared", "model", "peak") or settings.preempt_lower_class:
        return claims
    is_plain = (
        settings.batch_mix == "hybrid"
        and settings.phase_first in ("admission", "alternate")
        and not settings.adapter_slots
    )
    in_order = settings.policy == "fcfs" and settings.at_blocked_head == "break" and not settings.park_timeout_ns
    in_order = in_order and settings.reserve != "peak"
    return claims | {"no_preemption"} | ({"iteration_fcfs"} if is_plain and in_order else set())


def constants_of(settings: Settings) -> dict[str, int]:
    """Numbers in the claims.  Who leaves out no decode does not prefill alone while one could run."""
    claims = claims_of(settings)
    constants = constants_of_sharing(settings)
    if "bounded_overtaking" in claims:
        constants["max_overtaken"] = settings.max_overtaken
    return constants | {"prefill_only_steps": 0} if "mixes_prefill" in claims else constants


def make(settings: Settings, seed: int) -> Scheduler:
    """The factory."""
    return Scheduler(settings, seed)
