"""Schedulers that break a rule of FAIR."""

from collections.abc import Sequence

from attrs import evolve

from ...spec.vocabulary import (
    Capabilities,
    Delta,
    Settings,
)
from ..job import Job
from ..scheduler import Scheduler, claims_of
from ..selection import ClientQueues, Sharing, Vtc, shared_by_clients
from ..selection.bill import Bill
from ..selection.race import Member, Rank
from ..selection.sharing import Dlpm, Drr, Members, RoundRobin, SharedQueue
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


class NotVtc(Scheduler):
    """It promises that service is shared, and not how."""

    def capabilities(self) -> Capabilities:
        shown = super().capabilities()
        return evolve(shown, claims=shown.claims - {"vtc"})


def shared(scheduler: Scheduler) -> Members:
    """The queues of its clients."""
    queue = scheduler.state.queue
    assert isinstance(queue, SharedQueue)
    return queue.members


class FourBits(Vtc):
    """All clients are looked at: the rank may fall."""

    def choose(self, queues: Members) -> Member | None:
        waiting = (member for member in queues.members.values() if member.queue.size)
        return min(waiting, key=lambda member: (member.counter % 16, member.number), default=None)


@fault("FAIR-1")
class RanksByFourBits(SharesOtherwise):
    """Clients are compared by the last four bits of their counters."""

    sharing = FourBits


class NothingPerToken(Bill):
    def token(self, job: Job) -> int:
        return 0


@fault("FAIR-2")
class ChargesAtTheEnd(SharesOtherwise):
    """Outputs are charged when the request ends: the correction of predictions sees to it."""

    bill = NothingPerToken


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


@fault("FAIR-7")
class KeepsCreditQuietly(NotVtc, KeepsCredit):
    """A client that comes back while others wait goes on from where it was."""


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
class ForgetsWhoIsGone(NotVtc, SharesOtherwise):
    """The counter of a client is dropped with its last waiting request.  It does not call itself VTC."""

    sharing = StartsOver


class NoPrices(Bill):
    @classmethod
    def of(cls, settings: Settings) -> Bill:
        return super().of(evolve(settings, prices=()))


@fault("FAIR-10")
class ForgetsPrices(NotVtc, SharesOtherwise):
    """All clients are charged alike."""

    bill = NoPrices


@fault("FAIR-11")
class GoesPastABlockedHead(Scheduler):
    """Calls itself strict, and looks for somebody who fits."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        self.claimed = claims_of(settings)
        if settings.policy == "vtc":
            self.state.settings = evolve(settings, at_blocked_head="skip")

    def capabilities(self) -> Capabilities:
        return evolve(super().capabilities(), claims=self.claimed)


class OutputsAreDue(Bill):
    def due(self, job: Job) -> int:
        request = job.request
        return self.tariff.outputs(request.client, request.prompt_tokens, job.outputs, request.max_output_tokens)


@fault("FAIR-12")
class CommitsOutputsOnly(SharesOtherwise):
    """The cap on what a client may still be charged counts no prompts."""

    bill = OutputsAreDue


class RefundsAll(Vtc):
    def refund(self, queues: Members, member: Member, amount: int) -> None:
        member.counter -= amount


@fault("FAIR-13")
class RefundsBelowOthers(SharesOtherwise):
    """Who predicted too much gets all of it back, whatever others have got in the meantime."""

    sharing = RefundsAll


class ChargesEveryPick(Bill):
    def pick(self, job: Job) -> int:
        job.charged_prompt = 0
        return super().pick(job)


@fault("FAIR-14")
class ChargesRecompute(SharesOtherwise):
    """A request that is resumed pays for its prompt again."""

    bill = ChargesEveryPick


class ForgivingDrr(Drr):
    def charge(self, queues: Members, member: Member, amount: int) -> None:
        end_of_turn = (member.counter // self.quantum + 1) * self.quantum
        member.counter = min(member.counter + amount, end_of_turn)


@fault("FAIR-15")
class ForgetsWhatATurnTook(Scheduler):
    """What a turn took beyond its quantum is forgotten with the turn."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        if settings.policy == "drr":
            shared(self).sharing = ForgivingDrr(settings.quantum)


class EverybodysRound(Dlpm):
    def rank(self, member: Member, counter: int) -> Rank:
        return 0, member.place


@fault("FAIR-16")
class ForgetsQuanta(Scheduler):
    """The longest prefix is next, whatever its client has got."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        if settings.policy == "dlpm":
            shared(self).sharing = EverybodysRound(settings.quantum, self.state.prefixes)


@fault("FAIR-17")
class AgesWithoutLimit(Scheduler):
    """Whoever waited long is next."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        if settings.policy == "vtc":
            shared(self).credit = 1 << 40


class MostIsNext(Sharing):
    def rank(self, member: Member, counter: int) -> Rank:
        return -counter, 0


@fault("FAIR-19")
class TurnsTheComparisonRound(Scheduler):
    """Who got most is next."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        if settings.policy == "lcf":
            shared(self).sharing = MostIsNext()


class KeepsItsTurn(RoundRobin):
    def picked(self, queues: Members, member: Member) -> None:
        """The turn ends when nobody of it waits."""


@fault("FAIR-20")
class ServesAQueueUntilItIsEmpty(Scheduler):
    """A client's turn lasts as long as it has somebody waiting."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        if settings.policy == "round_robin":
            shared(self).sharing = KeepsItsTurn()


class OneAfterTheOther(Vtc):
    """The counter is when the client came; whoever came first is served until nobody of it waits."""

    def enters(self, queues: Members, member: Member) -> None:
        member.counter = queues.next_turn()

    def charge(self, queues: Members, member: Member, amount: int) -> None:
        """Turns alone count."""


@fault("FAIR-18")
class ServesOneClientAtATime(NotVtc, SharesOtherwise):
    """A client is served until nobody of it waits, then whoever came next."""

    sharing = OneAfterTheOther
