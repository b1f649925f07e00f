"""KV between two pools: who waits to be pulled, what is under way, and until when.

The prefill pool holds the KV of a request until the decode pool has it, the decode pool blocks for what will arrive;
both are obligations, and both end, at the latest when the time of a transfer is up.
"""

from collections.abc import Iterator

from attrs import Factory, define

from ..spec.vocabulary import Request

UNPULLED, ARRIVING = "unpulled", "arriving"
"""Why a block is under an obligation."""


@define(eq=False)
class Transfer:
    """The KV of one request, with its tokens so far.  `source` are blocks of the prefill pool, `target` those that the
    decode pool keeps for it, `number` is that of the transfer, 0 before it was asked for.  `is_wanted` until the
    request has ended; `is_written` from when the link has begun."""

    request: Request
    tokens: list[int]
    source: list[int]
    target: list[int] = Factory(list)
    number: int = 0
    deadline_ns: int = 0
    is_written: bool = False
    is_wanted: bool = True

    @property
    def id(self) -> str:
        return self.request.id

    @property
    def outputs(self) -> int:
        return len(self.tokens) - self.request.prompt_tokens


@define(eq=False)
class Link:
    """`waiting` to be pulled, in the order in which their prefill was complete; `standing` by number, in the order in
    which they were asked for; `arrived` and not yet running."""

    waiting: dict[str, Transfer] = Factory(dict)
    standing: dict[int, Transfer] = Factory(dict)
    arrived: dict[str, Transfer] = Factory(dict)
    numbers: int = 0

    def offer(self, transfer: Transfer) -> None:
        self.waiting[transfer.id] = transfer

    def first(self) -> Transfer | None:
        return next(iter(self.waiting.values()), None)

    def ask(self, transfer: Transfer, target: list[int], deadline_ns: int) -> None:
        """It is asked for, and stands until it is over."""
        del self.waiting[transfer.id]
        self.numbers += 1
        transfer.number, transfer.target, transfer.deadline_ns = self.numbers, target, deadline_ns
        self.standing[transfer.number] = transfer

    def of(self, request_id: str) -> Transfer | None:
        """The one of a request, at any stage."""
        own = self.waiting.get(request_id) or self.arrived.get(request_id)
        return own or next((one for one in self.standing.values() if one.id == request_id), None)

    def overdue(self, now_ns: int) -> list[Transfer]:
        """All have the same time, so the first that is not stands before all others that are not."""
        late = []
        for transfer in self.standing.values():
            if transfer.deadline_ns > now_ns:
                break
            late.append(transfer)
        return late

    def arrived_blocks(self) -> int:
        return sum(len(one.target) for one in self.arrived.values())

    def landing_blocks(self) -> int:
        """Blocks of the decode pool of those who do not run there yet."""
        return self.arrived_blocks() + sum(len(one.target) for one in self.standing.values())

    def obligations(self) -> Iterator[tuple[int, str, str]]:
        """Block, owner, reason."""
        for transfer in (*self.waiting.values(), *self.standing.values()):
            yield from ((block, transfer.id, UNPULLED) for block in transfer.source)
        for transfer in (*self.standing.values(), *self.arrived.values()):
            yield from ((block, transfer.id, ARRIVING) for block in transfer.target)
