"""What a batch processor of transformers changes, as deltas: watched, not told.

Around the two methods that decide, `schedule_batch` and `offload_requests`, the active requests and their block tables
are compared with what was told before.
"""

from collections.abc import Callable
from typing import Any

from schedspec.spec.vocabulary import Delta

TRASH_BLOCKS = 2  # the pool's ids begin after them (cache_pool.py, `num_reserved_sectors`)


class Events:
    """Changes since `take` was called last; `tables` and `running` are the state as it was told.

    Without `blocks` no deltas of blocks are made.
    """

    def __init__(self, processor: Any, *, blocks: bool) -> None:
        self.blocks, self.scheduler = blocks, processor.scheduler
        (self.allocator,) = processor.cache.cache_allocators.values()
        self.told: dict[str, list[int]] = {}
        self.running: set[str] = set()
        self.displaced: set[str] = set()
        self.deltas: list[Delta] = []
        self._watch(self.scheduler, "schedule_batch")
        self._watch(processor.offloading_manager, "offload_requests")

    def take(self) -> list[Delta]:
        deltas, self.deltas = self.deltas, []
        return deltas

    def tables(self) -> dict[str, list[int]]:
        if not self.blocks:
            return {}
        return {name: [b - TRASH_BLOCKS for b in blocks] for name, blocks in self.allocator.block_table.items()}

    def leaves(self, request: str, end: Delta) -> list[Delta]:
        """Somebody ends, in whatever state."""
        self.running.discard(request)
        self.displaced.discard(request)
        blocks = self.told.pop(request, [])
        return [("gave", request, blocks), end] if blocks else [end]

    def _watch(self, owner: Any, method: str) -> None:
        call: Callable[..., Any] = getattr(owner, method)

        def watched(*arguments: Any) -> Any:
            answer = call(*arguments)
            self.deltas += [*self._left(), *self._entered()]
            return answer

        setattr(owner, method, watched)

    def _left(self) -> list[Delta]:
        """Victims, in the order in which they were taken: they are put back in the reverse one (offload_requests)."""
        deltas: list[Delta] = []
        left = self.running - self.scheduler.active_requests.keys()
        for request in [name for name in reversed(self.scheduler.waiting_requests_order) if name in left]:
            deltas += self.leaves(request, ("preempted", request, "recompute", None))
        self.displaced |= left
        return deltas

    def _entered(self) -> list[Delta]:
        """Growth of block tables, and who is active since; `position_offset` is what a prefix match brought."""
        deltas: list[Delta] = []
        tables = self.tables()
        for request, state in self.scheduler.active_requests.items():
            told = self.told.setdefault(request, [])
            if fresh := tables.get(request, [])[len(told) :]:
                told += fresh
                deltas += [("took", request, fresh)]
            if request not in self.running:
                name = "resumed" if request in self.displaced else "admitted"
                deltas += [(name, request, state.position_offset)]
        self.displaced -= self.scheduler.active_requests.keys()
        self.running |= self.scheduler.active_requests.keys()
        return deltas
