"""Siblings about caps, shares, watermarks and forecasts at the place where they are just reached.

The directed scenarios of `scenarios_of_edges.py` were written for these kinds.
"""

from collections.abc import Iterator, Sequence

from schedspec.reference import Scheduler
from schedspec.reference.admission import Gate
from schedspec.reference.decide import Room
from schedspec.reference.forecast import Forecast, Work
from schedspec.reference.job import Job
from schedspec.reference.selection.lanes import ByShare, LaneQueues
from schedspec.reference.selection.patience import Patience
from schedspec.reference.selection.race import Member
from schedspec.reference.selection.sharing import Members, SharedQueue, Vtc
from schedspec.reference.state import Admission
from schedspec.spec.service import lane_of
from schedspec.spec.vocabulary import Settings, blocks_for

from .registry import sibling


class HasAGate(Scheduler):
    """With a door of another kind, where there is one."""

    gate: type[Gate]

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        if self.state.gate is not None:
            self.state.gate = self.gate(settings)


class ForgetsWhoRuns(Gate):
    def forecast(self, running: Iterator[Job], now_ns: int) -> Forecast:
        return super().forecast(iter(()), now_ns)


@sibling("B28", "what is forecast forgets who runs already", rules=("ADMIT-5", "ADMIT-8"))
class ForecastsTheQueueAlone(HasAGate):
    gate = ForgetsWhoRuns


class ForgetsTheStepUnderWay(Gate):
    def forecast(self, running: Iterator[Job], now_ns: int) -> Forecast:
        full = super().forecast(running, now_ns)
        return Forecast(full.settings, full.work, full.largest, full.longest, 0)


@sibling("B28", "the step that is under way takes no time any more", rules=("ADMIT-5", "ADMIT-8"))
class ForecastsFromTheNextStep(HasAGate):
    gate = ForgetsTheStepUnderWay


class ForgetsWhoAsks(Forecast):
    def full_of_seats(self, own: Work) -> int:
        return super().full_of_seats(Work())


class CountsWhoIsThere(Gate):
    def forecast(self, running: Iterator[Job], now_ns: int) -> Forecast:
        full = super().forecast(running, now_ns)
        return ForgetsWhoAsks(full.settings, full.work, full.largest, full.longest, full.in_flight_ns)


@sibling("B28", "whoever asks needs no seat of its own in the forecast", rules=("ADMIT-5", "ADMIT-8"))
class ForecastsWithoutWhoAsks(HasAGate):
    gate = CountsWhoIsThere


@sibling("B23", "who runs, and is not in this step, keeps no watermark", rules=("KV-11",))
class KeepsTheWatermarkForStepsAlone(Scheduler):
    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        is_planned = room.budget < self.state.settings.token_budget
        return super().fit(job, room, anything_runs=anything_runs and is_planned)


@sibling("B24", "of a class the largest is the victim, and not the last", rules=("PRE-2",))
class EvictsWhoHoldsMost(Scheduler):
    def next_victim(self, jobs: list[Job]) -> Job:
        if self.state.settings.victim != "lowest_priority" or self.has_classes():
            return super().next_victim(jobs)
        return max(jobs, key=lambda job: (job.request.priority, len(job.table)))


@sibling("B23", "who enters in a step counts for the cap in the next", rules=("LANE-7",))
class CountsWhoWasThere(Scheduler):
    def take(self, admission: Admission, room: Room) -> None:
        before = room.resident_tokens
        super().take(admission, room)
        room.resident_tokens = before


@sibling("B27", "a client never fills its cap to the last token", rules=("LIVE-1", "LIVE-8"))
class LeavesATokenOfTheCap(Scheduler):
    def caps_allow(self, job: Job, room: Room, *, anything_runs: bool) -> bool:
        mine = [one for one in (*room.staying, *(a.job for a in room.entering)) if self._is_of(one, job)]
        tokens = sum(one.request.declared_tokens for one in (*mine, job))
        is_full = bool(mine) and tokens == self.state.settings.client_resident_tokens
        return not is_full and super().caps_allow(job, room, anything_runs=anything_runs)

    @staticmethod
    def _is_of(one: Job, other: Job) -> bool:
        return one.request.client == other.request.client


@sibling("B27", "a lane that has had something runs nothing larger than its maximum", rules=("LIVE-1", "LIVE-9"))
class KeepsToTheMaximumAlone(Scheduler):
    def caps_allow(self, job: Job, room: Room, *, anything_runs: bool) -> bool:
        settings = self.state.settings
        if settings.lanes:
            lane = lane_of(settings, job.request)
            blocks = blocks_for(job.request.declared_tokens, settings.block_size)
            if self.has_run(lane.name) and blocks * 100 > lane.maximum_percent * settings.blocks:
                return False
        return super().caps_allow(job, room, anything_runs=anything_runs)

    def has_run(self, lane: str) -> bool:
        return lane in self.state.queue.caps.lanes  # type: ignore[union-attr]


@sibling("B20", "the scan of the queue ends at who does not fit, where one seat is left", rules=("LIVE-8",))
class ScansForTwoSeats(Scheduler):
    has_passed: bool = False

    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        if room.seats == 1 and self.has_passed:
            return None
        admission = super().fit(job, room, anything_runs=anything_runs)
        self.has_passed = self.has_passed or admission is None
        return admission

    def admit(self, budget: int, blocks: int) -> list[Admission]:
        self.has_passed = False
        return super().admit(budget, blocks)


@sibling("B21", "who comes after a victim of the same step does not stand behind it", rules=("PRE-7",))
class ForgetsWhoLostItsPlace(Scheduler):
    def is_before(self, job: Job, victims: Sequence[Job]) -> bool:
        return True


class PaidBackAtNoPrice(ByShare):
    def refund(self, queues: Members, member: Member, amount: int) -> None:
        Vtc.refund(self, queues, member, amount)


class SharesOtherwise(Scheduler):
    """Where service is shared, something of it is another way."""

    def change(self, queue: SharedQueue) -> None:
        raise NotImplementedError

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        if isinstance(self.state.queue, SharedQueue):
            self.change(self.state.queue)


@sibling("B16", "a lane gets back what it paid for in vain, and not at its price", rules=("LANE-5", "LANE-8"))
class RefundsAtNoPrice(SharesOtherwise):
    def change(self, queue: SharedQueue) -> None:
        if isinstance(queue.members, LaneQueues):
            queue.members.sharing = PaidBackAtNoPrice.of(self.state.settings)


class AgesForGood(Patience):
    def ends(self, job: Job) -> bool:
        was_aged = job.id in self.aged
        super().ends(job)
        if was_aged:
            self.aged.add(job.id)
        return was_aged


@sibling("B16", "who was aged once is aged in each later spell", rules=("FAIR-17", "FAIR-21"))
class StaysAged(SharesOtherwise):
    def change(self, queue: SharedQueue) -> None:
        queue.members.patience = AgesForGood(self.state.settings.aging_picks)
