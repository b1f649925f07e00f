"""Requests that are parked: who depends on what, what the world has said of it, and which blocks are leased meanwhile.

To the relation each stay of a request is one of its own: when it is parked its stay is over, as if it had been
cancelled, and when it waits again another one begins, with the outputs that it has.  So whatever the relation asks of
who leaves and who comes holds here too, and a request that is parked is, to it, nobody: it holds no block, has no seat,
and may not be admitted or run.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from attrs import NOTHING, Factory, define, fields_dict

from .tracks import Track
from .vocabulary import DEPENDENCY_FAILED, RESOLVED

CLAIM = "parking"
LEASE = "lease"


def answer_in(event: Mapping[str, Any]) -> tuple[str, str, bool] | None:
    """What an event says of a dependency: of which request, which one, and whether it is there."""
    request, dependency, kind = (event.get(name) for name in ("request", "dependency", "type"))
    if kind not in (RESOLVED, DEPENDENCY_FAILED) or not (isinstance(request, str) and isinstance(dependency, str)):
        return None
    return request, dependency, kind == RESOLVED


def begin_anew(record: Any) -> None:
    """A record of the relation becomes that of a request that nobody has heard of."""
    for name, cell in fields_dict(type(record)).items():
        default: Any = cell.default
        assert default is not NOTHING
        setattr(record, name, default.factory() if hasattr(default, "factory") else default)


@define(eq=False)
class Parked:
    """`dependencies`: those of which nothing has been heard; `has_failed`: one of them has failed.  It may stay until
    `until_ns`."""

    track: Track
    dependencies: set[str]
    until_ns: int
    has_failed: bool = False

    @property
    def is_pending(self) -> bool:
        return bool(self.dependencies) and not self.has_failed


@define(eq=False)
class Lease:
    blocks: tuple[int, ...]
    until_ns: int


@define(eq=False)
class Parking:
    """Who is parked, in that order: those whose dependencies are `pending`, and those that were `woken` and still stand
    there.  `answers`: what the world has said of each dependency of each request, the first time.  `pauses`: what
    results of this call make somebody depend on.  `pins`: by how many leases each block is kept."""

    timeout_ns: int
    parked: dict[str, Parked] = Factory(dict)
    pending: set[str] = Factory(set)
    woken: dict[str, Parked] = Factory(dict)
    arrived: dict[str, tuple[int, int, int, int]] = Factory(dict)
    answers: dict[str, dict[str, bool]] = Factory(dict)
    pauses: Mapping[str, str] = Factory(dict)
    leases: dict[str, Lease] = Factory(dict)
    pins: Counter[int] = Factory(Counter)

    # --- asking ------------------------------------------------------------------------------------------

    def answer(self, request: str, dependency: str) -> bool | None:
        return self.answers.get(request, {}).get(dependency)

    def has_failed(self, request: str) -> bool:
        """Something failed that it depends on, be it from this call on."""
        if request in self.parked:
            return self.parked[request].has_failed
        return request in self.pauses and self.answer(request, self.pauses[request]) is False

    def overdue(self, now_ns: int) -> Iterator[Parked]:
        """Who is parked for too long; all may be for equally long, so they stand in that order."""
        for parked in self.parked.values():
            if parked.until_ns >= now_ns:
                return
            yield parked

    # --- what happens ------------------------------------------------------------------------------------

    def hear(self, event: Mapping[str, Any]) -> None:
        answer = answer_in(event)
        if answer is None or answer[0] not in self.arrived:
            return
        request, dependency, is_there = answer
        answers = self.answers.setdefault(request, {})
        if dependency in answers:
            return
        answers[dependency] = is_there
        parked = self.parked.get(request)
        if parked is not None and dependency in parked.dependencies:
            parked.dependencies.remove(dependency)
            parked.has_failed |= not is_there
            self._look_at(parked)

    def park(self, track: Track, dependencies: Collection[str], now_ns: int) -> None:
        heard = self.answers.get(track.id, {})
        failed = any(heard.get(dependency) is False for dependency in dependencies)
        parked = Parked(track, set(dependencies) - heard.keys(), now_ns + self.timeout_ns, failed)
        self.parked[track.id] = parked
        self.pending.add(track.id)
        self._look_at(parked)

    def leave(self, request: str) -> None:
        del self.parked[request]
        self.pending.discard(request)
        self.woken.pop(request, None)

    def end(self, request: str) -> None:
        self.arrived.pop(request, None)
        self.answers.pop(request, None)

    def _look_at(self, parked: Parked) -> None:
        if not parked.is_pending:
            self.pending.discard(parked.track.id)
            self.woken[parked.track.id] = parked

    # --- leases ------------------------------------------------------------------------------------------

    def lease(self, request: str, blocks: Collection[int], until_ns: int) -> None:
        self.end_lease(request)
        self.leases[request] = Lease(tuple(blocks), until_ns)
        self.pins.update(blocks)

    def end_lease(self, request: str) -> None:
        lease = self.leases.pop(request, None)
        if lease is not None:
            self.pins.subtract(lease.blocks)
            self.pins = +self.pins

    def obligations(self) -> list[tuple[int, str, str]]:
        """Block, owner, reason: as a snapshot has them."""
        return sorted((block, request, LEASE) for request, lease in self.leases.items() for block in lease.blocks)
