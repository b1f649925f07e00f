"""The story of one request: what happened to it, what it waited for, and how its time was spent."""

from collections import Counter

from attrs import Factory, define, frozen

from schedspec.spec.vocabulary import NS_PER_S, Receipt, Request
from schedspec.spec.waiting import Reason

ENDS = ("finished", "failed", "cancelled", "expired")
INSTEAD = {
    "pool": "sent to another pool",
    "model": "sent to a smaller model",
    "asynchronous": "made asynchronous: the door holds it until there is room, whether its client is there or not",
}


@define
class Event:
    """Something that happened to the request: when, in which step (0 before the first), and what.  `until`: the last
    position of a chunk, `last_step`: of several chunks in a row."""

    at_ns: int
    step: int
    what: str
    says: str
    until: int | None = None
    last_step: int | None = None


@define
class Wait:
    """Steps in a row in which the same limit kept it out.  The numbers are those of the first."""

    reason: Reason
    first_step: int
    last_step: int
    from_ns: int
    until_ns: int
    steps: int = 1


@frozen
class Overtaking:
    """Somebody who came later was admitted while it waited."""

    request: str
    step: int
    says: str


@define
class Story:
    """`parts_ns`: the time between coming and ending, by what the request did: waiting for each limit, running."""

    request: Request
    events: list[Event | Wait] = Factory(list)
    overtaken: list[Overtaking] = Factory(list)
    parts_ns: Counter[str] = Factory(Counter)
    came_ns: int = 0
    first_token_ns: int | None = None
    ended_ns: int | None = None

    def waits(self) -> list[Wait]:
        return [event for event in self.events if isinstance(event, Wait)]


def answered(receipt: Receipt) -> str:
    """What the door said to somebody whom it did not take in."""
    limit = "" if receipt.limit is None else f": {receipt.value} against {receipt.limit}"
    why = f"{receipt.reason}{limit}" if receipt.reason else ""
    if receipt.how is not None:
        return f"{INSTEAD.get(receipt.how, receipt.how)}, instead of a refusal ({why})"
    if receipt.decided_after_ns is not None:
        return f"held at the door, for at most {seconds(receipt.decided_after_ns)}, instead of a refusal ({why})"
    again = "" if receipt.retry_after_ns is None else f"; told to come again in {seconds(receipt.retry_after_ns)}"
    return f"{receipt.verdict} at the door" + (f", {why}" if why else "") + again


def seconds(ns: int) -> str:
    """Short ones in their own unit, so that none looks like nothing."""
    if 0 < ns < 1_000_000:
        return f"{ns / 1_000:.1f} µs" if ns >= 1_000 else f"{ns} ns"
    return f"{ns / NS_PER_S:.3f} s"
