"""Who holds each block, by the deltas of a run alone: for pictures.  It believes what it is told; rules judge it.

Memory is that of the blocks that are not free, however large the pool is said to be.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from attrs import Factory, define, frozen

from schedspec.spec.vocabulary import Delta, Settings

State = Literal["held", "cached", "evictable", "aside", "host"]
STATES: tuple[State, ...] = ("held", "cached", "evictable", "aside", "host")
WORDS = {
    "held": "held by {}",
    "cached": "held by {}, and named by the prefix index",
    "evictable": "held by nobody, named by the prefix index: evictable",
    "aside": "set aside for {}",
    "host": "host memory: saves a block of {}",
}

Place = tuple[bool, int]
"""Whether it is a block of host memory, and its id."""


@frozen
class Holding:
    """What a block that is not free is used for.  `note`: why it is set aside."""

    state: State
    owners: tuple[str, ...] = ()
    note: str = ""

    def says(self, names: Iterable[str] | None = None) -> str:
        who = ", ".join(self.owners if names is None else names) or "somebody"
        return WORDS[self.state].format(who) + (f" ({self.note})" if self.note else "")


@define
class Holdings:
    """`holding`: place -> what it is used for, unless it is free; `changed`: the places that changed since somebody
    cleared it; `strange`: blocks that were named and are not in the pool."""

    settings: Settings
    holding: dict[Place, Holding] = Factory(dict)
    counts: Counter[tuple[str, State]] = Factory(Counter)
    changed: set[Place] = Factory(set)
    strange: dict[int, None] = Factory(dict)
    _holders: dict[int, list[str]] = Factory(dict)
    _indexed: set[int] = Factory(set)
    _aside: dict[int, tuple[str, str]] = Factory(dict)
    _leases: dict[int, str] = Factory(dict)

    @property
    def pools(self) -> tuple[str, ...]:
        """Names of the pools of device memory."""
        return ("prefill", "decode") if self.settings.pools.are_two else ("",)

    def size(self, pool: str) -> int:
        return self.settings.pools.decode_blocks if pool == "decode" else self.settings.blocks

    def pool_of(self, block: int) -> str:
        if not self.settings.pools.are_two:
            return ""
        return "decode" if block >= self.settings.blocks else "prefill"

    def hear(self, delta: Delta) -> None:
        kind = delta[0]
        if kind in ("took", "shared", "adopted"):
            self._hold(delta[1], delta[2], adopted=kind == "adopted")
        elif kind == "gave":
            self._give(delta[1], delta[2])
        elif kind in ("indexed", "unindexed"):
            blocks = delta[2] if kind == "indexed" else delta[1]
            self._indexed.update(blocks) if kind == "indexed" else self._indexed.difference_update(blocks)
            self._look(blocks)
        elif kind in ("held", "pulled"):
            self._set_aside(delta[1], delta[2], "until it is pulled" if kind == "held" else f"transfer {delta[3]}")
        elif kind == "released":
            self._release(delta[1], delta[2])
        elif kind == "leased":
            self._leases |= dict.fromkeys(delta[2], delta[1])
            self._look(delta[2])
        elif kind == "lease_over":
            over = [block for block, request in self._leases.items() if request == delta[1]]
            for block in over:
                del self._leases[block]
            self._look(over)
        elif kind in ("swapped_out", "swapped_in", "dropped"):
            for block in delta[2]:
                self._put((True, block), Holding("host", (delta[1],)) if kind == "swapped_out" else None)

    # --- what a block is used for ------------------------------------------------------------------------

    def _hold(self, request: str, blocks: Iterable[int], *, adopted: bool) -> None:
        for block in blocks:
            if adopted:
                self._aside.pop(block, None)
            self._holders.setdefault(block, []).append(request)
        self._look(blocks)

    def _give(self, request: str, blocks: Iterable[int]) -> None:
        for block in blocks:
            self._let_go(request, block)
        self._look(blocks)

    def _let_go(self, request: str, block: int) -> None:
        holders = self._holders.get(block, [])
        if request in holders:
            holders.remove(request)
        if not holders:
            self._holders.pop(block, None)

    def _set_aside(self, request: str, blocks: Iterable[int], why: str) -> None:
        for block in blocks:
            self._let_go(request, block)
            self._aside[block] = (request, why)
        self._look(blocks)

    def _release(self, request: str, blocks: Iterable[int]) -> None:
        for block in blocks:
            if self._aside.get(block, ("", ""))[0] == request:
                del self._aside[block]
        self._look(blocks)

    def _look(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            self._put((False, block), self._now(block))

    def _now(self, block: int) -> Holding | None:
        if block in self._aside:
            owner, why = self._aside[block]
            return Holding("aside", (owner,), why)
        if holders := self._holders.get(block):
            return Holding("cached" if block in self._indexed else "held", tuple(holders))
        if block in self._leases:
            return Holding("aside", (self._leases[block],), "leased while it is parked")
        return Holding("evictable") if block in self._indexed else None

    def _put(self, place: Place, now: Holding | None) -> None:
        before = self.holding.get(place)
        if before == now:
            return
        self.changed.add(place)
        in_host, block = place
        pool = "host" if in_host else self.pool_of(block)
        if before is not None:
            self.counts[pool, before.state] -= 1
        if now is None:
            del self.holding[place]
        else:
            self.holding[place] = now
            self.counts[pool, now.state] += 1
        last = self.settings.host_blocks if in_host else self.settings.blocks + self.settings.pools.decode_blocks
        if not 0 <= block < last and len(self.strange) < 100:
            self.strange[block] = None
