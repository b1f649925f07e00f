"""Schedulers that do wrong what a door may do instead of refusing: each breaks ADMIT-11 in another way."""

from attrs import define, evolve

from ...spec.vocabulary import Receipt, Request
from ..admission import Gate
from ..alternatives import Alternatives, Refusal
from ..scheduler import Scheduler
from .admission import WithGate
from .base import another, fault


@define(eq=False)
class _Again(Alternatives):
    def instead(self, request: Request, refusal: Refusal, *, is_hopeless: bool) -> Receipt | None:
        return super().instead(evolve(request, was_converted=False), refusal, is_hopeless=is_hopeless)


@define(eq=False)
class _AgainAndAgain(Gate):
    def __attrs_post_init__(self) -> None:
        self.alternatives = _Again(self.door)


@fault("ADMIT-11")
class ConvertsAgain(WithGate):
    """What another door has converted is one more request, and goes round."""

    gate = _AgainAndAgain


@another("ADMIT-11")
class ConvertsWithoutARecord(Scheduler):
    """The receipt says what became of the request; nobody writes it into the log."""

    def instead(self, request: Request, refusal: Refusal) -> Receipt | None:
        receipt = super().instead(request, refusal)
        return None if receipt is None else evolve(receipt, deltas=[])


@another("ADMIT-11")
class ConvertsWhoeverHasToWait(Scheduler):
    """While somebody waits, whoever comes is sent elsewhere, though it might wait too."""

    def refusal_at_the_gate(self, request: Request) -> Refusal | None:
        refusal = super().refusal_at_the_gate(request)
        gate = self.state.gate
        if refusal is not None or gate is None or not gate.door.has_alternatives:
            return refusal
        if request.was_converted or not gate.queue:
            return None
        return Refusal("queue_requests", 1, 1 + len(gate.queue))


@define(eq=False)
class _ForEver(Alternatives):
    def over(self, now_ns: int) -> list[Request]:
        return []


@define(eq=False)
class _Patient(Gate):
    def __attrs_post_init__(self) -> None:
        self.alternatives = _ForEver(self.door)


@another("ADMIT-11")
class DefersForEver(WithGate):
    """Who is held at the door stays there until there is room."""

    gate = _Patient


@another("ADMIT-11")
class ForgetsWhomItHolds(Scheduler):
    """Asynchronous requests wait for a sweep that nobody has written."""

    def let_in(self) -> None:
        """Not yet."""
