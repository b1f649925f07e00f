"""Clients in one level, of whom none is ever held or aged: a pick looks at nothing but counters."""

from heapq import heappop, heapreplace
from typing import TYPE_CHECKING, Any

from attrs import define, field

from ..spec.settings import Settings
from .caps import Caps
from .clients import ClientQueue
from .ints import LARGEST
from .job import Job
from .race import NUMBER_BITS, NUMBERS, CounterRace

if TYPE_CHECKING:
    from .admission import Admission, Entrance, Room


@define(eq=False)
class PlainClients(ClientQueue):
    """The same decisions as `ClientQueue` for `vtc`, in fewer calls.  `charges_at_once`: a pick costs the prompt."""

    charges_at_once: bool = field(init=False)
    hears_who_leaves: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.charges_at_once = self.settings.charge_prompt == "pick"
        self.hears_who_leaves = self.settings.charge_prediction

    def pop(self) -> Job | None:
        group = self.group
        member = group.race.first()
        if member is None:
            return None
        group.size -= 1
        group.out += 1
        return member.line.pop()

    def picked(self, job: Job) -> None:
        group, member, counters = self.group, job.members[0], self.of_clients
        if group.out > 1:
            super().picked(job)
            return
        assert isinstance(group.race, CounterRace)
        group.out = 0
        member.waiting -= 1
        group.last_left = member
        counter = counters.of(member.account)
        if counter > group.virtual_time:
            group.virtual_time = counter
        if not job.is_charged:
            self._charge_the_pick(job)
            group.race.sink(member, counter + job.pick_cost)

    def admit(self, entrance: "Entrance", room: "Room") -> "list[Admission]":
        """`Entrance.admit` where the first who does not fit ends it: `pop` and `picked` of all who enter in one go."""
        group, race, counters = self.group, self.group.race, self.of_clients
        assert isinstance(race, CounterRace)
        heap, listed, members = race.heap, race.listed, race.members
        size, most, reserved = entrance.settings.block_size, entrance.most, entrance.reserved
        left, blocks, watermark = room.tokens, room.blocks, self.settings.watermark_blocks
        kept = watermark if room.running else 0
        admitted: list[Admission] = []
        for _ in range(room.seats):
            if left <= 0 or blocks <= 0 or race.first() is None:
                break
            bound = heap[0]
            number, counter = bound & NUMBERS, bound >> NUMBER_BITS
            member = members[number]
            line: Any = member.line
            waiting = line.heap
            while not waiting[0][1].is_live:
                heappop(waiting)
            job = waiting[0][1]
            tokens = job.prompt + job.outputs
            if tokens > left or tokens > most:
                tokens = entrance.first_tokens(job, left)
            needed = -(-reserved(job, tokens) // size)
            if not tokens or needed > blocks - kept:
                break
            admitted.append((job, tokens, needed))
            left, blocks, kept = left - tokens, blocks - needed, watermark
            heappop(waiting)
            line.size -= 1
            member.waiting -= 1
            group.last_left = member
            if counter > group.virtual_time:
                group.virtual_time = counter
            if job.is_charged:
                continue
            job.is_charged = True
            if self.charges_at_once:
                job.charged_prompt = job.prompt
            cost = job.pick_cost
            if counters.bound + cost < LARGEST:  # `add`
                counters.bound += cost
                counters.one_since[member.account] += cost
            else:
                counters.add(member.account, cost)
            entry = bound + (cost << NUMBER_BITS)
            if entry < race.limit and line.size:  # it need not surface to be found out
                listed[number] = entry
                heapreplace(heap, entry)
            else:
                heappop(heap)
                del listed[number]
        group.size -= len(admitted)
        room.running += len(admitted)
        room.seats, room.tokens, room.blocks = room.seats - len(admitted), left, blocks
        return admitted

    def released(self, job: Job) -> None:
        """No cap counts it."""


def are_plain(settings: Settings) -> bool:
    """Whether these settings hold nobody, and let nobody age."""
    return settings.policy == "vtc" and not settings.aging_picks and not Caps(settings, lambda job: 0).are_there
