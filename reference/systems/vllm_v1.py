"""The V1 scheduler of vLLM 0.33.0 as a model: the same decisions, step by step.

In scope: text generation with full attention, policies fcfs and priority, prefix caching, chunked prefill and its
threshold, the watermark, the full-sequence check, one step at a time (`Scheduler`) or two in flight (`AsyncScheduler`).
Not in scope: speculative decoding, connectors, LoRA, encoders, structured output, streaming sessions.

What the release does differently from the reference: it takes blocks while it decides, so that a request may lose in
the middle of a step what it was given at its beginning; it names blocks in the prefix index when they are scheduled,
before they are computed; it delivers tokens that come back after their request was preempted.  Sources stand below
`vllm/v1/core/` of the release, if nothing else is said.
"""

from collections.abc import Mapping

from attrs import Factory, define, evolve

from ...spec.vocabulary import Capabilities, Observation, Plan, Request, Settings, Unsupported, blocks_for, unsupported
from ..job import ENDED, RUNNING, Job
from ..pool import Pool
from ..scheduler import Scheduler
from ..state import Entry, State

VERSION = "0.33.0"
NULL_BLOCK = 0
HONOURED = (
    *("blocks", "block_size", "seats", "token_budget", "watermark_blocks", "policy", "victim", "reserve"),
    *("prefix_caching", "chunked_prefill", "chunk_tokens", "overlap_depth", "max_model_tokens"),
)


@define(eq=False)
class BlockPool(Pool):
    """`block_pool.py`, BlockPool: its free queue is a stack of blocks without a hash (`free`), and behind it those with
    one, the oldest first (`evictable`).  Blocks of equal content all stay indexed (BlockHashToBlockMap); the first is
    the one that is found.  Block 0 is the null block and is never given out.
    """

    copies: dict[int, list[int]] = Factory(dict)

    @classmethod
    def of(cls, blocks: int) -> "BlockPool":
        return cls(blocks, list(range(blocks - 1, NULL_BLOCK, -1)))

    def name(self, block: int, key: int) -> bool:
        """`cache_full_blocks()`: a block whose content is indexed already is indexed beside it."""
        self.key_of[block] = key
        self.copies.setdefault(key, []).append(block)
        self.index.setdefault(key, block)
        return True

    def forget(self, block: int) -> None:
        """`_maybe_evict_cached_block()`: the next copy is found from now on."""
        key = self.key_of.pop(block)
        copies = self.copies[key]
        copies.remove(block)
        if copies:
            self.index[key] = copies[0]
        else:
            del self.copies[key], self.index[key]


@define(eq=False)
class Batch:
    """A step in the making: tokens left, most tokens per request (0: no limit), who runs with how many tokens."""

    budget: int
    threshold: int
    runs: dict[Job, int] = Factory(dict)
    has_preempted: bool = False

    def add(self, job: Job, tokens: int) -> None:
        self.runs[job] = tokens
        self.budget -= tokens

    def remove(self, job: Job) -> None:
        self.budget += self.runs.pop(job, 0)


class VllmV1(Scheduler):
    """The scheduler class alone: it accepts whatever it is given."""

    name = "vllm-v1-raw"

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        self.refuse(settings)
        super().__init__(settings, seed, record=record)
        self.state = State.of(settings, BlockPool.of(settings.blocks))
        self.longest = self.max_model_len(settings)
        self.preemptions = 0

    def capabilities(self) -> Capabilities:
        return Capabilities(
            name=self.name,
            version=VERSION,
            profile="vllm-v1",
            observes="tables",
            ordered=True,
            claims=claims_of(self.state.settings),
            null_blocks=(NULL_BLOCK,),
        )

    def observe(self) -> Observation:
        return evolve(super().observe(), null=(NULL_BLOCK,))

    # --- what it is started with -------------------------------------------------------------------------

    def refuse(self, settings: Settings) -> None:
        """Settings that the release does not have."""
        for name, no in refused(settings).items():
            if no:
                raise Unsupported(name, getattr(settings, name))
        if (other := unsupported(settings, HONOURED)) is not None:
            raise Unsupported(other, getattr(settings, other))

    def max_model_len(self, settings: Settings) -> int:
        return settings.max_model_tokens

    def refusal(self, request: Request) -> tuple[str, int, int] | None:
        return None

    # --- a step: sched/scheduler.py, schedule() ----------------------------------------------------------

    def step(self, now_ns: int) -> Plan:
        """Running requests in order of admission; then, if nobody was preempted, waiting ones."""
        state = self.state
        state.deltas = []
        state.step += 1
        batch = Batch(state.settings.token_budget, self.threshold())
        self.schedule_running(batch)
        if not batch.has_preempted:
            self.schedule_waiting(batch)
        return self.plan(batch.runs.items())

    def threshold(self) -> int:
        """`long_prefill_token_threshold` binds while there is somebody else (its adaptive form is off by default)."""
        crowd = len(self.state.running) + self.state.queue.size
        return self.state.settings.chunk_tokens if crowd > 1 else 0

    def tokens_left(self, job: Job, start: int, batch: Batch) -> int:
        left = job.known - start
        return min(left, batch.threshold) if batch.threshold else left

    # --- running requests --------------------------------------------------------------------------------

    def schedule_running(self, batch: Batch) -> None:
        for job in list(self.state.running.values()):
            if not batch.budget:
                return
            if job.state != RUNNING or self.ends_with_what_is_in_flight(job):
                continue
            tokens = min(self.tokens_left(job, job.issued, batch), batch.budget, self.longest - job.issued - 1)
            if not tokens:
                continue
            if self.make_room(job, job.issued + tokens, batch):
                self.allocate_slots(job, job.issued + tokens)
                batch.add(job, tokens)
            elif self.is_last_try(job):
                return

    def ends_with_what_is_in_flight(self, job: Job) -> bool:
        """The step in flight is sure to bring its last token."""
        asked = job.request.declared_tokens
        return job.in_flight > 0 and job.issued + 2 - job.in_flight >= asked

    def make_room(self, job: Job, positions: int, batch: Batch) -> bool:
        """Preempt until the job fits; false if it was preempted itself.

        Where a victim was already given tokens in this step they go back to the budget, but blocks that were named for
        it stay in the index.
        """
        while self.blocks_needed(job, positions) > self.state.pool.available:
            victim = self.victim()
            batch.remove(victim)
            batch.has_preempted = True
            self.preempt(victim, job)
            if victim is job:
                return False
        return True

    def victim(self) -> Job:
        """fcfs: the last of the running list; priority: the largest (priority, arrival), wherever it stands."""
        running = list(self.state.running.values())
        if self.state.settings.policy == "priority":
            return max(running, key=lambda job: (job.request.priority, job.arrival))
        return running[-1]

    def is_last_try(self, job: Job) -> bool:
        """Who preempted itself was the last under fcfs; under priority those behind it may still fit."""
        return self.state.settings.policy == "fcfs"

    # --- waiting requests --------------------------------------------------------------------------------

    def schedule_waiting(self, batch: Batch) -> None:
        """From the head until somebody does not fit; only who has results in flight is passed over."""
        state = self.state
        stay: list[Job] = []
        while batch.budget and len(state.running) < state.settings.seats and (job := state.queue.pop()):
            if self.has_stale_results(job):
                stay.append(job)
            elif not self.admit_waiting(job, batch):
                stay.append(job)
                break
        for job in stay:
            state.queue.put_back(job)

    def has_stale_results(self, job: Job) -> bool:
        """`num_stale_output_tokens`: results of before its preemption are still to come."""
        return any(entry.job is job for entries in self.state.in_flight.values() for entry in entries)

    def admit_waiting(self, job: Job, batch: Batch) -> bool:
        """Its cached blocks, its first tokens, and the blocks for them, if there are enough."""
        cached, start = self.prefix_hit(job)
        tokens = self.tokens_left(job, start, batch)
        if tokens > batch.budget and not self.state.settings.chunked_prefill:
            return False
        tokens = min(tokens, batch.budget)
        if not self.fits(job, cached, start + tokens):
            return False
        self.share(job, cached)
        self.grow(job, min(start + tokens, self.longest))
        self.seat(job, start)
        self.name_blocks(job, start + tokens)
        batch.add(job, tokens)
        return True

    def prefix_hit(self, job: Job) -> tuple[list[int], int]:
        """`kv_cache_manager.py`, get_computed_blocks(): blocks of the longest indexed prefix that ends before the last
        token, and the position behind them.  Of a prompt that is indexed whole the last block is computed again."""
        cached = self.cached_blocks(job)
        return cached, len(cached) * self.state.settings.block_size

    def fits(self, job: Job, cached: list[int], positions: int) -> bool:
        """`kv_cache_manager.py`, allocate_slots(): blocks of these positions, or of all that is known
        (`scheduler_reserve_full_isl`).  Cached blocks that nobody holds count as free until they are taken."""
        state, settings = self.state, self.state.settings
        asked = max(positions, job.known) if settings.reserve == "known" else positions
        revived = sum(block in state.pool.evictable for block in cached)
        need = blocks_for(min(asked, self.longest), settings.block_size) - len(cached) + revived
        return need + self.watermark() <= state.pool.available

    def watermark(self) -> int:
        return self.state.settings.watermark_blocks if self.state.running else 0

    # --- blocks: kv_cache_manager.py ---------------------------------------------------------------------

    def blocks_needed(self, job: Job, positions: int) -> int:
        return blocks_for(min(positions, self.longest), self.state.settings.block_size) - len(job.table)

    def allocate_slots(self, job: Job, positions: int) -> None:
        """Blocks up to these positions; those that will be full then are named now."""
        self.grow(job, min(positions, self.longest))
        self.name_blocks(job, positions)

    def name_blocks(self, job: Job, positions: int) -> None:
        if self.state.settings.prefix_caching:
            super().name_blocks(job, positions)

    # --- transitions: sched/scheduler.py -----------------------------------------------------------------

    def preempt(self, job: Job, requester: Job) -> None:
        """`_preempt_request()`: under fcfs to the very front of the queue, before whoever came first."""
        self.preemptions += 1
        if self.state.settings.policy == "fcfs":
            job.arrival = -self.preemptions
        super().preempt(job, requester)

    def settle(self, entry: Entry, tokens: Mapping[str, int]) -> bool:
        """`update_from_output()`: a token that comes after a preemption is delivered to the waiting request."""
        job = entry.job
        if entry.epoch == job.epoch:
            return super().settle(entry, tokens)
        if job.state == ENDED or not entry.samples:
            return False
        job.known += 1
        job.outputs += 1
        job.tokens.append(tokens[job.id])
        return True

    def is_at_its_length(self, job: Job) -> bool:
        """`sched/utils.py`, check_stop()."""
        return len(job.tokens) >= self.longest or super().is_at_its_length(job)


class Shipped(VllmV1):
    """Behind the front end of the release, which refuses what is longer than the model's context."""

    name = "vllm-v1"

    def refuse(self, settings: Settings) -> None:
        """`vllm/config/scheduler.py`: a step has a token for every seat, and the threshold is within the context."""
        super().refuse(settings)
        if settings.seats > settings.token_budget:
            raise Unsupported("seats", settings.seats)
        if settings.chunk_tokens > self.max_model_len(settings):
            raise Unsupported("chunk_tokens", settings.chunk_tokens)

    def max_model_len(self, settings: Settings) -> int:
        """The start-up check (`kv_cache_planning.py`): a context fits into the pool, less the null block; and into one
        step, where prompts may not be split (`vllm/config/scheduler.py`, verify_max_model_len())."""
        limits = [settings.max_model_tokens, (settings.blocks - 1) * settings.block_size]
        return min(limits if settings.chunked_prefill else [*limits, settings.token_budget])

    def refusal(self, request: Request) -> tuple[str, int, int] | None:
        length = request.declared_tokens
        if length <= self.longest:
            return None
        return "model_tokens" if length > self.state.settings.max_model_tokens else "other", self.longest, length


def refused(settings: Settings) -> dict[str, bool]:
    """Setting -> whether its value is one that the release does not have."""
    plain = Settings()
    return {
        "policy": settings.policy not in ("fcfs", "priority"),
        "victim": settings.victim != ("newest" if settings.policy == "fcfs" else "lowest_priority"),
        "at_blocked_head": settings.at_blocked_head != "break",
        "reserve": settings.reserve in ("declared", "peak"),
        "overlap_depth": settings.overlap_depth > 2,
        "max_prompt_tokens": settings.max_prompt_tokens != plain.max_prompt_tokens,
        "max_output_tokens": settings.max_output_tokens != plain.max_output_tokens,
        "blocks": settings.blocks < 2,
        "chunk_tokens": settings.chunk_tokens > 0 and not settings.chunked_prefill,  # it would split prompts
    }


def claims_of(settings: Settings) -> frozenset[str]:
    claims = {"hard_budget", "hybrid", "watermark", "break", settings.policy}
    if settings.policy == "fcfs":
        claims.add("newest_first")
    elif settings.overlap_depth == 1:
        claims.add("lowest_priority")
    if settings.reserve == "known":
        claims.add("full_reserve")
    if settings.prefix_caching:
        claims.add("prefix_cache")
    if settings.overlap_depth > 1:
        claims.add("overlap")
    elif settings.policy == "fcfs":
        claims.add("resume_order")
    return frozenset(claims)


def make(settings: Settings, seed: int) -> Shipped:
    """The subject `vllm-v1`: the model of the release as it ships."""
    return Shipped(settings, seed)


def raw(settings: Settings, seed: int) -> VllmV1:
    """The subject `vllm-v1-raw`: the model of the scheduler class alone."""
    return VllmV1(settings, seed)
