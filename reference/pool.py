"""Paged blocks with reference counts and a prefix index.

A block is held (count above zero), free, or evictable: held by nobody, but the index still names its content, so that a
request with the same token prefix can take it over.  One that is pinned is evicted after all others (`leases.py`).
"""

from collections import Counter

from attrs import Factory, define


@define(eq=False)
class Pool:
    """`free` is a stack; `evictable` keeps the order in which blocks were let go, the oldest first, `leased` those of
    them that are pinned; `pins`: by how many leases."""

    blocks: int
    free: list[int]
    evictable: dict[int, None] = Factory(dict)
    refs: dict[int, int] = Factory(dict)
    index: dict[int, int] = Factory(dict)
    key_of: dict[int, int] = Factory(dict)
    leased: dict[int, None] = Factory(dict)
    pins: Counter[int] = Factory(Counter)

    @classmethod
    def of(cls, blocks: int) -> "Pool":
        return cls(blocks, list(range(blocks - 1, -1, -1)))

    @property
    def available(self) -> int:
        return len(self.free) + len(self.evictable) + len(self.leased)

    @property
    def has_all_leased(self) -> bool:
        """Nothing is left but what is leased."""
        return not self.free and not self.evictable

    def is_cached(self, block: int) -> bool:
        """Held by nobody, and named by the index."""
        return block in self.evictable or block in self.leased

    def take(self) -> tuple[int, bool]:
        """A block for writing, and whether the index had to forget it."""
        evicted = not self.free
        if evicted:
            block = next(iter(self.evictable))
            del self.evictable[block]
            self.forget(block)
        else:
            block = self.free.pop()
        self.refs[block] = 1
        return block, evicted

    def share(self, block: int) -> None:
        """One more holder of a block that is held or evictable."""
        self.evictable.pop(block, None)
        self.leased.pop(block, None)
        self.refs[block] = self.refs.get(block, 0) + 1

    def give(self, block: int) -> None:
        """One holder less; the last one leaves it evictable or free."""
        self.refs[block] -= 1
        if self.refs[block]:
            return
        del self.refs[block]
        if self.pins[block]:
            self.leased[block] = None
        elif block in self.key_of:
            self.evictable[block] = None
        else:
            self.free.append(block)

    def pin(self, block: int) -> None:
        """A block that the index names is evicted after all others."""
        self.pins[block] += 1
        if block in self.evictable:
            del self.evictable[block]
            self.leased[block] = None

    def unpin(self, block: int) -> None:
        """The last lease of it leaves it where it would be without one, as the one that was let go last."""
        self.pins[block] -= 1
        if self.pins[block]:
            return
        del self.pins[block]
        if block in self.leased:
            del self.leased[block]
            self.evictable[block] = None

    def name(self, block: int, key: int) -> bool:
        """The index names a full block by its prefix, unless it has one of that prefix already."""
        if key in self.index:
            return False
        self.index[key] = block
        self.key_of[block] = key
        return True

    def forget(self, block: int) -> None:
        del self.index[self.key_of.pop(block)]

    def find(self, keys: list[int]) -> list[int]:
        """Blocks of the longest indexed prefix."""
        blocks = []
        for key in keys:
            if key not in self.index:
                break
            blocks.append(self.index[key])
        return blocks
