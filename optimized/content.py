"""The content shadow in columns: what requests write while they decode is a few arrays a step, whoever else is in it.

It finds what `spec/content.py` finds.  A request is in columns while it has verified all that it holds and writes one
position behind it: then nothing can be wrong with its read, and the identity of its prefix is the next one.  The other
entries of a step (a prompt, somebody who was rewritten) go the plain way beside it, as long as they write no block that
somebody in columns holds; else all leave.  Blocks and tracks hear of it when somebody looks at them.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from attrs import Factory, define, evolve

from schedspec.spec.content import BadRead, Content, ContentShadow
from schedspec.spec.tracks import InFlight, Track, chained

from .columns import Column
from .later import IDS, LAST, TABLE, VERIFIED, Later, grown

PRIME_1, PRIME_2, PRIME_5 = (
    np.uint64(11400714785074694791),
    np.uint64(14029467366897019727),
    np.uint64(2870177450012600261),
)
LENGTH = np.uint64(2 ^ (2870177450012600261 ^ 3527539))
MODULUS = np.uint64((1 << 61) - 1)
LARGEST_TOKEN = (1 << 61) - 2

Found = tuple[list[int], list[BadRead]]


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


class Standing(list[Track]):
    """The tracks of a plan, none of them twice; `at`: their rows."""

    __slots__ = ("at",)

    def __init__(self, tracks: Iterable[Track], at: Any) -> None:
        super().__init__(tracks)
        self.at = at


@define(eq=False)
class Fronts:
    """Where requests in columns write next, by row.  `inside`: it is in columns; `position`: where it writes next, and
    `last` the identity of the prefix before it; `token`: the last that was delivered to it, of so many; `block`: the
    one that it has begun."""

    inside: Any = Factory(lambda: np.zeros(0, np.bool_))
    position: Any = Factory(lambda: np.zeros(0, np.int64))
    last: Any = Factory(lambda: np.zeros(0, np.int64))
    tokens: Any = Factory(lambda: np.zeros(0, np.int64))
    token: Any = Factory(lambda: np.zeros(0, np.int64))
    block: Any = Factory(lambda: np.zeros(0, np.int64))

    def reach(self, rows: int) -> None:
        for name in ("inside", "position", "last", "tokens", "token", "block"):
            setattr(self, name, grown(getattr(self, name), rows))


@define(eq=False, kw_only=True)
class ColumnShadow(ContentShadow):
    """`pool_blocks`: blocks are numbered below it.  `array_of` reads a column of numbers; `track_at(row)` names who
    stands there, `listen(row, track)` has it hear before it is looked at, `settle(track)` has it be plain.  `held`: how
    many in columns hold a block that they have begun; `untold`: it does not yet know of all that was written to it;
    `said`: identities that tracks and blocks have not heard of.  `together`: entries in columns."""

    pool_blocks: int
    array_of: Callable[[Sequence[int], str], Column]
    track_at: Callable[[int], Track]
    listen: Callable[[int, Track], None]
    settle: Callable[[Track], None]
    fronts: Fronts = Factory(Fronts)
    said: Later = Factory(Later)
    held: Any = None
    untold: Any = None
    inside: int = 0
    together: int = 0

    def reach(self, rows: int) -> None:
        """So many rows are in use."""
        if self.held is None:
            self.held = np.zeros(self.pool_blocks, np.int32)
            self.untold = np.zeros(self.pool_blocks, np.bool_)
        self.fronts.reach(rows)
        self.said.reach(rows)

    def execute(self, step: InFlight) -> Found:
        at = getattr(step.tracks, "at", None)
        numbers = None if at is None else self._numbers(step)
        if at is None or numbers is None:
            self.leave_all()
            return super().execute(step)
        start, tokens = numbers
        fronts = self.fronts
        fits = fronts.inside[at] & (tokens == 1) & (start == fronts.position[at]) & (fronts.tokens[at] == start + 1)
        if step.departed:
            fits &= np.array([track not in step.departed for track in step.tracks])
        if fits.all():
            identities = self._appended(step.tracks, at)
            if identities is not None:
                return identities.tolist(), []
            self.leave_all()
            return self._plainly(step, range(len(step.tracks)))
        return self._beside(step, at, fits)

    def delivered(self, at: Any, tokens: Column) -> None:
        """Tokens reached who stands in these rows, in this order."""
        fronts = self.fronts
        if tokens.size > LARGEST_TOKEN or int(tokens.values.min()) < 0:
            self.leave_all()
        fronts.tokens[at] += 1
        fronts.token[at] = tokens.values

    def holds(self, block: int, identity: int) -> bool:
        if 0 <= block < self.pool_blocks and self.inside and self.untold[block]:
            self.tell_all()
        return super().holds(block, identity)

    def leave_all(self) -> None:
        """From here on one by one."""
        if self.inside:
            for row in np.flatnonzero(self.fronts.inside).tolist():
                self.settle(self.track_at(row))

    def leave(self, row: int, track: Track) -> None:
        if self.fronts.inside[row]:
            self._tell(row, track, self.said.take(row))
            self.fronts.inside[row] = False
            self.inside -= 1
            self.held[self._begun(row, track)] -= 1

    def tell_all(self) -> None:
        """Tracks and blocks hear what was written."""
        for row, identities in self.said.take_all():
            self._tell(row, self.track_at(row), identities)

    def _numbers(self, step: InFlight) -> tuple[Any, Any] | None:
        """Starts and tokens; None if one is no number of 64 bits."""
        try:
            return self.array_of(step.start, "Int").values, self.array_of(step.tokens, "Int").values
        except (OverflowError, TypeError):
            return None

    # --- entries in columns ------------------------------------------------------------------------------

    def _appended(self, tracks: Sequence[Track], all_at: Any, chosen: Any = None) -> Any:
        """These entries, or all, write one position; None, and nothing happened, if one needs a block that is not its
        own alone."""
        fronts, at = self.fronts, all_at if chosen is None else all_at[chosen]
        position = fronts.position[at]
        identities = chained_all(fronts.last[at], fronts.token[at])
        opening = np.flatnonzero(position % self.block_size == 0)
        if opening.size:
            whose = opening if chosen is None else chosen[opening]
            if not self._opened([tracks[row] for row in whose.tolist()], at[opening], position[opening]):
                return None
        fronts.last[at] = identities
        fronts.position[at] = position + 1
        self.untold[fronts.block[at]] = True
        self.said.put(at, identities)
        self.together += len(at)
        if self.said.is_full:
            self.tell_all()
        return identities

    def _opened(self, tracks: Sequence[Track], at: Any, positions: Any) -> bool:
        """Whoever is at the start of a block writes to one that nobody else has, and that nobody else begins."""
        places = (positions // self.block_size).tolist()
        if any(place >= len(TABLE.__get__(track)) for track, place in zip(tracks, places, strict=True)):
            return False
        blocks = [TABLE.__get__(track)[place] for track, place in zip(tracks, places, strict=True)]
        if not 0 <= min(blocks) <= max(blocks) < self.pool_blocks or len(set(blocks)) < len(blocks):
            return False
        if self.held[blocks].any():
            return False
        known = self.blocks
        for track, place, block in zip(tracks, places, blocks, strict=True):
            if known.get(block) and not self._is_its_own(track, place, block):
                return False
        self.held[blocks] = 1
        self.fronts.block[at] = blocks
        return True

    def _is_its_own(self, track: Track, place: int, block: int) -> bool:
        """Nobody has to verify again what stood there, not even the writer."""
        return TABLE.__get__(track).index(block) == place and all(holder is track for holder in self.holders(block))

    def _begun(self, row: int, track: Track) -> list[int]:
        """The blocks of its table that it has written to."""
        begun: list[int] = TABLE.__get__(track)[: -(-int(self.fronts.position[row]) // self.block_size)]
        return begun

    def _tell(self, row: int, track: Track, identities: list[int]) -> None:
        """The track and its blocks hear what it wrote."""
        if not identities:
            return
        size, table = self.block_size, TABLE.__get__(track)
        ids = IDS.__get__(track)
        first = len(ids) // size
        ids.extend(identities)
        end = len(ids)
        content: Content = []
        for place in range(first, -(-end // size)):
            content = self.blocks.setdefault(table[place], [])
            content[:] = ids[place * size : (place + 1) * size]
            self.untold[table[place]] = False
        VERIFIED.__set__(track, end // size)
        LAST.__set__(track, content if end % size else [])

    # --- entries one by one ------------------------------------------------------------------------------

    def _beside(self, step: InFlight, at: Any, fits: Any) -> Found:
        """Some are in columns, and the others are not."""
        rest = np.flatnonzero(~fits).tolist()
        some = len(rest) < len(step.tracks)
        if self.inside and not self._are_apart(step, rest, alone=not some):
            self.leave_all()
            return self._plainly(step, range(len(step.tracks)))
        if not some:
            return self._plainly(step, rest)
        chosen = np.flatnonzero(fits)
        written = self._appended(step.tracks, at, chosen)
        if written is None:
            self.leave_all()
            return self._plainly(step, range(len(step.tracks)))
        found, bad = self._plainly(step, rest)
        identities = np.empty(len(step.tracks), np.int64)
        identities[chosen], identities[rest] = written, found
        return identities.tolist(), bad

    def _write(self, track: Track, table: list[int], start: int, end: int) -> None:
        """Identities of a prompt first, in one go, where all of them will be asked for."""
        size = self.block_size
        if 0 <= start == len(track.ids) and start // size < len(table):
            content = self.blocks.get(table[start // size], [])
            if start % size == 0 or (len(content) == start % size and content[-1] == track.ids[-1]):
                _identify(track, min(end, len(table) * size))
        super()._write(track, table, start, end)

    def _plainly(self, step: InFlight, rows: Sequence[int]) -> Found:
        """These entries as the plain shadow has them; whoever may, is in columns afterwards."""
        whole = len(rows) == len(step.tracks)
        part = step if whole else _part(step, rows)
        found, bad = super().execute(part)
        for row in rows:
            track = step.tracks[row]
            if step.samples[row] == 1 and track not in step.departed:
                self._enter(int(step.tracks.at[row]), track)  # type: ignore[attr-defined]
        return found, bad if whole else [evolve(read, row=rows[read.row]) for read in bad]

    def _are_apart(self, step: InFlight, rows: Sequence[int], *, alone: bool) -> bool:
        """Entries that write no block that somebody in columns holds; what they read is told."""
        if not alone and self.order != "writes_first":
            return False
        size, reads = self.block_size, False
        for row in rows:
            start, tokens, track = step.start[row], step.tokens[row], step.tracks[row]
            table = np.array(step.table_of(track), np.int64)
            if start < 0 or tokens < 0 or (len(table) and not (table.min() >= 0 and table.max() < self.pool_blocks)):
                return False
            if self.held[table[start // size : -(-(start + tokens) // size)]].any():
                return False
            reads = reads or bool(self.untold[table].any())
        if reads:
            self.tell_all()
        return True

    def _enter(self, row: int, track: Track) -> None:
        """It is in columns from here on, if it writes next behind what it has verified."""
        size, ids, tokens, content = self.block_size, track.ids, track.tokens, track.last_content
        offset = len(ids) - track.verified_blocks * size
        ahead = len(tokens) - len(ids)
        if not (0 <= offset < size and len(content) == offset and len(ids) > 0 and 0 <= ahead <= 1):
            return
        begun = TABLE.__get__(track)[: -(-len(ids) // size)]
        if len(begun) * size < len(ids) or not 0 <= min(begun) <= max(begun) < self.pool_blocks:
            return
        if offset and (content[-1] != ids[-1] or self.blocks.get(begun[-1]) is not content or self.held[begun[-1]]):
            return
        if len(set(begun)) < len(begun) or (ahead and not 0 <= tokens[-1] <= LARGEST_TOKEN):
            return
        fronts = self.fronts
        fronts.inside[row], fronts.position[row], fronts.last[row] = True, len(ids), ids[-1]
        fronts.tokens[row], fronts.token[row] = len(tokens), tokens[-1] if ahead else 0
        fronts.block[row] = begun[-1]
        self.inside += 1
        self.held[begun] += 1
        self.listen(row, track)


def _identify(track: Track, end: int) -> None:
    """`id_at(end - 1)` without a call for each token."""
    ids, tokens = track.ids, track.tokens
    if len(ids) < end <= len(tokens):
        parent, append = ids[-1] if ids else track.root, ids.append
        for token in tokens[len(ids) : end]:
            parent = hash((parent, token))
            append(parent)


def _part(step: InFlight, rows: Sequence[int]) -> InFlight:
    """Some entries of a step."""
    return InFlight(
        step.step,
        [step.request[row] for row in rows],
        [step.tracks[row] for row in rows],
        [step.start[row] for row in rows],
        [step.tokens[row] for row in rows],
        [step.samples[row] for row in rows],
        step.departed,
        step.tables,
    )
