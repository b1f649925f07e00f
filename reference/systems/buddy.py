"""Contiguous memory from a buddy allocator, as PagedAttention takes it for granted of Orca (SOSP 2023, section 6.1).

A reservation is rounded up to a power of two of blocks and needs an aligned run of that size; what the pool has free in
other places is of no use to it.  So a request may wait though its blocks are there by number (LIVE-8), and the file is
a model for measurements and no subject.  Where a request lies is kept here; names of blocks mean nothing.
"""

from ...spec.reserves import power_of_two
from ...spec.vocabulary import Settings, blocks_for
from ..decide import Room
from ..job import Job
from ..state import Admission
from .published import Published, System


class Buddies:
    """`free[size]`: first blocks of free runs; a run of `size` begins at a multiple of `size`."""

    def __init__(self, blocks: int) -> None:
        self.free: dict[int, set[int]] = {}
        start = 0
        while start < blocks:  # the largest aligned runs that the pool holds
            size = 1 << ((blocks - start).bit_length() - 1)
            self.free.setdefault(size, set()).add(start)
            start += size

    def has(self, size: int) -> bool:
        return any(starts and free >= size for free, starts in self.free.items())

    def take(self, size: int) -> int:
        """The first block of a run; the smallest that is large enough is halved until it is of that size."""
        found = min(free for free, starts in self.free.items() if starts and free >= size)
        start = min(self.free[found])
        self.free[found].remove(start)
        while found > size:
            found //= 2
            self.free.setdefault(found, set()).add(start + found)
        return start

    def give(self, start: int, size: int) -> None:
        """A run whose buddy is free becomes one with it."""
        while (buddy := start ^ size) in self.free.get(size, ()):
            self.free[size].remove(buddy)
            start, size = min(start, buddy), 2 * size
        self.free.setdefault(size, set()).add(start)


class Contiguous(Published):
    """A system that reserves whole lives, in one piece each."""

    def __init__(self, system: System, settings: Settings, seed: int = 0) -> None:
        super().__init__(system, settings, seed)
        self.buddies = Buddies(settings.blocks)
        self.runs: dict[Job, tuple[int, int]] = {}

    def blocks_of(self, admission: Admission, room: Room) -> int:
        """More than there are, if no run is long enough."""
        if not self.buddies.has(self._size(admission)):
            return self.state.settings.blocks + 1
        return super().blocks_of(admission, room)

    def take(self, admission: Admission, room: Room) -> None:
        super().take(admission, room)
        size = self._size(admission)
        self.runs[admission.job] = (self.buddies.take(size), size)

    def give_all(self, job: Job) -> None:
        if job in self.runs:
            self.buddies.give(*self.runs.pop(job))
        super().give_all(job)

    def _size(self, admission: Admission) -> int:
        return power_of_two(blocks_for(admission.reserved_tokens, self.state.settings.block_size))
