"""Caps on what runs, of each client and of each lane.  Of whom nothing runs, it may."""

from attrs import Factory, define, field

from ..spec.service import lane_of
from ..spec.settings import Lane, Settings
from ..spec.vocabulary import blocks_for
from .job import Job


@define
class Usage:
    """What runs of a client or lane: how many, and their declared tokens, also in blocks."""

    seats: int = 0
    tokens: int = 0
    blocks: int = 0


@define(eq=False)
class Caps:
    settings: Settings
    clients: dict[str, Usage] = Factory(dict)
    lanes: dict[str, Usage] = Factory(dict)
    are_there: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        s = self.settings
        of_lanes = any(lane.maximum_percent < 100 for lane in s.lanes)
        self.are_there = bool(s.client_seats or s.client_resident_tokens or of_lanes)

    def client_may(self, job: Job) -> bool:
        s, usage = self.settings, self.clients.get(job.request.client)
        if usage is None or not usage.seats:
            return True
        if s.client_seats and usage.seats >= s.client_seats:
            return False
        return not s.client_resident_tokens or usage.tokens + job.length <= s.client_resident_tokens

    def lane_may(self, job: Job) -> bool:
        if not self.settings.lanes:
            return True
        lane = self._lane(job)
        usage = self.lanes.get(lane.name)
        if lane.maximum_percent == 100 or usage is None or not usage.seats:
            return True
        return (usage.blocks + self._blocks(job)) * 100 <= lane.maximum_percent * self.settings.blocks

    def change(self, job: Job, sign: int) -> None:
        """It runs from now on, or no longer."""
        self._add(self.clients.setdefault(job.request.client, Usage()), job, sign)
        if self.settings.lanes:
            self._add(self.lanes.setdefault(self._lane(job).name, Usage()), job, sign)

    def _add(self, usage: Usage, job: Job, sign: int) -> None:
        usage.seats += sign
        usage.tokens += sign * job.length
        usage.blocks += sign * self._blocks(job)

    def _lane(self, job: Job) -> Lane:
        return lane_of(self.settings, job.request)

    def _blocks(self, job: Job) -> int:
        return blocks_for(job.length, self.settings.block_size)
