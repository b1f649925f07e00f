"""Caps on what runs, of each client and of each lane.  Of whom nothing runs, it may."""

from collections.abc import Callable

from attrs import Factory, define, field

from ..spec.service import lane_of
from ..spec.settings import Lane, Settings
from ..spec.vocabulary import blocks_for
from .job import Job


@define
class Usage:
    """What runs of a client or lane: how many, their declared tokens, also in blocks, and what they may still be
    charged."""

    seats: int = 0
    tokens: int = 0
    blocks: int = 0
    cost: int = 0


@define(eq=False)
class Caps:
    """`due`: what a request may still be charged."""

    settings: Settings
    due: Callable[[Job], int]
    clients: dict[str, Usage] = Factory(dict)
    lanes: dict[str, Usage] = Factory(dict)
    are_there: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        s = self.settings
        of_lanes = any(lane.maximum_percent < 100 for lane in s.lanes)
        self.are_there = bool(s.client_seats or s.client_resident_tokens or s.client_committed_cost or of_lanes)

    def client_may(self, job: Job) -> bool:
        s, usage = self.settings, self.clients.get(job.request.client)
        if usage is None or not usage.seats:
            return True
        if s.client_seats and usage.seats >= s.client_seats:
            return False
        if s.client_resident_tokens and usage.tokens + job.length > s.client_resident_tokens:
            return False
        return not s.client_committed_cost or usage.cost + self.due(job) <= s.client_committed_cost

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

    def charged(self, job: Job, amount: int) -> None:
        """So much less is due of one that runs."""
        self.clients.setdefault(job.request.client, Usage()).cost -= amount

    def _add(self, usage: Usage, job: Job, sign: int) -> None:
        usage.seats += sign
        usage.tokens += sign * job.length
        usage.blocks += sign * self._blocks(job)
        usage.cost += sign * (self.due(job) if self.settings.client_committed_cost else 0)

    def _lane(self, job: Job) -> Lane:
        return lane_of(self.settings, job.request)

    def _blocks(self, job: Job) -> int:
        return blocks_for(job.length, self.settings.block_size)
