"""A scheduler to copy: `schedspec check toy_scheduler:Scheduler`.  It imports nothing of schedspec.

First come, first served; an admission takes the blocks of prompt and declared output, so nobody is preempted.
"""

from types import SimpleNamespace as Job
from typing import Any

HONOURED: Any = {"policy": "fcfs", "at_blocked_head": "break", "reserve": "declared", "watermark_blocks": 0}
HONOURED |= {"overlap_depth": 1, "prefix_caching": False, "chunked_prefill": True, "resident_tokens": 0}
COLUMNS = ("request", "start", "tokens", "samples")


class Scheduler:
    def __init__(self, settings: Any, seed: int) -> None:
        for name in HONOURED:
            if getattr(settings, name) != HONOURED[name]:
                raise NotImplementedError(name)  # so the suite knows which setting was refused
        self.settings, self.free = settings, list(range(settings.blocks))
        self.waiting: dict[str, Job] = {}  # dicts keep the order of arrival
        self.running: dict[str, Job] = {}
        self.seen: set[str] = set()
        self.steps = self.in_flight = 0

    def capabilities(self) -> Any:
        claims = ["hard_budget", "fcfs", "break", "declared_reserve"]
        return {"name": "toy", "observes": "tables", "ordered": True, "claims": claims}

    def submit(self, request: Any, now_ns: int) -> Any:
        if request.id in self.seen:
            return {"verdict": "duplicate", "of": request.id}
        self.seen.add(request.id)
        s, prompt, output = self.settings, len(request.prompt_ids), request.max_output_tokens
        need = -(-(prompt + output - 1) // s.block_size)  # the last token is never written
        values = {"prompt_tokens": prompt, "output_tokens": output, "model_tokens": prompt + output}
        for reason, value in {**values, "kv_blocks": need}.items():
            limit = s.blocks if reason == "kv_blocks" else getattr(s, f"max_{reason}")
            if value > limit:
                return {"verdict": "refused", "reason": reason, "limit": limit, "value": value}
        self.waiting[request.id] = Job(id=request.id, need=need, known=prompt, left=output, issued=0)
        return {"verdict": "accepted"}

    def cancel(self, request_id: str, now_ns: int) -> Any:
        if request_id in self.running:
            return [self.release(request_id), ["cancelled", request_id]]
        return [["cancelled", request_id]] if self.waiting.pop(request_id, None) else []

    def notify(self, event: Any, now_ns: int) -> Any:
        return []

    def step(self, now_ns: int) -> Any:
        self.steps = self.in_flight = self.steps + 1
        deltas, entries, budget = [], [], self.settings.token_budget
        for job in [*self.running.values(), *self.waiting.values()]:
            if job.id in self.waiting:
                if not budget or job.need > len(self.free) or len(self.running) == self.settings.seats:
                    break
                job.blocks = [self.free.pop() for _ in range(job.need)]
                self.running[job.id] = self.waiting.pop(job.id)
                deltas += [["took", job.id, job.blocks], ["admitted", job.id, 0]]
            if tokens := min(job.known - job.issued, budget):
                entries.append((job.id, job.issued, tokens, int(job.issued + tokens == job.known)))
                job.issued, budget = job.issued + tokens, budget - tokens
        columns = zip(COLUMNS, zip(*entries, strict=True), strict=False)
        return {"step": self.steps, "deltas": deltas, **dict(columns)}

    def complete(self, outcome: Any, now_ns: int) -> Any:
        if outcome.step != self.in_flight:
            return []  # it came before
        self.in_flight, deltas = 0, []
        for rid, token, stop in zip(outcome.request, outcome.token, outcome.stop, strict=True):
            if job := self.running.get(rid):  # else it was cancelled meanwhile
                job.known, job.left = job.known + 1, job.left - 1
                deltas += [["delivered", [rid], [token]]]
                if stop or not job.left:
                    deltas += [self.release(rid), ["finished", rid, "stop" if stop else "length"]]
        return deltas

    def release(self, rid: str) -> Any:
        blocks = self.running.pop(rid).blocks
        self.free += blocks
        return ["gave", rid, blocks]
