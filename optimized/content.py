"""The content shadow in columns: while the same requests decode together, what they write is one array a step.

It finds what `spec/content.py` finds.  It stands in for it only while each of them has verified all that it holds and
writes one position behind it: then nothing can be wrong with a read, and the identities of all prefixes are the next
ones.  Blocks and tracks hear of it when somebody looks at them, or something else happens.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import Factory, define

from schedspec.spec.content import BadRead, ContentShadow
from schedspec.spec.tracks import InFlight, Track, chained

from .columns import Column

MOST_SAID = 64
PRIME_1, PRIME_2, PRIME_5 = (
    np.uint64(11400714785074694791),
    np.uint64(14029467366897019727),
    np.uint64(2870177450012600261),
)
LENGTH = np.uint64(2 ^ (2870177450012600261 ^ 3527539))
MODULUS = np.uint64((1 << 61) - 1)
LARGEST_TOKEN = (1 << 61) - 2

IDS: Any = vars(Track)["ids"]
VERIFIED: Any = vars(Track)["verified_blocks"]
LAST: Any = vars(Track)["last_content"]
TOKENS: Any = vars(Track)["tokens"]


def chained_all(parents: Any, tokens: Any) -> Any:
    """`chained` of each pair: CPython's hash of a tuple of two integers; tokens from 0 to LARGEST_TOKEN."""
    whole = np.abs(parents).view(np.uint64)
    lane = (whole & MODULUS) + (whole >> np.uint64(61))
    lane = np.where(lane >= MODULUS, lane - MODULUS, lane).view(np.int64)
    lane = np.where(parents < 0, -lane, lane)
    lane = np.where(lane == -1, -2, lane).view(np.uint64)
    value = _mixed(_mixed(PRIME_5 + lane * PRIME_2) + tokens.view(np.uint64) * PRIME_2) + LENGTH
    return np.where(value == np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(1546275796), value).view(np.int64)


def _mixed(value: Any) -> Any:
    return ((value << np.uint64(31)) | (value >> np.uint64(33))) * PRIME_1


def _is_chained() -> bool:
    """Does this interpreter hash as `chained_all` does?"""
    parents = [0, 1, -1, -2, 1 << 61, (1 << 61) - 1, (1 << 61) - 2, -(1 << 61), -(1 << 63), (1 << 63) - 1]
    pairs = [(parent, token) for parent in parents for token in (0, 1, 32_000, 1 << 40, LARGEST_TOKEN)]
    columns = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    return bool(chained_all(*columns).tolist() == [chained(*pair) for pair in pairs])


IS_CHAINED = _is_chained()


@define(eq=False)
class Front:
    """Requests that decode together.  `position`: where each writes next; `last`: the identity of the prefix before it;
    `tokens`: columns of tokens that were delivered and not yet written.  `said`: identities that tracks and blocks have
    not heard of, a column for each step."""

    tracks: Sequence[Track]
    position: Any
    last: Any
    tokens: deque[Any]
    said: list[Any] = Factory(list)


@define(eq=False)
class ColumnShadow(ContentShadow):
    """`fewest`: for fewer requests the plain shadow is as fast."""

    fewest: int = 24
    front: Front | None = None
    before: Sequence[Track] = ()
    together: int = 0

    def execute(self, step: InFlight) -> tuple[list[int], list[BadRead]]:
        tracks = step.tracks
        if not step.departed and len(tracks) >= self.fewest:
            if self.front is None and tracks is self.before:
                self.front = self._begun(tracks)
            if self.front is not None and self.front.tracks is tracks:
                identities = self._appended(self.front, step)
                if identities is not None:
                    return identities.tolist(), []
        self.leave()
        found = super().execute(step)
        self.before = tracks
        return found

    def delivered(self, tracks: Sequence[Track], tokens: Column) -> None:
        """Tokens reached these requests, in this order."""
        front = self.front
        if front is None:
            return
        if tracks is front.tracks and tokens.size <= LARGEST_TOKEN and int(tokens.values.min()) >= 0:
            front.tokens.append(tokens.values)
        else:
            self.leave()

    def holds(self, block: int, identity: int) -> bool:
        self.tell()
        return super().holds(block, identity)

    def leave(self) -> None:
        """From here on one by one."""
        if self.front is not None:
            self.tell()
            self.front, self.before = None, ()

    def tell(self) -> None:
        """Tracks and blocks hear what was written."""
        front = self.front
        if front is None or not front.said:
            return
        said, front.said = front.said, []
        size = self.block_size
        columns = zip(front.tracks, front.position.tolist(), np.stack(said, axis=1).tolist(), strict=True)
        for track, end, identities in columns:
            ids, table = IDS.__get__(track), track.table
            first = len(ids) // size
            ids.extend(identities)
            content: list[int] = []
            for place in range(first, -(-end // size)):
                content = self.blocks.setdefault(table[place], [])
                content[:] = ids[place * size : (place + 1) * size]
            VERIFIED.__set__(track, end // size)
            LAST.__set__(track, content if end % size else [])

    # --- parts -------------------------------------------------------------------------------------------

    def _begun(self, tracks: Sequence[Track]) -> Front | None:
        """None if one of them is not where it can write behind what it has verified."""
        size, columns = self.block_size, []
        for track in tracks:
            ids, tokens, content = track.ids, track.tokens, track.last_content
            offset = len(ids) - track.verified_blocks * size
            fits = 0 <= offset < size and len(content) == offset and len(ids) > 0
            if not fits or (offset and (content[-1] != ids[-1] or self._block_of(track, len(ids)) is not content)):
                return None
            columns.append((len(ids), ids[-1], tokens[len(ids) :]))
        positions, last, ahead = zip(*columns, strict=True)
        if len(set(map(len, ahead))) != 1 or any(not 0 <= t <= LARGEST_TOKEN for some in ahead for t in some):
            return None
        tokens_ahead = deque(np.array(column, np.int64) for column in zip(*ahead, strict=True))
        return Front(tracks, np.array(positions, np.int64), np.array(last, np.int64), tokens_ahead)

    def _block_of(self, track: Track, position: int) -> list[int] | None:
        place = position // self.block_size
        return self.blocks.get(track.table[place]) if place < len(track.table) else None

    def _appended(self, front: Front, step: InFlight) -> Any:
        """Everybody writes one position; None, and nothing happened, if somebody does something else."""
        try:
            start, tokens = (np.asarray(column, np.int64) for column in (step.start, step.tokens))
        except OverflowError:
            return None
        if not front.tokens or not (start == front.position).all() or not (tokens == 1).all():
            return None
        identities = chained_all(front.last, front.tokens[0])
        if not self._opened(front, identities):
            return None
        front.tokens.popleft()
        front.last = identities
        front.position = front.position + 1
        front.said.append(identities)
        self.together += len(front.tracks)
        if len(front.said) >= MOST_SAID:
            self.tell()
        return identities

    def _is_its_own(self, track: Track, place: int, block: int) -> bool:
        """Nobody has to verify again what stood there, not even the writer."""
        return track.table.index(block) == place and all(holder is track for holder in self.holders(block))

    def _opened(self, front: Front, identities: Any) -> bool:
        """Whoever is at the start of a block writes to one that nobody else has, and that nobody else begins."""
        size = self.block_size
        rows = np.flatnonzero(front.position % size == 0)
        opened: dict[int, int] = {}
        for row, place in zip(rows.tolist(), (front.position[rows] // size).tolist(), strict=True):
            track = front.tracks[row]
            if place >= len(track.table) or (block := track.table[place]) in opened:
                return False
            if self.blocks.get(block) and not self._is_its_own(track, place, block):
                return False
            opened[block] = row
        for block, identity in zip(opened, identities[rows].tolist(), strict=True):
            self.blocks.setdefault(block, [])[:] = [identity]
        return True
