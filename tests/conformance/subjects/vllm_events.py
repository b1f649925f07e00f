"""What a vLLM V1 scheduler does to blocks and queues, as deltas of the protocol, in the order in which it happens.

Everything goes through three methods of its `KVCacheManager` (vllm/v1/core/kv_cache_manager.py): `allocate_slots` gives
blocks to a running request or admits a waiting one, `free` takes them back at a preemption or an end, `cache_blocks`
names blocks in the prefix index.  They are wrapped on one scheduler object, and answer as before.
"""

from typing import Any

from attrs import Factory, define

ENDINGS = {"FINISHED_STOPPED": "stop", "FINISHED_LENGTH_CAPPED": "length"}


@define(eq=False)
class Events:
    """`deltas` since they were last taken.  `named`: request -> how many of its blocks the index has been told of."""

    scheduler: Any
    deltas: list[tuple[Any, ...]] = Factory(list)
    indexed: set[int] = Factory(set)
    named: dict[str, int] = Factory(dict)
    asking: str | None = None

    @classmethod
    def of(cls, scheduler: Any) -> "Events":
        events = cls(scheduler)
        manager = scheduler.kv_cache_manager
        for name in ("allocate_slots", "free", "cache_blocks"):
            setattr(manager, name, getattr(events, name)(getattr(manager, name)))
        return events

    def take(self) -> list[tuple[Any, ...]]:
        taken, self.deltas = self.deltas, []
        return taken

    # --- the wrapped methods -----------------------------------------------------------------------------

    def allocate_slots(self, original: Any) -> Any:
        def wrapped(request: Any, num_new_tokens: int, *args: Any, **kwargs: Any) -> Any:
            self.asking = request.request_id
            blocks = original(request, num_new_tokens, *args, **kwargs)
            if blocks is None:
                return None
            if request.status.name != "RUNNING":
                self.admits(request, blocks, kwargs)
            elif blocks.blocks[0]:
                self.takes(request, [block.block_id for block in blocks.blocks[0]])
            self.names(request)
            return blocks

        return wrapped

    def free(self, original: Any) -> Any:
        def wrapped(request: Any) -> Any:
            name, table = request.request_id, self.table(request)
            if table:
                self.deltas.append(("gave", name, [block.block_id for block in reversed(table)]))
            self.named.pop(name, None)
            self.deltas.append(self.departure(request))
            return original(request)

        return wrapped

    def cache_blocks(self, original: Any) -> Any:
        def wrapped(request: Any, num_computed_tokens: int) -> Any:
            answer = original(request, num_computed_tokens)
            self.names(request)
            return answer

        return wrapped

    # --- what they say -----------------------------------------------------------------------------------

    def admits(self, request: Any, blocks: Any, kwargs: dict[str, Any]) -> None:
        name, cached = request.request_id, kwargs.get("num_new_computed_tokens", 0)
        hits = kwargs.get("new_computed_blocks")
        if cached:
            shared = [block.block_id for block in hits.blocks[0]]
            self.deltas.append(("shared", name, shared))
            self.named[name] = len(shared)
        self.takes(request, [block.block_id for block in blocks.blocks[0]])
        kind = "resumed" if request.status.name == "PREEMPTED" else "admitted"
        self.deltas.append((kind, name, cached))

    def takes(self, request: Any, taken: list[int]) -> None:
        forgotten = [block for block in taken if block in self.indexed]
        if forgotten:  # a block leaves the index when it is taken for something else
            self.deltas.append(("unindexed", forgotten))
            self.indexed.difference_update(forgotten)
        if taken:
            self.deltas.append(("took", request.request_id, taken))

    def names(self, request: Any) -> None:
        """Blocks that the index has been told of since; it is told of a block when it is scheduled to become full."""
        count = self.manager.num_cached_block.get(request.request_id, 0)
        known = self.named.get(request.request_id, 0)
        if count <= known:
            return
        self.named[request.request_id] = count
        new = [block.block_id for block in self.table(request)[known:count] if block.block_hash is not None]
        if new:
            self.indexed.update(new)
            self.deltas.append(("indexed", request.request_id, new))

    def departure(self, request: Any) -> tuple[Any, ...]:
        name, status = request.request_id, request.status.name
        if status == "RUNNING":
            return ("preempted", name, "recompute", self.asking)
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
