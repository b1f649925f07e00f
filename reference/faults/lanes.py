"""Schedulers that break a rule of LANE."""

from typing import ClassVar

from ...spec.vocabulary import Receipt, Request, Settings
from ..caps import Caps
from ..job import Job
from ..scheduler import Scheduler
from ..selection.bill import Bill
from ..selection.lanes import ByShare, LaneQueues
from ..selection.patience import Patience
from ..selection.race import Member, Rank
from ..selection.sharing import ClientQueues, Members, SharedQueue, Vtc
from .base import Claims, fault


class SharesLanesOtherwise(Scheduler):
    """Lanes by another rule between them."""

    sharing: type[ByShare] = ByShare
    queues: type[LaneQueues] = LaneQueues

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        if settings.policy == "lanes":
            bill = Bill.of(settings)
            caps = Caps(settings, bill.due)
            patience = Patience(settings.aging_picks)
            lanes = self.queues(self.sharing.of(settings), caps, patience, self.credit(settings))
            self.state.queue = SharedQueue(bill, caps, lanes)

    def credit(self, settings: Settings) -> int:
        return settings.aging_credit


class AlphabetFirst(ByShare):
    def rank(self, member: Member, counter: int) -> Rank:
        return ord(member.name[0]), 0


@fault("LANE-1")
class ServesAStrictly(SharesLanesOtherwise):
    """Strict priority between lanes, by name."""

    sharing = AlphabetFirst


@fault("LANE-2")
class LendsNothing(Claims):
    """Rigid slices that call themselves shares."""

    more: ClassVar[frozenset[str]] = frozenset({"borrowing"})


class KeepsItsPlace(ByShare):
    def lift(self, queues: Members, member: Member) -> int:
        return 0


@fault("LANE-3")
class LiftsNobody(SharesLanesOtherwise):
    """A lane that comes back is where it was."""

    sharing = KeepsItsPlace


@fault("LANE-4")
class LastInFirstOut(Scheduler):
    """The queue is a stack."""

    def submit(self, request: Request, now_ns: int) -> Receipt:
        self.state.arrivals -= 2  # counts backwards
        return super().submit(request, now_ns)


@fault("LANE-5")
class PrefersTenfold(SharesLanesOtherwise):
    """Whoever is aged is preferred by much more than was declared."""

    def credit(self, settings: Settings) -> int:
        return 10 * settings.aging_credit


@fault("LANE-6")
class PromisesAnObjective(Claims, ServesAStrictly):
    """Strict priority that promises no shares, and an objective to everybody all the same."""

    less: ClassVar[frozenset[str]] = frozenset({"lanes", "shares", "burst"})


class AsksTooEarly(Caps):
    def client_may(self, job: Job) -> bool:
        """Whoever has not exceeded its seats may have one more."""
        usage = self.clients.get(job.request.client)
        return usage is None or usage.seats <= self.settings.client_seats or super().client_may(job)


@fault("LANE-7")
class ExceedsItsSeats(Scheduler):
    """A client is held when it has more than its seats, not when it has them."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        if settings.policy == "vtc":
            bill = Bill.of(settings)
            caps = AsksTooEarly(settings, bill.due)
            clients = ClientQueues(Vtc(), caps, Patience(settings.aging_picks), settings.aging_credit)
            self.state.queue = SharedQueue(bill, caps, clients)
