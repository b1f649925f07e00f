"""The bulk monitor: the entries of a step are judged together, as columns.

It is the monitor of `spec`, and judges the same: where a step is as it should be, its entries are checked and applied
by the numpy reading (`columns.py`); where any guard fails, or an entry is not like the others, by the compiled
reading, which names what is broken.  Both work on the same cells, so nothing has to be brought up to date between them.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, groupby, repeat
from operator import itemgetter
from typing import Any

import numpy as np
from attrs import define

from schedspec.spec.monitor import Monitor, canonical
from schedspec.spec.relation import Engine, registry
from schedspec.spec.tracks import InFlight, Track
from schedspec.spec.vocabulary import Delta, Header, Outcome, Plan

from .columns import Function, NoScan, Scan, Table, column_of, function_of, rows_of, scan_of

EVENTS = ("Serve", "Computed", "Deliver")
FEWEST = 24
"""Below it the compiled reading is as fast."""
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
    numbers: list[int]
    rows: Any
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
        self._arrays: list[tuple[Any, str, Any]] = []
        self._told: list[Sequence[int]] = []
        self._told_to: Group | None = None
        self._listening = _listening(self)
        super().__init__(header, content=content, explain=explain, horizon=horizon, dropped=dropped)
        self.fewest = fewest
        self.together = 0
        self._groups: list[Group] = []
        self._shares = 0
        self._functions: dict[str, Function] = {}
        self._scans = {} if explain else _scans(self.program.active, dropped)
        self._table = _table(self._scans)

    # --- requests ----------------------------------------------------------------------------------------

    def _group_of(self, requests: Sequence[str]) -> Group | None:
        """None if one of them is unknown, has ended, comes twice or has a number that is too large."""
        column = requests if type(requests) is tuple else tuple(requests)
        group = next((group for group in self._groups if column == group.requests), None)
        if group is None:
            group = self._new_group(column)
        odd = self._table.odd
        return group if group is None or not odd or odd.isdisjoint(group.numbers) else None

    def _new_group(self, column: tuple[str, ...]) -> Group | None:
        tracks = [track for track in map(self.tracks.get, column) if track is not None and not track.ended]
        if len(tracks) < len(column) or len(set(column)) < len(column):
            return None
        numbers = list(map(self._table.index.__getitem__, column))
        group = Group(column, tracks, numbers, rows_of(numbers))
        self._groups = [group, *self._groups[: GROUPS - 1]]
        return group

    def _in_bulk(self, requests: Sequence[str]) -> Group | None:
        if len(requests) < self.fewest or not self._scans:
            return None
        if not self._functions:
            self._begin()
        return self._group_of(requests)

    def _begin(self) -> None:
        """The first long column: up to here the plain records were faster."""
        self._table.join(self.world)
        self._functions = {event: function_of(scan) for event, scan in self._scans.items()}

    def _planned(self, plan: Plan) -> list[Track]:
        group = self._in_bulk(plan.request)
        return super()._planned(plan) if group is None else group.tracks

    def _tracks_of(self, requests: Sequence[str]) -> list[Track | None]:
        group = self._in_bulk(requests)
        return super()._tracks_of(requests) if group is None else group.tracks  # type: ignore[return-value]

    def _retire(self, track: Track) -> None:
        super()._retire(track)
        self._groups = []

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
        table = self._table
        if table.reach > FAR:
            table.measure()
        count = len(group.tracks)
        done = all(len(column) == count for column in arrays) and self._functions[event](
            table, self.world, count, group.rows, *arrays
        )
        self.together += count * done
        return done

    def _array(self, column: Any, kind: str) -> Any:
        """A tuple that was read before is not read again."""
        if type(column) is not tuple:
            return column_of(column, kind)
        for known, of, array in self._arrays:
            if known is column and of == kind:
                return array
        array = column_of(column, kind)
        self._arrays = [(column, kind, array), *self._arrays[: ARRAYS - 1]]
        return array

    def _apply(self, method: str, deltas: Sequence[Delta]) -> None:
        """Blocks that several requests took one after the other are taken together."""
        ordered = deltas if self.capabilities.ordered or len(deltas) < 2 else canonical(deltas)
        for kind, run in groupby(ordered, key=_kind):
            some = list(run)
            if kind == "took" and len(some) + len(some[0][2]) > 2 and self._take_together(some):
                continue
            for delta in some:
                super()._apply(method, (delta,))

    def _take_together(self, deltas: Sequence[Delta]) -> bool:
        _, requests, taken = zip(*deltas, strict=True)
        tracks = list(map(self.tracks.get, requests))
        blocks = list(chain.from_iterable(taken))
        free, evictable = self.world.free, self.world.evictable
        if None in tracks or len(set(blocks)) < len(blocks) or not free.issuperset(blocks):
            return False
        if evictable and not evictable.isdisjoint(blocks):
            return False
        counts = list(map(len, taken))
        takers = (
            requests if max(counts) == 1 == min(counts) else list(chain.from_iterable(map(repeat, requests, counts)))
        )
        self._fire_many("Take", takers, blocks)
        for track, some in zip(tracks, taken, strict=True):
            track.table.extend(some)  # type: ignore[union-attr]
        self._touched.update(dict.fromkeys(requests))
        if self.view is not None:
            acquired = self.view.acquired
            for request, count in zip(requests, counts, strict=True):
                acquired[request] = acquired.get(request, 0) + count
        return True

    def _end_call(self) -> None:
        if self._touched:
            self._fire_many("Grown", list(self._touched))
            self._touched.clear()
        super()._end_call()

    def _settle(self, flight: InFlight, outcome: Outcome) -> None:
        """The same requests sampled as were planned, and all of them still stand."""
        group = None if flight.departed else self._in_bulk(flight.request)
        if group is None or tuple(outcome.request) != group.requests:
            super()._settle(flight, outcome)
            return
        try:
            ends = self._array(flight.start, "Int") + self._array(flight.tokens, "Int")
        except (OverflowError, TypeError):
            super()._settle(flight, outcome)
            return
        self._fire_many("Computed", flight.request, ends, flight.samples, outcome.stop)

    def _delivered(self, requests: Sequence[str], tokens: Sequence[int]) -> None:
        group = self._in_bulk(requests)
        outcome = self._outcome
        if group is None or self.keeps_ledger or outcome is None or tuple(outcome.request) != group.requests:
            super()._delivered(requests, tokens)
            return
        self._fire_many("Deliver", requests, tokens, outcome.token)
        if self._told_to is not group or len(self._told) >= MOST_TOLD:
            self._hand_over()
            self._told_to = group
        self._told.append(tokens if type(tokens) is tuple else tokens[:])  # a list stays its owner's

    def _hand_over(self) -> None:
        """Delivered tokens reach their tracks when somebody looks at them: all that waited, at once."""
        told, self._told = self._told, []
        if told and self._told_to is not None:
            for track, tokens in zip(self._told_to.tracks, zip(*told, strict=True), strict=True):
                _TOKENS.__get__(track).extend(tokens)
        self._told_to = None

    def _register(self, track: Track) -> None:
        track.__class__ = self._listening
        super()._register(track)

    def _check_writes(self, tracks: Sequence[Track], plan: Plan) -> None:
        group = self._in_bulk(plan.request) if self.world.indexed else None
        if group is None or (column_of(plan.start, "Int") < self._shared_tokens(group)).any():
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
        super()._replace_table(track, table)


_TOKENS: Any = vars(Track)["tokens"]


def _listening(monitor: BulkMonitor) -> type[Track]:
    """Tracks of a monitor that may have tokens for them which it has not handed over."""

    def tokens(self: Track) -> Any:
        if monitor._told:
            monitor._hand_over()
        return _TOKENS.__get__(self)

    return type("ListeningTrack", (Track,), {"__slots__": (), "tokens": property(tokens, _TOKENS.__set__)})


_kind = itemgetter(0)


def _plain(column: Any) -> Any:
    return column.tolist() if isinstance(column, np.ndarray) else column


@cache
def _scans(active: frozenset[str], dropped: str | None) -> dict[str, Scan]:
    """The events of a step's entries that are scans; without a conjunct that made it one, an event may not be."""
    return dict(_each_scan(active, dropped))


def _each_scan(active: frozenset[str], dropped: str | None) -> Iterator[tuple[str, Scan]]:
    for event in EVENTS:
        try:
            yield event, scan_of(registry, event, active, dropped, "RequestId")
        except NoScan:
            continue


def _table(scans: dict[str, Scan]) -> Table:
    maps = {name for scan in scans.values() for name in scan.maps}
    sets = {name for scan in scans.values() for name in scan.sets}
    return Table(Engine, "RequestId", maps, sets)


__all__ = ["BulkMonitor"]
