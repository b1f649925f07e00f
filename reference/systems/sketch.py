"""The loop as it is often drawn on a board, and what is wrong with it: subjects `sketch` and `sketch:FAULT`.

Running requests first, a victim if memory is short, then admissions by the least counter, all in one pass that
allocates while it decides.  Written down in a hurry it has eight faults.  `Sketch` has those that it is told to have,
so each can be looked at alone; without any it is a small scheduler that is right.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import Factory, define

from ...spec.vocabulary import (
    Capabilities,
    Delta,
    Observation,
    Outcome,
    Plan,
    Receipt,
    Request,
    RequestView,
    Settings,
    SubjectFactory,
    Unsupported,
    blocks_alone,
    blocks_for,
    unsupported,
)

FAULTS: Mapping[str, str] = {
    "victim-stays": "a victim is put into the queue, and stays in the running list and in the batch",
    "never-joins": "an admitted request never joins the running list",
    "prefill-as-decode": "a prompt of which a part was run goes on as if it were decoding",
    "back-at-once": "a victim is admitted again in the same pass",
    "watermark-idles": "the watermark is kept on an empty machine too, and may idle it for ever",
    "charged-at-admission": "counters are charged at admission and not for what is generated",
    "never-lifted": "counters are never lifted",
    "local-free": "what a pass takes from the free blocks is forgotten with the pass",
}
"""Name -> the mistake."""

HONOURED = (
    "blocks",
    "block_size",
    "seats",
    "token_budget",
    "watermark_blocks",
    "policy",
    "max_prompt_tokens",
    "max_output_tokens",
    "max_model_tokens",
)


@define(eq=False)
class Job:
    """`issued`: positions that steps have scheduled, `computed`: those whose step has completed; `known`: those whose
    token is there or on its way."""

    request: Request
    known: int
    issued: int = 0
    computed: int = 0
    outputs: int = 0
    charged: bool = False
    table: list[int] = Factory(list)
    in_flight: bool = False


class Sketch:
    """One pass, over two lists.  `faults`: which of `FAULTS` it has."""

    def __init__(self, settings: Settings, seed: int, faults: Sequence[str] = tuple(FAULTS)) -> None:
        self.refuse(settings)
        self.settings = settings
        self.faults = frozenset(faults)
        self.free = list(range(settings.blocks))
        self.waiting: deque[Job] = deque()
        self.running: list[Job] = []
        self.jobs: dict[str, Job] = {}
        self.seen: set[str] = set()
        self.counters: dict[str, int] = {}
        self.last_left: str | None = None
        self.deltas: list[Delta] = []
        self.batch: list[Job] = []
        self.steps = 0

    # --- the protocol ------------------------------------------------------------------------------------

    def refuse(self, settings: Settings) -> None:
        other = "policy" if settings.policy != "vtc" else unsupported(settings, HONOURED)
        if other is not None:
            raise Unsupported(other, getattr(settings, other))

    def capabilities(self) -> Capabilities:
        claims = ("hard_budget", "hybrid", "watermark", "vtc", "fair_share", "break", "newest_first")
        return Capabilities(name="sketch", observes="tables", ordered=True, claims=frozenset(claims))

    def submit(self, request: Request, now_ns: int) -> Receipt:
        if request.id in self.seen:
            return Receipt(verdict="duplicate", of=request.id)
        self.seen.add(request.id)
        s, prompt, output = self.settings, request.prompt_tokens, request.max_output_tokens
        for reason, limit, value in (
            ("prompt_tokens", s.max_prompt_tokens, prompt),
            ("output_tokens", s.max_output_tokens, output),
            ("model_tokens", s.max_model_tokens, prompt + output),
            ("kv_blocks", s.blocks, blocks_alone(prompt, output, s.block_size)),
        ):
            if value > limit:
                return Receipt(verdict="refused", reason=reason, limit=limit, value=value)
        job = self.jobs[request.id] = Job(request, prompt)
        self.lift(request.client)
        self.waiting.append(job)
        return Receipt(verdict="accepted")

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        self.deltas = []
        if job := self.jobs.get(request_id):
            self.end(job, ("cancelled", request_id))
        return self.deltas

    def notify(self, event: Mapping[str, Any], now_ns: int) -> Sequence[Delta]:
        return []

    def step(self, now_ns: int) -> Plan:
        """1. who runs goes on; 2. who is in the way is preempted; 3. with what is left others are admitted."""
        self.deltas, self.steps = [], self.steps + 1
        free, batch = list(self.free), []
        budget = self.settings.token_budget
        preempted = False
        for job in list(self.running):
            if job not in self.running:
                continue
            tokens = min(1 if "prefill-as-decode" in self.faults else job.known - job.issued, budget)
            if tokens <= 0 or job.in_flight:
                continue
            while not (fits := self.take(job, tokens)):
                victim, preempted = self.running[-1], True
                freed = bool(victim.table)
                self.preempt(victim, job)
                if victim is job or not freed:
                    break
            if fits:
                batch.append((job, tokens))
                budget -= tokens
        if not preempted or "back-at-once" in self.faults:
            batch += self.admit(budget)
        if "local-free" in self.faults:
            self.free = free
        return self.plan(batch)

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        self.deltas = []
        if outcome.step != self.steps:
            return []
        for job in self.batch:
            job.computed = job.issued
        rows = zip(outcome.request, outcome.token, outcome.stop, strict=True)
        for id, token, stop in rows:
            served = self.jobs.get(id)
            if served is None or not served.in_flight:
                continue
            served.in_flight = False
            served.outputs += 1
            self.deltas.append(("delivered", [id], [token]))
            if "charged-at-admission" not in self.faults:
                self.counters[served.request.client] += self.settings.output_weight
            if stop or served.outputs == served.request.max_output_tokens:
                self.end(served, ("finished", id, "stop" if stop else "length"))
        return self.deltas

    def observe(self) -> Observation:
        held = {id: job.table for id, job in self.jobs.items() if job.table}
        return Observation(
            counters={"running": len(self.running), "waiting": len(self.waiting), "free_blocks": len(self.free)},
            requests={id: self.view(job) for id, job in self.jobs.items()},
            tables=held,
            free=self.free,
            ref_counts={block: 1 for table in held.values() for block in table},
            client_counters=self.counters,
        )

    def view(self, job: Job) -> RequestView:
        return RequestView(
            state="waiting" if job in self.waiting else "running",
            issued=job.issued,
            computed=job.computed,
            outputs=job.outputs,
            in_flight=int(job.in_flight),
        )

    # --- the pass ----------------------------------------------------------------------------------------

    def admit(self, budget: int) -> list[tuple[Job, int]]:
        """The client with the least counter, until its head does not fit."""
        entries: list[tuple[Job, int]] = []
        while self.waiting and budget > 0 and len(self.running) < self.settings.seats:
            job = min(self.waiting, key=lambda job: self.counters[job.request.client])
            tokens = min(job.known, budget)
            keeps = self.running or entries or "watermark-idles" in self.faults
            kept = self.settings.watermark_blocks if keeps else 0
            if blocks_for(tokens, self.settings.block_size) > len(self.free) - kept:
                break
            self.take(job, tokens)
            self.leave(job)
            if not job.charged:
                self.counters[job.request.client] += self.settings.input_weight * job.request.prompt_tokens
            self.deltas.append(("resumed" if job.charged else "admitted", job.request.id, 0))
            job.charged = True
            if "never-joins" not in self.faults:
                self.running.append(job)
            entries.append((job, tokens))
            budget -= tokens
        return entries

    def take(self, job: Job, tokens: int) -> bool:
        """Blocks for so many more positions; false if there are not enough."""
        missing = blocks_for(job.issued + tokens, self.settings.block_size) - len(job.table)
        if missing > len(self.free):
            return False
        if missing > 0:
            taken = [self.free.pop() for _ in range(missing)]
            job.table += taken
            self.deltas.append(("took", job.request.id, taken))
        return True

    def plan(self, batch: Sequence[tuple[Job, int]]) -> Plan:
        self.batch = [job for job, _ in batch]
        starts, samples = [], []
        for job, tokens in batch:
            starts.append(job.issued)
            job.issued += tokens
            last = job.issued == job.known or ("prefill-as-decode" in self.faults and job.issued > tokens)
            samples.append(int(last))
            job.known += last
            job.in_flight = last
        ids = [job.request.id for job, _ in batch]
        counts = [tokens for _, tokens in batch]
        return Plan(step=self.steps, request=ids, start=starts, tokens=counts, samples=samples, deltas=self.deltas)

    def preempt(self, job: Job, requester: Job) -> None:
        """It is computed again later, prompt and outputs; it stands at the head of the queue."""
        self.give_all(job)
        self.deltas.append(("preempted", job.request.id, "recompute", requester.request.id))
        if "victim-stays" not in self.faults:
            self.running.remove(job)
        job.issued = job.computed = 0
        self.lift(job.request.client)
        self.waiting.appendleft(job)

    # --- one request ---------------------------------------------------------------------------------------

    def lift(self, client: str) -> None:
        """Who had nobody waiting is not served for the time when it asked for nothing."""
        self.counters.setdefault(client, 0)
        queued = {job.request.client for job in self.waiting}
        if client in queued or "never-lifted" in self.faults:
            return
        floor = min((self.counters[other] for other in queued), default=self.counters.get(self.last_left or "", 0))
        self.counters[client] = max(self.counters[client], floor)

    def leave(self, job: Job) -> None:
        self.waiting.remove(job)
        if all(other.request.client != job.request.client for other in self.waiting):
            self.last_left = job.request.client

    def end(self, job: Job, event: Delta) -> None:
        self.give_all(job)
        if job in self.running:
            self.running.remove(job)
        if job in self.waiting:
            self.leave(job)
        del self.jobs[job.request.id]
        self.deltas.append(event)

    def give_all(self, job: Job) -> None:
        if job.table:
            self.deltas.append(("gave", job.request.id, job.table))
            self.free += job.table
            job.table = []


def subjects() -> dict[str, SubjectFactory]:
    """`sketch` has all the faults, `sketch:NAME` one of them."""
    alone = {f"sketch:{name}": _with(name) for name in FAULTS}
    return {"sketch": Sketch, "sketch:mended": _with(), **alone}


def _with(*faults: str) -> SubjectFactory:
    return lambda settings, seed: Sketch(settings, seed, faults)
