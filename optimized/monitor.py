"""The bulk monitor: the entries of a step are judged together, as columns.

It is the monitor of `spec`, and judges the same: where a step is as it should be, its entries are checked and applied
by the numpy reading (`columns.py`); where any guard fails, or an entry is not like the others, by the compiled
reading, which names what is broken.  Both work on the same cells, so nothing has to be brought up to date between them.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

import numpy as np
from attrs import define

from schedspec.spec.monitor import Monitor, canonical
from schedspec.spec.protocol import Naturals
from schedspec.spec.relation import Engine, registry
from schedspec.spec.tracks import InFlight, Track
from schedspec.spec.vocabulary import Delta, Header, Outcome, Plan

from .cells import Rows, Table
from .columns import Column, Together, column_of, function_of
from .content import IDS, IS_CHAINED, LAST, TOKENS, VERIFIED, ColumnShadow
from .scans import NoScan, Scan, scan_of

EVENTS = ("Serve", "Computed", "Deliver", "Take", "Give", "Grown")
FEWEST = 24
"""Below it the compiled reading is as fast."""
FEWEST_BLOCKS = 10
"""So many blocks are moved together, once there are tables."""
FAR = 1 << 50
MOST_TOLD = 64
ARRAYS = 8
GROUPS = 3
"""Columns of requests that are kept: most often those of a step are those of the step before."""


@define(eq=False)
class Group:
    """Live requests in the order of a column, none of them twice, and what is looked up for all of them."""

    requests: tuple[str, ...]
    tracks: list[Track]
    places: dict[str, Rows]
    shares: int = -1
    shared_tokens: Any = None


class BulkMonitor(Monitor):
    """`fewest`: shorter columns are left to the compiled reading; `together`: entries that the numpy reading judged."""

    kind = "bulk"

    def __init__(
        self,
        header: Header,
        *,
        content: bool = True,
        explain: bool = False,
        horizon: int = 4096,
        dropped: str | None = None,
        fewest: int = FEWEST,
    ) -> None:
        self._arrays: list[tuple[Any, str, Column]] = []
        self._told: list[Sequence[int]] = []
        self._told_to: Group | None = None
        self._listening = _listening(self)
        super().__init__(header, content=content, explain=explain, horizon=horizon, dropped=dropped)
        self._content: ColumnShadow | None = None
        if self.shadow is not None and IS_CHAINED and not explain and not self.keeps_ledger:
            plain = self.shadow
            self.shadow = self._content = ColumnShadow(plain.block_size, plain.order, plain.holders, fewest=fewest)
        self.fewest = fewest
        self.together = 0
        self._groups: list[Group] = []
        self._seen: list[tuple[Any, Group]] = []
        self._grew: Rows | None = None
        self._shares = 0
        self._functions: dict[str, Together] = {}
        self._scans = {} if explain else _scans(self.program.active, dropped)
        self._tables = _tables(self._scans)

    # --- requests ----------------------------------------------------------------------------------------

    def _group_of(self, requests: Sequence[str]) -> Group | None:
        """None if one of them is unknown, has ended, comes twice or has a number that is too large."""
        group = next((group for column, group in self._seen if column is requests), None)
        if group is None:
            column = requests if isinstance(requests, tuple) else tuple(requests)
            group = next((group for group in self._groups if column == group.requests), None)
            if group is None:
                group = self._new_group(column)
            if group is None:
                return None
            if column is requests:
                self._seen = [(column, group), *self._seen[: GROUPS - 1]]
        odd = self._tables["RequestId"].odd
        return group if not odd or odd.isdisjoint(group.places["RequestId"].numbers) else None

    def _new_group(self, column: tuple[str, ...]) -> Group | None:
        tracks = [track for track in map(self.tracks.get, column) if track is not None and not track.ended]
        if len(tracks) < len(column) or len(set(column)) < len(column):
            return None
        numbers = list(map(self._tables["RequestId"].index.__getitem__, column))
        group = Group(column, tracks, {"RequestId": Rows.of(column, numbers)})
        self._groups = [group, *self._groups[: GROUPS - 1]]
        return group

    def _in_bulk(self, requests: Sequence[str]) -> Group | None:
        return self._group_of(requests) if self._is_long(len(requests)) else None

    def _is_long(self, count: int) -> bool:
        """Whether so many entries are judged together.  Up to the first time the plain records were faster."""
        if count < self.fewest or not self._scans:
            return False
        if not self._functions:
            for table in self._tables.values():
                table.join(self.world)
            self._functions = {event: function_of(scan) for event, scan in self._scans.items()}
        return True

    def _rows(self, sort: str, keys: Sequence[Any], turn: Any = 0) -> Rows | None:
        """Where keys stand; None if one is unknown or has a number that is too large."""
        table = self._tables[sort]
        numbers = list(map(table.index.get, keys))
        if None in numbers or (table.odd and not table.odd.isdisjoint(numbers)):
            return None
        return Rows.of(keys, numbers, turn)  # type: ignore[arg-type]

    def _planned(self, plan: Plan) -> list[Track]:
        group = self._in_bulk(plan.request)
        return super()._planned(plan) if group is None else group.tracks

    def _tracks_of(self, requests: Sequence[str]) -> list[Track | None]:
        group = self._in_bulk(requests)
        return super()._tracks_of(requests) if group is None else group.tracks  # type: ignore[return-value]

    def _retire(self, track: Track) -> None:
        super()._retire(track)
        self._groups, self._seen = [], []

    # --- events ------------------------------------------------------------------------------------------

    def _fire_many(self, event: str, *columns: Sequence[Any]) -> None:
        if not (event in self._scans and self._fire_scan(event, columns)):
            super()._fire_many(event, *map(_plain, columns))

    def _fire_scan(self, event: str, columns: Sequence[Sequence[Any]]) -> bool:
        group = self._in_bulk(columns[0])
        if group is None:
            return False
        sorts = list(self._scans[event].fields.values())[1:]
        try:
            arrays = [self._array(column, sort.name) for column, sort in zip(columns[1:], sorts, strict=True)]
        except (OverflowError, TypeError):
            return False
        count = len(group.tracks)
        alike = all(len(column.values) == count for column in arrays)
        return alike and self._together(event, group.places, count, *arrays)

    def _together(self, event: str, places: Mapping[str, Rows], count: int, *arrays: Column) -> bool:
        for table in self._tables.values():
            if table.reach > FAR:
                table.measure()
        done = self._functions[event](self.world, self._tables, places, count, *arrays)
        self.together += count * done
        return done

    def _array(self, column: Any, kind: str) -> Column:
        """What nobody changes, and was read before, is not read again."""
        if isinstance(column, np.ndarray):
            return Column(column)
        if not isinstance(column, (tuple, Naturals)):
            return column_of(column, kind)
        for known, of, array in self._arrays:
            if known is column and of == kind:
                return array
        array = column_of(column, kind)
        self._arrays = [(column, kind, array), *self._arrays[: ARRAYS - 1]]
        return array

    def _apply(self, method: str, deltas: Sequence[Delta]) -> None:
        """Blocks that are taken, or given, one after the other are taken or given together."""
        if len(deltas) < 2 and not (deltas and deltas[0][0] in _MOVES):
            super()._apply(method, deltas)
            return
        ordered = deltas if self.capabilities.ordered else canonical(deltas)
        for kind, run in groupby(ordered, key=_kind):
            some = list(run)
            if kind in _MOVES and self._move_together(kind, some):
                continue
            for delta in some:
                super()._apply(method, (delta,))

    def _move_together(self, kind: str, deltas: Sequence[Delta]) -> bool:
        _, requests, moved = zip(*deltas, strict=True)
        blocks = list(chain.from_iterable(moved))
        event, count = _MOVES[kind], len(blocks)
        if event not in self._scans or not (self._is_long(count) or (self._functions and count >= FEWEST_BLOCKS)):
            return False
        tracks = list(map(self.tracks.get, requests))
        if None in tracks or len(set(blocks)) < count or len(set(requests)) < len(requests):
            return False
        counts = list(map(len, moved))
        one_each = count == len(requests) == sum(map(bool, counts))
        holders = requests if one_each else [r for r, times in zip(requests, counts, strict=True) for _ in range(times)]
        takers = self._rows("RequestId", holders, 0 if one_each else _turns(counts))
        places = self._rows("BlockId", blocks)
        if takers is None or places is None or (event == "Take" and not self._are_free(places)):
            return False
        if not self._together(event, {"RequestId": takers, "BlockId": places}, count):
            return False
        if event == "Give":
            for track, some in zip(tracks, moved, strict=True):
                self._gave_back(track, some)  # type: ignore[arg-type]
            return True
        for track, some in zip(tracks, moved, strict=True):
            track.table.extend(some)  # type: ignore[union-attr]
        self._touched.update(dict.fromkeys(requests))
        self._grew = takers if one_each else None
        if self.view is not None:
            _add(self.view.acquired, requests, counts)
        return True

    def _are_free(self, blocks: Rows) -> bool:
        """Each of them is one block less to be had."""
        table: Any = self._tables["BlockId"]
        if not {"free", "evictable"} <= set(table.sets):
            return False
        return bool(table.at_free[blocks.at].all() and not table.at_evictable[blocks.at].any())

    def _end_call(self) -> None:
        grown, rows = tuple(self._touched), self._grew
        self._grew = None
        if self._is_long(len(grown)) and "Grown" in self._scans:
            if rows is None or rows.keys != grown:
                rows = self._rows("RequestId", grown)
            if rows is not None and self._together("Grown", {"RequestId": rows}, len(grown)):
                self._touched.clear()
        super()._end_call()

    def _settle(self, flight: InFlight, outcome: Outcome) -> None:
        """The same requests sampled as were planned, and all of them still stand."""
        group = None if flight.departed else self._in_bulk(flight.request)
        if group is None or self._in_bulk(outcome.request) is not group:
            super()._settle(flight, outcome)
            return
        try:
            ends = self._array(flight.start, "Int").values + self._array(flight.tokens, "Int").values
        except (OverflowError, TypeError):
            super()._settle(flight, outcome)
            return
        self._fire_many("Computed", flight.request, ends, flight.samples, outcome.stop)

    def _delivered(self, requests: Sequence[str], tokens: Sequence[int]) -> None:
        group = self._in_bulk(requests)
        outcome = self._outcome
        if group is None or self.keeps_ledger or outcome is None or self._in_bulk(outcome.request) is not group:
            if self._content is not None:
                self._content.leave()
            super()._delivered(requests, tokens)
            return
        self._fire_many("Deliver", requests, tokens, outcome.token)
        if self._told_to is not group or len(self._told) >= MOST_TOLD:
            self._hand_over()
            self._told_to = group
        self._told.append(tokens if isinstance(tokens, tuple) else tokens[:])  # a list stays its owner's
        if self._content is not None:
            self._tell_content(group, self._told[-1])

    def _tell_content(self, group: Group, tokens: Sequence[int]) -> None:
        assert self._content is not None
        try:
            self._content.delivered(group.tracks, self._array(tokens, "Int"))
        except (OverflowError, TypeError):
            self._content.leave()

    def _hand_over(self) -> None:
        """Delivered tokens reach their tracks when somebody looks at them: all that waited, at once."""
        told, self._told = self._told, []
        if told and self._told_to is not None:
            for track, tokens in zip(self._told_to.tracks, zip(*told, strict=True), strict=True):
                TOKENS.__get__(track).extend(tokens)
        self._told_to = None

    def _register(self, track: Track) -> None:
        track.__class__ = self._listening
        super()._register(track)

    def _check_writes(self, tracks: Sequence[Track], plan: Plan) -> None:
        group = self._in_bulk(plan.request) if self.world.indexed else None
        if group is None or (self._array(plan.start, "Int").values < self._shared_tokens(group)).any():
            super()._check_writes(tracks, plan)
        else:
            self.count("KV-13", len(tracks))

    def _shared_tokens(self, group: Group) -> Any:
        if group.shares != self._shares:
            group.shared_tokens = np.array([track.shared_tokens for track in group.tracks])
            group.shares = self._shares
        return group.shared_tokens

    def _acquire(self, event: str, track: Track, blocks: Any) -> None:
        self._shares += event == "Share"
        super()._acquire(event, track, blocks)

    def _replace_table(self, track: Track, table: list[int]) -> None:
        self._shares += 1
        if self._content is not None:
            self._content.leave()  # while it still stands in the table that it was written by
        super()._replace_table(track, table)


def _listening(monitor: BulkMonitor) -> type[Track]:
    """Tracks of a monitor that may have tokens, or identities of prefixes, of which it has not told them."""

    def tokens(self: Track) -> Any:
        if monitor._told:
            monitor._hand_over()
        return TOKENS.__get__(self)

    def listening(slot: Any) -> property:
        def get(self: Track) -> Any:
            if monitor._content is not None:
                monitor._content.tell()
            return slot.__get__(self)

        def put(self: Track, value: Any) -> None:
            if monitor._content is not None:
                monitor._content.leave()
            slot.__set__(self, value)

        return property(get, put)

    slots = {"ids": IDS, "verified_blocks": VERIFIED, "last_content": LAST}
    heard = {name: listening(slot) for name, slot in slots.items()}
    return type("ListeningTrack", (Track,), {"__slots__": (), "tokens": property(tokens, TOKENS.__set__), **heard})


_kind = itemgetter(0)


def _plain(column: Any) -> Any:
    return column.tolist() if isinstance(column, np.ndarray) else column


def _add(counts: dict[str, int], names: Sequence[str], more: Sequence[int]) -> None:
    if counts:
        more = [counts.get(name, 0) + count for name, count in zip(names, more, strict=True)]
    counts.update(zip(names, more, strict=True))


def _turns(counts: Sequence[int]) -> Any:
    """0, 1, … for each of so many that follow on each other."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1]) - np.repeat(ends - counts, counts)


@cache
def _scans(active: frozenset[str], dropped: str | None) -> dict[str, Scan]:
    """The events that are scans; without a conjunct that made it one, an event may not be."""
    return dict(_each_scan(active, dropped))


def _each_scan(active: frozenset[str], dropped: str | None) -> Iterator[tuple[str, Scan]]:
    for event in EVENTS:
        try:
            yield event, scan_of(registry, event, active, dropped)
        except NoScan:
            continue


def _tables(scans: Mapping[str, Scan]) -> dict[str, Table]:
    """One for each sort of keys, with what the scans touch."""
    names: dict[str, set[str]] = {}
    for scan in scans.values():
        for name in scan.names:
            names.setdefault(scan.at(name), set()).add(name)
    return {sort: Table(Engine, sort, touched) for sort, touched in names.items()}


_MOVES = {"took": "Take", "gave": "Give"}

__all__ = ["BulkMonitor"]
