"""The monitor's part that follows tables, what is in flight, and what blocks hold."""

from collections.abc import Iterable, Sequence
from operator import sub

from . import stays
from .content import BadRead
from .host import HostBlocks
from .reserves import RESERVED, Lengths
from .tracks import InFlight, Track
from .vocabulary import Plan


class Memory(HostBlocks):
    """Blocks of whoever runs, and requests as long as anybody may still write for them."""

    def available(self) -> int:
        """Blocks that nobody holds, and that no step in flight may still write to."""
        there = len(self.world.free) + len(self.world.evictable)
        if not self.deferred:
            return there
        return there - sum(block in self.world.free for block in set().union(*self.deferred.values()))

    def available_unleased(self) -> int:
        """Blocks that nobody holds, and that are leased to nobody."""
        return self.available() - sum(block in self.world.evictable for block in self.parking.pins)

    @property
    def has_obligations(self) -> bool:
        """Blocks are set aside for a while (`pooled.py`): memory may be short though nobody's table has it."""
        return bool(len(self.world.aside) > self.settings.blocks - self.world.usable_blocks)

    def set_aside(self, blocks: Iterable[int]) -> None:
        """Free blocks come under an obligation, of whom the other relation knows."""
        moved = self.world.free.intersection(blocks)
        self.world.free -= moved
        self.world.aside |= moved

    def put_back(self, blocks: Iterable[int]) -> None:
        moved = self.world.aside.intersection(blocks)
        self.world.aside -= moved
        self.world.free |= moved

    def running_among(self, requests: Iterable[str]) -> list[str]:
        """Who of these is in the running set."""
        some, running = list(requests), self.world.running
        return some if running.issuperset(some) else [request for request in some if request in running]

    def cells_of(self, requests: Sequence[str], name: str) -> list[int]:
        """What a map of numbers over requests says of each of these."""
        records = self.world.RequestId
        return [getattr(records[request], name) for request in requests]

    def most_apart(self, requests: Sequence[str], name: str, other: str) -> int:
        """By how much the one map is above the other at most, of these requests; 0 where there are none."""
        return max(map(sub, self.cells_of(requests, name), self.cells_of(requests, other)), default=0)

    def reserved_tokens(self, track: Track) -> int:
        """Positions that an admission may take blocks for: what the subject claims to reserve, or was asked to."""
        known = int(self.world.RequestId[track.id].known)
        longest = self.settings.max_model_tokens
        lengths = Lengths(track.prompt_tokens, track.declared_output, track.expected_tokens, known, longest)
        return max(RESERVED[reserve](lengths) for reserve in self._reserves)

    def _acquire(self, event: str, track: Track, blocks: Sequence[int]) -> None:
        before = self.available()
        if event == "Take":
            stays.spare_leased(self, blocks)
            self._tell("on_take", track, blocks)
        self._fire_each(event, track.id, blocks)
        track.table += blocks
        if event == "Share" and blocks:
            track.shared_tokens = len(track.table) * self.settings.block_size
        self._touched[track.id] = None
        if self.view is not None:
            acquired = self.view.acquired
            acquired[track.id] = acquired.get(track.id, 0) + before - self.available()

    def _gave_back(self, track: Track, blocks: Sequence[int]) -> None:
        self._given[track.id] = self._given.get(track.id, 0) + len(blocks)
        gone = set(blocks)
        self._replace_table(track, [block for block in track.table if block not in gone])

    def _replace_table(self, track: Track, table: list[int]) -> None:
        for flight in self.in_flight.values():
            flight.tables.setdefault(track, track.table)
        track.replace_table(table)

    def _defer_frees(self, track: Track) -> None:
        """It has ended: what steps in flight may write to, as they were planned."""
        size = self.settings.block_size
        for flight in self.in_flight.values():
            if track in flight.departed:
                continue
            for other, start, tokens in zip(flight.tracks, flight.start, flight.tokens, strict=True):
                if other is track:
                    blocks = flight.table_of(track)[start // size : (start + tokens - 1) // size + 1]
                    self.deferred.setdefault(flight.step, set()).update(blocks)

    def _depart(self, track: Track) -> None:
        """What is in flight of it is not its own any more."""
        track.epoch += 1
        for flight in self.in_flight.values():
            flight.departed.add(track)

    def _retire(self, track: Track) -> None:
        track.ended = True
        self._depart(track)
        track.ended_in_step = self.last_step
        self._retired.append(track)
        self._unpacked.append(track)

    def _forget(self) -> None:
        """Requests that ended before every step in flight are packed; those that did so long ago leave no trace."""
        oldest = min(self.in_flight, default=self.last_step + 1)
        while self._unpacked and self._unpacked[0].ended_in_step < oldest:
            self._unpacked.popleft().pack()
        while len(self._retired) > self.horizon and self._retired[0].ended_in_step < oldest:
            track = self._retired.popleft()
            self._looked_up = ((), [])
            self.tracks.pop(track.id, None)
            self.world.RequestId.pop(track.id, None)

    def execute(self, step: int) -> list[int]:
        """Run a planned step in the content shadow: for each entry the identity that its sample depends on."""
        if step not in self.executed:
            self.executed[step] = self._run(self.in_flight[step])
        return self.executed[step][0]

    def _run(self, flight: InFlight) -> tuple[list[int], list[BadRead]]:
        if self.shadow is None:
            rows = zip(flight.tracks, flight.start, flight.tokens, strict=True)
            return [track.id_at(start + tokens - 1) for track, start, tokens in rows], []
        return self.shadow.execute(flight)

    def _bad_read(self, read: BadRead, step: int) -> None:
        self.fail(
            "KV-12",
            "read",
            "a position is read only if its content was written earlier, with the same token prefix",
            step=step,
            request=read.request,
            position=read.position,
            block=read.block,
            found=read.found,
        )

    def _check_reads(self, step: int) -> None:
        """KV-12: whoever reads finds what was written for it."""
        if self.shadow is not None:
            self.execute(step)
            digests, bad = self.executed[step]
            self.count("KV-12", len(digests))
            for read in bad:
                self._bad_read(read, step)
        self.executed.pop(step, None)

    def _check_writes(self, tracks: Sequence[Track], plan: Plan) -> None:
        """KV-13: whoever writes into a block took it fresh.  Positions of a shared one were issued by somebody else."""
        if not self.world.indexed:
            return
        self.count("KV-13", len(tracks))
        for track, start in zip(tracks, plan.start, strict=True):
            if start < track.shared_tokens:
                block = track.table[start // self.settings.block_size]
                self.fail(
                    "KV-13",
                    "written",
                    "a block that others hold, or that the index names, is not written at positions already issued",
                    request=track.id,
                    block=block,
                    first_position=start,
                    holders=sorted(self.world.BlockId[block].holders),
                    indexed=block in self.world.indexed,
                )
                return

    def _check_pledges(self) -> None:
        """KV-14: when every write that was issued before a block was indexed has happened, the block holds that prefix,
        or the index has forgotten it."""
        assert self.shadow is not None
        oldest = min(self.in_flight, default=self.last_step + 1)
        now = oldest if self.view is None else min(oldest, self.view.plan.step)
        while self._pledges and self._pledges[0][0] < now:
            _, request, block, identity = self._pledges.popleft()
            stands = block in self.world.indexed and self.world.BlockId[block].content == identity
            if stands and not self.shadow.holds(block, identity):
                says = "an indexed block holds the prefix that it is indexed by"
                self.fail("KV-14", "content", says, request=request, block=block)
