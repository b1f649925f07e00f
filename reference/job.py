"""One request inside the scheduler."""

from attrs import Factory, define

from ..spec.vocabulary import Request

WAITING, PARKED, RUNNING, ENDED = "waiting", "parked", "running", "ended"


@define(eq=False)
class Job:
    """A request inside the scheduler.

    `issued` ≤ `known`: positions scheduled so far, and positions whose token is there or in flight.  `epoch` counts
    how often it left the running set: a result of an earlier epoch is not its own any more.  `keys` name its full
    blocks by their token prefix.  `prefill_end` is what was known when it was admitted or resumed.  What it was charged
    for so far are `charged_prompt` tokens and `charged_outputs`; it `is_charged` from its first admission on.

    It is parked until its `dependencies` are there; `answers`: what the world said of each, whether it is there.  While
    it is swapped, its first `kept` positions are `saved` in these host blocks.
    """

    request: Request
    arrival: int
    known: int
    tokens: list[int]
    id: str = ""
    state: str = WAITING
    issued: int = 0
    computed: int = 0
    outputs: int = 0
    in_flight: int = 0
    table: list[int] = Factory(list)
    indexed_blocks: int = 0
    keys: list[int] = Factory(list)
    epoch: int = 0
    admission: int = 0
    was_preempted: bool = False
    prefill_end: int = 0
    is_charged: bool = False
    charged_prompt: int = 0
    charged_outputs: int = 0
    dependencies: set[str] = Factory(set)
    answers: dict[str, bool] = Factory(dict)
    saved: list[int] = Factory(list)
    kept: int = 0

    @classmethod
    def of(cls, request: Request, arrival: int) -> "Job":
        return cls(request, arrival, request.prompt_tokens, list(request.prompt_ids), request.id)

    @property
    def is_swapped(self) -> bool:
        return self.kept > 0

    @property
    def enters_prefill(self) -> bool:
        """Admitted now it has a prompt, or what it lost, to compute; who was swapped goes on where it was."""
        return not self.is_swapped or self.kept < self.prefill_end

    @property
    def is_sure_to_end(self) -> bool:
        """With what is in flight it reaches its declared length: nothing more to schedule."""
        return self.outputs + self.in_flight >= self.request.max_output_tokens
