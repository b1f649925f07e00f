"""The link that the suite plays between a prefill pool and a decode pool: what was asked of it, and what it tells."""

from collections.abc import Sequence
from typing import Any

from attrs import Factory, define

from schedspec.spec.vocabulary import Delta, Message

from .script import Op

TOLD = {
    "begin_transfer": "transfer_started",
    "end_transfer": "transfer_done",
    "fail_transfer": "transfer_failed",
    "repeat_transfer": "transfer_done",
}


@define(eq=False)
class Link:
    """Transfers that stand, by number, in the order in which they were asked for: whose they are.  The link has begun
    with some of them; `last` is the last that is over."""

    standing: dict[int, str] = Factory(dict)
    begun: set[int] = Factory(set)
    last: int = 0

    def hear(self, message: Message) -> None:
        answer = message.answer
        deltas: Sequence[Delta] = answer if isinstance(answer, (list, tuple)) else getattr(answer, "deltas", ())
        for delta in deltas:
            if delta[0] == "pulled":
                self.standing[delta[3]] = delta[1]
            elif delta[0] == "transferred":
                self._over(delta[1])

    def _over(self, request: str) -> None:
        for number in [number for number, whose in self.standing.items() if whose == request]:
            del self.standing[number]
            self.begun.discard(number)
            self.last = number

    def number_of(self, op: Op) -> int | None:
        """The transfer that an operation is about; None if there is none."""
        if op.kind == "repeat_transfer":
            return self.last or None
        begun = op.kind == "end_transfer"
        fitting = [n for n in self.standing if op.kind == "fail_transfer" or (n in self.begun) == begun]
        return fitting[op.back - 1] if op.back <= len(fitting) else None

    def told(self, op: Op) -> dict[str, Any]:
        number = self.number_of(op)
        assert number is not None
        if op.kind == "begin_transfer":
            self.begun.add(number)
        return {"type": TOLD[op.kind], "transfer": number}
