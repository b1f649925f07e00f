"""The story of one request of two pools, as its deltas tell it: where it was, and how long for each.

Each pool is judged as a scheduler of its own, so that there is no one queue of which a reason could be told; what is
told is what it waited for between the two.
"""

from collections.abc import Callable, Iterable, Mapping

from attrs import define, field

from schedspec.spec.pools import DECODE
from schedspec.spec.vocabulary import Delta, Message

from .names import counted
from .story import ENDS, Event, Story, answered

WAITS, AGAIN = "waiting for the prefill pool", "waiting for the prefill pool once more"
PREFILLS, DECODES = "running in the prefill pool", "running in the decode pool"
HELD, MOVES, ARRIVED = "held in the prefill pool", "in transfer", "waiting for a seat in the decode pool"
TRANSFERRED = {
    "done": "is done: its KV stands in the decode pool",
    "failed": "has failed, and it is to be prefilled again",
    "timeout": "took too long, and it is to be prefilled again",
    "dropped": "is dropped before it has begun",
}


@define
class Course:
    """What the request is `doing` since then, in which `step` of which `pool`, and the number of its `transfer`."""

    story: Story
    doing: str = WAITS
    since_ns: int = 0
    now_ns: int = 0
    step: int = 0
    pool: str = DECODE
    transfer: int | None = None
    hears: Mapping[str, Callable[[Delta], None]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.hears = {
            "admitted": self._admitted,
            "resumed": self._admitted,
            "preempted": self._preempted,
            "held": self._held,
            "pulled": self._pulled,
            "transferred": self._transferred,
            **dict.fromkeys(ENDS, self._ended),
        }

    def hear(self, message: Message, deltas: Iterable[Delta]) -> None:
        self.now_ns, given = message.now_ns, message.given
        if message.kind == "submit" and given.id == self.story.request.id and not self.story.events:
            self._came(message)
        if message.kind == "step":
            self.step, self.pool = message.answer.step, message.answer.pool or self.pool
        if message.kind == "notify" and given == {"type": "transfer_started", "transfer": self.transfer}:
            self.note("transfer", f"the link begins transfer {self.transfer}")
        for delta in deltas:
            if delta[0] == "delivered":
                self._delivered(delta)
            elif delta[1] == self.story.request.id and delta[0] in self.hears:
                self.hears[delta[0]](delta)

    def note(self, what: str, says: str) -> None:
        self.story.events.append(Event(self.now_ns, self.step, what, says))

    def turn(self, doing: str) -> None:
        self.story.parts_ns[self.doing] += self.now_ns - self.since_ns
        self.doing, self.since_ns = doing, self.now_ns

    # --- what it hears of --------------------------------------------------------------------------------

    def _came(self, message: Message) -> None:
        self.story.came_ns = self.since_ns = self.now_ns
        if message.answer.verdict == "accepted":
            self.note("accepted", "came and was accepted")
            return
        self.note(message.answer.verdict, answered(message.answer))
        self.story.ended_ns = self.now_ns

    def _admitted(self, delta: Delta) -> None:
        self.turn(DECODES if self.pool == DECODE else PREFILLS)
        self.note("admitted", f"{delta[0]} to the {self.pool} pool")

    def _preempted(self, delta: Delta) -> None:
        self.turn(AGAIN)
        self.note("preempted", f"preempted in the {self.pool} pool, and is to be prefilled again")

    def _delivered(self, delta: Delta) -> None:
        if self.story.request.id in delta[1] and self.story.first_token_ns is None:
            self.story.first_token_ns = self.now_ns
            self.note("first token", "its first output token is delivered")

    def _held(self, delta: Delta) -> None:
        self.turn(HELD)
        blocks = f"its {counted(len(delta[2]), 'block')} wait" if delta[2] else "its KV waits"
        self.note("held", f"all that is known of it is computed; {blocks} for the decode pool to pull them")

    def _pulled(self, delta: Delta) -> None:
        self.transfer = delta[3]
        self.turn(MOVES)
        room = counted(len(delta[2]), "block") if delta[2] else "room"
        self.note("pulled", f"the decode pool sets {room} aside, and asks for transfer {self.transfer}")

    def _transferred(self, delta: Delta) -> None:
        self.turn(ARRIVED if delta[2] == "done" else AGAIN)
        self.note("transferred", f"transfer {self.transfer} {TRANSFERRED.get(delta[2], delta[2])}")

    def _ended(self, delta: Delta) -> None:
        if self.story.ended_ns is None:
            self.story.ended_ns = self.now_ns
            self.turn("over")
            self.note(delta[0], " ".join([delta[0], *(f"({word})" for word in delta[2:])]))
