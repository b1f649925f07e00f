"""Seeded faults: for each rule a scheduler that breaks it, as a subject `fault:ID`.

Each is the reference with one small change, such as a hurried person might make, and knows nothing of the rules.  They
show that a rule can fail, that the search finds it, and what else breaks with it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import evolve

from ..spec.vocabulary import (
    Capabilities,
    Delta,
    Outcome,
    Plan,
    Receipt,
    Request,
    Settings,
    SubjectFactory,
)
from .decide import Room
from .job import ENDED, WAITING, Job
from .scheduler import Scheduler
from .selection import ClientQueues, Sharing, Vtc, shared_by_clients
from .selection.bill import Bill
from .selection.race import Member
from .selection.sharing import Members
from .state import Admission, Decision, Entry

FAULTS: dict[str, type[Scheduler]] = {}
"""Rule -> the scheduler that breaks it."""


def fault(rule: str) -> Callable[[type[Scheduler]], type[Scheduler]]:
    def register(cls: type[Scheduler]) -> type[Scheduler]:
        FAULTS[rule] = cls
        return cls

    return register


def factory(rule: str) -> SubjectFactory:
    """The subject `fault:RULE`."""
    return FAULTS[rule]


# --- KV ----------------------------------------------------------------------------------------------------


@fault("KV-1")
class LosesABlock(Scheduler):
    """The last block of a request that ends never reaches the free list."""

    def end(self, job: Job, event: Delta) -> None:
        before = list(self.state.pool.free)
        super().end(job, event)
        if len(self.state.pool.free) > len(before):
            self.state.pool.free.pop()


@fault("KV-2")
class HandsOutABlockTwice(Scheduler):
    """A second request that grows in the same step gets the block that the first one got."""

    def grow(self, job: Job, positions: int) -> None:
        held = len(job.table)
        super().grow(job, positions)
        taken = [delta for delta in self.state.deltas if delta[0] == "took"]
        if len(taken) >= 2 and len(job.table) == held + 1:
            job.table[-1] = taken[0][2][-1]
            self.state.deltas[-1] = ("took", job.id, [job.table[-1]])


@fault("KV-3")
class MiscountsSharers(Scheduler):
    """Sharing a block that is held does not count the new holder."""

    def share(self, job: Job, blocks: list[int]) -> None:
        refs = self.state.pool.refs
        held = [block for block in blocks if block in refs]
        super().share(job, blocks)
        for block in held:
            refs[block] -= 1


@fault("KV-4")
class AllocatesOneTooFew(Scheduler):
    """Growth counts the positions before the new token."""

    def grow(self, job: Job, positions: int) -> None:
        super().grow(job, positions - 1 if job.table else positions)


@fault("KV-5")
class HoardsABlock(Scheduler):
    """Growth takes a block in advance when there is one."""

    def grow(self, job: Job, positions: int) -> None:
        spare = self.state.settings.block_size if len(self.state.pool.free) > len(self.state.running) + 2 else 0
        super().grow(job, positions + spare)


@fault("KV-6")
class ShufflesATable(Scheduler):
    """A result that arrives reverses the table of its request."""

    def settle(self, entry: Entry, tokens: Mapping[str, int]) -> bool:
        if len(entry.job.table) >= 2:
            entry.job.table.reverse()
        return super().settle(entry, tokens)


@fault("KV-7")
class LeaksAtCancel(Scheduler):
    """A cancelled request keeps its blocks."""

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        job = self.state.jobs.get(request_id)
        if job is not None:
            job.table = []
        return super().cancel(request_id, now_ns)


@fault("KV-8")
class FreesTwice(Scheduler):
    """A request that reaches its length is released by the output path and by the generic one."""

    def end(self, job: Job, event: Delta) -> None:
        blocks = job.table[-1:]
        super().end(job, event)
        if event[-1] == "length" and blocks:
            self.state.deltas.insert(-1, ("gave", job.id, blocks))


@fault("KV-10")
class AdmitsButDoesNotRun(Scheduler):
    """The second admission of a step passes the test and is then left out of the step."""

    def charge(self, decision: Decision) -> Plan:
        del decision.admissions[1:2]
        return super().charge(decision)


@fault("KV-11")
class IgnoresTheWatermark(Scheduler):
    """Admissions may use the reserve."""

    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        return super().fit(job, room, anything_runs=False)


@fault("KV-12")
class SkipsAToken(Scheduler):
    """The first token of a prompt is taken for cached."""

    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        admission = super().fit(job, room, anything_runs=anything_runs)
        if admission is not None and admission.tokens >= 2 and not admission.cached_blocks:
            admission.start += 1
            admission.tokens -= 1
            room.budget += 1
        return admission


@fault("KV-13")
class WritesASharedBlock(Scheduler):
    """A prompt that is cached whole shares its last block too, and computes its last token in there."""

    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        size = self.state.settings.block_size
        cached = self.state.pool.find(self.keys_of(job, job.known // size))
        whole = cached and len(cached) * size == job.known and self.state.settings.prefix_caching
        if not whole or any(block in self.state.pool.evictable for block in cached):
            return super().fit(job, room, anything_runs=anything_runs)
        room.seats -= 1
        room.budget -= 1
        return Admission(job, cached, job.known - 1, 1, job.known)


@fault("KV-14")
class KeepsAStaleEntry(Scheduler):
    """Evicting a block does not take it out of the index."""

    def grow(self, job: Job, positions: int) -> None:
        super().grow(job, positions)
        self.state.deltas[:] = [delta for delta in self.state.deltas if delta[0] != "unindexed"]


@fault("KV-16")
class LeavesATrace(Scheduler):
    """A head that does not fit keeps the block that it got before it failed."""

    def allocate(self, decision: Decision) -> None:
        super().allocate(decision)
        head = self.state.queue.pop()
        if head is None:
            return
        self.state.queue.put_back(head)
        seat = len(self.state.running) < self.state.settings.seats
        if seat and not head.table and self.state.pool.free and not decision.victims and decision.budget_left:
            self.grow(head, 1)


# --- STEP --------------------------------------------------------------------------------------------------


class WithOtherSettings(Scheduler):
    """Decides with settings that are not the declared ones."""

    def otherwise(self, settings: Settings) -> Settings:
        raise NotImplementedError

    def decide(self) -> Decision:
        declared = self.state.settings
        self.state.settings = self.otherwise(declared)
        try:
            return super().decide()
        finally:
            self.state.settings = declared


@fault("STEP-1")
class OverrunsTheBudget(WithOtherSettings):
    """The budget is compared before the last token is added."""

    def otherwise(self, settings: Settings) -> Settings:
        return evolve(settings, token_budget=settings.token_budget + 1)


@fault("STEP-2")
class OverfillsTheSeats(WithOtherSettings):
    """`<=` where `<` is meant."""

    def otherwise(self, settings: Settings) -> Settings:
        return evolve(settings, seats=settings.seats + 1)


@fault("STEP-3")
class ListsARequestTwice(Scheduler):
    """A chunk that crosses a block edge becomes two entries."""

    def charge(self, decision: Decision) -> Plan:
        plan = super().charge(decision)
        rows = []
        for row in zip(plan.request, plan.start, plan.tokens, plan.samples, strict=True):
            request, start, tokens, samples = row
            first = self.state.settings.block_size - start % self.state.settings.block_size
            if first < tokens:
                rows += [(request, start, first, 0), (request, start + first, tokens - first, samples)]
            else:
                rows.append(row)
        columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
        return evolve(plan, request=columns[0], start=columns[1], tokens=columns[2], samples=columns[3])


@fault("STEP-4")
class SkipsAPosition(Scheduler):
    """A further chunk of a prompt starts one position late."""

    def charge(self, decision: Decision) -> Plan:
        plan = super().charge(decision)
        start, tokens = list(plan.start), list(plan.tokens)
        for row, samples in enumerate(plan.samples):
            if start[row] > 0 and tokens[row] >= 2 and not samples:
                start[row] += 1
                tokens[row] -= 1
        return evolve(plan, start=start, tokens=tokens)


@fault("STEP-5")
class RunsTheHeadOfTheQueue(Scheduler):
    """Where the step has room left, the head of the queue runs a token without having been admitted."""

    def charge(self, decision: Decision) -> Plan:
        plan = super().charge(decision)
        head = self.state.queue.pop()
        if head is None:
            return plan
        self.state.queue.put_back(head)
        full = sum(plan.tokens) >= self.state.settings.token_budget
        if full or head.known < 2 or head.was_preempted or not plan.request:
            return plan
        return evolve(
            plan,
            request=[*plan.request, head.id],
            start=[*plan.start, 0],
            tokens=[*plan.tokens, 1],
            samples=[*plan.samples, 0],
        )


@fault("STEP-6")
class SamplesTooEarly(Scheduler):
    """A first chunk that is not the last samples already."""

    def charge(self, decision: Decision) -> Plan:
        plan = super().charge(decision)
        samples = [1 if tokens >= 2 else some for tokens, some in zip(plan.tokens, plan.samples, strict=True)]
        return evolve(plan, samples=samples)


@fault("STEP-7")
class ResumesAVictimAtOnce(Scheduler):
    """Admissions go on in a step that preempted, so the victim comes back in the same pass."""

    def release(self, decision: Decision) -> None:
        super().release(decision)
        if decision.victims:
            need = sum(self.new_blocks(job, tokens) for job, tokens in decision.growth)
            decision.admissions = self.admit(decision.budget_left, self.state.pool.available - need)


@fault("STEP-8")
class StopsAfterAnAllocation(Scheduler):
    """The loop over running requests ends with the first that needs a block."""

    def compose(self, jobs: list[Job]) -> tuple[list[tuple[Job, int]], int, int]:
        growth, _, left = super().compose(jobs)
        cut = next((n + 1 for n, (job, tokens) in enumerate(growth) if self.new_blocks(job, tokens)), len(growth))
        left += sum(tokens for _, tokens in growth[cut:])
        return growth[:cut], sum(self.new_blocks(job, tokens) for job, tokens in growth[:cut]), left


@fault("STEP-11")
class DropsAPosition(Scheduler):
    """The last chunk of a prompt starts one position late."""

    def charge(self, decision: Decision) -> Plan:
        plan = super().charge(decision)
        start, tokens = list(plan.start), list(plan.tokens)
        for row, samples in enumerate(plan.samples):
            if start[row] > 0 and tokens[row] >= 2 and samples:
                start[row] += 1
                tokens[row] -= 1
        return evolve(plan, start=start, tokens=tokens)


# --- LIFE --------------------------------------------------------------------------------------------------


@fault("LIFE-1")
class LosesARequest(Scheduler):
    """A request that arrives when three wait goes to a queue that nobody visits."""

    def submit(self, request: Request, now_ns: int) -> Receipt:
        crowded = self.state.queue.size >= 3
        receipt = super().submit(request, now_ns)
        if crowded and receipt.verdict == "accepted":
            job = self.state.jobs.pop(request.id)
            job.state = "forgotten"
            self.state.queue.left(job)
        return receipt


@fault("LIFE-2")
class AdmitsTwice(Scheduler):
    """The first decode of a request announces its admission again."""

    def issue(self, job: Job, tokens: int) -> Entry:
        if job.outputs == 1 and job.known - job.issued == 1 and not self.state.settings.watermark_blocks:
            self.state.deltas.append(("admitted", job.id, job.issued))
        return super().issue(job, tokens)


@fault("LIFE-3")
class EndsTwice(Scheduler):
    """Cancelling a request that has finished reports its end again."""

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        deltas = super().cancel(request_id, now_ns)
        if deltas or request_id not in self.state.seen:
            return deltas
        return [("cancelled", request_id)]


@fault("LIFE-4")
class LosesAToken(Scheduler):
    """Of two requests that end in one step, the second one's last token is not delivered."""

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        deltas = list(super().complete(outcome, now_ns))
        ended = [delta[1] for delta in deltas if delta[0] == "finished"]
        if len(ended) < 2:
            return deltas
        return [self._without(delta, ended[1]) if delta[0] == "delivered" else delta for delta in deltas]

    @staticmethod
    def _without(delta: Delta, request: str) -> Delta:
        kept = [(r, token) for r, token in zip(delta[1], delta[2], strict=True) if r != request]
        return ("delivered", [r for r, _ in kept], [token for _, token in kept])


@fault("LIFE-5")
class IgnoresStops(Scheduler):
    """A request runs to its declared length, whatever the model says."""

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        return super().complete(evolve(outcome, stop=[False] * len(outcome.stop)), now_ns)


@fault("LIFE-6")
class CannotCancelAPrefill(Scheduler):
    """A request between two chunks of its prompt is not found by cancel."""

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        job = self.state.jobs.get(request_id)
        if job is not None and 0 < job.issued < job.request.prompt_tokens:
            return []
        return super().cancel(request_id, now_ns)


@fault("LIFE-7")
class UsesLateResults(Scheduler):
    """A result is delivered though its request has been cancelled since."""

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        entries = self.state.in_flight.get(outcome.step, [])
        late = {entry.job.id for entry in entries if entry.job.state == ENDED}
        deltas = list(super().complete(outcome, now_ns))
        rows = [(r, t) for r, t in zip(outcome.request, outcome.token, strict=True) if r in late]
        if rows:
            deltas.append(("delivered", [r for r, _ in rows], [token for _, token in rows]))
        return deltas


@fault("LIFE-8")
class KeepsPlaceholders(Scheduler):
    """A preemption takes back what was known but leaves the count of tokens in flight."""

    def preempt(self, job: Job, requester: Job) -> None:
        in_flight = job.in_flight
        super().preempt(job, requester)
        job.in_flight = in_flight


@fault("LIFE-9")
class FailsInsteadOfPausing(Scheduler):
    """Who would be preempted fails."""

    def preempt(self, job: Job, requester: Job) -> None:
        self.end(job, ("failed", job.id, "out of blocks"))


# --- PRE ---------------------------------------------------------------------------------------------------


@fault("PRE-1")
class PreemptsForNothing(Scheduler):
    """Somebody is preempted as soon as no block is free after the step, not when one is missing."""

    def decide(self) -> Decision:
        jobs = list(self.state.running.values())
        _, need, _ = self.compose(jobs)
        if len(jobs) < 2 or self.state.pool.available != need:
            return super().decide()
        growth, _, left = self.compose(jobs[:-1])
        return Decision([jobs[-1]], jobs[0], growth, left)


@fault("PRE-2")
class PreemptsTheMostUrgent(Scheduler):
    """The sign of the priority is wrong."""

    def next_victim(self, jobs: list[Job]) -> Job:
        if self.state.settings.victim == "lowest_priority":
            return min(jobs, key=lambda job: (job.request.priority, -job.admission))
        return super().next_victim(jobs)


@fault("PRE-3")
class FreesAllAtOnce(Scheduler):
    """Blocks of all victims go back before the first one leaves: preempting the second frees nothing any more."""

    def release(self, decision: Decision) -> None:
        for job in decision.victims:
            self.give_all(job)
        super().release(decision)


@fault("PRE-4")
class PreemptsForAnAdmission(Scheduler):
    """A head that does not fit evicts the newest running request."""

    def decide(self) -> Decision:
        decision = super().decide()
        jobs = list(self.state.running.values())
        if decision.victims or decision.admissions or len(jobs) < 2:
            return decision
        head = self.state.queue.pop()
        if head is None:
            return decision
        growth, need, left = self.compose(jobs[:-1])
        blocks = self.state.pool.available + self.freed_by(jobs[-1:]) - need
        admission = self.fit(head, Room(1, left, blocks, set()), anything_runs=True) if left else None
        if admission is None:
            self.state.queue.put_back(head)
            return decision
        self.state.queue.picked(head)
        return Decision(jobs[-1:], head, growth, left, [admission])


@fault("PRE-5")
class PreemptsTheOldest(Scheduler):
    """The victim is taken from the wrong end of the list."""

    def next_victim(self, jobs: list[Job]) -> Job:
        if self.state.settings.victim == "newest":
            return jobs[0]
        return super().next_victim(jobs)


@fault("PRE-6")
class PreemptsEverybody(Scheduler):
    """When one request cannot grow, all are thrown out and start over."""

    def decide(self) -> Decision:
        decision = super().decide()
        if decision.victims:
            jobs = list(self.state.running.values())
            return Decision(jobs[::-1], None, [], 0)
        return decision


@fault("PRE-7")
class SendsVictimsToTheBack(Scheduler):
    """A victim queues up like a new arrival."""

    def preempt(self, job: Job, requester: Job) -> None:
        self.state.arrivals += 1
        job.arrival = self.state.arrivals
        super().preempt(job, requester)


@fault("PRE-8")
class ForgetsOutputs(Scheduler):
    """Recompute covers the prompt and samples behind it, as if nothing had been generated."""

    def charge(self, decision: Decision) -> Plan:
        plan = super().charge(decision)
        tokens, samples = list(plan.tokens), list(plan.samples)
        for row, request in enumerate(plan.request):
            job = self.state.jobs[request]
            prompt = job.request.prompt_tokens
            if job.outputs and plan.start[row] < prompt < plan.start[row] + tokens[row]:
                tokens[row] = prompt - plan.start[row]
                samples[row] = 1
        return evolve(plan, tokens=tokens, samples=samples)


# --- FAIR --------------------------------------------------------------------------------------------------


class SharesOtherwise(Scheduler):
    """Virtual Token Counter with another way of charging and lifting, or of choosing the next client."""

    sharing: type[Sharing] = Vtc
    queues: type[ClientQueues] = ClientQueues
    bill: type[Bill] = Bill

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        if settings.policy == "vtc":
            self.state.queue = shared_by_clients(settings, self.sharing(), queues=self.queues, bill=self.bill)


class FourBits(Vtc):
    """All clients are looked at: the rank may fall."""

    def choose(self, queues: Members) -> Member | None:
        waiting = (member for member in queues.members.values() if member.queue.size)
        return min(waiting, key=lambda member: (member.counter % 16, member.number), default=None)


@fault("FAIR-1")
class RanksByFourBits(SharesOtherwise):
    """Clients are compared by the last four bits of their counters."""

    sharing = FourBits


class ChargesEveryPick(Bill):
    def pick(self, job: Job) -> int:
        job.charged_prompt = 0
        return super().pick(job)


@fault("FAIR-2")
class ChargesRecompute(SharesOtherwise):
    """A request that is resumed pays for its prompt again."""

    bill = ChargesEveryPick


class LiftsOnlyIntoAnEmptyQueue(Vtc):
    def enters(self, queues: Members, member: Member) -> None:
        if queues.least() is None:
            super().enters(queues, member)


@fault("FAIR-3")
class KeepsCredit(SharesOtherwise):
    """A client that comes back while others wait goes on from where it was."""

    sharing = LiftsOnlyIntoAnEmptyQueue


class LiftsOnlyAmongOthers(Vtc):
    def enters(self, queues: Members, member: Member) -> None:
        if queues.least() is not None:
            super().enters(queues, member)


@fault("FAIR-4")
class MissesTheEmptyQueue(SharesOtherwise):
    """Where nobody waits nobody is lifted."""

    sharing = LiftsOnlyAmongOthers


class TakesVictimsBack(ClientQueues):
    def push(self, job: Job) -> None:
        before = self.member_of(job).counter
        super().push(job)
        if job.was_preempted:
            self.member_of(job).counter = before
            self.review(job.request.client)


@fault("FAIR-5")
class RequeuesWithoutALift(SharesOtherwise):
    """A victim goes back to the queue past the door where clients are lifted."""

    queues = TakesVictimsBack


@fault("FAIR-6")
class ChargesWhatWasDeclared(Scheduler):
    """Who cancels pays for the output that it declared and will not get."""

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        job = self.state.jobs.get(request_id)
        if job is not None:
            job.outputs = job.request.max_output_tokens
            self.state.queue.served(job)
        return super().cancel(request_id, now_ns)


@fault("FAIR-8")
class CallsArrivalFair(Scheduler):
    """Takes first come, first served for fair."""

    def capabilities(self) -> Capabilities:
        shown = super().capabilities()
        return evolve(shown, claims=shown.claims | {"fair_share"} if "fcfs" in shown.claims else shown.claims)


class StartsOver(Sharing):
    def enters(self, queues: Members, member: Member) -> None:
        member.counter = 0


@fault("FAIR-9")
class ForgetsWhoIsGone(SharesOtherwise):
    """The counter of a client is dropped with its last waiting request.  It does not call itself VTC."""

    sharing = StartsOver

    def capabilities(self) -> Capabilities:
        shown = super().capabilities()
        return evolve(shown, claims=shown.claims - {"vtc"})


# --- LIVE --------------------------------------------------------------------------------------------------


@fault("LIVE-1")
class WatermarkOnAnEmptyMachine(Scheduler):
    """The reserve is kept even where nothing runs that could need it."""

    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        return super().fit(job, room, anything_runs=True)


@fault("LIVE-2")
class PingPong(Scheduler):
    """Two requests evict each other after every first chunk, and neither gets further.  Shows its decisions only."""

    def capabilities(self) -> Capabilities:
        claims = {"hard_budget", "overlap"} & super().capabilities().claims
        return evolve(super().capabilities(), observes="decisions", claims=claims)

    def decide(self) -> Decision:
        jobs = list(self.state.running.values())
        if len(jobs) != 1 or self.state.queue.size == 0 or self.state.in_flight:
            return super().decide()
        decision = Decision(jobs, None, [], self.state.settings.token_budget)
        head = self.state.queue.pop()
        assert head is not None
        available = self.state.pool.available + self.freed_by(jobs)
        admission = self.fit(head, Room(1, 1, available, set()), anything_runs=False)
        if admission is None or jobs[0].outputs:
            self.state.queue.put_back(head)
            return super().decide()
        decision.admissions = [admission]
        return decision


@fault("LIVE-8")
class AdmitsEverySecondStep(Scheduler):
    """While something runs, admissions happen in even steps only, and nothing declares that."""

    def admit(self, budget: int, blocks: int) -> list[Admission]:
        if self.state.running and self.state.step % 2:
            return []
        return super().admit(budget, blocks)


@fault("LIVE-11")
class StopsAtABlockedHead(WithOtherSettings):
    """Claims to go past a head that does not fit, and stops there."""

    def otherwise(self, settings: Settings) -> Settings:
        return evolve(settings, at_blocked_head="break")


# --- LANE, ADMIT, OBS, DET ---------------------------------------------------------------------------------------


@fault("LANE-4")
class LastInFirstOut(Scheduler):
    """The queue is a stack."""

    def submit(self, request: Request, now_ns: int) -> Receipt:
        self.state.arrivals -= 2  # counts backwards
        return super().submit(request, now_ns)


class AcceptsAnyway(Scheduler):
    """One limit is not asked at the door."""

    limit = ""

    def refusal(self, request: Request) -> tuple[str, int, int] | None:
        declared = self.state.settings
        without: dict[str, Any] = {self.limit: 1 << 40}
        self.state.settings = evolve(declared, **without)
        try:
            return super().refusal(request)
        finally:
            self.state.settings = declared


@fault("ADMIT-1")
class AcceptsWhatNeverFits(AcceptsAnyway):
    """A request larger than the pool is queued."""

    limit = "blocks"


@fault("ADMIT-2")
class AcceptsLongPrompts(AcceptsAnyway):
    """The limit on prompts is the front end's business, it thinks."""

    limit = "max_prompt_tokens"


@fault("OBS-3")
class CountsTheCancelled(Scheduler):
    """The gauge of waiting requests does not go down when one is cancelled."""

    def end(self, job: Job, event: Delta) -> None:
        waited = job.state == WAITING
        super().end(job, event)
        if waited:
            self.state.queue.size += 1


@fault("DET-1")
class OrdersByHash(Scheduler):
    """Running requests are visited in the order of a set of strings."""

    def compose(self, jobs: list[Job]) -> tuple[list[tuple[Job, int]], int, int]:
        by_id = {job.id: job for job in jobs}
        return super().compose([by_id[id] for id in sorted(by_id, key=hash)])


@fault("DET-2")
class RemembersFormerRuns(Scheduler):
    """A counter outlives the scheduler, and every second one visits running requests backwards."""

    made = 0

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        RemembersFormerRuns.made += 1
        self.backwards = RemembersFormerRuns.made % 2 == 0

    def compose(self, jobs: list[Job]) -> tuple[list[tuple[Job, int]], int, int]:
        return super().compose(jobs[::-1] if self.backwards else jobs)


@fault("DET-3")
class ReadsTheWallClock(Scheduler):
    """A chunk is cut short when the last step was long ago by the machine's clock."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        self.last = time.monotonic()

    def compose(self, jobs: list[Job]) -> tuple[list[tuple[Job, int]], int, int]:
        now = time.monotonic()
        slow, self.last = now - self.last > 0.5, now
        growth, need, left = super().compose(jobs)
        if not slow or not growth:
            return growth, need, left
        job, tokens = growth[-1]
        cut = tokens // 2
        if not cut:
            return growth, need, left
        growth[-1] = (job, tokens - cut)
        return growth, sum(self.new_blocks(j, k) for j, k in growth), left + cut
