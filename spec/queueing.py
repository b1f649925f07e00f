"""Who stands where in the queue, and what each client has got: computed from messages alone."""

from collections.abc import Callable, Collection, Mapping
from typing import Literal

from attrs import Factory, define

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

SHARES = ("vtc", "lcf", "round_robin")
"""Claims of a queue per client: of arrival within it, and in no fixed order between them."""


def place_of(claims: Collection[str], request: Request, arrival: int) -> int:
    rank = next((rank(request, arrival) for claim, rank in PLACES.items() if claim in claims), 0)
    return rank * PRIORITY_WEIGHT + arrival


Cause = Literal["charge", "return", "empty", "requeue"]
"""Why a counter may change: service; the lift of a client that comes back while others wait, or while nobody does; the
lift of one whose request was preempted."""


@define(eq=False)
class Ledger:
    """Counters of clients as Virtual Token Counter keeps them (Sheng et al., OSDI 2024, Algorithm 2).

    `waiting`: its waiting requests, of each client that has any; `since`: a number for each time that it came to have
    some.  `committed`: what its running requests may still be
    charged.  `certificate` is U of the trace: the largest charge and commitment of a client at a pick, and beside it
    what was passed over at a pick.  `causes`: why counters may have changed since the last snapshot.
    """

    counters: dict[str, int] = Factory(dict)
    waiting: dict[str, dict[str, Track]] = Factory(dict)
    committed: dict[str, int] = Factory(dict)
    causes: dict[str, set[Cause]] = Factory(dict)
    since: dict[str, int] = Factory(dict)
    last_left: str | None = None
    entered: int = 0
    certificate: int = 0

    def enter(self, track: Track, *, preempted: bool, left_tokens: int = 0) -> None:
        """A request waits; its client is lifted if none of it waited before."""
        client = track.client
        self.counters.setdefault(client, 0)
        if preempted:
            self._commit(client, -2 * left_tokens)
        if client not in self.waiting:
            self._lift(client, preempted=preempted)
            self.entered += 1
            self.since[client] = self.entered
        self.waiting.setdefault(client, {})[track.id] = track

    def least(self, without: Collection[str] = ()) -> int:
        """The least counter of clients with waiting requests."""
        return min(self.counters[client] for client in self.waiting if client not in without)

    def pick(self, track: Track, left_tokens: int, held_back: Collection[str]) -> int:
        """A request is admitted; what that charges its client, which is nothing if it was charged before.  Clients that
        were `held_back` are passed over by right, and U is larger by as much."""
        passed_over = self.least(held_back) - self.least() if self.waits(track) else 0
        charge = 0 if track.epoch else 1 * track.prompt_tokens
        self.leave(track)
        self.charge(track.client, charge)
        self._commit(track.client, 2 * left_tokens)
        self.certificate = max(self.certificate, charge + self.committed[track.client] + passed_over)
        return charge

    def serve(self, track: Track) -> None:
        """An output token is delivered.  One that was under way when its request was preempted is committed no more."""
        self.charge(track.client, 2)
        if self.waits(track):
            self.certificate += 2
        else:
            self._commit(track.client, -2)

    def end(self, track: Track, left_tokens: int) -> None:
        if self.waits(track):
            self.leave(track)
        else:
            self._commit(track.client, -2 * left_tokens)

    def waits(self, track: Track) -> bool:
        return track.id in self.waiting.get(track.client, ())

    def leave(self, track: Track) -> None:
        requests = self.waiting.get(track.client, {})
        requests.pop(track.id, None)
        if not requests and self.waiting.pop(track.client, None) is not None:
            self.last_left = track.client
            del self.since[track.client]

    def charge(self, client: str, amount: int) -> None:
        self.counters[client] = self.counters.get(client, 0) + amount
        self.causes.setdefault(client, set()).add("charge")

    def _lift(self, client: str, *, preempted: bool) -> None:
        if self.waiting:
            least = min(self.counters[other] for other in self.waiting)
        elif self.last_left is not None:
            least = self.counters[self.last_left]
        else:
            return
        cause: Cause = "requeue" if preempted else "return" if self.waiting else "empty"
        self.causes.setdefault(client, set()).add(cause)
        self.counters[client] = max(self.counters[client], least)

    def _commit(self, client: str, amount: int) -> None:
        self.committed[client] = self.committed.get(client, 0) + amount


def expected_left(expected: int, declared: int, outputs: int) -> int:
    """Outputs that a request is expected to need still.  Whoever has as many as were expected is expected to need as
    many again; nobody gets more than it declared."""
    while expected <= outputs:
        expected *= 2
    return min(expected, declared) - outputs


def mlfq_level(service_tokens: int, quantum: int) -> int:
    """The level of a multi-level feedback queue: level i is for service below `quantum` · 2^i."""
    return (service_tokens // quantum).bit_length()
