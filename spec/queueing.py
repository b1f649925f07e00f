"""Who stands where in the queue, and what each client has got: computed from messages alone."""

from collections.abc import Callable, Collection, Mapping
from typing import Literal

from attrs import Factory, define

from .service import Tariff
from .settings import AGING_ARRIVALS, SJF_ARRIVALS, Settings
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


def place_again(settings: Settings, claims: Collection[str], track: Track, outputs: int, place: int) -> int:
    """The place of a request that begins to wait, with so many outputs; `place` where nothing changes it."""
    if "srpt" in claims:
        rank = expected_left(track.expected, track.declared_output, outputs) * SJF_ARRIVALS + track.arrival
    elif "mlfq" in claims:
        rank = mlfq_level(service_of(settings, track, outputs), settings.quantum)
    else:
        return place
    return rank * PRIORITY_WEIGHT + track.arrival


def service_of(settings: Settings, track: Track, outputs: int) -> int:
    """What a waiting request has got: its prompt, if it was admitted before, and its outputs."""
    tariff = Tariff.of(settings)
    entered = tariff.entry(track.client) + tariff.prompt(track.client, track.prompt_tokens) if track.epoch else 0
    return entered + tariff.outputs(track.client, track.prompt_tokens, 0, outputs)


def expected_left(expected: int, declared: int, outputs: int) -> int:
    """Output still to come: whoever has more than was expected is expected to have twice as much, and so on."""
    while outputs >= expected and expected < declared:
        expected = min(2 * expected, declared)
    return max(1, expected - outputs)


def mlfq_level(service: int, quantum: int) -> int:
    """The first level whose end is not reached; each ends after twice the service of the one before."""
    level = 0
    while service >= quantum << level:
        level += 1
    return level
