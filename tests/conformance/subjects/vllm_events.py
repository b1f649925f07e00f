"""What a vLLM V1 scheduler does to blocks and queues, as deltas of the protocol, in the order in which it happens.

Everything goes through three methods, which are wrapped on one scheduler object and answer as before: of its
`KVCacheManager` (vllm/v1/core/kv_cache_manager.py) `allocate_slots` gives blocks to a running request or admits a
waiting one, and `free` takes them back at a preemption or an end; `cache_full_blocks` of the `BlockPool`
(vllm/v1/core/block_pool.py) names blocks in the prefix index.
"""

from collections.abc import Callable
from typing import Any

from attrs import Factory, define

ENDINGS = {"FINISHED_STOPPED": "stop", "FINISHED_LENGTH_CAPPED": "length", "FINISHED_REPETITION": "stop"}


@define(eq=False)
class Events:
    """`deltas` since they were last taken.  `asking`: the request that asked for blocks last.  `named`: blocks of which
    the index was told last; that is said after it was said that they were taken."""

    scheduler: Any
    deltas: list[tuple[Any, ...]] = Factory(list)
    indexed: set[int] = Factory(set)
    asking: Any = None
    named: tuple[str, list[int]] | None = None

    @classmethod
    def of(cls, scheduler: Any) -> "Events":
        events = cls(scheduler)
        events.watch()
        return events

    def watch(self) -> None:
        manager = self.scheduler.kv_cache_manager
        self.wrap(manager, "allocate_slots", self.allocate_slots)
        self.wrap(manager, "free", self.free)
        self.wrap(manager.block_pool, "cache_full_blocks", self.cache_full_blocks)

    def wrap(self, owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
        setattr(owner, name, wrapper(getattr(owner, name)))

    def tell(self, what: Callable[..., None], *args: Any) -> None:
        what(*args)

    def take(self) -> list[tuple[Any, ...]]:
        self.say_named()
        taken, self.deltas = self.deltas, []
        return taken

    # --- the wrapped methods -----------------------------------------------------------------------------

    def allocate_slots(self, original: Any) -> Any:
        nothing = self.scheduler.kv_cache_manager.empty_kv_cache_blocks

        def wrapped(request: Any, num_new_tokens: int, *args: Any, num_lookahead_tokens: int = 0, **more: Any) -> Any:
            self.asking = request
            if args or more:  # an admission
                blocks = original(request, num_new_tokens, *args, num_lookahead_tokens=num_lookahead_tokens, **more)
            else:  # once per running request and step: nothing is collected and spread in vain
                blocks = original(request, num_new_tokens, num_lookahead_tokens=num_lookahead_tokens)
            # Most get nothing, since they have room.  Who is admitted gets a block.
            if blocks is not nothing and blocks is not None:
                self.tell(self.gives, request, blocks, more)
            return blocks

        return wrapped

    def free(self, original: Any) -> Any:
        def wrapped(request: Any) -> Any:
            self.tell(self.leaves, request)
            return original(request)

        return wrapped

    def cache_full_blocks(self, original: Any) -> Any:
        def wrapped(request: Any, blocks: Any, num_cached_blocks: int, num_full_blocks: int, **kwargs: Any) -> None:
            original(request, blocks, num_cached_blocks, num_full_blocks, **kwargs)
            self.tell(self.names, request, blocks[num_cached_blocks:num_full_blocks])

        return wrapped

    # --- what they say -----------------------------------------------------------------------------------

    def gives(self, request: Any, blocks: Any, kwargs: dict[str, Any]) -> None:
        name, taken = request.request_id, [block.block_id for block in blocks.blocks[0]]
        if self.named and self.named[0] != name:
            self.say_named()
        if request.status._name_ == "RUNNING":
            self.takes(name, taken)
        else:
            self.admits(request, taken, kwargs)
        self.say_named()

    def admits(self, request: Any, taken: list[int], kwargs: dict[str, Any]) -> None:
        name, cached = request.request_id, kwargs.get("num_new_computed_tokens", 0)
        if cached:
            shared = kwargs["new_computed_blocks"].blocks[0]
            self.deltas.append(("shared", name, [block.block_id for block in shared]))
        self.takes(name, taken)
        kind = "resumed" if request.status._name_ == "PREEMPTED" else "admitted"
        self.deltas.append((kind, name, cached))

    def takes(self, name: str, taken: list[int]) -> None:
        if not self.indexed.isdisjoint(taken):  # a block leaves the index when it is taken for something else
            forgotten = [block for block in taken if block in self.indexed]
            self.deltas.append(("unindexed", forgotten))
            self.indexed.difference_update(forgotten)
        if taken:
            self.deltas.append(("took", name, taken))

    def names(self, request: Any, blocks: Any) -> None:
        """The index is told of a block when it is scheduled to become full."""
        self.say_named()
        new = [block.block_id for block in blocks if block.block_hash is not None]
        self.named = (request.request_id, new) if new else None

    def say_named(self) -> None:
        if self.named:
            self.indexed.update(self.named[1])
            self.deltas.append(("indexed", *self.named))
            self.named = None

    def leaves(self, request: Any) -> None:
        self.say_named()
        table = self.table(request)
        if table:
            self.deltas.append(("gave", request.request_id, [block.block_id for block in reversed(table)]))
        self.deltas.append(self.departure(request))

    def departure(self, request: Any) -> tuple[Any, ...]:
        name, status = request.request_id, request.status._name_
        if status == "RUNNING":
            return ("preempted", name, "recompute", self.asking and self.asking.request_id)
        if status == "FINISHED_ABORTED":
            return ("cancelled", name)
        if status in ENDINGS:
            return ("finished", name, ENDINGS[status])
        return ("failed", name, status.lower())

    # --- where it looks ----------------------------------------------------------------------------------

    @property
    def manager(self) -> Any:
        return self.scheduler.kv_cache_manager.coordinator.single_type_managers[0]

    def table(self, request: Any) -> Any:
        return self.manager.req_to_blocks.get(request.request_id, [])
