"""Schedulers of two pools that break a rule of XFER: what engines have done, and might.

In a world of one pool each is the reference.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import evolve

from ...spec.vocabulary import Delta, Request, Settings, Subject, SubjectFactory, blocks_for
from ..decide import Room
from ..job import WAITING, Job
from ..scheduler import Scheduler
from ..state import Admission, Decision
from ..systems.distserve import DecodePool, Disaggregated, PrefillPool
from ..transfer import UNPULLED, Transfer
from .base import FAULTS

FOREIGN: dict[str, tuple[str, SubjectFactory]] = {}
"""What it does, in a few words -> the rule that names it, and the scheduler."""

Class = type[Disaggregated]


def of_two_pools(cls: Class) -> SubjectFactory:
    def make(settings: Settings, seed: int) -> Subject:
        return cls(settings, seed) if settings.pools.are_two else Scheduler(settings, seed)

    return make


def fault(rule: str) -> Callable[[Class], Class]:
    def register(cls: Class) -> Class:
        FAULTS[rule] = of_two_pools(cls)
        return cls

    return register


def foreign(does: str, rule: str) -> Callable[[Class], Class]:
    def register(cls: Class) -> Class:
        FOREIGN[does] = rule, of_two_pools(cls)
        return cls

    return register


# --- one owner -----------------------------------------------------------------------------------------------


class Hedges(PrefillPool):
    def decide(self) -> Decision:
        """Where nothing else is to be done."""
        link, settings = self.owner.link, self.state.settings
        late = self.owner.settings.pools.transfer_ns // 2
        slow = [one for one in link.standing.values() if one.is_wanted and one.deadline_ns - self.state.now_ns <= late]
        is_idle = not self.state.queue.size and not self.state.running and settings.chunked_prefill
        for transfer in slow[:1] if is_idle else ():
            if blocks_for(len(transfer.tokens), settings.block_size) <= self.state.pool.available:
                self.begin(transfer.request, transfer.tokens)
        return super().decide()


@fault("XFER-1")
@foreign("is owned by both pools", "XFER-1")
class PrefillsAgainMeanwhile(Disaggregated):
    """The request of a transfer that takes half its time already is prefilled once more."""

    prefill_pool = Hedges


# --- decode before the end of the transfer -------------------------------------------------------------------


@fault("XFER-2")
@foreign("decodes before its transfer has ended", "XFER-2")
class TakesTheBeginningForTheEnd(Disaggregated):
    """The link says that it has begun, and the request is ready."""

    def hear(self, transfer: Transfer, told: object) -> None:
        super().hear(transfer, "transfer_done" if told == "transfer_started" else told)


@foreign("takes the end of an earlier transfer for that of the next", "XFER-2")
class KnowsRequestsOnly(Disaggregated):
    """News of a transfer is news of its request, whichever transfer that has by now."""

    def __init__(self, settings: Settings, seed: int = 0) -> None:
        super().__init__(settings, seed)
        self.names: dict[int, str] = {}

    def notify(self, event: Mapping[str, Any], now_ns: int) -> Sequence[Delta]:
        self.names.update({number: transfer.id for number, transfer in self.link.standing.items()})
        transfer = self.link.of(self.names.get(event.get("transfer", 0), ""))
        return super().notify(event if transfer is None else {**event, "transfer": transfer.number}, now_ns)


class CountsOnTheLink(DecodePool):
    def decide(self) -> Decision:
        """Whoever was asked for joins the queue: its KV will be there in time."""
        link, free = self.owner.link, self.state.settings.seats - len(self.state.running)
        wanted = [one for one in link.standing.values() if one.is_wanted]
        for transfer in wanted[: max(0, free)] if not self.state.queue.size and not self.state.running else ():
            link.arrived[transfer.id] = transfer
            self.come(self.job_of(transfer))
        return super().decide()


@foreign("decodes what it has just asked for", "XFER-2")
class DecodesAtOnce(Disaggregated):
    decode_pool = CountsOnTheLink


# --- what is not pulled counts -------------------------------------------------------------------------------


class FreesAtHandOver(PrefillPool):
    def hand_over(self, job: Job) -> None:
        """The blocks are free, though the decode pool has not read them."""
        blocks = list(job.table)
        super().hand_over(job)
        for block in blocks:
            self.state.pool.give(block)

    def give_back(self, request_id: str, blocks: Sequence[int]) -> None:
        self.state.deltas.append(("released", request_id, list(blocks)))


@fault("XFER-3")
@foreign("does not count what is not pulled", "XFER-3")
class CountsRunningOnly(Disaggregated):
    """The prefill pool counts the blocks of those who run."""

    prefill_pool = FreesAtHandOver


@foreign("holds a part of what is not pulled", "XFER-3")
class HoldsAllButOne(Disaggregated):
    """The last block of a prompt is given back at the hand-over: it is not full."""

    class Half(PrefillPool):
        def hand_over(self, job: Job) -> None:
            if len(job.table) > 1:
                last = job.table.pop()
                self.state.pool.give(last)
                self.state.deltas.append(("gave", job.id, [last]))
            super().hand_over(job)

    prefill_pool = Half


@foreign("does not count what has arrived and waits", "XFER-3")
class CountsWhatMoves(Disaggregated):
    """Only transfers that stand count against the landing blocks."""

    def has_room(self, blocks: int) -> bool:
        moving, most = sum(len(one.target) for one in self.link.standing.values()), self.settings.pools.landing_blocks
        return (not most or not moving or moving + blocks <= most) and blocks <= self.decode.state.pool.available


# --- pulled at most once, released exactly once --------------------------------------------------------------


@fault("XFER-4")
@foreign("releases twice", "XFER-4")
class ReleasesAtBothEnds(Disaggregated):
    """The response handler releases a request that ends, and so did the end of its transfer."""

    class Half(DecodePool):
        def end(self, job: Job, event: Delta) -> None:
            super().end(job, event)
            source = self.owner.sources.get(job.id, [])  # type: ignore[attr-defined]
            if event[0] == "finished" and source:
                self.state.deltas.append(("released", job.id, source))

    decode_pool = Half

    def __init__(self, settings: Settings, seed: int = 0) -> None:
        super().__init__(settings, seed)
        self.sources: dict[str, list[int]] = {}

    def arrive(self, transfer: Transfer) -> None:
        self.sources[transfer.id] = list(transfer.source)
        super().arrive(transfer)


@foreign("pulls twice", "XFER-4")
class PullsAgain(Disaggregated):
    """A transfer that failed is asked for once more, though the prefill pool has let go."""

    def lose(self, transfer: Transfer, outcome: str) -> None:
        super().lose(transfer, outcome)
        if transfer.is_wanted and transfer.id in self.prefill.state.jobs:
            job = self.prefill.state.jobs[transfer.id]
            self.prefill.state.queue.left(job)
            self.prefill.leave(job)
            self.link.waiting[transfer.id] = transfer


@foreign("never releases what ended at its first token", "XFER-4")
class HoldsWhatHasEnded(Disaggregated):
    """Every prompt is handed over, those with one token to come too, and nobody will pull them."""

    class Half(PrefillPool):
        def end(self, job: Job, event: Delta) -> None:
            if event[0] == "finished" and job.table:
                blocks, job.table = job.table, []
                self.state.deltas.append(("held", job.id, blocks, UNPULLED))
            super().end(job, event)

    prefill_pool = Half


@foreign("never releases what was cancelled", "XFER-4")
class ForgetsTheCancelled(Disaggregated):
    """Who waits to be pulled is taken off the list, and that is all."""

    def abandon(self, transfer: Transfer) -> None:
        if self.link.waiting.pop(transfer.id, None) is None:
            super().abandon(transfer)


@foreign("never releases what failed", "XFER-4")
class KeepsTheSource(Disaggregated):
    """A transfer that failed may be wanted again, so the prefill pool keeps its blocks."""

    def over(self, transfer: Transfer, outcome: str) -> None:
        if outcome == "done":
            super().over(transfer, outcome)
        else:
            del self.link.standing[transfer.number]
            self.deltas.append(("transferred", transfer.id, outcome))


@foreign("releases all blocks but the last", "XFER-4")
class KeepsTheLastOfTheSource(Disaggregated):
    """A count of full blocks: the last one of a prompt is not among them."""

    def over(self, transfer: Transfer, outcome: str) -> None:
        if len(transfer.source) > 1:
            transfer.source.pop()
        super().over(transfer, outcome)


# --- failed and silent transfers -----------------------------------------------------------------------------


@fault("XFER-5")
@foreign("waits for ever for a silent transfer", "XFER-5")
class WaitsForEver(Disaggregated):
    """A transfer has no deadline."""

    def begin_call(self, now_ns: int) -> None:
        for transfer in self.link.standing.values():
            transfer.deadline_ns = now_ns + 1
        super().begin_call(now_ns)


@foreign("ignores that a transfer failed", "XFER-5")
class IgnoresFailures(Disaggregated):
    """Only good news is heard."""

    def hear(self, transfer: Transfer, told: object) -> None:
        if told != "transfer_failed":
            super().hear(transfer, told)


@foreign("waits for ever once both sides have aborted", "XFER-5")
class WaitsForTheOtherSide(Disaggregated):
    """Whoever was cancelled has no deadline any more: the link will tell when it has ended."""

    def begin_call(self, now_ns: int) -> None:
        for transfer in self.link.standing.values():
            if not transfer.is_wanted:
                transfer.deadline_ns = now_ns + 1
        super().begin_call(now_ns)


@foreign("keeps the blocks that nothing arrives in", "XFER-5")
class KeepsTheTarget(Disaggregated):
    """After a failure the prefill pool lets go; the decode pool waits for another try."""

    def lose(self, transfer: Transfer, outcome: str) -> None:
        self.over(transfer, outcome)
        if transfer.is_wanted:
            self.prefill.begin(transfer.request, transfer.tokens)


@foreign("keeps the last of the blocks that nothing arrives in", "XFER-5")
class KeepsTheLastOfTheTarget(Disaggregated):
    """The same count on the other side."""

    def lose(self, transfer: Transfer, outcome: str) -> None:
        if len(transfer.target) > 1:
            transfer.target.pop()
        super().lose(transfer, outcome)


# --- each pool does its own ----------------------------------------------------------------------------------


class DecodesOnce(PrefillPool):
    def begin(self, request: Request, tokens: Sequence[int]) -> None:
        """A token more is asked of it than of a prefill, where there is one more."""
        left = request.max_output_tokens - len(tokens) + request.prompt_tokens
        self.come(Job.of(evolve(request, prompt_ids=tuple(tokens), max_output_tokens=min(2, left)), 0))

    def go_on(self, job: Job, *, has_stopped: bool) -> bool:
        if has_stopped or self.owner.is_at_its_end(job) or job.outputs > 1:
            return super().go_on(job, has_stopped=has_stopped)
        return False


@fault("XFER-6")
@foreign("decodes in the prefill pool", "XFER-6")
class DecodesWhereItPrefilled(Disaggregated):
    """While its KV is not pulled a request might as well go on."""

    prefill_pool = DecodesOnce


class TakesShortPrompts(DecodePool):
    def decide(self) -> Decision:
        """A prompt of one token is not worth a transfer."""
        prefill, has_seat = self.owner.prefill, len(self.state.running) < self.state.settings.seats
        short = [job for job in prefill.state.jobs.values() if job.state == WAITING and job.known == 1]
        if short and has_seat and self.state.pool.available and not self.owner.link.arrived:
            prefill.state.queue.left(short[0])
            prefill.leave(short[0])
            self.come(Job.of(self.owner.requests[short[0].id], 0))
        return super().decide()

    def admit(self, budget: int, blocks: int) -> list[Admission]:
        return Scheduler.admit(self, budget, blocks + self.owner.link.arrived_blocks())

    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        if job.id in self.owner.link.arrived:
            return super().fit(job, room, anything_runs=anything_runs)
        return Admission(job, [], 0, 1, 1)

    def share(self, job: Job, blocks: list[int]) -> None:
        if blocks:
            super().share(job, blocks)


@foreign("prefills in the decode pool", "XFER-6")
class PrefillsWhereItDecodes(Disaggregated):
    decode_pool = TakesShortPrompts


# --- blocks that are written to ------------------------------------------------------------------------------


@fault("KV-9")
@foreign("frees the blocks that a transfer writes to", "KV-9")
class FreesAtCancel(Disaggregated):
    """A cancelled request holds nothing, so its blocks are free."""

    def abandon(self, transfer: Transfer) -> None:
        transfer.is_written = False
        super().abandon(transfer)


@foreign("gives up a transfer before its time", "KV-9")
class IsImpatient(Disaggregated):
    """Half the time must do."""

    def begin_call(self, now_ns: int) -> None:
        super().begin_call(now_ns)
        half = self.settings.pools.transfer_ns // 2
        for transfer in self.link.overdue(now_ns + half):
            self.lose(transfer, "timeout")
