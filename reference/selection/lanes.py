"""Lanes: the one with the least service per share is next, and within it clients in turn of arrival or of service."""

from attrs import Factory, define, field

from ...spec.service import lane_of, lane_prices
from ...spec.settings import Lane, Settings
from ..caps import Caps
from ..job import Job
from .bill import Bill
from .lines import Line
from .patience import Patience
from .race import Member, Rank
from .sharing import ClientQueues, Members, SharedQueue, Sharing, Vtc


class ByArrival(Sharing):
    """Whose head came first.  Clients who are held are passed over, which a single line could not do."""

    def rank(self, member: Member, counter: int) -> Rank:
        first = member.queue.first()
        return (0, 0) if first is None else (first.arrival, 0)


@define(eq=False)
class ByShare(Vtc):
    """Virtual Token Counter between lanes: service counts by the inverse of the share, and who comes back may be behind
    by its burst."""

    prices: dict[str, int]
    bursts: dict[str, int]

    @classmethod
    def of(cls, settings: Settings) -> "ByShare":
        return cls(lane_prices(settings), {lane.name: lane.burst for lane in settings.lanes})

    def lift(self, queues: Members, member: Member) -> int:
        return queues.virtual_time - self.bursts[member.name] * self.prices[member.name]

    def charge(self, queues: Members, member: Member, amount: int) -> None:
        super().charge(queues, member, amount * self.prices[member.name])

    def refund(self, queues: Members, member: Member, amount: int) -> None:
        super().refund(queues, member, amount * self.prices[member.name])


@define(eq=False)
class LaneQueues(Members):
    """A queue of clients per lane.  A lane is held at its maximum, and where all its clients are held."""

    lanes: dict[str, Lane] = field(init=False, default=Factory(dict))

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.lanes = {lane.name: lane for lane in self.caps.settings.lanes}

    def name_of(self, job: Job) -> str:
        return lane_of(self.caps.settings, job.request).name

    def line(self, name: str) -> Line:
        return ClientQueues(Vtc() if self.lanes[name].order == "vtc" else ByArrival(), self.caps)

    def may(self, job: Job) -> bool:
        return self.caps.lane_may(job)

    def review(self, client: str) -> None:
        """A client may wait in several lanes."""
        for member in self.members.values():
            member.queue.review(client)
            self._look_at(member)


def shared_by_lanes(settings: Settings) -> SharedQueue:
    bill = Bill.of(settings)
    caps = Caps(settings, bill.due)
    lanes = LaneQueues(ByShare.of(settings), caps, Patience(settings.aging_picks), settings.aging_credit)
    return SharedQueue(bill, caps, lanes)
