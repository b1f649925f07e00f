"""The real scheduler of vLLM as a subject: `schedspec check vllm`, and `vllm-raw`.

The release's own `Scheduler` (one step at a time) or `AsyncScheduler` (two in flight) decides; no model is loaded, the
suite plays the engine.  Blocks, queues and the prefix index are watched (`vllm_events.py`).

`vllm` is judged as it ships: the front end refuses what is longer than the model's context, and the start-up check
keeps that context within the KV pool (renderers/params.py, config/scheduler.py and v1/core/kv_cache_planning.py of it).
`vllm-raw` is the scheduler class alone.
"""

from collections.abc import Mapping, Sequence
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
    Unsupported,
    unsupported,
)

from .vllm_events import Events
from .vllm_release import new_scheduler, vllm

HONOURED = (
    *("blocks", "block_size", "seats", "token_budget", "watermark_blocks", "policy", "victim", "reserve"),
    *("prefix_caching", "chunked_prefill", "chunk_tokens", "overlap_depth", "max_model_tokens"),
)
STOP_TOKEN = 32_100  # outside the vocabulary of the suite's engine
NULL_BLOCK = 0


class Factory:
    """`prepare` imports vLLM, which takes seconds, or says in one sentence why it cannot."""

    def __init__(self, *, raw: bool) -> None:
        self.raw = raw

    def prepare(self) -> None:
        vllm()

    def __call__(self, settings: Settings, seed: int) -> "VllmScheduler":
        return VllmScheduler(settings, raw=self.raw)


make, raw = Factory(raw=False), Factory(raw=True)


class VllmScheduler:
    """One scheduler of the release, with the engine's part left to the suite."""

    def __init__(self, settings: Settings, *, raw: bool) -> None:
        _refuse(settings, raw=raw)
        self.settings, self.raw, self.v = settings, raw, vllm()
        self.longest = settings.max_model_tokens if raw else _longest(settings)
        self.scheduler = new_scheduler(self.v, settings, self.longest)
        self.events = Events.of(self.scheduler)
        self.hasher = self.v.get_request_block_hasher(settings.block_size, self.v.sha256)
        self.seen: set[str] = set()
        self.steps = 0
        self.in_flight: dict[int, Any] = {}

    def capabilities(self) -> Capabilities:
        return capabilities_of(self.settings, self.v.version, "vllm-raw" if self.raw else "vllm")

    def submit(self, request: Request, now_ns: int) -> Receipt:
        if request.id in self.seen:  # the front end gives every request an id of its own
            return Receipt(verdict="duplicate", of=request.id)
        self.seen.add(request.id)
        length = request.declared_tokens
        if not self.raw and length > self.longest:
            reason = "model_tokens" if length > self.settings.max_model_tokens else "other"
            return Receipt(verdict="refused", reason=reason, limit=self.longest, value=length)
        sampling = self.v.SamplingParams(max_tokens=request.max_output_tokens, stop_token_ids=[STOP_TOKEN])
        arrival = float(len(self.seen))  # the wall clock of the front end, which never stands still
        ids, hasher = list(request.prompt_ids), self.hasher if self.settings.prefix_caching else None
        theirs = self.v.Request(
            request.id, ids, sampling, None, arrival_time=arrival, priority=request.priority, block_hasher=hasher
        )
        self.scheduler.add_request(theirs)
        return Receipt(verdict="accepted")

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        self.scheduler.finish_requests(request_id, self.v.RequestStatus.FINISHED_ABORTED)
        return self.events.take()

    def notify(self, event: Mapping[str, Any], now_ns: int) -> Sequence[Delta]:
        return []

    def step(self, now_ns: int) -> Plan:
        self.steps += 1
        out = self.scheduler.schedule()
        cached = out.scheduled_cached_reqs
        start = dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        start |= {new.req_id: new.num_computed_tokens for new in out.scheduled_new_reqs}
        ids = list(out.num_scheduled_tokens)
        if ids:
            self.in_flight[self.steps] = out
        return Plan(
            step=self.steps,
            request=ids,
            start=[start[name] for name in ids],
            tokens=list(out.num_scheduled_tokens.values()),
            samples=[int(not self.scheduler.requests[name].is_prefill_chunk) for name in ids],
            deltas=self.events.take(),
        )

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        out = self.in_flight.pop(outcome.step, None)
        if out is None:
            return []
        tokens = dict(zip(outcome.request, outcome.token, strict=True))
        stops = {name for name, stop in zip(outcome.request, outcome.stop, strict=True) if stop}
        ids = list(out.num_scheduled_tokens)
        sampled = [[STOP_TOKEN if name in stops else tokens[name]] if name in tokens else [] for name in ids]
        places = {name: place for place, name in enumerate(ids)}
        result = self.v.ModelRunnerOutput(req_ids=ids, req_id_to_index=places, sampled_token_ids=sampled)
        answers = self.scheduler.update_from_output(out, result)
        got = [one.request_id for answer in answers.values() for one in answer.outputs if one.new_token_ids]
        delivered = [("delivered", got, [tokens[name] for name in got])] if got else []
        return [*delivered, *self.events.take()]

    def observe(self) -> Observation:
        scheduler, pool = self.scheduler, self.scheduler.kv_cache_manager.block_pool
        free = pool.free_block_queue.get_all_free_blocks()
        named = [block.block_id for block in pool.blocks if block.block_hash is not None]
        held = {block.block_id: block.ref_cnt for block in pool.blocks if block.ref_cnt and not block.is_null}
        tables = {name: [b.block_id for b in self.events.table(r)] for name, r in scheduler.requests.items()}
        counts = {"running": len(scheduler.running), "waiting": scheduler.get_request_counts()[1]}
        return Observation(
            counters={**counts, "free_blocks": len(free), "used_blocks": len(held)},
            requests={name: _view(request) for name, request in scheduler.requests.items()},
            tables={name: table for name, table in tables.items() if table},
            free=[block.block_id for block in free if block.block_hash is None],
            evictable=[block.block_id for block in free if block.block_hash is not None],
            null=[NULL_BLOCK],
            ref_counts=held,
            index=named,
        )


def capabilities_of(s: Settings, version: str, name: str = "vllm") -> Capabilities:
    """What vLLM promises under these settings."""
    claims = {"hard_budget", "hybrid", "watermark", "break", s.policy}
    claims |= {"newest_first"} if s.policy == "fcfs" else set()
    claims |= {"lowest_priority"} if s.policy == "priority" and s.overlap_depth == 1 else set()
    claims |= {"full_reserve"} if s.reserve == "known" else set()
    claims |= {"prefix_cache"} if s.prefix_caching else set()
    # With steps in flight a victim waits for its results, and others may pass it meanwhile.
    claims |= {"overlap"} if s.overlap_depth > 1 else {"resume_order"} if s.policy == "fcfs" else set()
    return Capabilities(
        name=name,
        version=version,
        profile="vllm-v1",
        observes="tables",
        ordered=True,
        claims=frozenset(claims),
        executor_order="writes_first",
        null_blocks=(NULL_BLOCK,),
    )


def _view(request: Any) -> RequestView:
    in_flight = max(0, request.num_in_flight_tokens - request.num_stale_output_tokens)
    placeholders = request.num_output_placeholders or int(in_flight > 0 and not request.is_prefill_chunk)
    return RequestView(
        state="running" if request.status.name == "RUNNING" else "waiting",
        issued=request.num_computed_tokens,
        computed=request.num_computed_tokens - in_flight,
        outputs=request.num_output_tokens,
        in_flight=placeholders,
    )


def _longest(s: Settings) -> int:
    """The longest context that vLLM starts with: all of it fits into the pool, less the null block."""
    limits = [s.max_model_tokens, (s.blocks - 1) * s.block_size]
    return min(limits if s.chunked_prefill else [*limits, s.token_budget])


def _refuse(s: Settings, *, raw: bool) -> None:
    plain = Settings()
    victim = "newest" if s.policy == "fcfs" else "lowest_priority"
    refused = {
        "policy": s.policy not in ("fcfs", "priority"),
        "victim": s.victim != victim,
        "at_blocked_head": s.at_blocked_head != "break",
        "reserve": s.reserve in ("declared", "peak"),
        "overlap_depth": s.overlap_depth > 2,
        "max_prompt_tokens": s.max_prompt_tokens != plain.max_prompt_tokens,
        "max_output_tokens": s.max_output_tokens != plain.max_output_tokens,
        "blocks": s.blocks < 2,
        # SchedulerConfig.verify_max_model_len
        "seats": not raw and s.seats > s.token_budget,
        "chunk_tokens": s.chunk_tokens > 0 and (not s.chunked_prefill or (not raw and s.chunk_tokens > _longest(s))),
    }
    for name, no in refused.items():
        if no:
            raise Unsupported(name, getattr(s, name))
    if (other := unsupported(s, HONOURED)) is not None:
        raise Unsupported(other, getattr(s, other))
