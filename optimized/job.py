"""One request inside the scheduler, as far as it has no row."""

from typing import TYPE_CHECKING

from attrs import define

from ..spec.vocabulary import Request

if TYPE_CHECKING:
    from .members import Member

NO_ROW = -1


@define(eq=False)
class Job:
    """A live request.  While it runs, its positions and outputs stand in the arrays at its `row`; `outputs` is right
    while it waits.  `entry` tells its place in the queue that counts from older ones.

    Where clients have queues `members` are its lane, if there is one, and its client in it; each output costs `rate`;
    it `is_charged` from its first admission on, and so are `charged_prompt` tokens."""

    request: Request
    arrival: int
    prompt: int
    declared: int
    outputs: int = 0
    row: int = NO_ROW
    admission: int = 0
    is_live: bool = True
    was_preempted: bool = False
    entry: int = 0
    members: "tuple[Member, ...]" = ()
    rate: int = 0
    is_charged: bool = False
    charged_prompt: int = 0

    @classmethod
    def of(cls, request: Request, arrival: int) -> "Job":
        return cls(request, arrival, request.prompt_tokens, request.max_output_tokens)

    @property
    def known(self) -> int:
        """Positions whose token is there, while nothing is in flight."""
        return self.prompt + self.outputs

    @property
    def length(self) -> int:
        """Declared tokens."""
        return self.prompt + self.declared
