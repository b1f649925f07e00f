"""Bugs of what is exported: gauges that stand still, and durations that cannot be."""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve

from schedspec.reference import Scheduler
from schedspec.reference.job import RUNNING, WAITING, Job
from schedspec.reference.log import DecisionLog
from schedspec.spec.vocabulary import Delta, Observation, Outcome, Plan, Receipt, Request, Settings

from .registry import REFERENCE, bug, reused, sibling


class Publishes(Scheduler):
    """Shows the gauges that were published last."""

    gauges: Mapping[str, int] | None = None

    def publish(self) -> None:
        self.gauges = dict(super().observe().counters)

    def observe(self) -> Observation:
        shown = super().observe()
        return shown if self.gauges is None else evolve(shown, counters=self.gauges)

    def submit(self, request: Request, now_ns: int) -> Receipt:
        receipt = super().submit(request, now_ns)
        self.publish()
        return receipt

    def step(self, now_ns: int) -> Plan:
        plan = super().step(now_ns)
        self.publish()
        return plan

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        deltas = super().complete(outcome, now_ns)
        self.publish()
        return deltas

    def notify(self, event: Mapping[str, Any], now_ns: int) -> Sequence[Delta]:
        deltas = super().notify(event, now_ns)
        self.publish()
        return deltas


@bug(
    "B51",
    rules=("OBS-3",),
    kind="metrics",
    title="Gauges keep their last values when all requests are cancelled: they are sent with steps",
    url="https://github.com/vllm-project/vllm/issues/29928",
)
class PublishesWithSteps(Publishes):
    """A cancel is nobody's output."""


@sibling("B51", "where a client is gone")
class PublishesWithoutTheGone(Publishes):
    def notify(self, event: Mapping[str, Any], now_ns: int) -> Sequence[Delta]:
        return Scheduler.notify(self, event, now_ns)

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        deltas = super().cancel(request_id, now_ns)
        self.publish()
        return deltas


@sibling("B51", "the gauge of those who run goes up and down, but not when somebody is preempted")
class CountsByHand(Scheduler):
    missed = 0

    def preempt(self, job: Job, requester: Job) -> None:
        super().preempt(job, requester)
        self.missed += 1

    def observe(self) -> Observation:
        shown = super().observe()
        return evolve(shown, counters={**shown.counters, "running": shown.counters["running"] + self.missed})


reused(
    "B52",
    REFERENCE["OBS-4"],
    rules=("OBS-4",),
    kind="metrics",
    title="The time in the queue turns negative for whoever was put back into it",
    url="https://github.com/sgl-project/sglang/pull/39312",
)


class _Restarts(DecisionLog):
    def turns(self, request: str, doing: str, now_ns: int) -> None:
        """What it ran before it was put back is forgotten."""
        super().turns(request, doing, now_ns)
        if doing == WAITING and request in self.spent:
            self.spent[request].parts_ns[RUNNING] = 0


class _CountsTheDoorTwice(DecisionLog):
    def ends(self, request: str, now_ns: int) -> Delta:
        """Who was held at the door waited there, too."""
        kind, name, held_ns, waited_ns, ran_ns, whole_ns = super().ends(request, now_ns)
        return (kind, name, held_ns, waited_ns + held_ns, ran_ns, whole_ns)


class WithLog(Scheduler):
    """Has another log."""

    log: type[DecisionLog] = DecisionLog

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        if self.state.log is not None:
            self.state.log = self.log()


@sibling("B52", "what it ran before it was put back is not counted")
class CountsTheLastRun(WithLog):
    log = _Restarts


@sibling("B52", "who was held at the door waited twice")
class CountsTheDoorTwice(WithLog):
    log = _CountsTheDoorTwice
