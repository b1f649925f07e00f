"""Sharing by service: prices, charges, rounds, prefixes, lanes, aging and caps, on runs that can be worked out by hand.

Without prices a request of one prompt token and one output costs 3: 1 and 2.  With one seat the order of admissions is
the order of service.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from attrs import evolve

from schedspec.conformance.driver import Driver
from schedspec.conformance.script import COMPLETE, STEP, Op, cancel, rounds, submit
from schedspec.conformance.walks import plain_walk
from schedspec.reference import make
from schedspec.reference.scheduler import claims_of, constants_of
from schedspec.spec.service import lane_of
from schedspec.spec.vocabulary import OF_CLIENTS, Lane, Message, Policy, Request, Settings, blocks_for, hybrid

SETTINGS = Settings(blocks=64, block_size=1, seats=1, token_budget=16, policy="vtc")
FAST_AND_SLOW = (Lane(name="fast", share_percent=75), Lane(name="slow", share_percent=25))


def of(client: str, *requests: tuple[str, int, int], lane: str = "", predicted: int | None = None) -> tuple[Op, ...]:
    """Submissions of one client: id, prompt tokens, output tokens."""
    ops = (submit(id, prompt, output, client=client) for id, prompt, output in requests)
    return tuple(changed(op, lane=lane, predicted_output_tokens=predicted) for op in ops)


def many(client: str, name: str, count: int, lane: str = "") -> tuple[Op, ...]:
    """Requests of cost 3."""
    return of(client, *((f"{name}{n}", 1, 1) for n in range(1, count + 1)), lane=lane)


def changed(op: Op, **fields: Any) -> Op:
    assert op.request is not None
    return evolve(op, request=evolve(op.request, **fields))


def start(settings: Settings, ops: Sequence[Op]) -> Driver:
    driver = Driver.start(make, settings, 0)
    driver.run(ops)
    assert driver.fault is None, str(driver.fault)
    return driver


def run(settings: Settings, ops: Sequence[Op]) -> Driver:
    """To the end, with no rule broken."""
    driver = start(settings, ops)
    driver.drain()
    assert not driver.broken, str(driver.broken[0])
    return driver


def order(driver: Driver) -> str:
    """Who was admitted, in order."""
    deltas = [delta for message in driver.messages if message.kind == "step" for delta in message.answer.deltas]
    return " ".join(delta[1] for delta in deltas if delta[0] in ("admitted", "resumed"))


def counters(driver: Driver) -> dict[str, int]:
    shown = driver.subject.observe()
    assert shown is not None
    return dict(shown.client_counters)


def running(driver: Driver) -> str:
    shown = driver.subject.observe()
    assert shown is not None
    return " ".join(sorted(id for id, view in shown.requests.items() if view.state == "running"))


# --- charges ---------------------------------------------------------------------------------------------------


def test_service_counts_times_the_price_of_the_client() -> None:
    """A request of A counts 9, one of B 3."""
    settings = evolve(SETTINGS, prices={"A": 3})
    driver = run(settings, (*many("A", "a", 2), *many("B", "b", 4)))
    assert order(driver) == "a1 b1 b2 b3 a2 b4"
    assert counters(driver) == {"A": 18, "B": 12}


def test_every_part_of_the_tariff_is_charged_when_it_falls_due() -> None:
    """10 for the request and 3 for its prompt; an output costs 2, 3 for the prompt, and n² - (n - 1)² for the nth."""
    settings = evolve(SETTINGS, request_weight=10, product_weight=1, square_weight=1)
    driver = start(settings, of("A", ("a1", 3, 2)))
    seen = []
    for op in (STEP, COMPLETE, STEP, COMPLETE):
        driver.do(op)
        seen.append(counters(driver)["A"])
    assert seen == [13, 19, 19, 27]


def test_a_prompt_is_charged_chunk_by_chunk() -> None:
    settings = evolve(SETTINGS, token_budget=4, charge_prompt="chunk")
    driver = start(settings, of("A", ("a1", 10, 2)))
    seen = []
    for _ in range(4):
        driver.run(rounds(1))
        seen.append(counters(driver)["A"])
    assert seen == [4, 8, 12, 14]


def test_cached_positions_are_charged_like_others() -> None:
    settings = evolve(SETTINGS, block_size=2, prefix_caching=True, charge_prompt="chunk")
    prompt = tuple(range(9))
    driver = start(settings, (submit("a", prompt, 1, client="A"), submit("b", prompt, 1, client="B"), *rounds(1), STEP))
    assert [message.answer.tokens for message in driver.messages if message.kind == "step"] == [(9,), (1,)]
    assert counters(driver) == {"A": 11, "B": 9}


@pytest.mark.parametrize("charge_prompt", ["pick", "chunk"])
def test_recompute_is_charged_in_no_way(charge_prompt: Any) -> None:
    """Requests of 10 + 1 + 8 each, of whom some are preempted; what is more is lifts."""
    settings = evolve(
        SETTINGS, blocks=5, seats=3, request_weight=10, charge_prompt=charge_prompt, charge_prediction=True
    )
    driver = run(settings, (*of("A", ("a1", 1, 4)), *of("B", ("b1", 1, 4)), *of("C", ("c1", 1, 4))))
    assert len(order(driver).split()) > 3
    assert counters(driver) == {"A": 19, "B": 19, "C": 19}


def test_outputs_beyond_the_prediction_are_charged_as_they_come() -> None:
    driver = start(evolve(SETTINGS, charge_prediction=True), of("A", ("a1", 1, 4), predicted=2))
    seen = []
    for _ in range(4):
        driver.run(rounds(1))
        seen.append(counters(driver)["A"])
    assert seen == [5, 5, 7, 9]


def test_what_was_predicted_and_did_not_come_is_refunded() -> None:
    settings = evolve(SETTINGS, charge_prediction=True)
    (op,) = of("A", ("a1", 1, 8), predicted=5)
    driver = start(settings, (evolve(op, stop_after=2), STEP))
    assert counters(driver) == {"A": 11}
    driver.run((COMPLETE, *rounds(1)))
    assert counters(driver) == {"A": 5}


def test_a_refund_ends_at_the_virtual_time() -> None:
    """B is picked at 0 and at 6: a refund of 6 would take A from 11 to 5."""
    settings = evolve(SETTINGS, seats=2, charge_prediction=True)
    (op,) = of("A", ("a1", 1, 8), predicted=5)
    driver = start(settings, (evolve(op, stop_after=2), *of("B", ("b1", 4, 1), ("b2", 4, 1)), *rounds(2)))
    assert counters(driver) == {"A": 6, "B": 12}


def test_who_is_cancelled_while_it_waits_again_gets_its_refund_too() -> None:
    """Two of four outputs are there when b1 is preempted; c1 waits at 0."""
    settings = evolve(SETTINGS, blocks=5, seats=2, charge_prediction=True)
    driver = start(settings, (*of("A", ("a1", 1, 4)), *of("B", ("b1", 1, 4)), *of("C", ("c1", 1, 4)), *rounds(2), STEP))
    assert running(driver) == "a1"
    assert counters(driver) == {"A": 9, "B": 9, "C": 0}
    driver.do(cancel("b1"))
    assert counters(driver) == {"A": 9, "B": 5, "C": 0}


# --- aging -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("credit", "served"), [(100, "a1 b1 b2 a2 b3 b4 b5"), (10, "a1 b1 b2 b3 b4 b5 a2")])
def test_who_has_waited_long_is_preferred_by_the_credit(credit: int, served: str) -> None:
    """A is at 42; a2 has seen a1, b1 and b2 enter, b3 only two of them.  A credit of 10 is too little."""
    settings = evolve(SETTINGS, aging_picks=3, aging_credit=credit)
    first, *later = many("B", "b", 5)
    driver = start(settings, (*of("A", ("a1", 40, 1), ("a2", 1, 1)), first, STEP, *later))
    driver.drain()
    assert order(driver) == served


# --- rounds ----------------------------------------------------------------------------------------------------


def test_a_client_keeps_its_turn_until_its_quantum_is_exceeded() -> None:
    """Four requests of 3 exceed 10."""
    driver = run(evolve(SETTINGS, policy="drr", quantum=10), (*many("A", "a", 5), *many("B", "b", 5)))
    assert order(driver) == "a1 a2 a3 a4 b1 b2 b3 b4 a5 b5"


def test_a_debt_is_paid_in_later_rounds() -> None:
    """a1 costs 25, and A sits out the round after its own: B gets 21, which is as far as round 2."""
    ops = (*of("A", ("a1", 23, 1), ("a2", 1, 1)), *many("B", "b", 8))
    driver = run(evolve(SETTINGS, policy="drr", quantum=10), ops)
    assert order(driver) == "a1 b1 b2 b3 b4 b5 b6 b7 a2 b8"


def test_who_comes_back_starts_with_the_round() -> None:
    """B is least with 18 when C comes."""
    settings = evolve(SETTINGS, policy="drr", quantum=10)
    driver = start(settings, (*of("A", ("a1", 23, 1), ("a2", 1, 1)), *many("B", "b", 9), *rounds(8)))
    assert counters(driver) == {"A": 25, "B": 18}
    driver.run(many("C", "c", 1))
    assert counters(driver)["C"] == 10


@pytest.mark.parametrize(("quantum", "served"), [(100, "a1 a2 c1 b1"), (5, "a1 c1 b1 a2")])
def test_the_longest_cached_prefix_is_next_among_those_with_quantum_left(quantum: int, served: str) -> None:
    """a2 shares all of a1, c1 half of it, b1 nothing.  A quantum of 5 is used up by a1."""
    settings = evolve(SETTINGS, policy="dlpm", quantum=quantum, prefix_caching=True)
    ops = (
        submit("a1", (1, 2, 3, 4, 5), 1, client="A"),
        submit("a2", (1, 2, 3, 4, 6), 1, client="A"),
        submit("b1", (9, 9, 9, 9, 9), 1, client="B"),
        submit("c1", (1, 2, 8, 8, 8), 1, client="C"),
    )
    assert order(run(settings, ops)) == served


# --- lanes -----------------------------------------------------------------------------------------------------

LANES = evolve(SETTINGS, policy="lanes", lanes=FAST_AND_SLOW)


def test_lanes_get_service_by_their_shares() -> None:
    """A request of 3 counts 3 in the one lane and 9 in the other."""
    ops = (*many("A", "f", 7, "fast"), *many("A", "s", 3, "slow"))
    assert order(run(LANES, ops)) == "f1 s1 f2 f3 f4 s2 f5 f6 f7 s3"


def test_what_a_lane_leaves_unused_goes_to_the_others_and_is_no_credit() -> None:
    """The fast one is at 9 when the slow one comes: it starts there, and after s1 it is at 18."""
    ops = (*many("A", "f", 8, "fast"), *rounds(3), *many("A", "s", 2, "slow"))
    assert order(run(LANES, ops)) == "f1 f2 f3 f4 s1 f5 f6 f7 s2 f8"


def test_a_lane_comes_back_with_its_burst() -> None:
    """It starts at 9 - 3 · 2, is at 12 after s1, and at 21 after s2."""
    lanes = (FAST_AND_SLOW[0], evolve(FAST_AND_SLOW[1], burst=2))
    ops = (*many("A", "f", 8, "fast"), *rounds(3), *many("A", "s", 2, "slow"))
    assert order(run(evolve(LANES, lanes=lanes), ops)) == "f1 f2 f3 s1 f4 f5 s2 f6 f7 f8"


@pytest.mark.parametrize(("within", "served"), [("fifo", "a1 a2 a3 b1"), ("vtc", "a1 b1 a2 a3")])
def test_within_a_lane_arrival_counts_or_service(within: Any, served: str) -> None:
    lanes = (Lane(name="all", share_percent=100, order=within),)
    assert order(run(evolve(LANES, lanes=lanes), (*many("A", "a", 3), *many("B", "b", 1)))) == served


def test_a_lane_that_waits_long_is_preferred() -> None:
    """The slow lane is at 126 after s1; s2 has seen s1, f1 and f2 enter before f4 has seen three."""
    settings = evolve(LANES, aging_picks=3, aging_credit=1_000)
    ops = (*of("A", ("s1", 40, 1), ("s2", 1, 1), lane="slow"), STEP, *many("A", "f", 5, "fast"))
    driver = start(settings, ops)
    driver.drain()
    assert order(driver) == "s1 f1 f2 s2 f3 f4 f5"


def test_a_lane_at_its_maximum_is_passed_over() -> None:
    """A request of 1 + 3 reserves half of 8 blocks: one of each lane at a time, though three seats are free."""
    halves = tuple(Lane(name=name, share_percent=50, maximum_percent=50) for name in ("x", "y"))
    settings = evolve(LANES, lanes=(halves[0], evolve(halves[1], burst=1)), blocks=8, seats=4)
    ops = (*of("A", ("x1", 1, 3), ("x2", 1, 3), lane="x"), *of("A", ("y1", 1, 3), ("y2", 1, 3), lane="y"))
    driver = start(settings, (*ops, STEP))
    assert running(driver) == "x1 y1"
    driver.drain()
    assert order(driver) == "x1 y1 x2 y2"


def test_whoever_is_alone_in_a_lane_may_exceed_its_maximum() -> None:
    lanes = (Lane(name="small", share_percent=10, maximum_percent=10), Lane(name="rest", share_percent=90))
    driver = run(evolve(LANES, lanes=lanes, blocks=8, seats=4), of("A", ("x1", 1, 8), ("x2", 1, 8), lane="small"))
    assert order(driver) == "x1 x2"


# --- caps ------------------------------------------------------------------------------------------------------


def test_a_client_at_its_seats_is_passed_over() -> None:
    driver = start(
        evolve(SETTINGS, seats=3, client_seats=1), (*of("A", ("a1", 1, 2), ("a2", 1, 2)), *many("B", "b", 2))
    )
    driver.run(rounds(1))
    assert order(driver) == "a1 b1"
    driver.drain()
    assert order(driver) == "a1 b1 b2 a2"


def test_a_client_may_have_so_many_tokens() -> None:
    """5 and 5 are 10; a3 would be the fifteenth.  b1 is alone, and may be larger."""
    settings = evolve(SETTINGS, seats=8, client_resident_tokens=10)
    driver = start(settings, (*of("A", ("a1", 1, 4), ("a2", 1, 4), ("a3", 1, 4)), *of("B", ("b1", 2, 20)), STEP))
    assert running(driver) == "a1 a2 b1"
    driver.do(cancel("a1"))
    driver.run((COMPLETE, STEP))
    assert running(driver) == "a2 a3 b1"


def test_the_cost_that_a_client_is_committed_to_is_bounded() -> None:
    """A request of 1 + 4 costs 9.  When 7 of a1 are still to come, a2 makes 16."""
    settings = evolve(SETTINGS, seats=8, client_committed_cost=14)
    driver = start(settings, (*of("A", ("a1", 1, 4), ("a2", 1, 4)), STEP))
    seen = [running(driver)]
    for _ in range(2):
        driver.run((COMPLETE, STEP))
        seen.append(running(driver))
    assert seen == ["a1", "a1", "a1 a2"]


def test_a_client_is_held_in_all_lanes() -> None:
    """With one seat per client a2 waits in the fast lane while a1 runs in the slow one, and b1 goes past it."""
    settings = evolve(LANES, seats=4, client_seats=1)
    ops = (
        *of("A", ("a1", 1, 2), lane="slow"),
        *of("A", ("a2", 1, 2), lane="fast"),
        *of("B", ("b1", 1, 2), lane="fast"),
    )
    driver = start(settings, (*ops, STEP))
    assert running(driver) == "a1 b1"
    driver.run((COMPLETE, *rounds(1), STEP))
    assert running(driver) == "a2"


def test_all_clients_together_may_have_so_many_tokens() -> None:
    """The round ends at the first who does not fit, though b2 would."""
    settings = evolve(SETTINGS, seats=8, resident_tokens=10)
    driver = start(settings, (*of("A", ("a1", 1, 4)), *of("B", ("b1", 4, 4), ("b2", 1, 1)), STEP))
    assert running(driver) == "a1"
    assert order(run(settings, of("A", ("a1", 4, 20), ("a2", 4, 20)))) == "a1 a2"


@pytest.mark.parametrize("policy", ["fcfs", "vtc"])
def test_so_many_prompts_are_in_prefill_at_once(policy: Policy) -> None:
    """a1 takes two steps, and until it is through nobody else begins."""
    settings = evolve(SETTINGS, policy=policy, seats=8, token_budget=8, chunk_tokens=4, prefilling_requests=1)
    ops = (*of("A", ("a1", 8, 4)), *of("B", ("b1", 1, 4)), *of("C", ("c1", 1, 4)))
    driver = start(settings, (*ops, STEP))
    seen = [running(driver)]
    for _ in range(3):
        driver.run((COMPLETE, STEP))
        seen.append(running(driver))
    assert seen == ["a1", "a1", "a1 b1", "a1 b1 c1"]


# --- promises --------------------------------------------------------------------------------------------------


def test_claims_follow_the_settings() -> None:
    plain = {policy: claims_of(evolve(SETTINGS, policy=policy)) for policy in OF_CLIENTS}
    assert {policy for policy, claims in plain.items() if "fair_share" in claims} == {"vtc", "drr", "dlpm"}
    assert plain["lanes"] >= {"lanes", "shares", "burst", "borrowing"}
    assert "fair_share" not in claims_of(evolve(SETTINGS, at_blocked_head="skip"))
    settings = evolve(
        SETTINGS,
        policy="drr",
        prices={"A": 2},
        charge_prompt="chunk",
        charge_prediction=True,
        aging_picks=1,
        aging_credit=7,
        client_committed_cost=99,
        prefilling_requests=2,
    )
    wanted = {"drr", "weighted", "per_chunk", "prediction", "aged_sharing", "committed_cap", "prefill_cap"}
    assert claims_of(settings) >= wanted
    constants = constants_of(settings)
    assert constants.items() >= {"quantum": 64, "aging_credit": 7, "committed_cost": 99}.items()
    objective = (
        Lane(name="l", share_percent=1, maximum_percent=99, objective_steps=9, load_tokens=6),
        *FAST_AND_SLOW[1:],
    )
    claims = claims_of(evolve(LANES, lanes=objective, max_output_tokens=9))
    assert "objective" in claims
    assert "borrowing" not in claims


# --- all at once -----------------------------------------------------------------------------------------------

SHAPES = (
    Lane(name="short", share_percent=60, max_prompt_tokens=8, max_output_tokens=4, burst=6),
    Lane(name="long", share_percent=25, maximum_percent=60, order="vtc"),
    Lane(name="named", share_percent=15, maximum_percent=15, by_shape=False),
)


def of_everything(settings: Settings, policy: Policy, dice: Random) -> Settings:
    """Small quanta, prices and caps, each of them in some of the walks."""
    changes: dict[str, Any] = {
        "lanes": SHAPES if policy == "lanes" else (),
        "quantum": dice.choice((1, 5, 20)),
        "request_weight": dice.choice((0, 3)),
        "product_weight": dice.choice((0, 1)),
        "square_weight": dice.choice((0, 1)),
        "charge_prompt": dice.choice(("pick", "chunk")),
        "charge_prediction": dice.random() < 0.5 and policy != "round_robin",
        "prices": dice.choice(((), (("a", 3),), (("a", 1), ("b", 2)))),
        "client_seats": dice.choice((0, 0, 1)),
        "client_resident_tokens": dice.choice((0, 0, 20)),
        "client_committed_cost": dice.choice((0, 0, 40)),
        "resident_tokens": dice.choice((0, 0, 40)),
        "prefilling_requests": dice.choice((0, 0, 1, 2)),
    }
    aging = dice.choice(((0, 0), (2, 10), (4, 100)))
    return evolve(settings, policy=policy, aging_picks=aging[0], aging_credit=aging[1], **changes)


def with_lanes_and_predictions(ops: Sequence[Op], dice: Random) -> list[Op]:
    """Some name a lane; predictions are right or wrong."""
    return [
        changed(
            op,
            lane=dice.choice(("default", "default", "named")),
            predicted_output_tokens=dice.choice((None, 1, 3, op.request.max_output_tokens)),
        )
        if op.request
        else op
        for op in ops
    ]


class Caps:
    """What the caps say, from messages alone."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.requests: dict[str, Request] = {}
        self.running: dict[str, Request] = {}
        self.goal: dict[str, int] = {}
        self.delivered: Counter[str] = Counter()

    def look(self, message: Message) -> None:
        if message.kind == "submit":
            self.requests[message.given.id] = message.given
        deltas = message.answer.deltas if message.kind in ("submit", "step") else message.answer
        for kind, request, *_ in () if message.kind in ("observe", "end") else deltas:
            if kind in ("admitted", "resumed"):
                self.admit(self.requests[request])
            elif kind in ("preempted", "finished", "cancelled"):
                self.running.pop(request, None)
            elif kind == "delivered":
                self.delivered.update(request)
        if message.kind == "step":
            rows = zip(message.answer.request, message.answer.start, strict=True)
            prefilling = sum(start < self.goal[request] for request, start in rows)
            assert not self.settings.prefilling_requests or prefilling <= self.settings.prefilling_requests

    def admit(self, request: Request) -> None:
        s = self.settings
        self.goal[request.id] = request.prompt_tokens + self.delivered[request.id]
        peers = [other for other in self.running.values() if other.client == request.client]
        assert not s.client_seats or len(peers) < s.client_seats
        assert not s.client_resident_tokens or not peers or self.tokens([*peers, request]) <= s.client_resident_tokens
        everybody = [*self.running.values(), request]
        assert not s.resident_tokens or len(everybody) == 1 or self.tokens(everybody) <= s.resident_tokens
        self.running[request.id] = request
        if s.lanes:
            lane = lane_of(s, request)
            within = [other for other in everybody if lane_of(s, other) == lane]
            blocks = sum(blocks_for(self.tokens([other]), s.block_size) for other in within)
            assert lane.maximum_percent == 100 or len(within) == 1 or blocks * 100 <= lane.maximum_percent * s.blocks

    @staticmethod
    def tokens(requests: Sequence[Request]) -> int:
        return sum(request.prompt_tokens + request.max_output_tokens for request in requests)


@pytest.mark.parametrize("policy", OF_CLIENTS)
def test_every_policy_works_with_everything_else_at_once(policy: Policy) -> None:
    """Walks of memory that is short, with preemption, cancels, chunks, shared prefixes and steps that overlap."""
    preempted = 0
    for seed in range(20):
        script = plain_walk(seed)
        dice = Random(f"{policy} {seed}")
        settings = of_everything(script.settings, policy, dice)
        driver = run(settings, with_lanes_and_predictions(script.ops, dice))
        caps = Caps(settings)
        for message in driver.messages:
            caps.look(message)
        assert not caps.running
        preempted += sum(track.epoch > 1 for track in driver.monitor.tracks.values())
    assert preempted


def test_the_hybrid_settings_run() -> None:
    settings = hybrid(blocks=32, block_size=2, seats=4, token_budget=8)
    ops = [*many("A", "a", 6), *of("B", *((f"b{n}", 9, 5) for n in range(4))), *many("C", "c", 4, "offline")]
    driver = run(settings, ops)
    assert len(order(driver).split()) >= 14
