"""The content shadow: which token prefix stands in each place of each block.

Accounts of blocks cannot see a block that holds the wrong thing.  The shadow executes each completed step in order, as
the declared executor would: every (block, offset) remembers the identity of the prefix that was current when it was
written, and a read is right if each position that it attends to holds the reader's own prefix.

A block keeps the run of offsets that were written in order from its start.  As identities are chained, the last one of
a run vouches for all before it, so a read costs its blocks; and as an append spoils nothing, a request that was
verified once costs its last block, until somebody rewrites a block that it holds.
"""

from collections.abc import Callable, Iterable
from typing import Literal

from attrs import Factory, define, frozen

from .tracks import InFlight, Track

Content = list[int]


@frozen
class BadRead:
    """Entry `row` of a step read position `position` of its request in `block`, which holds something else."""

    row: int
    request: str
    position: int
    block: int
    found: str


@define(eq=False)
class ContentShadow:
    """`holders(block)` names the tracks that hold a block now, so that a rewrite makes them verify again."""

    block_size: int
    order: Literal["writes_first", "entry_by_entry"]
    holders: Callable[[int], Iterable[Track]]
    blocks: dict[int, Content] = Factory(dict)

    def execute(self, step: InFlight) -> tuple[list[int], list[BadRead]]:
        """Run a step: for each entry the identity that its sample depends on, and the reads that were wrong."""
        bad: list[BadRead] = []
        rows = range(len(step.tracks))
        if self.order == "writes_first":
            for row in rows:
                self._write(step, row)
            return [self._read(step, row, bad) for row in rows], bad
        digests = []
        for row in rows:
            self._write(step, row)
            digests.append(self._read(step, row, bad))
        return digests, bad

    def holds(self, block: int, identity: int) -> bool:
        """The block is full and ends the prefix of that identity."""
        content = self.blocks.get(block, ())
        return len(content) == self.block_size and content[-1] == identity

    def _write(self, step: InFlight, row: int) -> None:
        track, start, tokens = step.tracks[row], step.start[row], step.tokens[row]
        table, size = step.tables[row], self.block_size
        for position in range(start, start + tokens):
            place, offset = divmod(position, size)
            if place >= len(table):
                return  # no block to write to: KV-4 has said so
            block = table[place]
            content = self.blocks.get(block)
            if content is None:
                content = self.blocks[block] = []
            identity = track.id_at(position)
            if offset == len(content) and (offset == 0 or content[-1] == track.id_at(position - 1)):
                content.append(identity)
            elif offset >= len(content) or content[offset] != identity:
                self._rewrite(block, content, offset, identity, track, position)

    def _rewrite(
        self, block: int, content: Content, offset: int, identity: int, writer: Track, position: int
    ) -> None:
        """A place is written that was not next: what follows it no longer belongs to one prefix."""
        follows = offset == 0 or (offset <= len(content) and content[offset - 1] == writer.id_at(position - 1))
        del content[offset:]
        if follows:
            content.append(identity)
        for track in self.holders(block):
            track.verified_blocks = 0

    def _read(self, step: InFlight, row: int, bad: list[BadRead]) -> int:
        track, table, size = step.tracks[row], step.tables[row], self.block_size
        end = step.start[row] + step.tokens[row]
        full = end // size
        current = step.epochs[row] == track.epoch
        first = min(track.verified_blocks, full) if current else 0
        for place in range(first, full + (end % size > 0)):
            upto = min(size, end - place * size)
            content = self.blocks.get(table[place], ()) if place < len(table) else ()
            if len(content) < upto or content[upto - 1] != track.id_at(place * size + upto - 1):
                bad.append(self._bad_read(row, track, table, place, upto))
                return hash((end, *(identity for block in table for identity in self.blocks.get(block, ())[-1:])))
        if current and track.table is table:
            track.verified_blocks = full
        return track.id_at(end - 1)

    def _bad_read(self, row: int, track: Track, table: list[int], place: int, upto: int) -> BadRead:
        size = self.block_size
        if place >= len(table):
            return BadRead(row, track.id, place * size, -1, "no block")
        content = self.blocks.get(table[place], [])
        offset = next(
            (o for o in range(upto) if o >= len(content) or content[o] != track.id_at(place * size + o)), upto - 1
        )
        found = "nothing that was written" if offset >= len(content) else "another prefix"
        return BadRead(row, track.id, place * size + offset, table[place], found)
