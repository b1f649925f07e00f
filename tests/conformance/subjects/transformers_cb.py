"""Continuous batching of Hugging Face transformers: `make` has its FIFO scheduler, `prefill_first` the other one.

The release's own `ContinuousBatchingManager` and batch processor decide, with their scheduler, paged cache and
offloading; there is no model.  One turn of `_generation_loop_body` (continuous_api.py) is cut in two where the forward
pass would be: `step` is `prepare_next_batch`, `complete` writes the tokens where the model runner leaves them
(`output_ids`) and calls `update_batch`.  Batching is synchronous, which is what the manager resolves to without a GPU.

* The loop takes a cancellation from its queue between two steps.  One that comes while a step runs is answered at once
  and takes effect in `complete`, after `update_batch`; until then there is no snapshot.
* The suite's watermark of 0 is `safety_margin=0`, which is how the engine has none.
* With prefix caching no blocks are shown: the engine replaces duplicates inside of a running table
  (`mark_complete_blocks`, cache_allocator.py), and there is no delta for that.
* Pages have at least 4 positions.  `small_pages` lifts that bound, so that the suite's small pools are small.
"""

from collections.abc import Callable, Mapping, Sequence
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

from .transformers_events import TRASH_BLOCKS, Events
from .transformers_release import new_manager, transformers

# A token budget (continuous_batching_architecture.md); who does not fit is passed over (`_process_candidates`).
CLAIMS = ("hard_budget", "skip")


class Factory:
    """`prepare` imports transformers, which takes seconds, or says in one sentence why it cannot."""

    def __init__(self, scheduler_type: str, *claims: str, any_page: bool = False) -> None:
        self.scheduler_type, self.claims, self.any_page = scheduler_type, frozenset({*CLAIMS, *claims}), any_page

    def prepare(self) -> None:
        transformers()

    def __call__(self, settings: Settings, seed: int) -> "ContinuousBatching":
        manager = new_manager(settings, seed, self.scheduler_type, any_page=self.any_page)
        return ContinuousBatching(manager, settings, f"transformers-cb-{self.scheduler_type}", self.claims)


# The same document of FIFO alone: "active decode requests are processed first, then active prefill requests, and then
# new waiting requests in arrival order".
make, small_pages = Factory("fifo", "fcfs", "hybrid"), Factory("fifo", "fcfs", "hybrid", any_page=True)
prefill_first, prefill_first_small_pages = Factory("prefill_first"), Factory("prefill_first", any_page=True)


class ContinuousBatching:
    """One manager, driven by hand.  `outputs`: tokens that each live request was given."""

    def __init__(self, manager: Any, settings: Settings, name: str, claims: frozenset[str]) -> None:
        self.manager, self.settings, self.name, self.claims = manager, settings, name, claims
        self.processor, self.scheduler = manager.batch_processor, manager.batch_processor.scheduler
        self.events = Events(self.processor, blocks=not settings.prefix_caching)
        self.outputs: dict[str, int] = {}
        self.seen: set[str] = set()
        self.steps = self.in_flight = 0
        self.cancel_waits = False

    def capabilities(self) -> Capabilities:
        shared, claims = self.settings.prefix_caching, self.claims
        if shared:  # its cache budget counts a shared block once per reader, so somebody who could run may be left out
            claims = claims - {"hybrid"} | {"prefix_cache"}
        return Capabilities(
            name=self.name,
            version=transformers().version,
            observes="counters" if shared else "tables",
            ordered=True,
            claims=claims,
        )

    def submit(self, request: Request, now_ns: int) -> Receipt:
        if request.id in self.seen:  # the front end gives every request an id of its own
            return Receipt(verdict="duplicate", of=request.id)
        self.seen.add(request.id)
        prompt, most = list(request.prompt_ids), request.max_output_tokens
        if not self.manager.add_request(prompt, request.id, most, streaming=True, eos_token_id=-1):
            return Receipt(verdict="refused", reason="other")  # the loop has ended with a fatal error
        self.outputs[request.id] = 0
        return Receipt(verdict="accepted")

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        self.manager.cancel_request(request_id)
        self.cancel_waits = bool(self.in_flight)
        if not self.in_flight:
            self._take_cancellations()
        return self._leaves(request_id, ("cancelled", request_id)) if request_id in self.outputs else []

    def notify(self, event: Mapping[str, Any], now_ns: int) -> Sequence[Delta]:
        return []

    def step(self, now_ns: int) -> Plan:
        self.steps += 1
        entries = self._batch() if self._turn(self.processor.prepare_next_batch) else []
        deltas = [*self.events.take(), *self._delivered(set())]
        self.in_flight = self.steps if entries else 0
        return Plan(
            step=self.steps,
            request=[e.state.request_id for e in entries],
            start=[e.state.position_offset - e.query_length for e in entries],
            tokens=[e.query_length for e in entries],
            samples=[int(e.has_new_token) for e in entries],
            deltas=deltas,
        )

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        if outcome.step != self.in_flight:
            return []
        self.in_flight = 0
        rows = dict(zip(outcome.request, zip(outcome.token, outcome.stop, strict=True), strict=True))
        sampling = [e.state for e in self._batch() if e.has_new_token]
        for place, state in enumerate(sampling):
            token, stop = rows[state.request_id]
            self.processor.inputs_and_outputs.output_ids[0, place] = token
            state._eos_token_ids = {token} if stop else set()
        self._turn(self.processor.update_batch)
        deltas = self._delivered({request for request, (_, stop) in rows.items() if stop})
        if self.cancel_waits:
            self._take_cancellations()
        return deltas

    def observe(self) -> Observation | None:
        if self.cancel_waits:
            return None
        pool, ledger = self.processor.cache.pool, self.events.allocator.ledger
        free = [*pool.free_sectors, *(block for tree in pool._free_blocks[0].trees.values() for block in tree)]
        available = len(free) + len(ledger.cached_blocks)
        counters = {"free_blocks": available, "used_blocks": self.settings.blocks - available}
        counters["running"] = len(self.scheduler.active_requests)
        counters["waiting"] = len(self.scheduler.waiting_requests) + self.manager.input_queue.qsize()
        requests = {request: self._view(request) for request in self.outputs}
        if self.settings.prefix_caching:
            return Observation(counters=counters, requests=requests)
        tables = self.events.tables()
        held = {block for table in tables.values() for block in table}
        counts = {block: ledger.shared_ref_counts.get(block + TRASH_BLOCKS, 1) for block in held}
        free = [block - TRASH_BLOCKS for block in free]
        return Observation(counters=counters, requests=requests, tables=tables, free=free, ref_counts=counts)

    # --- parts -------------------------------------------------------------------------------------------

    def _turn(self, part: Callable[[], Any]) -> Any:
        """After an error the loop is over and everybody has failed (`_run_generation_loop`)."""
        try:
            return part()
        except Exception as error:
            return self.manager._handle_critical_error(error, self.processor)

    def _batch(self) -> list[Any]:
        entries: list[Any] = self.processor.inputs_and_outputs.requests_in_batch
        return entries

    def _view(self, request: str) -> RequestView:
        state = self.scheduler.active_requests.get(request)
        if state is None:
            return RequestView(state="waiting", issued=0, computed=0, outputs=self.outputs[request], in_flight=0)
        flying = [e for e in self._batch() if e.state is state] if self.in_flight else []
        return RequestView(
            state="running",
            issued=state.position_offset,
            computed=state.position_offset - sum(e.query_length for e in flying),
            outputs=self.outputs[request],
            in_flight=sum(e.has_new_token for e in flying),
        )

    def _take_cancellations(self) -> None:
        """The first lines of `prepare_next_batch`."""
        self.cancel_waits = False
        self.processor._update_tp_group_state()
        for state in self.scheduler.clear_cancelled_requests():
            self.processor.offloading_manager.free_request_cpu_cache(state)

    def _delivered(self, stopped: set[str]) -> list[Delta]:
        """What clients find in the output queue: each output repeats all tokens of its request."""
        deltas: list[Delta] = []
        queue = self.manager.output_router.output_queue
        while not queue.empty():
            output = queue.get()
            name = output.request_id
            if name not in self.outputs:
                continue  # it was cancelled meanwhile
            if output.error is not None:
                deltas += self._leaves(name, ("failed", name, output.error))
                continue
            fresh = output.generated_tokens[self.outputs[name] :]
            self.outputs[name] += len(fresh)
            deltas += [("delivered", [name] * len(fresh), fresh)]
            if output.is_finished():
                deltas += self._leaves(name, ("finished", name, "stop" if name in stopped else "length"))
        return deltas

    def _leaves(self, request: str, end: Delta) -> list[Delta]:
        del self.outputs[request]
        return self.events.leaves(request, end)
