"""Bugs of preemption: who loses its place, for whom, and what stays behind."""

from attrs import evolve

from schedspec.reference import Scheduler
from schedspec.reference.decide import Room
from schedspec.reference.job import Job
from schedspec.reference.state import Admission, Decision
from schedspec.spec.vocabulary import Plan

from .registry import REFERENCE, bug, reused


@bug(
    "B21",
    rules=("STEP-7",),
    kind="preemption-order",
    title="A victim that was scheduled in the same step before stays in the batch",
    url="https://github.com/vllm-project/vllm/issues/23347",
)
class LeavesVictimsInTheBatch(Scheduler):
    """Those who run are visited in order: a victim that stands before the one whose block was missing has its row."""

    def release(self, decision: Decision) -> None:
        order = {job: place for place, job in enumerate(self.state.running.values())}
        last = order.get(decision.requester, 0) if decision.requester else 0
        before = [job for job in decision.victims if order[job] < last]
        growth, *_ = self.compose(before)
        self.rows = [(job.id, job.issued, tokens, int(job.issued + tokens == job.known)) for job, tokens in growth]
        super().release(decision)

    def charge(self, decision: Decision) -> Plan:
        plan = super().charge(decision)
        if not self.rows:
            return plan
        request, start, tokens, samples = (list(column) for column in zip(*self.rows, strict=True))
        return evolve(
            plan,
            request=[*request, *plan.request],
            start=[*start, *plan.start],
            tokens=[*tokens, *plan.tokens],
            samples=[*samples, *plan.samples],
        )


@bug(
    "B23",
    rules=("PRE-4",),
    kind="preemption-order",
    title="A waiting prompt of which only the next chunk fits evicts requests that run",
    url="https://github.com/ai-dynamo/dynamo/issues/9718",
)
class AdmitsByPreempting(Scheduler):
    """Who waits is allocated like who runs: what is missing for its prompt is taken from the newest, one by one."""

    def decide(self) -> Decision:
        decision = super().decide()
        head = None if decision.victims or decision.admissions else self.state.queue.pop()
        if head is None:
            return decision
        staying, victims = list(self.state.running.values()), []
        while len(staying) > 1:
            victims.append(staying.pop())
            if (made := self.in_place_of(victims, staying, head)) is not None:
                self.state.queue.picked(head)
                return made
        self.state.queue.put_back(head)
        return decision

    def in_place_of(self, victims: list[Job], staying: list[Job], head: Job) -> Decision | None:
        growth, need, left = self.compose(staying)
        blocks = self.state.pool.available + self.freed_by(victims) - need
        room = Room(self.state.settings.seats - len(staying), left, blocks, set(), staying)
        admission: Admission | None = self.fit(head, room, anything_runs=True) if room.is_left else None
        return None if admission is None else Decision(victims, head, growth, left, [admission])


reused(
    "B24",
    REFERENCE["PRE-6"],
    rules=("PRE-3", "PRE-6"),
    kind="preemption-progress-loss",
    title="On cache exhaustion the KV of every request is thrown away, and all start over",
    url="https://github.com/deepspeedai/DeepSpeed-MII/pull/403",
)
