"""ADMIT: early rejection that does not swing."""

from typing import TYPE_CHECKING

from attrs import astuple, frozen

from ..declared_time import DeclaredTime
from ..relation import RUNNING, registry
from ..vocabulary import blocks_for
from .base import TraceRule, record

if TYPE_CHECKING:
    from ..monitor import Monitor
    from ..tracks import Track
    from ..vocabulary import Message, Request

monitor = registry.monitor

PREDICTED = ("queue_age", "first_token")
MOST_REMEMBERED = 32


@frozen
class Load:
    """What those who are in have still to do, by declared lengths, each number by itself: requests, steps of their own,
    those times the blocks that they will hold, tokens, prompt tokens, blocks, the largest need of one that waits, and
    how long the step under way takes yet."""

    requests: int
    steps: int
    block_steps: int
    tokens: int
    prompt: int
    blocks: int
    largest: int
    in_flight_ns: int

    def covers(self, other: "Load") -> bool:
        """It is no smaller in any way."""
        return all(a >= b for a, b in zip(astuple(self), astuple(other), strict=True))


@frozen
class Turned:
    """Somebody was refused for a predicted wait: at which load, and how much it asked for."""

    load: Load
    prompt: int
    output: int

    def asks_no_more(self, request: "Request") -> bool:
        return self.prompt <= request.prompt_tokens and self.output <= request.max_output_tokens


@monitor("ADMIT-10", claims=("early",))
class RejectionDoesNotSwing(TraceRule):
    """Early rejection goes by predicted load: at a load that is no smaller in any way than one at which somebody was
    refused for a predicted wait, nobody who asks for no less is accepted.

    Why: rejecting by the load of the moment swings, since who was just accepted is not in it yet: prefill and decode
    idle and are overloaded in turn (Mooncake, https://arxiv.org/abs/2407.00079, on early rejection).  In
    `tests/unit/test_admission.py` (`waves`), at three times what a machine can do, a door that looks at who runs takes
    in rows of requests and lets them expire, one that predicts takes in one at a time.
    """

    def __init__(self) -> None:
        self.time: DeclaredTime | None = None
        self.live: dict[str, Track] = {}
        self.turned: list[Turned] = []

    def on_call(self, m: "Monitor", message: "Message") -> None:
        if self.time is None:
            self.time = DeclaredTime(m.settings.door)
        self.time.hear(m, message)

    def on_accept(self, m: "Monitor", track: "Track") -> None:
        self.live[track.id] = track

    def on_ended(self, m: "Monitor", track: "Track") -> None:
        self.live.pop(track.id, None)

    def on_answered(self, m: "Monitor", message: "Message") -> None:
        if message.kind != "submit":
            return
        request, receipt = message.given, message.answer
        if receipt.verdict == "accepted":
            before = [turned for turned in self.turned if turned.asks_no_more(request)]
            m.count("ADMIT-10", times=int(bool(before)))
            load = self._load(m, request.id) if before else None
            if load is not None and any(load.covers(turned.load) for turned in before):
                says = "who asks for no less, at a load that is no smaller, is refused as the one before was"
                m.fail("ADMIT-10", "swings", says, request=request.id, waiting=m.waiting, tokens_left=load.tokens)
        elif receipt.verdict != "duplicate" and receipt.reason in PREDICTED:
            turned = Turned(self._load(m, request.id), request.prompt_tokens, request.max_output_tokens)
            self.turned = [*self.turned[1 - MOST_REMEMBERED :], turned]

    def _load(self, m: "Monitor", newcomer: str) -> Load:
        works = [_work(m, track) for name, track in self.live.items() if name != newcomer]
        is_running = self.time is not None and bool(self.time.flights)
        due_ns = self.time.due_ns if self.time is not None and is_running else m.now_ns
        return Load(
            requests=len(works),
            steps=sum(work.steps for work in works),
            block_steps=sum(work.steps * work.blocks for work in works),
            tokens=sum(work.tokens for work in works),
            prompt=sum(work.prompt for work in works),
            blocks=sum(work.blocks for work in works),
            largest=max((work.blocks for work in works if work.waits), default=0),
            in_flight_ns=max(0, due_ns - m.now_ns),
        )


@frozen
class Work:
    """Of one request."""

    steps: int
    tokens: int
    prompt: int
    blocks: int
    waits: bool


def _work(m: "Monitor", track: "Track") -> Work:
    now, s = record(m, track.id), m.settings
    left = track.declared_output - now.outputs - now.in_flight
    runs = now.phase == RUNNING
    prefill = now.known - now.issued if left else 0
    chunks = blocks_for(prefill, s.chunk_tokens) if s.chunk_tokens else min(prefill, 1)
    decodes = max(0, left - 1)
    return Work(
        steps=chunks + decodes,
        tokens=prefill + decodes,
        prompt=prefill if not runs or now.issued < now.goal else 0,
        blocks=blocks_for(track.limit_tokens - 1, s.block_size),
        waits=not runs,
    )
