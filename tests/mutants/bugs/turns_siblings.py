"""Siblings of the bugs of turns."""

from typing import ClassVar

from attrs import define

from schedspec.reference import Scheduler
from schedspec.reference.faults import SharesOtherwise
from schedspec.reference.job import WAITING, Job
from schedspec.reference.selection.one_queue import Guarded
from schedspec.reference.selection.race import Member
from schedspec.reference.selection.sharing import Members, Sharing, Vtc
from schedspec.reference.state import Admission
from schedspec.spec.vocabulary import Settings

from .registry import sibling


@define(eq=False)
class _StartsOver(Guarded):
    def put_back(self, job: Job) -> None:
        self.spells[job].admissions_before = self.admissions
        super().put_back(job)


@sibling("B15", "who was next and did not fit waits as if it had just come")
class ForgetsHowLong(Scheduler):
    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        queue = self.state.queue
        if isinstance(queue, Guarded):
            self.state.queue = _StartsOver(queue.order, queue.new_queue, queue.max_overtaken)


@sibling("B15", "only those who have nothing cached are guarded against being overtaken")
class GuardsHalf(Scheduler):
    """The bound is asked of the first that waits, and of whoever is behind it not."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        queue = self.state.queue
        if isinstance(queue, Guarded):
            queue.max_overtaken += 1


class Resets(Vtc):
    """A counter that reaches 24 starts again."""

    limit: ClassVar[int] = 24

    def charge(self, queues: Members, member: Member, amount: int) -> None:
        super().charge(queues, member, amount)
        if member.counter >= self.limit and member.waiting:
            member.counter -= self.limit


@sibling("B16", "the counter of a client starts again from nothing when it is large")
class ResetsCounters(SharesOtherwise):
    sharing: type[Sharing] = Resets


class Half(Vtc):
    def charge(self, queues: Members, member: Member, amount: int) -> None:
        super().charge(queues, member, amount if member.waiting or amount < 4 else amount // 2)


@sibling("B16", "large charges of a client of whom nobody waits count half", rules=("FAIR-1", "FAIR-2", "FAIR-6"))
class ChargesHalf(SharesOtherwise):
    sharing: type[Sharing] = Half


class StopsAtTheFirst(Scheduler):
    """The scan of those who wait may end at who came first of them."""

    def stops_at(self, first: Job) -> bool:
        raise NotImplementedError

    def admit(self, budget: int, blocks: int) -> list[Admission]:
        waiting = [job for job in self.state.jobs.values() if job.state == WAITING]
        first = min(waiting, key=lambda job: job.arrival, default=None)
        return [] if first is not None and self.stops_at(first) else super().admit(budget, blocks)


@sibling("B20", "the scan stops at an adapter once somebody was preempted", rules=("LIVE-7",))
class StopsOnceSomebodyWasPreempted(StopsAtTheFirst):
    def stops_at(self, first: Job) -> bool:
        return first.was_preempted and not self.state.adapters.can_serve(first)


@sibling("B20", "a client that has all its seats holds up the others", rules=("LIVE-7", "LIVE-8"))
class StopsAtAClient(StopsAtTheFirst):
    def stops_at(self, first: Job) -> bool:
        return not self.state.queue.may(first)
