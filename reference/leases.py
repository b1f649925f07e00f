"""Leases: blocks that the prefix index keeps for a request that is parked in the middle.

A lease is a promise with an end: its blocks are evicted after all others.  It is over when its request runs again or
has ended, when its time is over, or when there is no other block to take.
"""

from attrs import Factory, define

from .pool import Pool


@define(eq=False)
class Leases:
    """`until_ns` and `blocks` of each request that has a lease, in the order in which they were given; all last equally
    long, so the first ends first."""

    pool: Pool
    blocks: dict[str, list[int]] = Factory(dict)
    until_ns: dict[str, int] = Factory(dict)

    def give(self, request: str, blocks: list[int], until_ns: int) -> None:
        self.blocks[request], self.until_ns[request] = blocks, until_ns
        for block in blocks:
            self.pool.pin(block)

    def end(self, request: str) -> None:
        for block in self.blocks.pop(request):
            self.pool.unpin(block)
        del self.until_ns[request]

    def first(self) -> str:
        """Of the one that ends first."""
        return next(iter(self.until_ns))

    def overdue(self, now_ns: int) -> list[str]:
        first = next(iter(self.until_ns.values()), now_ns)
        return [request for request, until_ns in self.until_ns.items() if until_ns < now_ns] if first < now_ns else []

    def obligations(self) -> list[tuple[int, str, str]]:
        """Block, owner, reason."""
        return [(block, request, "lease") for request, blocks in self.blocks.items() for block in blocks]
