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


@frozen
class Copy:
    """Blocks of a table, in order, are copied out to as many host blocks, or back in, before a step runs."""

    step: int
    blocks: tuple[int, ...]
    host: tuple[int, ...]
    is_out: bool


@define(eq=False)
class ContentShadow:
    """`holders(block)` names the tracks that hold a block now, so that a rewrite makes them verify again.  `copies` are
    those that are not made yet."""

    block_size: int
    order: Literal["writes_first", "entry_by_entry", "reads_first"]
    holders: Callable[[int], Iterable[Track]]
    blocks: dict[int, Content] = Factory(dict)
    host: dict[int, Content] = Factory(dict)
    copies: list[Copy] = Factory(list)
    rewritten: bool = False

    def execute(self, step: InFlight) -> tuple[list[int], list[BadRead]]:
        """Run a step: for each entry the identity that its sample depends on, and the reads that were wrong."""
        bad: list[BadRead] = []
        digests: list[int] = []
        unread: list[int] = []
        if self.copies:
            self._copy_until(step.step)
        self.rewritten = False
        if self.order == "reads_first":
            for row, start in enumerate(step.start):
                if start:
                    self._read(step, row, bad, start)
        departed, tables, append = step.departed, step.tables, self._append
        somebody_left = bool(departed or tables)
        for row, (track, start, tokens) in enumerate(zip(step.tracks, step.start, step.tokens, strict=True)):
            is_as_planned = not somebody_left or (track not in departed and track not in tables)
            identity = append(track, start) if tokens == 1 and is_as_planned else None
            if identity is None:
                self._write(track, step.table_of(track), start, start + tokens)
                identity = 0
                if self.order == "entry_by_entry":
                    identity = self._read(step, row, bad)
                else:
                    unread.append(row)
            digests.append(identity)
        if self.rewritten and self.order != "entry_by_entry":
            doubted = {row for row, track in enumerate(step.tracks) if not track.last_content}
            unread = sorted(doubted.union(unread))
        for row in unread:
            digests[row] = self._read(step, row, bad)
        return digests, bad

    def holds(self, block: int, identity: int) -> bool:
        """The block is full and ends the prefix of that identity."""
        content = self.blocks.get(block, [])
        return len(content) == self.block_size and content[-1] == identity

    def write(self, track: Track, position: int) -> None:
        """A position that a step wrote beside its entries: a draft that was right."""
        self._write(track, track.table, position, position + 1)

    def _copy_until(self, step: int) -> None:
        """The device does one thing after another: copies of a step after all steps before it."""
        due = [copy for copy in self.copies if copy.step <= step]
        self.copies = [copy for copy in self.copies if copy.step > step]
        for copy in due:
            for block, host in zip(copy.blocks, copy.host, strict=False):
                if copy.is_out:
                    self.host[host] = list(self.blocks.get(block, ()))
                else:
                    self.blocks[block] = list(self.host.get(host, ()))
                    for track in self.holders(block):
                        track.doubt(block)
            if copy.is_out:  # those for which there was no block save nothing
                self.host.update((host, []) for host in copy.host[len(copy.blocks) :])

    def _append(self, track: Track, start: int) -> int | None:
        """Most entries write one position behind what the last block holds of their own prefix: if all before it is
        verified, so is that.  The identity of the prefix then; None where nothing was done."""
        content, ids, tokens, size = track.last_content, track.ids, track.tokens, self.block_size
        if not 0 < len(ids) == start < len(tokens) or start != track.verified_blocks * size + len(content):
            return None
        last = ids[-1]
        identity = hash((last, tokens[start]))  # `chained`, without a call for each entry
        if not content:
            begun = self._begin_block(track, start, identity)
            if begun is None:
                return None
            content = track.last_content = begun
        elif content[-1] != last or len(content) >= size:
            return None
        ids.append(identity)
        content.append(identity)
        if len(content) == size:
            track.verified_blocks += 1
            track.last_content = []
        return identity

    def _begin_block(self, track: Track, start: int, identity: int) -> Content | None:
        """The block of a position that is the first in it, empty; None where it is not there, or what it holds is of
        use to somebody."""
        place = start // self.block_size
        if start % self.block_size or place >= len(track.table):
            return None
        block = track.table[place]
        content = self.blocks.setdefault(block, [])
        if content:
            if content[0] == identity or any(holder is not track for holder in self.holders(block)):
                return None
            content.clear()
        return content

    def _write(self, track: Track, table: list[int], start: int, end: int) -> None:
        size = self.block_size
        while start < end:
            place = start // size
            if place >= len(table):
                return  # no block to write to: KV-4 has said so
            stop = min(end, (place + 1) * size)
            self._write_block(track, table[place], start, stop)
            start = stop

    def _write_block(self, track: Track, block: int, start: int, stop: int) -> None:
        """Positions of one block, from the first that is not next one by one."""
        content = self.blocks.setdefault(block, [])
        for position in range(start, stop):
            offset = position % self.block_size
            if offset == len(content) and (offset == 0 or content[-1] == track.id_at(position - 1)):
                content += track.ids_of(position, stop)
                return
            if offset >= len(content) or content[offset] != track.id_at(position):
                self._rewrite(block, content, offset, track, position)

    def _rewrite(self, block: int, content: Content, offset: int, writer: Track, position: int) -> None:
        """A place is written that was not next: what follows it no longer belongs to one prefix."""
        follows = offset == 0 or (offset <= len(content) and content[offset - 1] == writer.id_at(position - 1))
        del content[offset:]
        if follows:
            content.append(writer.id_at(position))
        for track in self.holders(block):
            track.doubt(block)
            self.rewritten |= track is not writer

    def _read(self, step: InFlight, row: int, bad: list[BadRead], end: int | None = None) -> int:
        """What an entry reads: all up to its own end, or to another one."""
        track, size = step.tracks[row], self.block_size
        table = step.table_of(track)
        end = step.start[row] + step.tokens[row] if end is None else end
        full = end // size
        current = track not in step.departed
        first = min(track.verified_blocks, full) if current else 0
        content: Content = []
        for place in range(first, full + (end % size > 0)):
            upto = min(size, end - place * size)
            content = self.blocks.get(table[place], []) if place < len(table) else []
            if len(content) < upto or content[upto - 1] != track.id_at(place * size + upto - 1):
                bad.append(self._bad_read(row, track, table, place, upto))
                return hash((end, *(identity for block in table for identity in self.blocks.get(block, ())[-1:])))
        if current and track.table is table:
            track.verified_blocks = min(full, len(track.ids) // size)  # not yet what nobody delivered
            track.last_content = content if end % size and len(track.ids) >= end else []
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
