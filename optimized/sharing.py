"""The policies with a queue per client: whose turn it is."""

from collections.abc import Callable, Mapping

from attrs import define

from ..spec.service import lane_prices
from ..spec.settings import Settings
from .job import Member
from .members import Group, Sharing
from .race import Rank


class Vtc(Sharing):
    """Virtual Token Counter (Sheng et al., OSDI 2024, Algorithm 2): who comes back is lifted, never lowered, and a
    refund is no credit."""

    def mark(self, counter: int) -> int:
        """The virtual time that a least counter stands for."""
        return counter

    def lift(self, group: Group, member: Member) -> int:
        return group.virtual_time

    def enters(self, group: Group, member: Member) -> None:
        least = group.least() or group.last_left
        if least is not None:
            group.advance(self.mark(group.counter(least)))
        group.set_counter(member, max(group.counter(member), self.lift(group, member)))

    def picked(self, group: Group, member: Member) -> None:
        least = self.mark(group.service.of(group.least_at_pick(member).account))
        if least > group.virtual_time:
            group.virtual_time = least

    def refund(self, group: Group, member: Member, amount: int) -> None:
        counter = group.counter(member)
        group.set_counter(member, max(counter - amount, min(counter, group.virtual_time)))


@define(eq=False)
class Drr(Vtc):
    """Deficit round robin: a member keeps its turn until what it got exceeds its quanta."""

    quantum: int

    def rank(self, member: Member, counter: int) -> Rank:
        return counter // self.quantum, member.place

    def mark(self, counter: int) -> int:
        return counter // self.quantum * self.quantum

    def enters(self, group: Group, member: Member) -> None:
        super().enters(group, member)
        member.place = group.next_turn()


class RoundRobin(Sharing):
    """One request of each client in turn: the counter is its place in the round."""

    shows_counters = False

    def enters(self, group: Group, member: Member) -> None:
        group.set_counter(member, group.next_turn())

    picked = enters


class ByArrival(Sharing):
    """Whose first request came first."""

    def rank(self, member: Member, counter: int) -> Rank:
        first = member.line.first()
        return 0 if first is None else first.arrival


@define(eq=False)
class ByShare(Vtc):
    """Between lanes: service counts by the inverse of the share, and who comes back may be behind by its burst."""

    prices: Mapping[str, int]
    bursts: Mapping[str, int]

    @classmethod
    def of(cls, settings: Settings) -> "ByShare":
        return cls(lane_prices(settings), {lane.name: lane.burst for lane in settings.lanes})

    def lift(self, group: Group, member: Member) -> int:
        return group.virtual_time - self.bursts[member.name] * self.prices[member.name]

    def refund(self, group: Group, member: Member, amount: int) -> None:
        super().refund(group, member, amount * self.prices[member.name])


SHARINGS: Mapping[str, Callable[[Settings], Sharing]] = {
    "vtc": lambda settings: Vtc(),
    "lcf": lambda settings: Sharing(),
    "round_robin": lambda settings: RoundRobin(),
    "drr": lambda settings: Drr(settings.quantum),
    "lanes": ByShare.of,
}
