"""The terms of the door and the reference's door are two texts: on generated runs no guard fails, and all that is
proved holds; and a door that is wrong shows."""

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from attrs import Factory, define, evolve

from schedspec.conformance.driver import Driver
from schedspec.conformance.features import at_the_door, with_door
from schedspec.conformance.walks import walk
from schedspec.proofs.door import DOOR
from schedspec.reference import Scheduler
from schedspec.reference.faults import FAULTS
from schedspec.spec.compiled import compile_program
from schedspec.spec.service import lane_of
from schedspec.spec.vocabulary import Message, Request, Settings, SubjectFactory

PROGRAM = compile_program(DOOR.registry)
HELD = [c.name for c in DOOR.registry.of_kind("invariant")]
NO_LIMIT = 1 << 40
WALKS = 12
TRIES = 40
LIMITS: Mapping[str, dict[str, int]] = {"ADMIT-7": {"client_tokens": 12, "rate_requests": 99, "committed_tokens": 0}}
"""Under which a fault shows soon."""
LOOK_EVERY = 4


def or_none(limit: int) -> int:
    return limit or NO_LIMIT


@define
class Terms:
    """The terms, told what a run of the reference did.  A request without a key has one of its own."""

    settings: Settings
    who: str
    edge: int
    world: Any = Factory(PROGRAM.world)
    requests: dict[str, Request] = Factory(dict)
    queue: dict[str, None] = Factory(dict)
    recent: dict[str, int] = Factory(dict)
    retained: dict[str, int] = Factory(dict)
    wrong: list[str] = Factory(list)
    seen: Counter[str] = Factory(Counter)

    def __attrs_post_init__(self) -> None:
        door, world = self.settings.door, self.world
        for name in ("queue_requests", "queue_tokens", "client_requests", "client_tokens", "committed_tokens"):
            setattr(world, name, or_none(getattr(door, name)))
        world.age, world.window, world.retain = or_none(door.queue_age_ns), door.rate_window_ns, door.retain_ns
        world.rate, world.who, world.edge = or_none(door.rate_requests), self.who, self.edge
        for lane in self.settings.lanes:
            world.LaneName[lane.name].lane_requests = or_none(lane.queue_requests)
            world.LaneName[lane.name].lane_tokens = or_none(lane.queue_tokens)

    def fire(self, event: str, *fields: Any) -> None:
        self.seen[event] += 1
        PROGRAM.one[event](self.world, *fields)
        for number, _ in self.world.failed:
            self.wrong.append(f"{DOOR.registry.conjuncts[number].name} fails at {event}{fields}")
        self.world.failed.clear()

    def look(self) -> None:
        self.wrong += [f"{name} does not hold" for name in HELD if not PROGRAM.holds[name](self.world)]

    def hear(self, message: Message) -> None:
        """The clock; what is over by it; what the call did, with its end."""
        self.fire("Call", message.now_ns)
        for request, since in list(self.recent.items()):
            if since + self.settings.door.rate_window_ns <= message.now_ns:
                del self.recent[request]
                self.fire("Forget", request)
        for key, until in list(self.retained.items()):
            if until <= message.now_ns:
                del self.retained[key]
                self.fire("Release", key)
        answer = message.answer
        for delta in getattr(answer, "deltas", answer or ()):
            self._change(delta, message.now_ns)
        if message.kind == "submit" and answer.verdict == "accepted":
            self._accept(message.given, message.now_ns)
        self.fire("Return")

    def _accept(self, request: Request, now_ns: int) -> None:
        row, own = self.world.RequestName[request.id], self.key(request)
        row.tokens, row.client, row.key = request.declared_tokens, request.client, own
        row.lane = lane_of(self.settings, request).name if self.settings.lanes else ""
        if not self.settings.lanes:
            self.world.LaneName[""].lane_requests = self.world.LaneName[""].lane_tokens = NO_LIMIT
        self.requests[request.id], self.queue[request.id] = request, None
        if request.client == self.who:
            self.recent[request.id] = now_ns
        self.fire("Accept", request.id)

    def key(self, request: Request) -> str:
        kept = request.idempotency_key is not None and self.settings.door.retain_ns
        return f"{request.client}/{request.idempotency_key}" if kept else f"own {request.id}"

    def _change(self, delta: Any, now_ns: int) -> None:
        kind, request = delta[0], delta[1]
        if kind == "admitted" and request in self.queue:
            self.fire("Admit", request)
        elif kind == "expired":
            self.fire("Expire", request)
        elif kind in ("finished", "cancelled", "failed"):
            if kind == "finished":
                self.retained[self.key(self.requests[request])] = now_ns + self.settings.door.retain_ns
            self.fire("End", request, kind == "finished")
        if kind in ("admitted", "expired", "finished", "cancelled", "failed"):
            self.queue.pop(request, None)


def terms_of(factory: SubjectFactory, seed: int, **limits: int) -> Terms:
    """The worlds that have no door with promises are left out."""
    dice, script = Random(f"terms {seed}"), walk(seed)
    if script.settings.park_timeout_ns:
        return Terms(Settings(), who="a", edge=0)
    settings = with_door(dice, evolve(script.settings, draft_tokens=0), always=True)  # a time model counts none
    drawn = evolve(settings.door, rate_tokens=0, rate_requests=2, rate_window_ns=90, retain_ns=60)
    settings = evolve(settings, door=evolve(drawn, **limits))
    driver = Driver.start(factory, settings, seed)
    for op in script.ops:
        for one in at_the_door(dice, op, settings):
            driver.do(one)
    driver.drain()
    terms = Terms(settings, who="a", edge=dice.choice((0, 40, 100, 250)))
    messages = [message for message in driver.messages if message.kind not in ("observe", "end")]
    for number, message in enumerate(messages):
        terms.hear(message)
        if number % LOOK_EVERY == 0:
            terms.look()
    return terms


def test_the_reference_keeps_every_guard_and_what_is_proved_holds() -> None:
    seen: Counter[str] = Counter()
    for seed in range(WALKS):
        terms = terms_of(Scheduler, seed)
        assert terms.wrong == [], (seed, terms.wrong[:3])
        seen += terms.seen
    assert set(seen) == set(DOOR.registry.events), seen


@pytest.mark.parametrize("rule", ["ADMIT-3", "ADMIT-4", "ADMIT-6", "ADMIT-7", "ADMIT-12"])
def test_a_door_that_breaks_the_rule_breaks_a_guard_of_it(rule: str) -> None:
    runs = (terms_of(FAULTS[rule], seed, **LIMITS.get(rule, {})) for seed in range(TRIES))
    assert any(wrong.startswith(f"{rule}.") for terms in runs for wrong in terms.wrong)
