"""One request inside the scheduler, as far as it has no row, and whose it is."""

from typing import Protocol

from attrs import define, field

from ..spec.vocabulary import Request

NO_ROW = -1


@define(eq=False)
class Job:
    """A live request.  While it runs, its positions and outputs stand in the arrays at its `row`; `outputs` is right
    while it waits.  `entry` tells its place in the queue that counts from older ones.

    Where clients have queues `members` are its lane, if there is one, and its client in it; each output costs `rate`;
    it `is_charged` from its first admission on, which costs `pick_cost`, and so are `charged_prompt` tokens.
    `length`: declared tokens."""

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
    pick_cost: int = 0
    is_charged: bool = False
    charged_prompt: int = 0
    length: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.length = self.prompt + self.declared

    @classmethod
    def of(cls, request: Request, arrival: int) -> "Job":
        return cls(request, arrival, request.prompt_tokens, request.max_output_tokens)

    @property
    def known(self) -> int:
        """Positions whose token is there, while nothing is in flight."""
        return self.prompt + self.outputs


class Line(Protocol):
    """The waiting requests of a member: by arrival, or a group again."""

    size: int

    def push(self, job: Job) -> None: ...

    def first(self) -> Job | None: ...

    def pop(self) -> Job | None: ...

    def put_back(self, job: Job) -> None: ...

    def picked(self, job: Job) -> None: ...

    def left(self, job: Job) -> None: ...

    def refund(self, job: Job, amount: int) -> None: ...

    def review(self, client: str) -> None: ...


@define(eq=False)
class Member:
    """A client or a lane.  `number` breaks ties: who was seen first.  Its counter stands at `account`.  `waiting` is
    more than its line has by those who are out of it, to be picked or put back; `aged` of them waited long.  `held`: a
    cap keeps it out of the race."""

    name: str
    number: int
    account: int
    line: Line
    waiting: int = 0
    aged: int = 0
    place: int = 0
    held: bool = False
