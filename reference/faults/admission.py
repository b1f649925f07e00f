"""Schedulers that break a rule about the door: queues, waits, refusals."""

from collections.abc import Iterator

from attrs import define, evolve

from ...spec.admission import OPEN
from ...spec.vocabulary import Request, Settings
from ..admission import Gate, Limit, Window
from ..alternatives import Refusal
from ..forecast import Forecast
from ..job import Job
from ..scheduler import Scheduler
from ..state import Decision
from .base import WithOtherSettings, fault


class WithGate(Scheduler):
    """Has another door, where it has one."""

    gate: type[Gate] = Gate

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        if self.state.gate is not None:
            self.state.gate = self.gate(settings)


@define(eq=False)
class _Bypassed(Gate):
    def limits_of_queues(self, request: Request, admitted_ns: int | None) -> Iterator[Limit]:
        if request.client not in self.clients:
            yield from super().limits_of_queues(request, admitted_ns)


@fault("ADMIT-3")
class HasAWayAroundTheQueue(WithGate):
    """Requests of a client that is being served go to its own line, which has no bound."""

    gate = _Bypassed


@fault("ADMIT-4")
class LooksAtTheClockInSteps(Scheduler):
    """Who has waited too long expires when the next step is planned."""

    def expire(self) -> None:
        """Not in every call."""

    def decide(self) -> Decision:
        super().expire()
        return super().decide()


@define(eq=False)
class _OneStep(Gate):
    def refusal(self, request: Request, running: Iterator[Job], now_ns: int) -> Refusal | None:
        refusal = super().refusal(request, running, now_ns)
        if refusal is None or refusal.retry_after_ns is None:
            return refusal
        return evolve(refusal, retry_after_ns=self.door.takes_ns(1))


@fault("ADMIT-5")
class SaysComeAgainSoon(WithGate):
    """Whoever is refused is told the same short time, however much waits."""

    gate = _OneStep


@define(eq=False)
class _Forgetful(Gate):
    def forget_key(self, job: Job, how: str, now_ns: int) -> None:
        super().forget_key(job, "ended", now_ns)


@fault("ADMIT-6")
class ForgetsKeysAtTheEnd(WithGate):
    """A key is known while its generation lives."""

    gate = _Forgetful


@define(eq=False)
class _OfPrompts(Gate):
    def limits_of_clients(self, request: Request, forecast: Forecast | None) -> Iterator[Limit]:
        for limit in super().limits_of_clients(request, forecast):
            unknown = request.max_output_tokens if limit.reason.endswith("tokens") else 0
            yield evolve(limit, value=limit.value - unknown, alone=limit.alone - unknown)


@fault("ADMIT-7")
class CountsNoOutputs(WithGate):
    """What may come out of a request is not known yet, so it is not asked for at the door."""

    gate = _OfPrompts


@define(eq=False)
class _OfCurrentLoad(Gate):
    def forecast(self, running: Iterator[Job], now_ns: int) -> Forecast:
        forecast = super().forecast(running, now_ns)
        return evolve(forecast, work=forecast.work - self.work)


@fault("ADMIT-8")
class LooksAtCurrentLoad(WithGate):
    """The wait is predicted from who runs, not from those who were accepted and have yet to."""

    gate = _OfCurrentLoad


@define(eq=False)
class _UntilItIsIdle(Gate):
    is_shut: bool = False

    def refusal(self, request: Request, running: Iterator[Job], now_ns: int) -> Refusal | None:
        refusal = super().refusal(request, running, now_ns)
        if refusal is not None and refusal.reason in ("queue_age", "first_token"):
            self.is_shut = True
        self.is_shut = self.is_shut and bool(self.queue)
        if refusal is None and self.is_shut:
            most_ns = self.door.queue_age_ns or self.door.first_token_ns
            return Refusal("queue_age" if self.door.queue_age_ns else "first_token", most_ns, most_ns + 1)
        return refusal


@fault("ADMIT-10")
class StaysShutUntilTheQueueIsEmpty(WithGate):
    """Once it has refused somebody for the wait, the door is shut until nobody waits; then it is open to all again."""

    gate = _UntilItIsIdle


@define(eq=False)
class _Fixed(Window):
    def look(self, now_ns: int) -> None:
        if self.accepted and self.accepted[-1][0] // self.length_ns < now_ns // self.length_ns:
            self.accepted.clear()


@define(eq=False)
class _FixedWindows(Gate):
    def accepts(self, job: Job, now_ns: int) -> None:
        if self.door.rate_window_ns:
            self.windows.setdefault(job.request.client, _Fixed(self.door.rate_window_ns))
        super().accepts(job, now_ns)


@fault("ADMIT-12")
class CountsInFixedWindows(WithGate):
    """Windows of a rate begin at multiples of their length."""

    gate = _FixedWindows


@fault("STEP-14")
class FillsLargerSteps(WithOtherSettings):
    """Where decodes have an objective, prompts still get twice the budget that was derived from it."""

    def otherwise(self, settings: Settings) -> Settings:
        if not settings.door.inter_token_ns:
            return settings
        return evolve(settings, token_budget=2 * settings.token_budget, door=OPEN)
