"""A subject and the world around it: who is there, what is under way, and what may happen next."""

import marshal
from collections import deque
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import permutations
from typing import Any

from attrs import Factory, define

from schedspec.spec.vocabulary import (
    DEPENDENCY_FAILED,
    RESOLVED,
    Delta,
    Message,
    Outcome,
    Plan,
    Subject,
    SubjectFactory,
)

from ..script import tool
from ..subjects.guard import Guarded
from .scope import STEP, TOKEN, Event, Scope, subsets

ENDS = ("finished", "failed", "cancelled", "expired")

Key = bytes


def canonical_of(subject: Any) -> Any:
    """How the subject says what of its state matters; None if it does not.  The guard has no such method."""
    return getattr(subject.subject if isinstance(subject, Guarded) else subject, "canonical", None)


@define(eq=False)
class Live:
    """A request that is there: its kind, its client, the outputs that it has got, and of which of its needs it has
    heard."""

    id: str
    kind: int
    client: str
    outputs: int = 0
    heard: tuple[int, ...] = ()


@define(eq=False)
class World:
    """`live` stands in order of arrival.  `told` has the messages, where somebody wants to read them."""

    scope: Scope
    subject: Subject
    depth: int
    live: dict[str, Live] = Factory(dict)
    plans: deque[Plan] = Factory(deque)
    arrivals: int = 0
    told: list[Message] | None = None

    @classmethod
    def new(cls, factory: SubjectFactory, scope: Scope) -> "World":
        subject = factory(scope.settings, scope.seed)
        overlaps = "overlap" in subject.capabilities().claims
        return cls(scope, subject, scope.settings.overlap_depth if overlaps else 1)

    # --- what may happen -------------------------------------------------------------------------------------

    def events(self) -> Iterator[Event]:
        """Everything that may happen now, the quiet first."""
        if self.plans:
            sampling = self._may_stop() if self.scope.stops else ()
            yield from (Event("complete", stops=stops) for stops in subsets(sampling))
        if len(self.plans) < self.depth:
            yield STEP
        if self._may_come():
            yield from (
                Event("submit", kind, client)
                for kind in range(len(self.scope.kinds))
                for client in self._who_may_come()
            )
        yield from self._news()
        if self.scope.cancels:
            yield from (Event("cancel", number=number) for number in range(len(self.live)))

    def _news(self) -> Iterator[Event]:
        for number, request in enumerate(self.live.values()):
            for need in range(len(self.scope.kinds[request.kind].needs)):
                if need not in request.heard:
                    yield from (Event("answer", number=number, need=need, is_there=there) for there in (True, False))

    def _may_come(self) -> bool:
        left = self.scope.arrivals is None or self.arrivals < self.scope.arrivals
        return left and len(self.live) < self.scope.requests

    def _who_may_come(self) -> range:
        return range(self.scope.clients)

    def _may_stop(self) -> Sequence[int]:
        """Who of the oldest step gets a token that is not the last that it declared."""
        plan = self.plans[0]
        sampled = {r for r, samples in zip(plan.request, plan.samples, strict=True) if samples}
        return [
            number
            for number, request in enumerate(self.live.values())
            if request.id in sampled and request.outputs + 1 < self.scope.kinds[request.kind].output
        ]

    # --- making it happen ------------------------------------------------------------------------------------

    def do(self, event: Event) -> tuple[int, ...]:
        """What has become of everybody: for each number from before the one after, or -1."""
        before = list(self.live)
        if event.what == "submit":
            self._submit(event)
        elif event.what == "cancel":
            id = before[event.number]
            self._note("cancel", id, self._heed(self.subject.cancel(id, 0)))
        elif event.what == "answer":
            self._answer(self.live[before[event.number]], event)
        elif event.what == "step":
            self._step()
        else:
            self._complete([before[number] for number in event.stops])
        after = {id: number for number, id in enumerate(self.live)}
        return tuple(after.get(id, -1) for id in before)

    def _submit(self, event: Event) -> None:
        self.arrivals += 1
        id, client = f"r{self.arrivals}", self._clients()[event.number]
        request = self.scope.kinds[event.kind].request(id, client)
        receipt = self.subject.submit(request, 0)
        if receipt.verdict == "accepted":
            self.live[id] = Live(id, event.kind, client)
        self._heed(receipt.deltas)
        self._note("submit", request, receipt)

    def _answer(self, request: Live, event: Event) -> None:
        request.heard = tuple(sorted((*request.heard, event.need)))
        name = self.scope.kinds[request.kind].needs[event.need]
        kind = RESOLVED if event.is_there else DEPENDENCY_FAILED
        news = {"type": kind, "request": request.id, "dependency": name}
        self._note("notify", news, self._heed(self.subject.notify(news, 0)))

    def _calls(self, request: str) -> str:
        """The tool that it calls with the token that comes now."""
        live = self.live.get(request)
        place = 0 if live is None else live.outputs + 1
        return tool(place) if live is not None and place in self.scope.kinds[live.kind].pauses else ""

    def _step(self) -> None:
        plan = self.subject.step(0)
        self._heed(plan.deltas)
        if plan.request:
            self.plans.append(plan)
        self._note("step", None, plan)

    def _complete(self, stops: Sequence[str]) -> None:
        plan = self.plans.popleft()
        rows = [r for r, samples in zip(plan.request, plan.samples, strict=True) if samples]
        stopping = [r in stops for r in rows]
        calls = [self._calls(request) for request in rows] if self.scope.settings.park_timeout_ns else []
        pause = calls if any(calls) else ()
        outcome = Outcome(step=plan.step, request=rows, token=[TOKEN] * len(rows), stop=stopping, pause=pause)
        self._note("complete", outcome, self._heed(self.subject.complete(outcome, 0)))

    def _heed(self, deltas: Sequence[Delta]) -> Sequence[Delta]:
        for delta in deltas:
            if delta[0] == "delivered":
                for id in delta[1]:
                    if id in self.live:
                        self.live[id].outputs += 1
            elif delta[0] in ENDS:
                self.live.pop(delta[1], None)
        return deltas

    def _note(self, kind: Any, given: Any, answer: Any) -> None:
        if self.told is not None:
            self.told.append(Message(kind, 0, given, answer))

    # --- the state -------------------------------------------------------------------------------------------

    def key(self) -> Key:
        """A digest of the state up to names: of what the subject says of itself, and of the world around it."""
        return min(map(self._key, self._orders()))

    def _clients(self) -> Sequence[str]:
        """In the order of their numbers."""
        orders = self._orders()
        return orders[0] if len(orders) == 1 else min(orders, key=self._key)

    def _orders(self) -> list[Sequence[str]]:
        """Clients by the first of their requests; those of whom nobody is there, in every order."""
        there = list(dict.fromkeys(r.client for r in self.live.values()))
        away = [client for client in self.scope.client_names if client not in there]
        return [(*there, *order) for order in permutations(away)]

    def _key(self, clients: Sequence[str]) -> Key:
        numbers = {id: number for number, id in enumerate(self.live)}
        called = {client: number for number, client in enumerate(clients)}
        there = tuple((r.kind, called[r.client], r.outputs, r.heard) for r in self.live.values())
        under_way = tuple(
            tuple((numbers.get(r, -1), samples) for r, samples in zip(plan.request, plan.samples, strict=True))
            for plan in self.plans
        )
        left = None if self.scope.arrivals is None else self.scope.arrivals - self.arrivals
        itself = canonical_of(self.subject)(numbers, called)
        state = (there, under_way, left, itself)
        return blake2b(marshal.dumps(state, 2), digest_size=16).digest()
