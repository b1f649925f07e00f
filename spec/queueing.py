"""Who stands where in the queue: computed from messages alone."""

from collections.abc import Callable, Collection, Mapping

from .settings import AGING_ARRIVALS, SJF_ARRIVALS
from .tracks import Track
from .vocabulary import Request

PRIORITY_WEIGHT = 1 << 40
"""Above any arrival or admission number, so that (priority, number) is one integer."""

NEVER_NS = 1 << 64
"""After every deadline."""


def _deadline(request: Request) -> int:
    return NEVER_NS if request.deadline_ns is None else min(request.deadline_ns, NEVER_NS)


PLACES: Mapping[str, Callable[[Request, int], int]] = {
    "priority": lambda request, arrival: request.priority,
    "edf": lambda request, arrival: _deadline(request),
    "sjf": lambda request, arrival: request.expected_output_tokens * SJF_ARRIVALS + arrival,
    "aging": lambda request, arrival: request.priority * AGING_ARRIVALS + arrival,
    "fcfs": lambda request, arrival: 0,
}
"""Claim -> what comes before the number of the arrival: one queue for all, in an order that never changes."""

CHANGING = ("srpt", "mlfq")
"""Claims of one queue for all in which a request that was preempted has another place than before."""

SHARES = ("vtc", "lcf", "round_robin", "drr", "dlpm", "lanes")
"""Claims of a queue per client: of arrival within it, and in no fixed order between them."""


def place_of(claims: Collection[str], request: Request, arrival: int) -> int:
    rank = next((rank(request, arrival) for claim, rank in PLACES.items() if claim in claims), 0)
    return rank * PRIORITY_WEIGHT + arrival


def expected_left(expected: int, declared: int, outputs: int) -> int:
    """Outputs that a request is expected to need still.  Whoever has as many as were expected is expected to need as
    many again; nobody gets more than it declared."""
    while expected <= outputs:
        expected *= 2
    return min(expected, declared) - outputs


def mlfq_level(service_tokens: int, quantum: int) -> int:
    """The level of a multi-level feedback queue: level i is for service below `quantum` · 2^i."""
    return (service_tokens // quantum).bit_length()


def place_again(claims: Collection[str], track: Track, quantum: int, place: int) -> int:
    """The place of a request that begins to wait; `place` where nothing changes it."""
    if "srpt" in claims:
        left = expected_left(track.expected_tokens, track.declared_output, track.outputs)
        rank = left * SJF_ARRIVALS + track.arrival
    elif "mlfq" in claims:
        rank = level_of(track, quantum)
    else:
        return place
    return rank * PRIORITY_WEIGHT + track.arrival


def level_of(track: Track, quantum: int) -> int:
    return mlfq_level(track.prompt_tokens + track.outputs, quantum)
