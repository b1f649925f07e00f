"""Caps on what runs: of each client, of each lane, of all."""

from collections.abc import Callable, Iterable

from attrs import Factory, define

from ..spec.service import lane_of
from ..spec.settings import Settings
from ..spec.vocabulary import blocks_for
from .job import Job


@define
class Usage:
    """What the running requests of a client or lane hold: seats, tokens and blocks by declared length, and what they
    may still be charged."""

    seats: int = 0
    tokens: int = 0
    blocks: int = 0
    cost: int = 0


@define(eq=False)
class Caps:
    """Who may have one more running.  Of whom nothing runs, it may: a cap on size holds up nobody for ever.

    `due`: what a request may still be charged.
    """

    settings: Settings
    due: Callable[[Job], int]
    clients: dict[str, Usage] = Factory(dict)
    lanes: dict[str, Usage] = Factory(dict)

    def client_may(self, job: Job) -> bool:
        """Whether its client may have it run too."""
        s, usage = self.settings, self.clients.get(job.request.client)
        if usage is None or not usage.seats:
            return True
        return (
            is_within(s.client_seats, usage.seats + 1)
            and is_within(s.client_resident_tokens, usage.tokens + job.request.declared_tokens)
            and is_within(s.client_committed_cost, usage.cost + self._cost(job))
        )

    def lane_may(self, job: Job) -> bool:
        """Whether its lane may have it run too; one with a maximum of 100 percent has none."""
        if not self.settings.lanes:
            return True
        lane = lane_of(self.settings, job.request)
        usage = self.lanes.get(lane.name)
        if lane.maximum_percent == 100 or usage is None or not usage.seats:
            return True
        return (usage.blocks + self._blocks(job)) * 100 <= lane.maximum_percent * self.settings.blocks

    def seat(self, job: Job) -> None:
        """It runs from now on."""
        self._change(job, 1, self._cost(job))

    def release(self, job: Job) -> None:
        """It has left the running set."""
        self._change(job, -1, -self._cost(job))

    def charged(self, job: Job, amount: int) -> None:
        """So much less is due of one that runs."""
        self._client(job).cost -= amount

    def _change(self, job: Job, sign: int, cost: int) -> None:
        for usage in self._usages(job):
            usage.seats += sign
            usage.tokens += sign * job.request.declared_tokens
            usage.blocks += sign * self._blocks(job)
            usage.cost += cost

    def _usages(self, job: Job) -> Iterable[Usage]:
        yield self._client(job)
        if self.settings.lanes:
            yield self.lanes.setdefault(lane_of(self.settings, job.request).name, Usage())

    def _cost(self, job: Job) -> int:
        return self.due(job) if self.settings.client_committed_cost else 0

    def _client(self, job: Job) -> Usage:
        return self.clients.setdefault(job.request.client, Usage())

    def _blocks(self, job: Job) -> int:
        return blocks_for(job.request.declared_tokens, self.settings.block_size)


def prefilling(running: Iterable[Job]) -> int:
    """Prompts in prefill, whether they get tokens in this step or not."""
    return sum(job.issued < job.prefill_end for job in running)


def is_within(cap: int, value: int) -> bool:
    """0 is no cap."""
    return not cap or value <= cap
