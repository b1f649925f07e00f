"""Spells of waiting: in which order they began, and how often each was overtaken."""

from collections import deque
from collections.abc import Collection, Iterator
from itertools import takewhile

from attrs import Factory, define

from .tracks import Track


@define(eq=False)
class Spells:
    """A request is overtaken when one that began to wait later is admitted; it has seen every admission.

    Spells stand in slots in the order in which they began.  An admission is marked in the slot before its own, so that
    the marks from a slot on are how often that one was overtaken; `tree` is a Fenwick tree of them.  Slots of spells
    that are over are given up now and then, so nothing here grows with the run.
    """

    admissions: int = 0
    slots: list[Track | None] = Factory(list)
    slot_of: dict[str, int] = Factory(dict)
    saw: dict[str, int] = Factory(dict)
    queues: dict[str | None, deque[int]] = Factory(dict)
    tree: list[int] = Factory(lambda: [0])
    marks: int = 0

    def begin(self, track: Track) -> None:
        if len(self.slots) > 2 * len(self.slot_of) + 64:
            self._give_up_slots()
        slot = self.slot_of[track.id] = len(self.slots)
        self.saw[track.id] = self.admissions
        self.slots.append(track)
        self.queues.setdefault(track.adapter, deque()).append(slot)
        self._grow()

    def over(self, track: Track, *, admitted: bool) -> None:
        slot = self.slot_of.pop(track.id, None)
        if slot is None:
            return
        del self.saw[track.id]
        self.slots[slot] = None
        if admitted:
            self.admissions += 1
            if slot:
                self._mark(slot - 1, 1)

    def seen(self, track: Track) -> int:
        """Admissions since it began to wait."""
        return self.admissions - self.saw[track.id] if track.id in self.saw else 0

    def waiting(self) -> Iterator[Track]:
        """Those who wait, in the order in which they began."""
        return (track for track in self.slots if track is not None)

    def aged(self, admissions: int) -> Iterator[Track]:
        """Those who have seen so many admissions since they began to wait: the first that began."""
        return takewhile(lambda track: self.seen(track) >= admissions, self.waiting())

    def overtaken(self, track: Track) -> int:
        return self.marks - self._marks_before(self.slot_of[track.id])

    def oldest(self, usable: Collection[str | None] | None, passed: Collection[Track] = ()) -> Track | None:
        """Of those who wait, and need no adapter but a usable one, who began first; some are `passed` over."""
        firsts = []
        for adapter in list(self.queues):
            if usable is None or adapter in usable:
                track = self._first(adapter, passed)
                if track is not None:
                    firsts.append(track)
        return min(firsts, key=lambda track: self.slot_of[track.id], default=None)

    def _first(self, adapter: str | None, passed: Collection[Track]) -> Track | None:
        queue = self.queues[adapter]
        while queue and self.slots[queue[0]] is None:
            queue.popleft()
        if not queue:
            del self.queues[adapter]
            return None
        waiting = (self.slots[slot] for slot in queue)
        return next((track for track in waiting if track is not None and track not in passed), None)

    # --- the tree ----------------------------------------------------------------------------------------

    def _grow(self) -> None:
        """One more slot, without marks: its node sums up those below it."""
        at = len(self.tree)
        node, step = 0, 1
        while step < at & -at:
            node += self.tree[at - step]
            step *= 2
        self.tree.append(node)

    def _mark(self, slot: int, count: int) -> None:
        self.marks += count
        at = slot + 1
        while at < len(self.tree):
            self.tree[at] += count
            at += at & -at

    def _marks_before(self, slot: int) -> int:
        total = 0
        while slot:
            total += self.tree[slot]
            slot -= slot & -slot
        return total

    def _give_up_slots(self) -> None:
        """The slots of those who wait alone remain; each takes over the marks up to the next."""
        waiting = [(slot, track) for slot, track in enumerate(self.slots) if track is not None]
        counts = [self.overtaken(track) for _, track in waiting]
        self.slots = [track for _, track in waiting]
        self.slot_of = {track.id: slot for slot, (_, track) in enumerate(waiting)}
        self.queues = {}
        for slot, (_, track) in enumerate(waiting):
            self.queues.setdefault(track.adapter, deque()).append(slot)
        self.tree, self.marks = [0], 0
        for _ in waiting:
            self._grow()
        for slot, (more, less) in enumerate(zip(counts, [*counts[1:], 0], strict=False)):
            self._mark(slot, more - less)
