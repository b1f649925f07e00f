"""The bulk monitor: the entries of a step are judged together, as columns.

It is the monitor of `spec`, and judges the same: where a step is as it should be, its entries are checked and applied
by the numpy reading (`columns.py`); where any guard fails, or an entry is not like the others, by the compiled
reading, which names what is broken.  Both work on the same cells, so nothing has to be brought up to date between them.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import compress
from typing import Any

import numpy as np
from attrs import define

from schedspec.spec.content import ContentShadow
from schedspec.spec.relation import Engine, registry
from schedspec.spec.tracks import InFlight, Track
from schedspec.spec.values import Naturals
from schedspec.spec.verdicts import Violation
from schedspec.spec.vocabulary import Header, Message, Outcome, Plan

from .cells import Table
from .columns import Column, Together, column_of, function_of
from .content import IS_CHAINED, ColumnShadow, Standing
from .later import TABLE, TOKENS, Later, grown, listening
from .moves import COUNT, OFTEN, Moves
from .scans import NoScan, Scan, scan_of
from .steady import Rounds
from .tokens import hand_over

EVENTS = ("Serve", "Computed", "Deliver")
FEWEST = 96
"""Below it the compiled reading is as fast."""
FAR = 1 << 50
ARRAYS = 8
GROUPS = 3
"""Columns of requests that are kept: most often those of a step are those of the step before."""


@define(eq=False)
class Group:
    """Live requests in the order of a column, none of them twice, and what is looked up for all of them."""

    requests: tuple[str, ...]
    tracks: Standing
    at: Any  # what a column of the table is indexed by
    rows: list[int]
    shares: int = -1
    shared_tokens: Any = None


class BulkMonitor(Moves):
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
        self._later, self._blocks = Later(), Later()
        self._listening = listening(self._settle_track)
        self._listens: Any = np.zeros(0, np.bool_)
        self._live: Any = np.zeros(0, np.bool_)
        self._by_row: list[Track | None] = []
        super().__init__(header, content=content, explain=explain, horizon=horizon, dropped=dropped)
        self._content: ColumnShadow | None = None
        is_plain = not any((self.keeps_ledger, self.claims("swap"), self.claims("drafts")))
        is_plain = is_plain and self.capabilities.executor_order != "reads_first"
        if self.shadow is not None and IS_CHAINED and not explain and is_plain:
            self.shadow = self._content = self._column_shadow(self.shadow)
        self.fewest = fewest
        self.together = 0
        self._groups: list[Group] = []
        self._seen: list[tuple[Sequence[str], Group | None]] = []
        self._shares = 0
        self._functions: dict[str, Together] = {}
        self.scans = {} if explain or self.claims("drafts") else _scans(self.program.active, dropped)
        self._kinds = {event: [sort.name for sort in scan.fields.values()][1:] for event, scan in self.scans.items()}
        names = set().union(*(scan.names for scan in self.scans.values()))
        self._table = Table(Engine, "RequestId", names, OFTEN, [COUNT])
        self._rounds = Rounds(self._table, OFTEN)
        self._without = dropped
        self._begin_moves()

    def _column_shadow(self, plain: ContentShadow) -> ColumnShadow:
        return ColumnShadow(
            plain.block_size,
            plain.order,
            plain.holders,
            pool_blocks=self.settings.blocks,
            array_of=self._array,
            track_at=self._track_at,
            listen=self._listen,
            settle=self._settle_track,
        )

    def feed(self, message: Message) -> list[Violation]:
        """What is no tuple may have changed."""
        self._seen = [seen for seen in self._seen if seen[1] is not None and isinstance(seen[0], tuple)]
        return super().feed(message)

    # --- requests ----------------------------------------------------------------------------------------

    def _group_of(self, requests: Sequence[str]) -> Group | None:
        """None if one of them is unknown, has ended, comes twice or has a number that is too large."""
        group: Group | None
        for column, group in self._seen:  # noqa: B007  # it is used behind the loop
            if column is requests:
                break
        else:
            group = self._look_up(requests)
        odd = self._table.odd
        return group if not odd or group is None or odd.isdisjoint(group.rows) else None

    def _look_up(self, requests: Sequence[str]) -> Group | None:
        column = requests if isinstance(requests, tuple) else tuple(requests)
        known = next((group for group in self._groups if column == group.requests), None)
        group = known or self._new_group(column)
        self._seen = [(requests, group), *self._seen[: GROUPS - 1]]
        return group

    def _new_group(self, column: tuple[str, ...]) -> Group | None:
        rows: list[Any] = list(map(self._table.index.get, column))
        if None in rows or len(set(rows)) < len(rows):
            return None
        at = np.array(rows)
        if not self._live[at].all():
            return None
        tracks = Standing(map(self._by_row.__getitem__, rows), at)  # type: ignore[arg-type]
        group = Group(column, tracks, place_of(rows, at), rows)
        self._groups = [group, *self._groups[: GROUPS - 1]]
        return group

    def _in_bulk(self, requests: Sequence[str]) -> Group | None:
        return self._group_of(requests) if self._is_long(len(requests)) else None

    def _is_long(self, count: int) -> bool:
        """Whether so many entries are judged together.  Up to the first time the plain records were faster."""
        if count < self.fewest or not self.scans:
            return False
        if not self._functions:
            self._begin_pool()
            self._table.join(self.world)
            if self._pool is not None:
                self._pool.join(self.world)
            for track in self.tracks.values():
                self._stands(track)
            self._functions = {event: function_of(scan) for event, scan in self.scans.items()}
            self._begin_in_place()
        return True

    def _stands(self, track: Track) -> None:
        """It has a row from here on."""
        table, self._named = self._table, (None, None)
        row = table.row_of(track.id)
        if table.rows > len(self._live):
            self._live, self._listens = grown(self._live, table.rows), grown(self._listens, table.rows)
            self._by_row += [None] * (table.rows - len(self._by_row))
            self._later.reach(table.rows)
            self._blocks.reach(table.rows)
            if self._content is not None:
                self._content.reach(table.rows)
        self._by_row[row], self._live[row] = track, not track.ended

    def _track_at(self, row: int) -> Track:
        track = self._by_row[row]
        assert track is not None
        return track

    def _register(self, track: Track) -> None:
        super()._register(track)
        if self._functions:
            self._stands(track)

    def _planned(self, plan: Plan) -> list[Track]:
        group = self._in_bulk(plan.request)
        if group is None and plan.request and self._content is not None and self._content.inside:
            group = self._group_of(plan.request)  # few entries, beside whom others are in columns
        return super()._planned(plan) if group is None else group.tracks

    def _tracks_of(self, requests: Sequence[str]) -> list[Track | None]:
        group = self._in_bulk(requests)
        return super()._tracks_of(requests) if group is None else group.tracks  # type: ignore[return-value]

    def _retire(self, track: Track) -> None:
        super()._retire(track)
        self._groups, self._seen, self._named = [], [], (None, None)
        if self._functions:
            self._live[self._table.index[track.id]] = False

    # --- events ------------------------------------------------------------------------------------------

    def _fire_many(self, event: str, *columns: Sequence[Any]) -> None:
        if not (event in self.scans and self._fire_scan(event, columns)):
            super()._fire_many(event, *map(_plain, columns))

    def _fire_scan(self, event: str, columns: Sequence[Sequence[Any]]) -> bool:
        group = self._in_bulk(columns[0])
        if group is None:
            return False
        try:
            arrays = list(map(self._array, columns[1:], self._kinds[event]))
        except (OverflowError, TypeError):
            return False
        count = len(group.rows)
        if any(len(column.values) != count for column in arrays):
            return False
        if self._table.reach > FAR:
            self._table.measure()
        done = self._rounds.fire(self._functions[event], group, self.world, arrays)
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

    def _numbers(self, column: Any) -> Column | None:
        """None if one is no number of 64 bits."""
        try:
            return self._array(column, "Int")
        except (OverflowError, TypeError):
            return None

    def _settle(self, flight: InFlight, outcome: Outcome) -> None:
        """All of them still stand, and who sampled has a row, in the same order."""
        group = None if flight.departed else self._in_bulk(flight.request)
        stop = None if group is None else self._stops(group, flight, outcome)
        start, tokens = self._numbers(flight.start), self._numbers(flight.tokens)
        if stop is None or start is None or tokens is None or len(start.values) != len(tokens.values):
            super()._settle(flight, outcome)
        else:
            self._fire_many("Computed", flight.request, start.values + tokens.values, flight.samples, stop)

    def _stops(self, group: Group, flight: InFlight, outcome: Outcome) -> Any:
        """Which of the entries end there; None if the results are not of those who sampled."""
        if self._in_bulk(outcome.request) is group:
            return outcome.stop
        samples = self._numbers(flight.samples)
        chosen = None if samples is None else samples.values == 1
        if chosen is None or tuple(compress(flight.request, chosen.tolist())) != tuple(outcome.request):
            return None
        stop = np.zeros(len(chosen), np.bool_)
        stop[chosen] = self._array(outcome.stop, "Bool").values
        return stop

    def _delivered(self, requests: Sequence[str], tokens: Sequence[int]) -> None:
        group = self._in_bulk(requests)
        outcome = self._outcome
        whole = group is not None and outcome is not None and self._in_bulk(outcome.request) is group
        values = self._numbers(tokens) if whole and not self.keeps_ledger else None
        if group is None or outcome is None or values is None:
            if self._numbers(tokens) is None:
                self._leave_arrays(requests)
            super()._delivered(requests, tokens)
            return
        self._fire_many("Deliver", requests, tokens, outcome.token)
        self._listen_all(group.tracks.at, self._listens[group.at])
        self._later.put(group.at, values.values)
        if self._content is not None:
            self._content.delivered(group.tracks.at, values)
        if self._later.is_full:
            hand_over(self._later, self._track_at)

    def _leave_arrays(self, requests: Sequence[str]) -> None:
        """A token that they are about to get has no place in an array."""
        for track in filter(None, map(self.tracks.get, requests)):
            track.tokens = list(track.tokens)

    def _listen_all(self, rows: Any, heard: Any) -> None:
        if np.count_nonzero(heard) < len(heard):
            for row in rows[~heard].tolist():
                self._listen(row, self._track_at(row))

    def _listen(self, row: int, track: Track) -> None:
        """From here on it is told later."""
        track.__class__ = self._listening
        self._listens[row] = True

    def _settle_track(self, track: Track) -> None:
        """It is told all that waits for it, and is plain from here on."""
        track.__class__ = Track
        row = self._table.index[track.id]
        self._listens[row] = False
        TOKENS.__get__(track).extend(self._later.take(row))
        if self._blocks.times:
            TABLE.__get__(track).extend(self._blocks.take(row))
        if self._content is not None:
            self._content.leave(row, track)

    def _have_taken(self, rows: Any, blocks: Any) -> None:
        if self._content is not None:  # it looks at tables
            super()._have_taken(rows, blocks)
            return
        self._listen_all(rows, self._listens[rows])
        self._blocks.put(rows, blocks)
        if self._blocks.is_full:
            for row, some in self._blocks.take_all():
                TABLE.__get__(self._track_at(row)).extend(some)

    def _table_of(self, track: Track) -> list[int]:
        table: list[int] = TABLE.__get__(track)
        if self._blocks.times and isinstance(track, self._listening):
            table.extend(self._blocks.take(self._table.index[track.id]))
        return table

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
        super()._replace_table(track, table)


def _plain(column: Any) -> Any:
    return column.tolist() if isinstance(column, np.ndarray) else column


def place_of(rows: list[int], at: Any) -> Any:
    """How a column is indexed there: by a slice where the rows follow on each other."""
    first, count = rows[0], len(rows)
    follow = rows[-1] - first == count - 1 and rows == list(range(first, first + count))
    return slice(first, first + count) if follow else at


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


__all__ = ["BulkMonitor"]
