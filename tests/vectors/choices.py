"""Every decision that a world leaves open in a step, as the spec sees it.

`State` is a scheduler without a will: it keeps queue, seats and blocks, and does what a `Decision` says.  `decisions`
lists all that could be done; which of them are legal the monitor says, one by one (`legal.py`).
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations, product

from attrs import Factory, define, field, frozen

from schedspec.spec.vocabulary import Delta, Message, Outcome, Plan, Receipt, Request, Settings, blocks_for

TOKEN = 7
"""What the model says, every time: no rule reads it."""


@define
class Job:
    request: Request
    stop_after: int | None
    issued: int = 0
    outputs: int = 0
    table: list[int] = Factory(list)

    @property
    def id(self) -> str:
        return self.request.id

    @property
    def known(self) -> int:
        return self.request.prompt_tokens + self.outputs

    @property
    def ends_after(self) -> int:
        """Output tokens."""
        return min(self.request.max_output_tokens, self.stop_after or self.request.max_output_tokens)


@frozen
class Decision:
    """Who is preempted, the newest first; who is admitted, in that order; how many tokens everybody runs."""

    preempted: tuple[str, ...]
    admitted: tuple[str, ...]
    tokens: tuple[tuple[str, int], ...]


@define
class State:
    settings: Settings
    waiting: dict[str, Job] = Factory(dict)
    running: dict[str, Job] = Factory(dict)
    free: list[int] = field()
    displaced: set[str] = Factory(set)
    steps: int = 0

    @free.default
    def _all_blocks(self) -> list[int]:
        return list(range(self.settings.blocks))[::-1]

    def submit(self, request: Request, stop_after: int | None) -> Message:
        self.waiting[request.id] = Job(request, stop_after)
        return Message("submit", 0, request, Receipt(verdict="accepted"))

    def cancel(self, id: str) -> Message:
        job = self.running.pop(id, None) or self.waiting.pop(id, None)
        deltas = [] if job is None else [*self._given(job), ("cancelled", id)]
        return Message("cancel", 0, id, deltas)

    def do(self, decision: Decision) -> tuple[Message, Message | None]:
        """The step, and its result; there is none where nothing ran."""
        deltas = self._preempt(decision)
        tokens = dict(decision.tokens)
        for job in self.running.values():
            deltas += self._grown(job, tokens.get(job.id, 0))
        for id in decision.admitted:
            job = self.running[id] = self.waiting.pop(id)
            deltas += [*self._grown(job, tokens[id]), ("resumed" if id in self.displaced else "admitted", id, 0)]
            self.displaced.discard(id)
        plan = self._run(decision.tokens, deltas)
        return Message("step", 0, None, plan), self._complete(plan) if plan.request else None

    def needs(self, job: Job, tokens: int) -> int:
        return max(0, blocks_for(job.issued + tokens, self.settings.block_size) - len(job.table)) if tokens else 0

    def _preempt(self, decision: Decision) -> list[Delta]:
        deltas: list[Delta] = []
        for_whom = next((id for id, _ in decision.tokens), None)
        for id in decision.preempted:
            job = self.waiting[id] = self.running.pop(id)
            deltas += [*self._given(job), ("preempted", id, "recompute", for_whom)]
            job.issued = 0
            self.displaced.add(id)
        return deltas

    def _given(self, job: Job) -> list[Delta]:
        blocks, job.table = job.table[::-1], []
        self.free += blocks
        return [("gave", job.id, blocks)] if blocks else []

    def _grown(self, job: Job, tokens: int) -> list[Delta]:
        blocks = [self.free.pop() for _ in range(self.needs(job, tokens))]
        job.table += blocks
        return [("took", job.id, blocks)] if blocks else []

    def _run(self, tokens: Sequence[tuple[str, int]], deltas: list[Delta]) -> Plan:
        self.steps += 1
        rows = []
        for id, count in tokens:
            job = self.running[id]
            rows.append((id, job.issued, count, int(job.issued + count == job.known)))
            job.issued += count
        columns = zip(*rows, strict=True) if rows else ((), (), (), ())
        names = ("request", "start", "tokens", "samples")
        return Plan(step=self.steps, deltas=deltas, **dict(zip(names, columns, strict=True)))  # type: ignore[arg-type]

    def _complete(self, plan: Plan) -> Message:
        sampled = [id for id, samples in zip(plan.request, plan.samples, strict=True) if samples]
        stops = [self._sampled(self.running[id]) for id in sampled]
        outcome = Outcome(step=plan.step, request=sampled, token=[TOKEN] * len(sampled), stop=stops)
        deltas: list[Delta] = [("delivered", sampled, [TOKEN] * len(sampled))] if sampled else []
        for id, stop in zip(sampled, stops, strict=True):
            job = self.running[id]
            if job.outputs == job.ends_after:
                del self.running[id]
                deltas += [*self._given(job), ("finished", id, "stop" if stop else "length")]
        return Message("complete", 0, outcome, deltas)

    def _sampled(self, job: Job) -> bool:
        """Whether the model stops there."""
        job.outputs += 1
        return job.outputs == job.stop_after


def decisions(state: State) -> Iterator[Decision]:
    """All: any of the running may be preempted, any of the waiting admitted in any order, and everybody may run any
    number of the tokens that are known of it, if there are blocks for them.  Not among them: to admit somebody who
    then does not run (KV-10 forbids it), or to take blocks that nothing is written to (KV-5 does)."""
    running, waiting = list(state.running.values()), list(state.waiting.values())
    for victims in _some(running[::-1]):
        staying = [job for job in running if job not in victims]
        free = len(state.free) + sum(len(job.table) for job in victims)
        for comers in _in_any_order(waiting):
            yield from _shared_out(state, victims, staying, comers, free)


def _some(jobs: Sequence[Job]) -> Iterator[tuple[Job, ...]]:
    for count in range(len(jobs) + 1):
        yield from combinations(jobs, count)


def _in_any_order(jobs: Sequence[Job]) -> Iterator[tuple[Job, ...]]:
    for count in range(len(jobs) + 1):
        yield from permutations(jobs, count)


def _shared_out(
    state: State, victims: Sequence[Job], staying: Sequence[Job], comers: Sequence[Job], free: int
) -> Iterator[Decision]:
    ranges = [range(job.known - job.issued + 1) for job in staying] + [range(1, job.known + 1) for job in comers]
    jobs = [*staying, *comers]
    for counts in product(*ranges):
        if sum(state.needs(job, count) for job, count in zip(jobs, counts, strict=True)) <= free:
            tokens = tuple((job.id, count) for job, count in zip(jobs, counts, strict=True) if count)
            yield Decision(tuple(job.id for job in victims), tuple(job.id for job in comers), tokens)
