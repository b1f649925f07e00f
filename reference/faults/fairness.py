"""Schedulers that break a rule of FAIR."""

from collections.abc import Sequence

from attrs import evolve

from ...spec.vocabulary import (
    Capabilities,
    Delta,
    Settings,
)
from ..job import Job
from ..scheduler import Scheduler
from ..selection import ClientQueues, Sharing, Vtc, shared_by_clients
from ..selection.bill import Bill
from ..selection.race import Member
from ..selection.sharing import Members
from .base import fault


class SharesOtherwise(Scheduler):
    """Virtual Token Counter with another way of charging and lifting, or of choosing the next client."""

    sharing: type[Sharing] = Vtc
    queues: type[ClientQueues] = ClientQueues
    bill: type[Bill] = Bill

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        if settings.policy == "vtc":
            self.state.queue = shared_by_clients(settings, self.sharing(), queues=self.queues, bill=self.bill)


class FourBits(Vtc):
    """All clients are looked at: the rank may fall."""

    def choose(self, queues: Members) -> Member | None:
        waiting = (member for member in queues.members.values() if member.queue.size)
        return min(waiting, key=lambda member: (member.counter % 16, member.number), default=None)


@fault("FAIR-1")
class RanksByFourBits(SharesOtherwise):
    """Clients are compared by the last four bits of their counters."""

    sharing = FourBits


class ChargesEveryPick(Bill):
    def pick(self, job: Job) -> int:
        job.charged_prompt = 0
        return super().pick(job)


@fault("FAIR-2")
class ChargesRecompute(SharesOtherwise):
    """A request that is resumed pays for its prompt again."""

    bill = ChargesEveryPick


class LiftsOnlyIntoAnEmptyQueue(Vtc):
    def enters(self, queues: Members, member: Member) -> None:
        if queues.least() is None:
            super().enters(queues, member)


@fault("FAIR-3")
class KeepsCredit(SharesOtherwise):
    """A client that comes back while others wait goes on from where it was."""

    sharing = LiftsOnlyIntoAnEmptyQueue


class LiftsOnlyAmongOthers(Vtc):
    def enters(self, queues: Members, member: Member) -> None:
        if queues.least() is not None:
            super().enters(queues, member)


@fault("FAIR-4")
class MissesTheEmptyQueue(SharesOtherwise):
    """Where nobody waits nobody is lifted."""

    sharing = LiftsOnlyAmongOthers


class TakesVictimsBack(ClientQueues):
    def push(self, job: Job) -> None:
        before = self.member_of(job).counter
        super().push(job)
        if job.was_preempted:
            self.member_of(job).counter = before
            self.review(job.request.client)


@fault("FAIR-5")
class RequeuesWithoutALift(SharesOtherwise):
    """A victim goes back to the queue past the door where clients are lifted."""

    queues = TakesVictimsBack


@fault("FAIR-6")
class ChargesWhatWasDeclared(Scheduler):
    """Who cancels pays for the output that it declared and will not get."""

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        job = self.state.jobs.get(request_id)
        if job is not None:
            job.outputs = job.request.max_output_tokens
            self.state.queue.served(job)
        return super().cancel(request_id, now_ns)


@fault("FAIR-8")
class CallsArrivalFair(Scheduler):
    """Takes first come, first served for fair."""

    def capabilities(self) -> Capabilities:
        shown = super().capabilities()
        return evolve(shown, claims=shown.claims | {"fair_share"} if "fcfs" in shown.claims else shown.claims)


class StartsOver(Sharing):
    def enters(self, queues: Members, member: Member) -> None:
        member.counter = 0


@fault("FAIR-9")
class ForgetsWhoIsGone(SharesOtherwise):
    """The counter of a client is dropped with its last waiting request.  It does not call itself VTC."""

    sharing = StartsOver

    def capabilities(self) -> Capabilities:
        shown = super().capabilities()
        return evolve(shown, claims=shown.claims - {"vtc"})
