"""What goes on in a run, heard message by message: which calls came after which, and what happened to each request."""

from collections import Counter

from attrs import Factory, define

from schedspec.spec.vocabulary import Message

ENDS = ("finished", "failed", "cancelled", "expired")
LIFE = {
    *("deferred", "entered", "converted", "admitted", "resumed", "preempted", "parked", "unparked"),
    *("swapped_out", "swapped_in", "shared", *ENDS),
}
"""Deltas that are events in the life of a request."""


@define(eq=False)
class Ear:
    """Hears one run.  `calls` and `lives` are pairs: what came, and what came right after it.  A step costs its deltas
    here, never its entries."""

    calls: Counter[tuple[str, str]] = Factory(Counter)
    lives: Counter[tuple[str, str]] = Factory(Counter)
    pairs: int = 0
    steps: int = 0
    _before: str = ""
    _last: dict[str, str] = Factory(dict)
    _completed: int = 0

    def hear(self, message: Message) -> None:
        kind, answer = message.kind, message.answer
        if kind in ("observe", "end"):
            return
        call: str = kind
        if kind == "step":
            self.steps += 1
            self.pairs += len(answer.request)
            call = "step" if answer.request else "idle step"
            deltas = answer.deltas
        elif kind == "submit":
            call = f"submit: {answer.verdict}"
            deltas = answer.deltas
            if answer.verdict == "accepted":
                self._happens(message.given.id, "accepted")
        else:
            deltas = answer
            if kind == "complete":
                call = "complete" if message.given.step > self._completed else "complete, late or again"
                self._completed = max(self._completed, message.given.step)
            elif kind == "notify":
                call = f"notify: {message.given.get('type')}"
        self.calls[self._before, call] += 1
        self._before = call
        for delta in deltas:
            if delta[0] in LIFE:
                self._happens(delta[1], delta[0])

    def merge(self, other: "Ear") -> None:
        """What another one has heard of a run of its own."""
        self.calls.update(other.calls)
        self.lives.update(other.lives)
        self.pairs += other.pairs
        self.steps += other.steps

    def _happens(self, request: str, event: str) -> None:
        last = self._last.get(request, "")
        if last == event == "shared":
            return
        self.lives[last, event] += 1
        if event in ENDS:
            self._last.pop(request, None)
        else:
            self._last[request] = event
