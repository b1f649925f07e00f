"""Where a request is between two pools, and as whom each pool knows it.

A stay in a pool is a generation of its own there: the prefill pool's has the prompt and all outputs so far as its
prompt and one token to come, the decode pool's has the token of the prefill too, and what is left of the declared
length.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, evolve

from .pools import PREFILL
from .vocabulary import Observation, Request, RequestView

LINK, GONE = "link", "gone"


@define(eq=False)
class Flow:
    """`place`: the pool that knows it, or on the way, or nowhere.  `tokens`: prompt and delivered outputs; of these
    `positions` have KV that was handed over, in `source`, to be written into `target` by transfer `number`."""

    request: Request
    tokens: list[int]
    place: str = PREFILL
    stays: int = 1
    has_run: bool = False
    known_before: int = 0
    positions: int = 0
    source: Sequence[int] = ()
    target: Sequence[int] = ()
    number: int = 0
    deadline_ns: int = 0

    @classmethod
    def of(cls, request: Request) -> "Flow":
        return cls(request, list(request.prompt_ids))

    @property
    def id(self) -> str:
        return self.request.id

    @property
    def alias(self) -> str:
        return self.id if self.stays == 1 else f"{self.id} (stay {self.stays})"

    @property
    def outputs(self) -> int:
        return len(self.tokens) - self.request.prompt_tokens

    @property
    def has_ended(self) -> bool:
        return self.place == GONE

    def stay(self, place: str) -> Request:
        """It is that pool's from now on: the generation that it is there."""
        if place == PREFILL:
            self.stays += self.has_run
        self.place, self.known_before = place, self.outputs
        left = 1 if place == PREFILL else self.request.max_output_tokens - self.outputs
        return evolve(self.request, id=self.alias, prompt_ids=self.tokens, max_output_tokens=left)

    def view(self, shown: RequestView) -> RequestView:
        """What a snapshot shows of it, as its pool counts."""
        return evolve(shown, outputs=shown.outputs - self.known_before)

    def waiting_view(self, shown: RequestView) -> RequestView:
        """As the decode pool counts somebody who has arrived: nothing of it is scheduled there."""
        state = "waiting" if shown.state == "transferring" else shown.state
        return RequestView(state=state, issued=0, computed=0, outputs=0, in_flight=shown.in_flight)


def observation_of(
    shown: Observation, mine: Mapping[str, Flow], blocks: range, prefix: str, requests: Mapping[str, RequestView]
) -> Observation:
    """The part of a snapshot that is about one pool; `mine`: whom it knows, `prefix`: of its counters."""

    def within(ids: Sequence[int]) -> list[int]:
        return [block for block in ids if block in blocks]

    def name(request: str) -> str:
        return mine[request].alias if request in mine else request

    tables = {name(request): within(table) for request, table in shown.tables.items()}
    parts: dict[str, Any] = {
        "counters": {n.removeprefix(prefix): v for n, v in shown.counters.items() if _is_counter(n, prefix)},
        "requests": requests,
        "tables": {request: table for request, table in tables.items() if table},
        "ref_counts": {block: count for block, count in shown.ref_counts.items() if block in blocks},
        "obligations": [entry for entry in shown.obligations if entry[0] in blocks],
    }
    lists: dict[str, Any] = {
        part: within(getattr(shown, part)) for part in ("free", "evictable", "reserved", "null", "index")
    }
    lists["reserved"] += range(blocks.start)  # the other pool's
    return Observation(**parts, **lists)


def _is_counter(name: str, prefix: str) -> bool:
    return name.startswith(prefix) if prefix else not name.startswith("decode_")
