"""One request inside the scheduler, as far as it has no row."""

from attrs import define

from ..spec.vocabulary import Request

NO_ROW = -1


@define(eq=False)
class Job:
    """A live request.  While it runs, its positions and outputs stand in the arrays at its `row`; `outputs` is right
    while it waits.  `entry` tells its place in the queue that counts from older ones; a client has a `client` number
    where clients have queues, and each output costs `rate`."""

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
    client: int = 0
    rate: int = 0
    is_charged: bool = False

    @classmethod
    def of(cls, request: Request, arrival: int) -> "Job":
        return cls(request, arrival, request.prompt_tokens, request.max_output_tokens)

    @property
    def known(self) -> int:
        """Positions whose token is there, while nothing is in flight."""
        return self.prompt + self.outputs
