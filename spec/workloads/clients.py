"""Clients in a closed loop: who comes, who leaves, and who comes back, for whoever runs the requests.

The runner tells what becomes of each request (`accepted`, `refused`, `got_tokens`, `ended`); `next_ns` says when
somebody does something, `leaving` and `coming` what.  Whoever leaves does so before anybody comes.
"""

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush

from attrs import define, field

from .requests import Incoming, again


def _as_iterator(workload: Iterable[Incoming]) -> Iterator[Incoming]:
    return iter(workload)


@define(eq=False)
class Clients:
    _source: Iterator[Incoming] = field(default=(), converter=_as_iterator)
    _first: Incoming | None = field(init=False)
    _returning: list[tuple[int, int, Incoming]] = field(init=False, factory=list)
    _leaving: list[tuple[int, int, str, bool]] = field(init=False, factory=list)
    _live: dict[str, Incoming] = field(init=False, factory=dict)
    _without_token: set[str] = field(init=False, factory=set)
    _number: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._first = next(self._source, None)

    # --- what they do ------------------------------------------------------------------------------------

    @property
    def may_come(self) -> bool:
        """Somebody will come, whatever happens until then."""
        return self._first is not None or bool(self._returning)

    @property
    def next_ns(self) -> int | None:
        """When somebody comes or leaves next, if nothing happens before."""
        if not (self._returning or self._leaving):
            return None if self._first is None else self._first.now_ns
        times = [self._first.now_ns] if self._first is not None else []
        times += [self._returning[0][0]] if self._returning else []
        self._forget_who_stays()
        times += [self._leaving[0][0]] if self._leaving else []
        return min(times, default=None)

    def leaving(self, now_ns: int) -> Iterator[str]:
        """Requests to be cancelled now; an impatient client comes back later, if it has tries left."""
        self._forget_who_stays()
        while self._leaving and self._leaving[0][0] <= now_ns:
            _, _, request, is_impatient = heappop(self._leaving)
            incoming = self._live[request]
            self.ended(request)
            yield request
            if is_impatient:
                self._come_back(again(incoming, now_ns))
            self._forget_who_stays()

    def coming(self, now_ns: int) -> Iterator[Incoming]:
        """Requests to be submitted now, in the order of their times; those that come back are last at any time."""
        while True:
            first = self._first
            if self._returning and (first is None or self._returning[0][0] < first.now_ns):
                if self._returning[0][0] > now_ns:
                    return
                yield heappop(self._returning)[2]
            elif first is not None and first.now_ns <= now_ns:
                self._first = next(self._source, None)
                yield first
            else:
                return

    # --- what they are told ------------------------------------------------------------------------------

    def accepted(self, incoming: Incoming, now_ns: int) -> None:
        if incoming.cancel_after_ns is None and incoming.patience is None:
            return
        request = incoming.request.id
        self._live[request] = incoming
        if incoming.cancel_after_ns is not None:
            self._will_leave(now_ns + incoming.cancel_after_ns, request, is_impatient=False)
        if incoming.patience is not None:
            self._without_token.add(request)
            self._will_leave(now_ns + incoming.patience.first_token_ns, request, is_impatient=True)

    def refused(self, incoming: Incoming, now_ns: int, retry_after_ns: int | None = None) -> None:
        self._come_back(again(incoming, now_ns, retry_after_ns))

    def got_tokens(self, requests: Sequence[str]) -> None:
        if self._without_token:
            self._without_token.difference_update(requests)

    def ended(self, request: str) -> None:
        self._live.pop(request, None)
        self._without_token.discard(request)

    # --- within ------------------------------------------------------------------------------------------

    def _will_leave(self, when_ns: int, request: str, *, is_impatient: bool) -> None:
        self._number += 1
        heappush(self._leaving, (when_ns, self._number, request, is_impatient))

    def _come_back(self, incoming: Incoming | None) -> None:
        if incoming is not None:
            self._number += 1
            heappush(self._returning, (incoming.now_ns, self._number, incoming))

    def _forget_who_stays(self) -> None:
        """Those on top whose request has ended, or whose impatient client has got a token."""
        while self._leaving:
            _, _, request, is_impatient = self._leaving[0]
            if request in self._live and not (is_impatient and request not in self._without_token):
                return
            heappop(self._leaving)
