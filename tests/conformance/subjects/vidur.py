"""The replica schedulers of the Vidur simulator: `sarathi` and `vllm_2023`, as it ships them.

Vidur's own `SarathiReplicaScheduler` and `VLLMReplicaScheduler` decide, on its own `Request` and `Batch`; neither its
event loop nor its predictor of times is there.  One turn of that loop is cut in two where the batch runs: `step` is
`on_schedule` (events/replica_schedule_event.py), `complete` is the end of the only stage and of the batch
(batch_stage_end_event.py, batch_end_event.py).

* Vidur counts blocks and has no ids of them.  Those that are shown are handed out here, as many as it counts.
* It knows how long each output is.  It is told the declared length; where a token is the last, the rest is cut off
  before the batch ends.
* It cannot cancel.  Here whoever is cancelled is taken from its queues and its batch, and its own `free` gives the
  blocks back.
* A request that was preempted runs into an assertion of Vidur's (`Request.restart` leaves `_num_stage_processed_tokens`
  as it was): the simulation is over.  To the suite everybody fails then, and nobody is let in any more.  In
  `sarathi_mended` and `vllm_2023_mended` that one line is there.
* Its decode number q of a prompt of P is counted as processed when the token before it comes: positions are one behind.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from schedspec.spec.vocabulary import (
    Capabilities,
    Delta,
    Observation,
    Outcome,
    Plan,
    Receipt,
    Request,
    RequestView,
    Settings,
)

from .vidur_release import new_scheduler, vidur

# Sarathi-Serve, OSDI 2024, algorithm 3, and SOSP 2023, section 4: what Vidur's classes are named after.
COMMON = frozenset({"fcfs", "break", "resume_order", "newest_first", "watermark", "full_reserve"})


class Factory:
    """`prepare` imports Vidur, which takes seconds, or says in one sentence why it cannot."""

    def __init__(self, kind: str, *claims: str, profile: str, mended: bool = False) -> None:
        self.kind, self.claims, self.profile, self.mended = kind, COMMON | set(claims), profile, mended

    def prepare(self) -> None:
        vidur()

    def __call__(self, settings: Settings, seed: int) -> "ReplicaScheduler":
        return ReplicaScheduler(new_scheduler(self.kind, settings), settings, self)


SARATHI, VLLM_2023 = ("hybrid", "stall_free", "mixes_prefill"), ("exclusive",)
sarathi, vllm_2023 = Factory("sarathi", *SARATHI, profile="sarathi"), Factory("vllm", *VLLM_2023, profile="vllm-2023")
sarathi_mended = Factory("sarathi", *SARATHI, profile="sarathi", mended=True)
vllm_2023_mended = Factory("vllm", *VLLM_2023, profile="vllm-2023", mended=True)


class ReplicaScheduler:
    """One replica of one stage.  `jobs`: who lives; `names`: Vidur's numbers of them."""

    def __init__(self, scheduler: Any, settings: Settings, factory: Factory) -> None:
        self.scheduler, self.settings, self.factory = scheduler, settings, factory
        self.jobs: dict[str, Any] = {}
        self.names: dict[int, str] = {}
        self.seen: set[str] = set()
        self.outputs: dict[str, int] = {}
        self.batch: Any = None
        self.steps, self.is_over = 0, False
        self.request = vidur().Mended if factory.mended else vidur().Request
        self.blocks = Blocks(scheduler, settings.blocks, self.names)

    def capabilities(self) -> Capabilities:
        return Capabilities(
            name=f"vidur-{self.factory.kind}",
            version=vidur().version,
            profile=self.factory.profile,
            observes="tables",
            ordered=True,
            claims=self.factory.claims,
            constants={"prefill_only_steps": 0} if "mixes_prefill" in self.factory.claims else {},
        )

    def submit(self, request: Request, now_ns: int) -> Receipt:
        if request.id in self.seen:  # Vidur numbers its requests itself
            return Receipt(verdict="duplicate", of=request.id)
        self.seen.add(request.id)
        if self.is_over:
            return Receipt(verdict="refused", reason="other")
        job = self.request(now_ns, len(request.prompt_ids), request.max_output_tokens)
        self.jobs[request.id], self.names[job.id], self.outputs[request.id] = job, request.id, 0
        self.scheduler.add_request(job)
        return Receipt(verdict="accepted")

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        job = self.jobs.get(request_id)
        if job is None:
            return []
        for queue in (self.scheduler._request_queue, self.scheduler._preempted_requests):
            if job in queue:
                queue.remove(job)
        if self.batch is not None and job in self.batch.requests:
            place = self.batch.requests.index(job)
            for column in (self.batch._requests, self.batch._num_q_tokens, self.batch._num_kv_tokens):
                del column[place]
        if job.id in self.scheduler._allocation_map:
            self.scheduler.free(job.id)
        return [*self.blocks.take(), self._leaves(request_id, ("cancelled", request_id))]

    def notify(self, event: Mapping[str, Any], now_ns: int) -> Sequence[Delta]:
        return []

    def step(self, now_ns: int) -> Plan:
        self.steps += 1
        if self.is_over:
            return Plan(step=self.steps, request=[], start=[], tokens=[], samples=[], deltas=[])
        deltas: Sequence[Delta]
        try:
            with self.blocks.of_a_decision():
                self.batch = self.scheduler.on_schedule(now_ns)
            deltas = self.blocks.take()
        except AssertionError as error:
            deltas, self.batch = self._breaks_down(error), None
        if self.batch is None:
            return Plan(step=self.steps, request=[], start=[], tokens=[], samples=[], deltas=deltas)
        self.batch.on_schedule(now_ns)
        jobs, tokens = self.batch.requests, self.batch.num_q_tokens
        starts = [_computed(job) for job in jobs]
        return Plan(
            step=self.steps,
            request=[self.names[job.id] for job in jobs],
            start=starts,
            tokens=list(tokens),
            samples=[int(start + n == _known(job)) for job, start, n in zip(jobs, starts, tokens, strict=True)],
            deltas=deltas,
        )

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        if outcome.step != self.steps or self.batch is None:
            return []
        batch, self.batch = self.batch, None
        rows = zip(outcome.request, outcome.token, outcome.stop, strict=True)
        told = {name: (token, stop) for name, token, stop in rows if name in self.jobs}
        for name, (_, stop) in told.items():
            if stop:
                _ends_here(self.jobs[name])
        try:
            self._ends(batch, now_ns)
        except AssertionError as error:
            return self._breaks_down(error)
        deltas: list[Delta] = [("delivered", [*told], [token for token, _ in told.values()])] if told else []
        deltas += self.blocks.take()
        for name in told:
            self.outputs[name] += 1
        for name, (_, stop) in told.items():
            if self.jobs[name].completed:
                deltas += [self._leaves(name, ("finished", name, "stop" if stop else "length"))]
        return deltas

    def observe(self) -> Observation:
        free = self.settings.blocks - self.scheduler.num_allocated_blocks
        running = len(self.scheduler._allocation_map)
        counters = {"free_blocks": free, "used_blocks": self.settings.blocks - free}
        counters |= {"running": running, "waiting": self.scheduler.num_pending_requests}
        tables = {self.names[number]: list(table) for number, table in self.blocks.tables.items()}
        return Observation(
            counters=counters,
            requests={name: self._view(name, job) for name, job in self.jobs.items()},
            tables=tables,
            free=list(self.blocks.free),
            ref_counts={block: 1 for table in tables.values() for block in table},
        )

    def _ends(self, batch: Any, now_ns: int) -> None:
        stage = batch.to_batch_stage(0, vidur().NO_TIME)
        stage.on_schedule(now_ns)
        stage.on_stage_end(now_ns)
        self.scheduler.on_stage_end(0, stage)
        batch.on_batch_end(now_ns)
        self.scheduler.on_batch_end(batch)

    def _breaks_down(self, error: AssertionError) -> list[Delta]:
        """The simulation is over: everybody fails, whatever else this call changed."""
        self.is_over = True
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        says = f"assertion of Vidur in {where.tb_frame.f_code.co_name}" if where is not None else "assertion of Vidur"
        deltas = self.blocks.take()
        for name, job in [*self.jobs.items()]:
            if job.id in self.scheduler._allocation_map:
                self.scheduler.free(job.id)
            deltas += [*self.blocks.take(), self._leaves(name, ("failed", name, says))]
        return deltas

    def _view(self, name: str, job: Any) -> RequestView:
        outputs = self.outputs[name]
        if job.id not in self.scheduler._allocation_map:
            return RequestView(state="waiting", issued=0, computed=0, outputs=outputs, in_flight=0)
        entries = dict(zip(self.batch.request_ids, self.batch.num_q_tokens, strict=True)) if self.batch else {}
        computed, flying = _computed(job), entries.get(job.id, 0)
        samples = bool(flying) and computed + flying == _known(job)
        return RequestView(
            state="running", issued=computed + flying, computed=computed, outputs=outputs, in_flight=int(samples)
        )

    def _leaves(self, name: str, end: Delta) -> Delta:
        del self.names[self.jobs.pop(name).id], self.outputs[name]
        return end


def _computed(job: Any) -> int:
    """The last token that it got is counted as processed, and is not computed yet."""
    return int(job.num_processed_tokens - job.is_prefill_complete)


def _known(job: Any) -> int:
    """Prompt and outputs so far; to a victim these are its prompt (`Request.restart`)."""
    return int(job.num_processed_tokens if job.is_prefill_complete else job.num_prefill_tokens)


def _ends_here(job: Any) -> None:
    """The token that comes next is its last."""
    job._num_decode_tokens = _known(job) + 1 - job.num_prefill_tokens


class Blocks:
    """Ids for the blocks that Vidur counts, and what its `allocate` and `free` say as deltas, in their order."""

    def __init__(self, scheduler: Any, blocks: int, names: Mapping[int, str]) -> None:
        self.names, self.free = names, list(range(blocks))
        self.tables: dict[int, list[int]] = {}
        self.displaced: set[int] = set()
        self.deltas: list[Delta] = []
        self.is_decided = False
        scheduler.allocate = self._around(scheduler.allocate, self._taken)
        scheduler.free = self._around(scheduler.free, self._given)

    def take(self) -> list[Delta]:
        deltas, self.deltas = self.deltas, []
        return deltas

    @contextmanager
    def of_a_decision(self) -> Iterator[None]:
        """Whoever is freed in here is a victim; elsewhere it ends."""
        self.is_decided = True
        yield
        self.is_decided = False

    def _around(self, method: Callable[..., None], seen: Callable[..., None]) -> Callable[..., None]:
        def watched(*arguments: Any) -> None:
            method(*arguments)
            seen(*arguments)

        return watched

    def _taken(self, number: int, count: int) -> None:
        name, is_new = self.names[number], number not in self.tables
        fresh = [self.free.pop() for _ in range(count)]
        self.tables.setdefault(number, []).extend(fresh)
        self.deltas += [("took", name, fresh)] if fresh else []
        if is_new:
            self.deltas += [("resumed" if number in self.displaced else "admitted", name, 0)]
            self.displaced.discard(number)

    def _given(self, number: int) -> None:
        name, table = self.names[number], self.tables.pop(number)
        self.free += table
        self.deltas += [("gave", name, table)] if table else []
        if self.is_decided:
            self.deltas += [("preempted", name, "recompute", None)]
            self.displaced.add(number)
