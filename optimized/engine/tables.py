"""Block tables as the worker knows them: built from deltas alone, and what a plan asks of them."""

from collections.abc import Mapping, Sequence

from attrs import Factory, define

from ...spec.vocabulary import Delta, Plan, blocks_for
from .errors import EngineError


@define(eq=False)
class Tables:
    """`blocks` of the pool, of `block_size` positions each; a table per request that holds any.  Between two pools: the
    blocks that are `held` for a transfer, and those in which it is `landing`."""

    blocks: int
    block_size: int
    tables: dict[str, list[int]] = Factory(dict)
    held: dict[str, list[int]] = Factory(dict)
    landing: dict[str, list[int]] = Factory(dict)

    def hear(self, deltas: Sequence[Delta]) -> None:
        """In their order: `took` and `shared` append, `gave` empties."""
        for name, *fields in deltas:
            if name in ("took", "shared"):
                self._append(*fields)
            elif name == "gave":
                self._empty(*fields)
            elif name == "held":
                self.held[fields[0]] = self.tables.pop(fields[0], [])
            elif name == "pulled":
                self.landing[fields[0]] = list(fields[1])
            elif name == "adopted":
                self._append(*fields)
                self.landing.pop(fields[0], None)

    def of(self, request: str) -> list[int]:
        return self.tables.get(request, [])

    def _append(self, request: str, blocks: Sequence[int]) -> None:
        for block in blocks:
            if not 0 <= block < self.blocks:
                raise EngineError(f"{request} has block {block}, but the engine's pool has 0 to {self.blocks - 1}")
        self.tables.setdefault(request, []).extend(blocks)

    def _empty(self, request: str, blocks: Sequence[int]) -> None:
        held = self.tables.pop(request, [])
        if sorted(held) != sorted(blocks):
            raise EngineError(
                f"{request} gives {list(blocks)} back, but its table is {held}: were all deltas handed to the engine?"
            )

    def require(self, plan: Plan, known: Mapping[str, Sequence[int]]) -> None:
        """Raises EngineError with the first entry that these tables, or the `known` tokens, cannot serve."""
        written: dict[int, str] = {}
        seen: set[str] = set()
        for request, start, tokens in zip(plan.request, plan.start, plan.tokens, strict=True):
            here = f"step {plan.step}: {request}"
            if request in seen:
                raise EngineError(f"{here} is in it twice")
            seen.add(request)
            self._require(here, request, start, tokens, known)
            for slot in self.slots(request, start, tokens):
                if slot in written:
                    raise EngineError(
                        f"{here} and {written[slot]} both write offset {slot % self.block_size} of block"
                        f" {slot // self.block_size}"
                    )
                written[slot] = request

    def _require(self, here: str, request: str, start: int, tokens: int, known: Mapping[str, Sequence[int]]) -> None:
        end = start + tokens
        if request not in known:
            raise EngineError(f"{here} was never submitted to the engine, or has ended")
        if start < 0 or tokens < 1 or end > len(known[request]):
            raise EngineError(f"{here} runs positions {start} to {end}, but has {len(known[request])} tokens")
        needed, table = blocks_for(end, self.block_size), self.of(request)
        if needed > len(table):
            raise EngineError(
                f"{here} runs positions {start} to {end}, which need {needed} blocks of {self.block_size}, but its"
                f" table is {table}: were all deltas handed to the engine?"
            )

    def slots(self, request: str, start: int, tokens: int) -> list[int]:
        """Where its positions [start, start + tokens) are written."""
        table, size = self.of(request), self.block_size
        return [table[place // size] * size + place % size for place in range(start, start + tokens)]

    def unlike(self, shown: Mapping[str, Sequence[int]]) -> str | None:
        """KV-17: one sentence, if a scheduler shows other tables than the worker has."""
        for request in {**self.tables, **shown}:
            if list(shown.get(request, ())) != self.of(request):
                return (
                    f"the worker's table of {request} is {self.of(request)}, but the scheduler's is"
                    f" {list(shown.get(request, ()))}"
                )
        return None
