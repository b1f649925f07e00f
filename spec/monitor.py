"""The monitor: judges a scheduler by its messages, one after the other, live or recorded.

Each message becomes events of the relation, in the order in which the subject's deltas stand (or in the canonical
one), and each event is checked by compiled code as it updates the monitor's state.  Rules that look at whole steps,
snapshots or block contents hang beside it.  Memory does not grow with the trace: a request is forgotten `horizon`
ends after its own.
"""

from collections.abc import Callable, Sequence
from itertools import repeat
from operator import add
from typing import Any

from .compiled import World
from .deltas import Deltas, canonical, in_order
from .errors import ProtocolError
from .judging import StepView, Victim
from .relation import WAITING
from .snapshots import compare
from .tracks import InFlight, Track
from .verdicts import Violation
from .vocabulary import Delta, Message, Observation, Outcome, Plan, Receipt, Request

MOST_VIOLATIONS = 1_000
"""The latest are kept: a SHOULD may break at every step of a long trace."""


class Monitor(Deltas):
    """Feed it messages; it answers with what they broke.

    `content` turns the content shadow on (it needs the level tables), `explain` records the values that a failed
    conjunct read, `dropped` leaves one conjunct out.
    """

    def feed(self, message: Message) -> list[Violation]:
        """Judge one message.  Raises ProtocolError if it makes no sense at all."""
        self._found = []
        self.message += 1
        if message.now_ns < self.now_ns:
            raise ProtocolError(
                message.kind,
                "now_ns",
                message.now_ns,
                f"goes back from {self.now_ns}",
                "time may stand still, not return",
            )
        self.now_ns = message.now_ns
        self._tell("on_call", message)
        _FEEDS[message.kind](self, message)
        self._tell("on_answered", message)
        self.violations += self._found
        del self.violations[:-MOST_VIOLATIONS]
        return self._found

    def _submit(self, message: Message) -> None:
        request: Request = message.given
        receipt: Receipt = message.answer
        self._apply("submit", [delta for delta in receipt.deltas if not is_record(request.id, delta)])
        if receipt.verdict == "accepted":
            self._accept(request)
        elif receipt.verdict == "refused":
            self._refuse(request, receipt)
        elif receipt.verdict in ("deferred", "converted"):
            self._turn_elsewhere(request, receipt)
        elif receipt.of not in self.tracks and receipt.of not in self.held:
            raise ProtocolError("submit", "receipt.of", receipt.of, "names a request that was never submitted")
        self._end_call()

    def _cancel(self, message: Message) -> None:
        self._apply("cancel", message.answer)
        track = self.tracks.get(message.given)
        if track is not None or message.given in self.held:
            self._fire("CancelReturned", message.given)
        self._end_call()
        self._forget()

    def _notify(self, message: Message) -> None:
        if self.parks:
            self.parking.hear(message.given)
        self._apply("notify", message.answer)
        self._end_call()
        self._forget()

    def _step(self, message: Message) -> None:
        plan: Plan = message.answer
        if plan.step < 1:
            raise ProtocolError("step", "step", plan.step, "steps are numbered from 1")
        somebody_enters = bool(self.held) and not self.held.keys().isdisjoint(plan.request)
        tracks = [] if somebody_enters else self._planned(plan)
        view = self.view = StepView(plan, self.available(), not self.in_flight)
        self._fire("BeginStep", plan.step)
        self._apply("step", plan.deltas)
        if somebody_enters:
            tracks = self._planned(plan)
        if tracks:
            self._fire_many("Serve", plan.request, plan.start, plan.tokens, plan.samples)
            self.in_flight[plan.step] = InFlight(plan.step, plan.request, tracks, plan.start, plan.tokens, plan.samples)
            if self.keeps_ledger and self.ledger.charges_chunks:
                self._charge_chunks(tracks, plan)
            if self.shows_tables:
                self._check_writes(tracks, plan)
        if plan.drafts:
            self.drafts.plan(self, plan)
        self.last_step = max(self.last_step, plan.step)
        view.budget_left = self.settings.token_budget - self.world.prefill - self.world.decode - view.drafts
        self._fire("EndStep", plan.step)
        self._tell("on_step", view)
        self._end_call()

    def _planned(self, plan: Plan) -> list[Track]:
        """The tracks of a plan's entries; a plan that names strangers or the dead breaks the protocol."""
        tracks = self._tracks_of(plan.request)
        if None in tracks:
            unknown = plan.request[tracks.index(None)]
            raise ProtocolError("step", "plan.request", unknown, "was never submitted, or was refused long ago")
        for track in tracks:
            if track.ended:  # type: ignore[union-attr]
                problem = "has ended: the plan must not name it any more"
                raise ProtocolError("step", "plan.request", track.id, problem, rule="STEP-5")  # type: ignore[union-attr]
        return tracks  # type: ignore[return-value]

    def _charge_chunks(self, tracks: Sequence[Track], plan: Plan) -> None:
        for track, start, tokens in zip(tracks, plan.start, plan.tokens, strict=True):
            if track.paid_tokens < track.prompt_tokens:
                self._tell("on_charge", track, self.ledger.compute(track, start + tokens))

    def _complete(self, message: Message) -> None:
        outcome: Outcome = message.given
        repeated = outcome.step not in self.in_flight
        if repeated and outcome.step > self.last_step:
            raise ProtocolError("complete", "outcome.step", outcome.step, "was never planned")
        self.deferred.pop(outcome.step, None)
        self._fire("BeginComplete", outcome.step)
        self._outcome = outcome
        if repeated:
            for request in outcome.request:
                self._late(request)
        else:
            self._check_reads(outcome.step)
            self._settle(self.in_flight.pop(outcome.step), self.drafts.begin(outcome))
            if self._pledges:
                self._check_pledges()
        self.parking.pauses = outcome.pauses if self.parks else {}
        self._apply("complete", message.answer)
        self._tell("on_complete", message.answer)
        self.drafts.end(self)
        self.parking.pauses = {}
        self._fire("EndComplete", outcome.step, repeated, len(message.answer))
        self._end_call()
        self._forget()

    def _settle(self, flight: InFlight, outcome: Outcome) -> None:
        """Results of entries that still stand count; those of requests that left since are spare or late."""
        stopped = in_order(flight.request, outcome.request, outcome.stop, repeat(None))
        if None in stopped:
            for request, samples, stop in zip(flight.request, flight.samples, stopped, strict=True):
                if samples and stop is None:
                    raise ProtocolError("complete", "outcome.request", request, "sampled in the step, but has no row")
        ends = list(map(add, flight.start, flight.tokens))
        columns: Sequence[Sequence[Any]] = (flight.request, ends, flight.samples, stopped)
        if flight.departed:
            columns = self._standing(flight, columns)
        self._fire_many("Computed", *columns)

    def _standing(self, flight: InFlight, columns: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """The rows of requests that have not left since the step was planned."""
        kept = []
        for track, row in zip(flight.tracks, zip(*columns, strict=True), strict=True):
            _, end, samples, stop = row
            if track not in flight.departed:
                kept.append(row)
            elif samples and track in flight.void:
                self._late(track.id)
            elif samples:
                self._stray(track, end, stop)
        return list(zip(*kept, strict=True)) or [()] * len(columns)

    def _stray(self, track: Track, position: int, stop: bool) -> None:
        record = self.world.RequestId[track.id]
        if record.phase == WAITING and position == record.prompt + record.outputs:
            self._fire("Spare", track.id, stop or record.outputs + 1 == record.output_limit)
        else:
            self._late(track.id)

    def _late(self, request: str) -> None:
        if request in self.tracks:
            self._fire("Late", request)

    def _observe(self, message: Message) -> None:
        observation: Observation | None = message.answer
        if observation is None:
            return  # nothing was shown
        compare(self, observation)
        self._tell("on_observe", observation)

    def _end(self, message: Message) -> None:
        self._tell("on_end")


def is_record(request: str, delta: Delta) -> bool:
    """It says what the one who comes gets instead of a refusal."""
    return delta[0] in ("deferred", "converted") and delta[1] == request


_FEEDS: dict[str, Callable[[Monitor, Message], None]] = {
    "submit": Monitor._submit,
    "cancel": Monitor._cancel,
    "notify": Monitor._notify,
    "step": Monitor._step,
    "complete": Monitor._complete,
    "observe": Monitor._observe,
    "end": Monitor._end,
}

__all__ = ["Monitor", "StepView", "Victim", "World", "canonical"]
