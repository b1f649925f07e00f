"""Who stands first in line: of a client in its lane, and of a lane in which arrival alone counts."""

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterator

from attrs import Factory, define

from .tracks import Track

Entry = tuple[int, int, Track]
"""Place, spell of waiting, request; it is of no use any more once that spell is over."""

Line = dict[str | None, list[Entry]]
"""Adapter -> a heap of those who need it: whoever is blocked on one holds up nobody else."""


def stands(entry: Entry) -> bool:
    _, began, track = entry
    return track.waits and track.began == began


def head(heap: list[Entry]) -> Entry | None:
    """The first that still waits; what is in front of it is dropped."""
    while heap and not stands(heap[0]):
        heapq.heappop(heap)
    return heap[0] if heap else None


@define(eq=False)
class Lines:
    """Waiting requests of each lane and client by place, and of each lane the clients by the place of their first.

    `in_order`: the lanes for which the latter is kept.  `clients`: of each lane, how many requests of each client wait;
    `adapters`: how many need which; `lengths`: the longest first, if asked for.  Entries of clients are lower bounds,
    brought up to date where somebody looks.
    """

    in_order: Collection[str] = ()
    by_length: bool = False
    lines: dict[tuple[str, str], Line] = Factory(dict)
    heads: dict[str, list[tuple[int, str]]] = Factory(dict)
    clients: dict[str, Counter[str]] = Factory(dict)
    adapters: Counter[str | None] = Factory(Counter)
    lengths: list[tuple[int, int, Track]] = Factory(list)

    def enter(self, track: Track) -> None:
        clients = self.clients.setdefault(track.lane, Counter())
        clients[track.client] += 1
        heap = self.lines.setdefault(track.queue, {}).setdefault(track.adapter, [])
        heapq.heappush(heap, (track.place, track.began, track))
        self.adapters[track.adapter] += 1
        if self.by_length:
            self._enter_by_length(track)
        if len(heap) > 2 * clients[track.client] + 64:
            heap[:] = sorted(filter(stands, heap))
        if track.lane in self.in_order and (clients[track.client] == 1 or heap[0][2] is track):
            heapq.heappush(self.heads.setdefault(track.lane, []), (track.place, track.client))

    def _enter_by_length(self, track: Track) -> None:
        heapq.heappush(self.lengths, (-track.limit_tokens, track.began, track))
        if len(self.lengths) > 2 * self.adapters.total() + 64:
            self.lengths[:] = sorted(filter(stands, self.lengths))

    def leave(self, track: Track) -> None:
        self.adapters[track.adapter] -= 1
        if not self.adapters[track.adapter]:
            del self.adapters[track.adapter]
        clients = self.clients[track.lane]
        clients[track.client] -= 1
        if clients[track.client] <= 0:
            del clients[track.client]
            self.lines.pop(track.queue, None)
        if not clients:
            self.clients.pop(track.lane, None)
            self.heads.pop(track.lane, None)

    def first(self, queue: tuple[str, str], usable: Collection[str | None] | None = None) -> Iterator[Entry]:
        """The first of each heap of a line; of those alone whose adapter is `usable`, if that is given."""
        for adapter, heap in self.lines.get(queue, {}).items():
            if usable is None or adapter in usable:
                entry = head(heap)
                if entry is not None:
                    yield entry

    def longest(self) -> Track | None:
        """Who declares most of all that wait, where lengths are kept."""
        entry = head(self.lengths)
        return entry[2] if entry is not None else None

    def needs_other(self, usable: Collection[str | None]) -> bool:
        """Whether anybody who waits needs an adapter that is not among these."""
        return len(self.adapters) > sum(adapter in self.adapters for adapter in usable)

    def first_of_lane(self, lane: str, first: Callable[[str], Entry | None]) -> Entry | None:
        """The least of what `first` says of clients, None where one is passed over; asked in order of their places,
        until no other can have less."""
        heap, asked = self.heads.get(lane, []), dict[str, int]()
        best: Entry | None = None
        while heap and (best is None or heap[0][0] < best[0]):
            place, client = heapq.heappop(heap)
            if client in asked or client not in self.clients[lane]:
                continue
            now = min((entry[0] for entry in self.first((lane, client))), default=place)
            if now > place:
                heapq.heappush(heap, (now, client))
                continue
            asked[client] = now
            found = first(client)
            if found is not None and (best is None or found[0] < best[0]):
                best = found
        for client, place in asked.items():
            heapq.heappush(heap, (place, client))
        return best
