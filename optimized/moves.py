"""The bulk monitor's part that moves blocks: takes and gives one after the other are judged together, in columns where
each request takes one block, else in the memory of the tables, one by one.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain, compress
from typing import Any

import numpy as np

from schedspec.spec.monitor import Monitor, canonical
from schedspec.spec.relation import Engine, registry
from schedspec.spec.tracks import Track
from schedspec.spec.vocabulary import Delta

from .cells import ColumnSet, Table
from .in_place import InPlace, in_place
from .pool import COUNT, MOST_BLOCKS, NOBODY, SEVERAL, PoolTable, are_mirrored
from .together import Function, together

FEW = 32
"""So many blocks go one by one: as many calls of numpy as a step of many needs take as long."""


class Moves(Monitor):
    """`_pool` is there as soon as blocks have columns; `_named` and `_looked_at` are what was looked up last."""

    fewest: int
    together: int
    _table: Table
    _functions: dict[str, Any]
    _without: str | None
    _live: Any

    def _begin_moves(self) -> None:
        self._in_place: dict[str, InPlace] = {}
        self._pool: PoolTable | None = None
        self._together: dict[str, Function] = {}
        self._looked_at: tuple[Sequence[int], Any] = [], None
        self._named: tuple[tuple[str, ...] | None, Any] = None, None

    def _track_at(self, row: int) -> Track:
        raise NotImplementedError

    def _begin_pool(self) -> None:
        """Blocks have columns where nobody shares them."""
        is_plain = self.shows_tables and not self.settings.prefix_caching and self._without is None
        found = _of_blocks()
        if is_plain and found is not None and self.settings.blocks <= MOST_BLOCKS:
            names, alone, held = found
            blocks = self.settings.blocks
            self._pool = PoolTable(Engine, "BlockId", names, alone=alone, blocks=blocks, holders=self._table)
            self._table.views[held] = self._pool.held_by
            self._table.on_release = self._pool.part_from

    def _begin_in_place(self) -> None:
        table, active = self._table, self.program.active
        for event, once in _ONCE.items():
            pool = self._pool if once == "block" else None
            self._in_place[event] = in_place(registry, event, active, self._without, once=once, table=table, pool=pool)
            tables = [table] if pool is None else [table, pool]
            function = together(registry, event, active, self._without, tables)
            if function is not None and (pool is not None or once != "block"):
                self._together[event] = function

    def cells_of(self, requests: Sequence[str], name: str) -> list[int]:
        table = self._table
        if not self._functions or name not in table.maps or table.odd:
            return super().cells_of(requests, name)
        cells: list[int] = getattr(table, "at_" + name)[self._places_of(requests)].tolist()
        return cells

    def most_apart(self, requests: Sequence[str], name: str, other: str) -> int:
        table = self._table
        if not self._functions or {name, other}.difference(table.maps) or table.odd or not requests:
            return super().most_apart(requests, name, other)
        at = self._places_of(requests)
        return int(np.maximum.reduce(getattr(table, "at_" + name)[at] - getattr(table, "at_" + other)[at]))

    def running_among(self, requests: Iterable[str]) -> list[str]:
        some, running = list(requests), self.world.running
        if isinstance(running, ColumnSet):
            chosen = getattr(self._table, running.at)[self._places_of(some)]
            return list(compress(some, chosen.tolist())) if np.count_nonzero(chosen) < len(some) else some
        return super().running_among(some)

    def _places_of_living(self, requests: Sequence[str]) -> Any:
        """Their rows; None where one is a stranger or has ended."""
        column = tuple(requests)
        try:
            places = np.fromiter(map(self._table.index.__getitem__, column), np.int64, len(column))
        except KeyError:
            return None
        if np.count_nonzero(self._live[places]) < len(column):
            return None
        self._named = column, places
        return places

    def _places_of(self, requests: Sequence[str]) -> Any:
        """Their rows; most often these were asked for just before."""
        column = tuple(requests)
        if column != self._named[0]:
            index = self._table.index
            self._named = column, np.fromiter(map(index.__getitem__, column), np.int64, len(column))
        return self._named[1]

    def _fire_in_place(self, event: str, *columns: Sequence[Any]) -> None:
        """One after the other, none of them twice."""
        function = self._in_place.get(event)
        if function is None:
            super()._fire_many(event, *columns)
            return
        beside: tuple[Any, ...] = ()
        if self._pool is not None and _ONCE[event] == "block":
            rows = self._rows_of(columns[1])
            if rows is None:
                super()._fire_many(event, *columns)
                return
            beside = (self._pool,)
        elif self._fire_together(event, columns):
            return
        function(self.world, self._table, *beside, *columns)
        if self.world.failed:
            self._note(event, list(zip(*columns, strict=True)))

    def _fire_together(self, event: str, columns: Sequence[Sequence[Any]]) -> bool:
        """Requests, none of which comes twice; where nothing fails."""
        function, requests = self._together.get(event), columns[0]
        count = len(requests)
        if function is None or count < min(FEW, self.fewest):
            return False
        places = self._places_of(requests)
        done = bool(function(self.world, self._table, places, count, *columns))  # None where a number might not fit
        self.together += count * done
        return done

    def _holders(self, block: int) -> Iterable[Track]:
        if self._pool is None or block not in range(self._pool.pool):
            return super()._holders(block)
        one = self._pool.mem_holders[block]  # type: ignore[attr-defined]
        if one == SEVERAL:
            return super()._holders(block)
        return [] if one == NOBODY else [self._track_at(one)]

    def _apply(self, method: str, deltas: Sequence[Delta]) -> None:
        """Blocks that are taken, or given, one after the other are taken or given together."""
        ordered = deltas if self.capabilities.ordered or len(deltas) < 2 else canonical(deltas)
        kinds = [delta[0] for delta in ordered]
        place, count = 0, len(ordered)
        while place < count:
            kind, start = kinds[place], place
            place += 1
            if kind in _MOVES and kinds[start:].count(kind) == count - start:
                place = count
            while kind in _MOVES and place < count and kinds[place] == kind:
                place += 1
            some = ordered[start:place]
            if not (kind in _MOVES and self._move_together(kind, some)):
                super()._apply(method, some)

    def _move_together(self, kind: str, deltas: Sequence[Delta]) -> bool:
        """False, and nothing happened, where one of them has to see what the others did."""
        _, requests, moved = zip(*deltas, strict=True)
        blocks = list(chain.from_iterable(moved))
        count = len(blocks)
        if self.explain or count < 2 or len(set(blocks)) < count or self.parking.pins or self.deferred:
            return False
        one_each = count == len(requests) and all(moved)
        if kind == "took" and one_each and self._take_each(requests, blocks):
            return True
        tracks = list(map(self.tracks.get, requests))
        if None in tracks:
            return False
        holders = requests if one_each else [r for r, some in zip(requests, moved, strict=True) for _ in some]
        if kind == "gave":
            self._fire_in_place("Give", holders, blocks)
            for track, some in zip(tracks, moved, strict=True):
                self._gave_back(track, some)  # type: ignore[arg-type]
            return True
        taken = self._available_among(moved, blocks)
        self._fire_in_place("Take", holders, blocks)
        deque(map(list.extend, map(self._table_of, tracks), moved), 0)  # type: ignore[arg-type]
        self._have_acquired(requests, taken)
        return True

    def _have_acquired(self, requests: Sequence[str], taken: Iterable[int]) -> None:
        """So many blocks each that were to be had."""
        self._touched.update(dict.fromkeys(requests))
        if self.view is not None:
            acquired = self.view.acquired
            for request, number in zip(requests, taken, strict=True):
                acquired[request] = acquired.get(request, 0) + number

    def _take_each(self, requests: Sequence[str], blocks: list[int]) -> bool:
        """A block each, that was to be had, of requests that live and none of which comes twice."""
        function, count = self._together.get("Take"), len(blocks)
        if self._pool is None or function is None or count < min(FEW, self.fewest):
            return False
        once: dict[str, Any] = dict.fromkeys(requests, 1)
        rows, places = self._rows_of(blocks), self._places_of_living(requests)
        if rows is None or places is None or len(once) < count:
            return False
        if not function(self.world, self._table, places, self._pool, rows, count, requests, blocks):
            return False
        self.together += count
        self._have_taken(places, rows)
        self._touched.update(once)
        if self.view is None:
            return True
        if self.view.acquired:
            self._have_acquired(requests, once.values())
        else:
            self.view.acquired.update(once)
        return True

    def _have_taken(self, rows: Any, blocks: Any) -> None:
        """A block each is behind the tables of these."""
        for row, block in zip(rows.tolist(), blocks.tolist(), strict=True):
            self._table_of(self._track_at(row)).append(block)

    def _table_of(self, track: Track) -> list[int]:
        """With all blocks that it has taken."""
        return track.table

    def _rows_of(self, blocks: Sequence[int]) -> Any:
        """In the pool; most often these were asked for just before."""
        if self._looked_at[0] is not blocks:
            assert self._pool is not None
            self._looked_at = blocks, self._pool.rows_of(blocks)
        return self._looked_at[1]

    def _available_among(self, moved: Sequence[Sequence[int]], blocks: list[int]) -> list[int]:
        """How many fewer blocks there are to be had, when each of these is taken."""
        free, evictable, pool = self.world.free, self.world.evictable, self._pool
        if pool is not None and (rows := self._rows_of(blocks)) is not None:
            there = pool.at_free[rows] | pool.at_evictable[rows]  # type: ignore[attr-defined]
            if np.count_nonzero(there) == len(rows):
                return list(map(len, moved))
        elif not evictable and free.issuperset(chain.from_iterable(moved)):
            return list(map(len, moved))
        return [sum((block in free) + (block in evictable) for block in some) for some in moved]

    def _end_call(self) -> None:
        if len(self._touched) > 1:
            self._fire_in_place("Grown", list(self._touched))
            self._touched.clear()
        super()._end_call()


_MOVES = ("took", "gave")
_ONCE = {"Take": "block", "Give": "block", "Grown": "request"}
"""Events that go through memory, many in a row, and what of them comes once."""


@cache
def _of_blocks() -> tuple[frozenset[str], str, str] | None:
    """What takes and gives write of blocks, the map of sets among it, and the one that says the same of requests."""
    written = {str(c.variable) for event in ("Take", "Give") for c in registry.effects(event).values()}
    sorts = {name: Engine.sorts[name] for name in written if Engine.sorts[name].args}
    sets = {sort.args[0].name: name for name, sort in sorts.items() if sort.args[-1].name == "Set"}
    of_blocks = {name for name, sort in sorts.items() if sort.args[0].name == "BlockId"}
    alone, held = sets["BlockId"], sets["RequestId"]
    return (frozenset(of_blocks - {alone}), alone, held) if are_mirrored(registry, alone, held) else None


OFTEN = frozenset(str(c.variable) for event in _ONCE for c in registry.effects(event).values())
"""Cells that change while rounds go on."""

__all__ = ["COUNT", "OFTEN", "Moves"]
