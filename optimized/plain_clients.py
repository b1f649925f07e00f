"""Clients in one level, of whom none is ever held or aged: a pick looks at nothing but counters."""

from attrs import define

from ..spec.settings import Settings
from .caps import Caps
from .clients import ClientQueue
from .job import Job
from .race import CounterRace


@define(eq=False)
class PlainClients(ClientQueue):
    """The same decisions as `ClientQueue` for `vtc`, in fewer calls."""

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

    def released(self, job: Job) -> None:
        """No cap counts it."""


def are_plain(settings: Settings) -> bool:
    """Whether these settings hold nobody, and let nobody age."""
    return settings.policy == "vtc" and not settings.aging_picks and not Caps(settings, lambda job: 0).are_there
