"""The link that the suite plays between a prefill pool and a decode pool: what was asked of it, and what it tells."""

from collections.abc import Sequence
from random import Random
from typing import Any

from attrs import Factory, define, evolve

from schedspec.spec.vocabulary import Delta, Message, Pools, Settings

from .script import BEGIN_TRANSFER, END_TRANSFER, FAIL_TRANSFER, REPEAT_TRANSFER, Op

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


# --- drawn by dice -----------------------------------------------------------------------------------------

TRANSFER_NS = 100
OF_TWO_POOLS = ("blocks", "block_size", "seats", "token_budget", "watermark_blocks", "at_blocked_head", "reserve")


def with_pools(dice: Random, settings: Settings) -> Settings:
    """Now and then prefill and decode have a pool each; all else is then what both can do."""
    if dice.random() < 0.93:
        return settings
    drawn: dict[str, Any] = {name: getattr(settings, name) for name in OF_TWO_POOLS}
    if settings.reserve not in ("on_demand", "known", "declared"):
        drawn["reserve"] = "on_demand"
    drawn |= {"chunked_prefill": settings.chunked_prefill, "chunk_tokens": settings.chunk_tokens}
    pools = Pools(
        decode_blocks=settings.blocks + dice.choice((0, 0, 1, 3, 8)),
        decode_seats=dice.choice((1, 2, 3, 4)),
        decode_token_budget=dice.choice((2, 4, 8)),
        transfer_ns=TRANSFER_NS,
        landing_blocks=dice.choice((0, 0, 0, 2)),
    )
    drawn["blocks"] = settings.blocks + dice.choice((0, 0, 2, 6))
    return Settings(**drawn, overlap_depth=dice.choice((1, 2, 2)), pools=pools)


def on_the_link(dice: Random, op: Op, settings: Settings) -> Sequence[Op]:
    """After a step or a result the link may begin or end a transfer, give it up, say something twice, or stay silent
    while time passes; a result may come before one that is older."""
    if not settings.pools.are_two or op.kind not in ("step", "complete", "cancel"):
        return (op,)
    if op.kind == "complete" and dice.random() < 0.2:
        op = evolve(op, back=2)
    told = []
    if dice.random() < 0.5:
        told.append(evolve(BEGIN_TRANSFER, back=dice.choice((1, 1, 2))))
    if dice.random() < 0.4:
        told.append(evolve(END_TRANSFER, back=dice.choice((1, 1, 2))))
    if dice.random() < 0.07:
        told.append(FAIL_TRANSFER)
    if dice.random() < 0.05:
        told.append(REPEAT_TRANSFER)
    if dice.random() < 0.1:
        told.append(Op("tick", ns=dice.choice((1, TRANSFER_NS // 2, TRANSFER_NS))))
    return (op, *told)
