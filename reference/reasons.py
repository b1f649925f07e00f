"""Why somebody waits: the first limit, in the order of `WAIT_LIMITS`, that keeps it from being admitted in a step.

It is asked of whoever was next and did not fit, and of those whom a cap holds back.  All others wait for the order.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from .caps import is_within
from .job import Job
from .selection import Queue, SharedQueue
from .selection.sharing import Members
from .state import Admission

if TYPE_CHECKING:
    from .decide import Deciding, Room

Limit = Callable[["Deciding", Job, "Room"], bool]


def reason_of(deciding: "Deciding", job: Job, room: "Room") -> str:
    return next((name for name, holds in LIMITS.items() if holds(deciding, job, room)), "order")


def held_back(queue: Queue) -> Iterator[Job]:
    """The first of each client or lane that a cap keeps out of the race, and of each adapter that cannot be loaded."""
    return _held(queue.members) if isinstance(queue, SharedQueue) else queue.out_of_reach()


def _held(members: Members) -> Iterator[Job]:
    for member in members.members.values():
        if isinstance(member.queue, Members):
            yield from _held(member.queue)
        first = member.queue.first() if member.held else None
        if first is not None:
            yield first


def _seats(deciding: "Deciding", job: Job, room: "Room") -> bool:
    return room.seats <= 0


def _budget(deciding: "Deciding", job: Job, room: "Room") -> bool:
    settings = deciding.state.settings
    asked = 1 if settings.chunked_prefill else job.known - deciding.start(job)
    return room.budget < asked


def _client_cap(deciding: "Deciding", job: Job, room: "Room") -> bool:
    queue = deciding.state.queue
    return isinstance(queue, SharedQueue) and not queue.caps.client_may(job)


def _lane_share(deciding: "Deciding", job: Job, room: "Room") -> bool:
    queue = deciding.state.queue
    return isinstance(queue, SharedQueue) and not queue.caps.lane_may(job)


def _resident_tokens(deciding: "Deciding", job: Job, room: "Room") -> bool:
    most = deciding.state.settings.resident_tokens
    return room.anything_runs and not is_within(most, room.resident_tokens + job.request.declared_tokens)


def _adapter(deciding: "Deciding", job: Job, room: "Room") -> bool:
    return not deciding.state.adapters.can_serve(job)


def _prefill_cap(deciding: "Deciding", job: Job, room: "Room") -> bool:
    return not deciding.prefill_cap_allows(job, room)


def _peak(deciding: "Deciding", job: Job, room: "Room") -> bool:
    if deciding.state.settings.reserve != "peak":
        return False
    return not deciding.peak_fits(_admission(deciding, job, room), room, _kept(deciding, room))


def _blocks(deciding: "Deciding", job: Job, room: "Room") -> bool:
    return room.blocks <= 0 or deciding.blocks_of(_admission(deciding, job, room), room) > room.blocks


def _watermark(deciding: "Deciding", job: Job, room: "Room") -> bool:
    return deciding.blocks_of(_admission(deciding, job, room), room) > room.blocks - _kept(deciding, room)


def _kept(deciding: "Deciding", room: "Room") -> int:
    return deciding.state.settings.watermark_blocks if room.anything_runs else 0


def _admission(deciding: "Deciding", job: Job, room: "Room") -> Admission:
    cached = deciding.cached_blocks(job)
    start = deciding.start(job)
    tokens = min(deciding.chunk(job, start), room.budget)
    return Admission(job, cached, start, tokens, deciding.reserved_tokens(job, start + tokens))


LIMITS: Mapping[str, Limit] = {
    "victims": lambda deciding, job, room: bool(room.victims),
    "seats": _seats,
    "budget": _budget,
    "period": lambda deciding, job, room: room.is_closed,
    "client cap": _client_cap,
    "lane share": _lane_share,
    "resident tokens": _resident_tokens,
    "adapter": _adapter,
    "prefill cap": _prefill_cap,
    "peak": _peak,
    "blocks": _blocks,
    "watermark": _watermark,
}
