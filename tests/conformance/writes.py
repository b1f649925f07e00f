"""Who wrote what to which block, and when: what plans and deltas of a run say of it.

The content shadow of the monitor knows that a read was wrong; a person wants to know whose tokens stand there.
"""

from collections.abc import Sequence

from attrs import Factory, define, frozen

from schedspec.spec.vocabulary import Delta, Message, Plan


@frozen
class Write:
    """In `step` position `position` of `request` was written."""

    request: str
    position: int
    step: int


@define
class Writes:
    """The last write to each place of each block.  A step writes when it completes, to the blocks that its requests
    held when it was planned."""

    block_size: int
    last: dict[tuple[int, int], Write] = Factory(dict)
    _tables: dict[str, list[int]] = Factory(dict)
    _planned: dict[int, tuple[Plan, dict[str, list[int]]]] = Factory(dict)

    @classmethod
    def of(cls, block_size: int, messages: Sequence[Message]) -> "Writes":
        writes = cls(block_size)
        for message in messages:
            writes._follow(message)
        return writes

    def at(self, block: int, position: int) -> Write | None:
        return self.last.get((block, position % self.block_size))

    def of_block(self, block: int) -> list[Write]:
        return [self.last[block, n] for n in range(self.block_size) if (block, n) in self.last]

    def _follow(self, message: Message) -> None:
        if message.kind == "step":
            self._apply(message.answer.deltas)
            tables = {request: list(self._tables.get(request, ())) for request in message.answer.request}
            self._planned[message.answer.step] = message.answer, tables
        elif message.kind == "complete":
            if message.given.step in self._planned:
                self._write(*self._planned.pop(message.given.step))
            self._apply(message.answer)
        elif message.kind in ("cancel", "notify"):
            self._apply(message.answer)
        elif message.kind == "submit":
            self._apply(message.answer.deltas)

    def _write(self, plan: Plan, tables: dict[str, list[int]]) -> None:
        for request, start, tokens in zip(plan.request, plan.start, plan.tokens, strict=True):
            table = tables[request]
            for position in range(start, min(start + tokens, len(table) * self.block_size)):
                place = table[position // self.block_size], position % self.block_size
                self.last[place] = Write(request, position, plan.step)

    def _apply(self, deltas: Sequence[Delta]) -> None:
        for delta in deltas:
            if delta[0] in ("took", "shared"):
                self._tables.setdefault(delta[1], []).extend(delta[2])
            elif delta[0] == "gave":
                gone = set(delta[2])
                self._tables[delta[1]] = [block for block in self._tables.get(delta[1], ()) if block not in gone]
