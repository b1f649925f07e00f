"""Several reference schedulers behind a router, step by step on one clock: what each of them records, and the router.

The engines are of the same kind and take the same time for each step; tokens are made up, but the same for a seed.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import Factory, define, evolve

from ..spec.fleets.router_log import SCHEMA
from ..spec.trace import TraceWriter
from ..spec.vocabulary import (
    OPEN,
    Delta,
    Door,
    Header,
    Message,
    Outcome,
    Request,
    Settings,
    Subject,
    SubjectFactory,
)
from .router import Dealer, Router
from .scheduler import make

STEP_NS = 10_000_000
MOST_STEPS = 100_000
"""Who has not ended by then never will."""
ENDS = ("finished", "failed", "cancelled", "expired")
SETTINGS = Settings(blocks=16, block_size=4, seats=2, token_budget=32, policy="vtc", door=Door(queue_requests=6))


@define
class Engine:
    """A replica, and all that it was told and answered."""

    name: str
    subject: Subject
    header: Header
    messages: list[Message] = Factory(list)
    requests: dict[str, Request] = Factory(dict)
    has_begun: set[str] = Factory(set)

    @classmethod
    def make(cls, name: str, settings: Settings, seed: int, factory: SubjectFactory) -> "Engine":
        subject = factory(settings, seed)
        shown = subject.capabilities()
        return cls(
            name, subject, Header(settings=settings, capabilities=shown, seed=seed, subject=shown.name, engine=name)
        )

    def submit(self, request: Request, now_ns: int) -> bool:
        receipt = self.subject.submit(request, now_ns)
        self.messages.append(Message("submit", now_ns, request, receipt))
        if receipt.verdict == "accepted":
            self.requests[request.id] = request
        return receipt.verdict == "accepted"

    def cancel(self, request: str, now_ns: int) -> None:
        deltas = self.subject.cancel(request, now_ns)
        self.messages.append(Message("cancel", now_ns, request, deltas))
        self._follow(deltas)

    def step(self, now_ns: int, draws: random.Random) -> list[tuple[Request, str]]:
        """Plan and compute one step; who ended in it, and how."""
        plan = self.subject.step(now_ns)
        self.messages.append(Message("step", now_ns, None, plan))
        ended = self._follow(plan.deltas)
        sampled = [request for request, samples in zip(plan.request, plan.samples, strict=True) if samples]
        tokens = [draws.randrange(1, 1_000) for _ in sampled]
        outcome = Outcome(step=plan.step, request=sampled, token=tokens, stop=[token < 40 for token in tokens])
        deltas = self.subject.complete(outcome, now_ns + STEP_NS)
        self.messages.append(Message("complete", now_ns + STEP_NS, outcome, deltas))
        self.has_begun.update(sampled)
        return ended + self._follow(deltas)

    def _follow(self, deltas: Sequence[Delta]) -> list[tuple[Request, str]]:
        ended = [(self.requests.pop(delta[1]), delta[0]) for delta in deltas if delta[0] in ENDS]
        for request, _ in ended:
            self.has_begun.discard(request.id)
        return ended


@define
class Fleet:
    """`lines`: the log of the router."""

    router: Router
    engines: dict[str, Engine]
    draws: random.Random
    lines: list[dict[str, Any]] = Factory(list)
    now_ns: int = 0

    def run(self, arrivals: Sequence[tuple[int, Request]]) -> None:
        """(time, request), not descending in time; until nobody is left."""
        todo = list(reversed(arrivals))
        for _ in range(MOST_STEPS):
            if not todo and not self._is_busy():
                break
            while todo and todo[-1][0] <= self.now_ns:
                self._arrive(todo.pop()[1])
            self._take_back()
            self._dispatch()
            for engine in self.engines.values():
                for request, how in engine.step(self.now_ns, self.draws):
                    self._ended(request, how)
            self.now_ns += STEP_NS
        self._log("end")
        for engine in self.engines.values():
            engine.messages.append(Message("end", self.now_ns))

    def _is_busy(self) -> bool:
        return bool(self.router.queue) or any(engine.requests for engine in self.engines.values())

    def _arrive(self, request: Request) -> None:
        verdict = self.router.arrive(request, self.now_ns)
        self._log("arrived", request=request.id, client=request.client, verdict=verdict)

    def _dispatch(self) -> None:
        """Each once: whoever is refused everywhere comes again with the next step."""
        for _ in range(len(self.router.queue)):
            self._send(self.router.queue.popleft())

    def _send(self, request: Request) -> None:
        name = self.router.choose(request)
        if name is None:
            self._log("ended", request=request.id, how="refused")
            self.router.ended(request, "refused", self.now_ns)
            return
        self.router.sent(request, name, self.now_ns)
        self._log("sent", request=request.id, engine=name)
        if not self.engines[name].submit(request, self.now_ns):
            self._log("back", request=request.id, engine=name, why="refused")
            self.router.came_back(request)

    def _take_back(self) -> None:
        begun = {request for engine in self.engines.values() for request in engine.has_begun}
        for placed in self.router.overdue(self.now_ns, begun):
            self.let_go(placed.engine, placed.request)
            self._log("back", request=placed.request.id, engine=placed.engine, why="cancelled")
            self.router.came_back(placed.request)

    def let_go(self, engine: str, request: Request) -> None:
        self.engines[engine].cancel(request.id, self.now_ns)

    def _ended(self, request: Request, how: str) -> None:
        self.router.ended(request, how, self.now_ns + STEP_NS)
        self._log("ended", request=request.id, how=how, now_ns=self.now_ns + STEP_NS)

    def _log(self, kind: str, **fields: Any) -> None:
        self.lines.append({"schema": SCHEMA, "type": kind, "now_ns": self.now_ns, **fields})

    def router_lines(self) -> Iterator[str]:
        """The router's log, as it is written."""
        claims = sorted(self.router.claims)
        header = {"schema": SCHEMA, "type": "header", "engines": list(self.engines), "claims": claims}
        for line in (header, *sorted(self.lines, key=lambda line: line["now_ns"])):
            yield json.dumps(line) + "\n"

    def write(self, folder: Path) -> None:
        """A trace for each engine, and router.jsonl."""
        folder.mkdir(parents=True, exist_ok=True)
        for engine in self.engines.values():
            with (folder / f"{engine.name}.jsonl").open("w") as file:
                writer = TraceWriter(file, engine.header)
                for message in engine.messages:
                    writer.write(message)
        (folder / "router.jsonl").write_text("".join(self.router_lines()))


def new_fleet(
    count: int,
    seed: int,
    *,
    router: type[Router] = Dealer,
    settings: Settings = SETTINGS,
    factories: Mapping[int, SubjectFactory] | None = None,
    fleet: type[Fleet] = Fleet,
    **how: Any,
) -> Fleet:
    """`factories`: of engines that are others than the reference, by their numbers."""
    names = [f"e{number:03d}" for number in range(count)]
    others = factories or {}
    engines = {
        name: Engine.make(name, evolve(settings), seed + number, others.get(number, make))
        for number, name in enumerate(names)
    }
    return fleet(router(names, **how), engines, random.Random(seed))


def arrivals(
    count: int, seed: int, *, clients: int = 3, gap_ns: int = STEP_NS, keys: int = 0
) -> list[tuple[int, Request]]:
    """Requests of several clients at random times; one of `keys` has a key, and comes again under
    another id, at once and when its key is forgotten."""
    draws = random.Random(seed)
    found, now_ns = [], 0
    for number in range(count):
        now_ns += draws.randrange(2 * gap_ns)
        prompt = [draws.randrange(1, 1_000) for _ in range(draws.randrange(1, 16))]
        key = f"k{number}" if keys and number % keys == 0 else None
        client = f"c{draws.randrange(clients)}"
        request = Request(
            id=f"r{number}",
            prompt_ids=prompt,
            max_output_tokens=draws.randrange(1, 12),
            client=client,
            idempotency_key=key,
        )
        found.append((now_ns, request))
        if key is not None:
            found.append((now_ns + STEP_NS, evolve(request, id=f"r{number}-again")))
            found.append((now_ns + 500 * STEP_NS, evolve(request, id=f"r{number}-later")))
    return sorted(found, key=lambda item: item[0])


def flooded(engines: int, router: type[Router], seed: int, *, each: int) -> Fleet:
    """A fleet that has run: one client more than engines, all of whom ask for so much at once, in requests each, that
    they wait from the beginning nearly to the end."""
    draws, clients = random.Random(seed), engines + 1
    requests = [
        Request(
            id=f"r{number}",
            prompt_ids=[draws.randrange(1, 99) for _ in range(draws.randrange(1, 6))],
            max_output_tokens=draws.randrange(1, 6),
            client=f"c{number % clients}",
        )
        for number in range(each * clients)
    ]
    fleet = new_fleet(engines, seed, router=router, settings=evolve(SETTINGS, door=OPEN))
    fleet.run([(0, request) for request in requests])
    return fleet
