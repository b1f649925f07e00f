"""More siblings, written after the search was as it is: what it finds of them it was not made for."""

from collections.abc import Sequence

from schedspec.reference import Scheduler
from schedspec.reference.decide import Room
from schedspec.reference.faults import SharesOtherwise
from schedspec.reference.job import RUNNING, WAITING, Job
from schedspec.reference.selection.race import Member
from schedspec.reference.selection.sharing import Members, Sharing, Vtc
from schedspec.reference.state import Admission, Decision
from schedspec.spec.vocabulary import Delta, Outcome, Receipt, Request, Settings, blocks_for

from .memory import RetractsWhoGotNone
from .registry import sibling


class ToTheMost(Vtc):
    def lift(self, queues: Members, member: Member) -> int:
        return max((other.counter for other in queues.members.values() if other.waiting), default=0)


LOST = ("LIFE-1", "LIVE-1", "LIVE-2", "LIVE-4", "LIVE-8", "LIVE-9", "OBS-3")


@sibling("B01", "a victim that was admitted with cached blocks keeps the first of them", rules=("KV-7", "KV-16"))
class KeepsItsFirstCachedBlock(Scheduler):
    def preempt(self, job: Job, requester: Job) -> None:
        if job.outputs == 0 and job.indexed_blocks and len(job.table) > 1:
            job.table = job.table[1:]
        super().preempt(job, requester)


@sibling("B03", "of two that end in one call and share a block each gives it back for the other, too")
class GivesForBoth(Scheduler):
    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        self.gone: list[int] = []
        return super().complete(outcome, now_ns)

    def end(self, job: Job, event: Delta) -> None:
        refs, gone = self.state.pool.refs, getattr(self, "gone", [])
        twice = [block for block in job.table if block in gone and refs[block] > 1]
        self.gone = gone + [block for block in job.table if refs[block] > 1]
        for block in twice:
            refs[block] -= 1
        super().end(job, event)


@sibling("B05", "the admission behind one that hit the cache is tested as if the hit had cost nothing")
class HitsCostNothing(RetractsWhoGotNone):
    def take(self, admission: Admission, room: Room) -> None:
        before = room.blocks
        super().take(admission, room)
        if admission.cached_blocks:
            room.blocks = before


@sibling("B07", "whoever is preempted for the third time fails")
class FailsAfterThree(Scheduler):
    def preempt(self, job: Job, requester: Job) -> None:
        if job.epoch >= 2:
            self.end(job, ("failed", job.id, "preempted too often"))
        else:
            super().preempt(job, requester)


@sibling("B08", "the watermark is kept as long as anybody lives, be it parked", rules=("LIVE-1", "LIVE-8", "LIVE-9"))
class KeepsTheWatermarkForTheParked(Scheduler):
    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        return super().fit(job, room, anything_runs=anything_runs or bool(self.state.parking.parked))


@sibling(
    "B11", "a decode at the edge of a block sits out while a prompt is read", rules=("STEP-8", "STEP-9", "STEP-10")
)
class SitsOutAtAnEdge(Scheduler):
    def compose(self, jobs: list[Job]) -> tuple[list[tuple[Job, int]], int, int]:
        reads = any(job.issued < job.prefill_end for job in jobs)

        def stays(job: Job) -> bool:
            held = len(job.table) * self.state.settings.block_size
            return reads and job.issued >= job.prefill_end and job.issued % 2 == 0 and held > job.issued

        return super().compose([job for job in jobs if not stays(job)])


@sibling("B13", "who is woken in the call in which somebody else ends is forgotten", rules=LOST)
class ForgetsWhoIsWokenBesideAnEnd(Scheduler):
    def notify(self, event, now_ns):  # type: ignore[no-untyped-def]
        live = len(self.state.jobs)
        deltas = super().notify(event, now_ns)
        if len(self.state.jobs) < live:
            for job in self.state.parking.parked:
                job.dependencies.discard("grammar")
        return deltas


@sibling("B15", "a preempted request forgets how often it was overtaken, and whoever came with it", rules=("LIVE-3",))
class ForgetsWithTheVictim(Scheduler):
    def preempt(self, job: Job, requester: Job) -> None:
        super().preempt(job, requester)
        spells = getattr(self.state.queue, "spells", {})
        for spell in spells.values():
            spell.admissions_before = self.state.queue.admissions  # type: ignore[union-attr]


@sibling("B17", "a decode that comes back from the host is not counted", rules=("STEP-1",))
class SwapsInForFree(Scheduler):
    def take(self, admission: Admission, room: Room) -> None:
        super().take(admission, room)
        if admission.job.is_swapped:
            room.budget += admission.tokens


@sibling("B20", "who was put aside for its adapter is put aside in the next step, too", rules=("LIVE-7", "LIVE-8"))
class PutsAsideOnceMore(Scheduler):
    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        self.held_up = False

    def admit(self, budget: int, blocks: int) -> list[Admission]:
        waiting = [job for job in self.state.jobs.values() if job.state == WAITING]
        blocked = any(not self.state.adapters.can_serve(job) for job in waiting)
        self.held_up = blocked and not self.held_up and bool(self.state.running)
        return [] if self.held_up else super().admit(budget, blocks)


@sibling("B21", "a victim whose step is under way stays in the next one", rules=("STEP-5", "STEP-7"))
class StaysWhereItsStepIsUnderWay(Scheduler):
    def release(self, decision: Decision) -> None:
        flying = [(job, job.known - 1) for job in decision.victims if job.in_flight]
        super().release(decision)
        self.flying = flying

    def charge(self, decision: Decision):  # type: ignore[no-untyped-def]
        plan = super().charge(decision)
        for job, start in self.flying[:1]:
            for column, value in (("request", job.id), ("start", start), ("tokens", 1), ("samples", 1)):
                object.__setattr__(plan, column, [*getattr(plan, column), value])
        return plan


@sibling("B23", "a prompt that is cached in part may evict whoever came after it", rules=("PRE-1", "PRE-4"))
class CachedPromptsEvict(Scheduler):
    def decide(self) -> Decision:
        decision = super().decide()
        jobs = list(self.state.running.values())
        head = self.state.queue.pop() if len(jobs) > 1 and not decision.victims and not decision.admissions else None
        if head is None:
            return decision
        growth, need, left = self.compose(jobs[:-1])
        blocks = self.state.pool.available + self.freed_by(jobs[-1:]) - need
        room = Room(1, left, blocks, set(), jobs[:-1])
        is_later = jobs[-1].arrival > head.arrival and bool(self.cached_blocks(head))
        admission = self.fit(head, room, anything_runs=True) if left and is_later else None
        if admission is None:
            self.state.queue.put_back(head)
            return decision
        self.state.queue.picked(head)
        return Decision(jobs[-1:], head, growth, left, [admission])


@sibling("B26", "a request that is like one that runs is taken for it", rules=LOST)
class TakesItForAnother(Scheduler):
    """Client, prompt and length are what it is known by."""

    def accept(self, request: Request) -> None:
        twins = [job for job in self.state.jobs.values() if job.state == RUNNING and job.outputs]
        super().accept(request)
        job = self.state.jobs[request.id]
        if job.state == WAITING and any(twin.request.prompt_ids == request.prompt_ids for twin in twins):
            self.state.queue.left(job)


@sibling("B27", "a cancel while two steps are under way wakes nobody", rules=LOST)
class SleepsThroughACancel(Scheduler):
    sleeps = False

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        deltas = super().cancel(request_id, now_ns)
        self.sleeps = len(self.state.in_flight) > 1 and bool(deltas)
        return deltas

    def admit(self, budget: int, blocks: int) -> list[Admission]:
        return [] if self.sleeps else super().admit(budget, blocks)

    def submit(self, request: Request, now_ns: int) -> Receipt:
        self.sleeps = False
        return super().submit(request, now_ns)


@sibling(
    "B32", "abort of whoever is swapped frees its host blocks and forgets to say so", rules=("LIFE-6", "KV-7", "PRE-9")
)
class AbortsTheSwappedInSilence(Scheduler):
    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        job = self.state.jobs.get(request_id)
        was_swapped = job is not None and job.is_swapped
        deltas = list(super().cancel(request_id, now_ns))
        return [delta for delta in deltas if delta[0] != "cancelled"] if was_swapped else deltas


# --- written when scenarios of pairs were there ----------------------------------------------------------------


@sibling("B01", "of a whole reserved length only what was used is given back")
class GivesBackWhatItUsed(Scheduler):
    def end(self, job: Job, event: Delta) -> None:
        if event[0] == "finished" and self.state.settings.reserve == "declared":
            del job.table[blocks_for(job.known, self.state.settings.block_size) :]
        super().end(job, event)


@sibling("B03", "host blocks of who came back are free when it is back, and once more when it ends", rules=("PRE-9",))
class GivesHostBlocksTwice(Scheduler):
    def bring_back(self, job: Job) -> None:
        saved = list(job.saved)
        super().bring_back(job)
        self.brought = {**getattr(self, "brought", {}), job.id: saved}

    def end(self, job: Job, event: Delta) -> None:
        super().end(job, event)
        if event[0] == "cancelled":
            self.state.host.give(getattr(self, "brought", {}).get(job.id, ()))


@sibling("B08", "who was preempted wants room for its outputs so far twice", rules=("LIVE-1", "LIVE-8", "LIVE-9"))
class CountsOutputsTwice(Scheduler):
    def reserved_tokens(self, job: Job, first: int) -> int:
        tokens = super().reserved_tokens(job, first)
        return tokens + job.outputs if job.was_preempted and self.state.settings.reserve == "known" else tokens


@sibling("B24", "the victim is who arrived last, and whoever was resumed last goes on", rules=("PRE-2", "PRE-5"))
class PreemptsByArrival(Scheduler):
    def next_victim(self, jobs: list[Job]) -> Job:
        if self.state.settings.victim == "newest":
            return max(jobs, key=lambda job: job.arrival)
        return super().next_victim(jobs)


@sibling("B26", "who comes while a step is under way waits in a buffer until somebody else comes", rules=LOST)
class BuffersWhoComesInBetween(Scheduler):
    def accept(self, request: Request) -> None:
        for job in getattr(self, "buffer", ()):
            if job.state == WAITING:
                self.state.queue.push(job)
        self.buffer: list[Job] = []
        super().accept(request)
        job = self.state.jobs[request.id]
        if len(self.state.in_flight) == 1 and job.state == WAITING and not request.dependencies:
            self.state.queue.left(job)
            self.buffer.append(job)

    def end(self, job: Job, event: Delta) -> None:
        if job in getattr(self, "buffer", ()):
            self.buffer.remove(job)
            self.state.queue.push(job)
        super().end(job, event)


@sibling("B30", "who has expired is cancelled, too", rules=("LIFE-3",))
class CancelsTheExpired(Scheduler):
    def expire(self) -> None:
        before = len(self.state.deltas)
        super().expire()
        self.expired = {delta[1] for delta in self.state.deltas[before:] if delta[0] == "expired"}

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        deltas = super().cancel(request_id, now_ns)
        return [*deltas, ("cancelled", request_id)] if request_id in self.expired else deltas


@sibling("B32", "abort does not look at those whom the door holds", rules=("LIFE-6", "LIFE-10", "ADMIT-11"))
class CannotCancelAtTheDoor(Scheduler):
    def end_anywhere(self, request_id: str, event: Delta) -> None:
        if request_id in self.state.jobs:
            super().end_anywhere(request_id, event)


@sibling("B16", "a client that comes back is lifted to the most that anybody has", rules=("FAIR-1", "FAIR-3", "FAIR-6"))
class LiftsToTheMost(SharesOtherwise):
    sharing: type[Sharing] = ToTheMost
