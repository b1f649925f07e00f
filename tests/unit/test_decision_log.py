"""The log of decisions, held to what it says: where the rule that is logged is lifted, and nothing else, the decision
is another one; and the same for the limits that the door names."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from itertools import count, islice
from random import Random
from typing import Any

import pytest
from attrs import evolve

from schedspec.conformance.driver import Driver
from schedspec.conformance.features import with_alternatives, with_door
from schedspec.conformance.scenarios import scenarios
from schedspec.conformance.script import STEP, Op, Script, leave, rounds, submit
from schedspec.conformance.walks import walk
from schedspec.conformance.why import sentences, tell_of
from schedspec.reference import Scheduler, make
from schedspec.reference.faults import FAULTS
from schedspec.reference.selection.one_queue import Guarded, WaitingQueue, by_arrival
from schedspec.spec.vocabulary import REFUSAL_REASONS, Door, Plan, Settings, Unsupported

from .test_wait_log import add_all, add_blocks, change

LOGGED = 30
AT_THE_DOOR = 25


def subject_of(driver: Driver) -> Scheduler:
    subject = getattr(driver.subject, "subject", driver.subject)
    assert isinstance(subject, Scheduler)
    return subject


def in_order_of_arrival(subject: Scheduler) -> None:
    queue = WaitingQueue(by_arrival)
    for job in sorted(subject.state.live(), key=lambda job: job.arrival):
        if job.state == "waiting":
            queue.push(job)
    subject.state.queue = queue
    change(subject, policy="fcfs", preempt_lower_class=False)


def nobody_ages(subject: Scheduler) -> None:
    queue = subject.state.queue
    assert isinstance(queue, Guarded)
    queue.max_overtaken = 1_000
    for job, spell in queue.spells.items():
        if spell.is_next:
            queue.next.left(job)
            queue.order.push(job)
            spell.is_next = False


LIFT: Mapping[str, Callable[[Scheduler], None]] = {
    "aging": nobody_ages,
    "skip": lambda s: change(s, at_blocked_head="break"),
    "policy": in_order_of_arrival,
    "adapter": lambda s: setattr(s.state.adapters, "slots", 0),
    "blocks": add_blocks,
    "class": add_all,
}


def decided(plan: Plan) -> list[tuple[Any, ...]]:
    return [delta for delta in plan.deltas if delta[0] in ("chosen", "displaced")]


def logging(settings: Settings, seed: int) -> Driver | None:
    """None where a system of several pools, which has no log, would run."""
    try:
        return Driver.start(make, evolve(settings, log_decisions=True), seed)
    except Unsupported:
        return None


def is_of_interest(settings: Settings) -> bool:
    """In which somebody may go past others by another rule than a policy."""
    goes_past = settings.at_blocked_head == "skip" or settings.preempt_lower_class or settings.max_overtaken > 0
    return goes_past and not settings.park_timeout_ns


def steps(walks: int) -> Iterator[tuple[int, Scheduler, Plan]]:
    """Each step of some walks: the scheduler before it, and what it planned."""
    found = ((seed, script) for seed in count() if is_of_interest((script := walk(seed)).settings))
    for seed, script in islice(found, walks):
        driver = logging(script.settings, seed)
        if driver is None:
            continue
        for op in script.ops:
            before = deepcopy(subject_of(driver)) if op == STEP else None
            plan = driver.last_plan
            driver.do(op)
            if before is not None and driver.last_plan is not None and driver.last_plan is not plan:
                yield seed, before, driver.last_plan


def test_lifting_the_rule_that_is_logged_changes_the_decision() -> None:
    """Whoever was next because it had waited long is next by another rule where nobody ages, or somebody else is; a
    client that waited long may have been next without that, too."""
    seen: Counter[str] = Counter()
    for seed, before, plan in steps(LOGGED):
        for delta in decided(plan):
            if delta[2] == "line" or (delta[2] == "aging" and before.state.settings.aging_picks):
                continue
            seen[delta[2]] += 1
            copy = deepcopy(before)
            LIFT[delta[2]](copy)
            assert delta not in decided(copy.step(copy.state.now_ns)), (seed, plan.step, delta)
    assert set(seen) >= {"skip", "policy", "blocks", "class", "aging"}, seen


OF_LANES = {"lane_requests": "queue_requests", "lane_tokens": "queue_tokens"}
NAMES = {"queue_age": "queue_age_ns", "first_token": "first_token_ns"}


def without(settings: Settings, reason: str) -> Settings:
    if reason in OF_LANES:
        changes: dict[str, Any] = {OF_LANES[reason]: 0}
        return evolve(settings, lanes=tuple(evolve(lane, **changes) for lane in settings.lanes))
    changes = {NAMES.get(reason, reason): 1 << 40 if reason.startswith("rate") else 0}
    return evolve(settings, door=evolve(settings.door, **changes))


def test_lifting_the_limit_that_the_door_names_lets_the_request_in_or_names_another() -> None:
    """Refusals, and what is given instead of them."""
    seen: Counter[str] = Counter()
    for seed in range(AT_THE_DOOR):
        script = walk(seed)
        if script.settings.park_timeout_ns:
            continue
        settings = with_door(Random(f"a door {seed}"), evolve(script.settings, overlap_depth=1), always=True)
        settings = with_alternatives(Random(f"others {seed}"), settings)
        driver = logging(settings, seed)
        for op in script.ops if driver is not None else ():
            assert driver is not None
            before = deepcopy(subject_of(driver)) if op.kind == "submit" else None
            driver.do(op)
            if before is None or op.request is None:
                continue
            receipt = next(m.answer for m in reversed(driver.messages) if m.kind == "submit")
            if receipt.reason not in REFUSAL_REASONS[6:]:
                continue
            seen[receipt.reason] += 1
            assert before.state.gate is not None
            settings = before.state.settings
            lifted = without(settings, receipt.reason)
            before.state.settings = before.state.gate.settings = lifted
            other = before.submit(op.request, driver.now_ns)
            assert other.reason != receipt.reason, (seed, op.request.id, receipt)
    assert len(seen) >= 6, seen


@pytest.mark.parametrize("rule", ["OBS-4", "OBS-5", "OBS-6"])
def test_a_scenario_finds_the_fault_of_each_rule(rule: str) -> None:
    broken = set()
    for scenario in scenarios(0):
        if rule in scenario.shows:
            driver = Driver.start(FAULTS[rule], scenario.script.settings, 0)
            driver.run(scenario.script.ops)
            driver.drain()
            broken |= {violation.rule for violation in driver.broken}
    assert rule in broken


# --- the story of a request --------------------------------------------------------------------------------------


def told(settings: Settings, request: str, *ops: Op) -> str:
    driver = Driver.start(make, settings, 0)
    driver.run(ops)
    assert not driver.broken
    return "\n".join(sentences(tell_of(driver.header, driver.messages, request)))


ONE = Settings(blocks=64, block_size=1, seats=1, token_budget=8, log_decisions=True)


def test_who_went_past_is_told_with_the_rule() -> None:
    by_class = evolve(ONE, policy="priority", max_overtaken=1)
    come = (submit("first", 1, 1), *rounds(1), submit("low", 1, 1, priority=5), submit("high", 1, 1))
    story = told(by_class, "low", *come, submit("later", 1, 1), *rounds(4))
    assert "high by policy: under priority: its priority is 0 against 5" in story
    assert "admitted: it had waited so long that it is preferred" in story
    assert "admitted: under priority; place 2 by arrival, 1 to be admitted" in told(by_class, "high", *come, *rounds(4))
    skips = evolve(ONE, blocks=6, seats=4, at_blocked_head="skip")
    come = (submit("first", 1, 4), *rounds(1), submit("big", 6, 1), submit("small", 1, 1), *rounds(6))
    assert "small by skip: whoever stood before it did not fit" in told(skips, "big", *come)


def test_a_preemption_is_told_with_its_cause() -> None:
    tight = evolve(ONE, blocks=4, seats=2)
    assert "others needed its blocks" in told(tight, "b", submit("a", 1, 4), submit("b", 1, 4), *rounds(6))
    classes = evolve(ONE, policy="priority", preempt_lower_class=True)
    come = (submit("a", 1, 9, priority=2), *rounds(2), submit("b", 1, 1), *rounds(3))
    assert "the memory was for b; a request of a better class took its place" in told(classes, "a", *come)


def test_the_door_is_part_of_the_story() -> None:
    door = Door(queue_requests=1, defer_ns=40, deferred_requests=1, pool_tokens=3, asynchronous_requests=1)
    settings = evolve(ONE, door=door, cancel_on_disconnect=True)
    come = (submit("a", 2, 4), submit("held", 2, 2), submit("pool", 1, 1), submit("later", 2, 2), leave("later"))
    run = (*come, Op("tick", ns=20), *rounds(1), Op("tick", ns=30), *rounds(9))
    story = told(settings, "held", *run)
    assert "held at the door, for at most 40 ns, instead of a refusal (queue_requests: 2 against 1)" in story
    assert "enters; 0 requests waited already" in story
    assert "sent to another pool, instead of a refusal (queue_requests: 2 against 1)" in told(settings, "pool", *run)
    assert "made asynchronous: the door holds it" in told(settings, "later", *run)
    waits = told(settings, "held", *come, *rounds(1), submit("x", 2, 9), Op("tick", ns=50), *rounds(3))
    assert "waits 3 steps, to step 4, for seats" in waits
    busy = (submit("first", 2, 9), *rounds(1), submit("a", 2, 4), submit("held", 2, 2), Op("tick", ns=41), *rounds(1))
    assert "expired" in told(settings, "held", *busy)


def test_parts_of_a_story_are_those_of_the_log() -> None:
    for seed in range(4):
        script = walk(seed)
        ops = [more for op in script.ops for more in ((op, Op("tick", ns=7)) if op == STEP else (op,))]
        driver = logging(script.settings, seed)
        if driver is None:
            continue
        driver.run(Script(script.settings, seed, ops).ops)
        driver.drain()
        spent = {d[1]: d[2:] for m in driver.messages for d in deltas_of(m.answer) if d[0] == "spent"}
        for request, (held, waited, ran, whole) in spent.items():
            parts = tell_of(driver.header, driver.messages, request).parts_ns
            assert parts.total() == whole == held + waited + ran
            assert parts["running"] == ran


def deltas_of(answer: Any) -> Any:
    return answer if isinstance(answer, tuple) else getattr(answer, "deltas", ())
