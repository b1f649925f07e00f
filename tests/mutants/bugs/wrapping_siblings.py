"""Siblings about numbers: counters that wrap, zeros that are taken for nothing, slots for two where there are three.

The directed scenarios of `scenarios_of_counters.py` were written for these kinds.
"""

from collections.abc import Iterable, Sequence

from schedspec.reference import Scheduler
from schedspec.reference.job import WAITING, Job
from schedspec.reference.selection.lanes import ByShare
from schedspec.reference.selection.one_queue import NEVER_NS, WaitingQueue
from schedspec.reference.selection.race import Member, Rank
from schedspec.reference.selection.sharing import SharedQueue
from schedspec.reference.state import Admission
from schedspec.spec.vocabulary import Delta, Outcome, Plan, Settings

from .registry import sibling

BYTE = 256


def zero_is_none(job: Job) -> int:
    return job.request.deadline_ns or NEVER_NS


@sibling("B49", "a deadline of 0 is taken for none", rules=("LANE-4",))
class TakesZeroForNone(Scheduler):
    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        queue = self.state.queue
        if settings.policy == "edf" and isinstance(queue, WaitingQueue):
            queue.key = zero_is_none


@sibling("B54", "results have two slots, so that of the first of three steps in flight is lost", rules=("LIFE-4",))
class HasTwoSlots(Scheduler):
    def plan(self, runs: Iterable[tuple[Job, int]]) -> Plan:
        plan = super().plan(runs)
        if len(self.state.in_flight) > 2:
            self.lost_step = min(self.state.in_flight)
        return plan

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        deltas = super().complete(outcome, now_ns)
        if outcome.step == getattr(self, "lost_step", 0):
            return [delta for delta in deltas if delta[0] != "delivered"]
        return deltas


class LastOfThree(ByShare):
    """Whoever is the third waits until the others are empty."""

    def rank(self, member: Member, counter: int) -> Rank:
        first, second = super().rank(member, counter)
        is_third = len(self.prices) == 3 and member.name == list(self.prices)[2]
        return (first + 10**9 if is_third else first), second


@sibling("B16", "of three lanes the third is looked at when the others are empty", rules=("LANE-1", "LANE-3", "LANE-5"))
class LooksAtTwoLanes(Scheduler):
    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        queue = self.state.queue
        if settings.policy == "lanes" and isinstance(queue, SharedQueue):
            queue.members.sharing = LastOfThree.of(settings)


@sibling("B16", "who stops early is refunded one output more than it did not use", rules=("FAIR-13",))
class RefundsOneMore(Scheduler):
    def end(self, job: Job, event: Delta) -> None:
        if event[0] == "finished" and event[2] == "stop" and job.charged_outputs > job.outputs:
            job.charged_outputs += 1
        super().end(job, event)


@sibling("B16", "what is cached is not charged, where prompts are charged by chunks", rules=("FAIR-2", "FAIR-14"))
class ChargesWhatItComputes(Scheduler):
    def admit(self, budget: int, blocks: int) -> list[Admission]:
        settings, queue = self.state.settings, self.state.queue
        if isinstance(queue, SharedQueue) and queue.bill.by_chunk and settings.prefix_caching:
            for job in self.state.jobs.values():
                if job.state == WAITING and not job.charged_prompt:
                    job.charged_prompt = len(self.cached_blocks(job)) * settings.block_size
        return super().admit(budget, blocks)


@sibling("B16", "outputs that are left are counted in a byte", rules=("LIFE-4", "LIFE-5"))
class CountsOutputsInAByte(Scheduler):
    def is_at_its_length(self, job: Job) -> bool:
        return job.outputs % BYTE >= (job.request.max_output_tokens - 1) % BYTE + 1


@sibling("B30", "the id of whoever has ended is taken again, and ends again", rules=("LIFE-2", "LIFE-3"))
class TakesEndedIds(Scheduler):
    def end(self, job: Job, event: Delta) -> None:
        super().end(job, event)
        self.state.seen.discard(job.id)
