"""A router in front of several engines: who goes where, and that nobody is lost or served twice on the way.

It keeps what no engine can: which engine has a request, how often it was tried, and whose key is whose.
"""

from collections import deque
from collections.abc import Container, Sequence
from typing import ClassVar

from attrs import Factory, define

from ..spec.vocabulary import Request

MOST_TRIES = 8


@define
class Placed:
    """A request at an engine since then."""

    request: Request
    engine: str
    since_ns: int


@define(slots=False)
class Router:
    """Sends each request to the engine that has fewest of this router's, after those that it has tried already.

    `patience_ns`: whoever has no first token by then is taken back and sent elsewhere; 0 is never.  `retain_ns`: how
    long an idempotency key is remembered after its request has finished.
    """

    engines: Sequence[str]
    patience_ns: int = 0
    retain_ns: int = 0
    queue: deque[Request] = Factory(deque)
    placed: dict[str, Placed] = Factory(dict)
    tries: dict[str, list[str]] = Factory(dict)
    keys: dict[tuple[str, str], str] = Factory(dict)
    until_ns: dict[tuple[str, str], int] = Factory(dict)

    claims: ClassVar[frozenset[str]] = frozenset()

    def arrive(self, request: Request, now_ns: int) -> str:
        """accepted, or duplicate if its key names a generation that lives or is retained."""
        key = _key(request)
        if key is not None:
            if key in self.keys and now_ns < self.until_ns.get(key, now_ns + 1):
                return "duplicate"
            self.keys[key] = request.id
            self.until_ns.pop(key, None)
        self.tries[request.id] = []
        self.queue.append(request)
        return "accepted"

    def choose(self, request: Request) -> str | None:
        """An engine, or None if it was tried too often."""
        return None if len(self.tries[request.id]) >= MOST_TRIES else self.best_for(request)

    def best_for(self, request: Request) -> str:
        tried, load = self.tries[request.id], dict.fromkeys(self.engines, 0)
        for placed in self.placed.values():
            load[placed.engine] += 1
        return min(self.engines, key=lambda engine: (tried.count(engine), load[engine]))

    def sent(self, request: Request, engine: str, now_ns: int) -> None:
        self.tries[request.id].append(engine)
        self.placed[request.id] = Placed(request, engine, now_ns)

    def overdue(self, now_ns: int, has_begun: Container[str]) -> list[Placed]:
        """Who is to be taken back: an engine must let go before another one may have it."""
        if not self.patience_ns:
            return []
        late = (p for p in self.placed.values() if now_ns - p.since_ns > self.patience_ns)
        return [placed for placed in late if placed.request.id not in has_begun]

    def came_back(self, request: Request) -> None:
        """The engine that had it has it no more."""
        self.placed.pop(request.id, None)
        self.queue.append(request)

    def ended(self, request: Request, how: str, now_ns: int) -> None:
        self.placed.pop(request.id, None)
        key = _key(request)
        if key is None or self.keys.get(key) != request.id:
            return
        if how == "finished":
            self.until_ns[key] = now_ns + self.retain_ns
        else:
            del self.keys[key]


def _key(request: Request) -> tuple[str, str] | None:
    return None if request.idempotency_key is None else (request.client, request.idempotency_key)


@define(slots=False)
class Dealer(Router):
    """Deals the requests of each client to the engines in turn: so whoever has many waiting waits at every engine, and
    what the engines' counters give there they give over all of them."""

    dealt: dict[str, int] = Factory(dict)

    claims: ClassVar[frozenset[str]] = frozenset({"fleet_share"})

    def best_for(self, request: Request) -> str:
        turn = self.dealt.get(request.client, 0)
        self.dealt[request.client] = turn + 1
        return self.engines[turn % len(self.engines)]
