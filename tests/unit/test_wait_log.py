"""Reasons to wait, held to what they say: where the limit that is logged is lifted, and nothing else, the request runs,
or waits for a later one."""

from collections import Counter
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from attrs import evolve

from schedspec.conformance.driver import Driver
from schedspec.conformance.script import STEP
from schedspec.conformance.walks import walk
from schedspec.conformance.why import tell_of
from schedspec.reference import Scheduler, make
from schedspec.reference.selection import SharedQueue
from schedspec.spec.vocabulary import WAIT_LIMITS, Plan, Settings

MORE = 1_000
WALKS = 30


def change(subject: Scheduler, **settings: Any) -> None:
    """All parts of a copy look at the same settings."""
    for name, value in settings.items():
        object.__setattr__(subject.state.settings, name, value)
    queue = subject.state.queue
    if isinstance(queue, SharedQueue):
        for client in {job.request.client for job in subject.state.live()}:
            queue.members.review(client)


def add_blocks(subject: Scheduler) -> None:
    blocks = subject.state.settings.blocks
    subject.state.pool.free[:0] = range(blocks, blocks + MORE)
    change(subject, blocks=blocks + MORE)


def add_seats(subject: Scheduler) -> None:
    change(subject, seats=subject.state.settings.seats + MORE)


def add_all(subject: Scheduler) -> None:
    """Then nobody has to be preempted."""
    add_seats(subject)
    add_blocks(subject)


def widen_lanes(subject: Scheduler) -> None:
    change(subject, lanes=tuple(evolve(lane, maximum_percent=100) for lane in subject.state.settings.lanes))


LIFT: Mapping[str, Callable[[Scheduler], None]] = {
    "victims": add_all,
    "seats": add_seats,
    "budget": lambda s: change(s, token_budget=s.state.settings.token_budget + MORE),
    "client cap": lambda s: change(s, client_seats=0, client_resident_tokens=0, client_committed_cost=0),
    "lane share": widen_lanes,
    "resident tokens": lambda s: change(s, resident_tokens=0),
    "adapter": lambda s: setattr(s.state.adapters, "slots", 0),
    "prefill cap": lambda s: change(s, prefilling_requests=0),
    "peak": lambda s: change(s, reserve="on_demand"),
    "blocks": add_blocks,
    "watermark": lambda s: change(s, watermark_blocks=0),
}


def reasons(subject: Scheduler) -> dict[str, str]:
    return {job.id: limit for job, limit in subject.state.logged.items()}


def moved(plan: Plan) -> set[str]:
    """Who was let in, and who lost its place."""
    return {delta[1] for delta in plan.deltas if delta[0] in ("admitted", "resumed", "preempted")}


def is_lifted(before: Scheduler, plan: Plan, request: str, limit: str) -> bool:
    """The request runs, or what it waits for comes later in the order; or others were let in first, or lost their place
    to those who ran."""
    copy = deepcopy(before)
    LIFT[limit](copy)
    other = copy.step(copy.state.now_ns)
    if moved(plan) != moved(other):
        return True
    return WAIT_LIMITS.index(reasons(copy).get(request, "order")) > WAIT_LIMITS.index(limit)


def test_lifting_the_limit_that_is_logged_changes_the_decision() -> None:
    seen: Counter[str] = Counter()
    for seed in range(WALKS):
        script = walk(seed)
        if script.settings.pools.are_two:  # has no log of waits
            continue
        driver = Driver.start(make, evolve(script.settings, log_waits=True), seed)
        subject = driver.subject.subject if hasattr(driver.subject, "subject") else driver.subject
        assert isinstance(subject, Scheduler)
        if "wait_log" not in subject.capabilities().claims:  # where not every step admits it promises nothing
            continue
        for op in script.ops:
            before = deepcopy(subject) if op == STEP else None
            steps = subject.state.step
            driver.do(op)
            if before is None or subject.state.step == steps or driver.last_plan is None:
                continue
            for request, limit in reasons(subject).items():
                seen[limit] += 1
                assert is_lifted(before, driver.last_plan, request, limit), (seed, steps, request, limit)
    assert len(seen) > 6, seen


def test_why_tells_the_reasons_that_the_scheduler_logged() -> None:
    settings = Settings(blocks=16, block_size=2, seats=1, token_budget=32, log_waits=True)
    script = walk(3)
    driver = Driver.start(make, settings, 0)
    driver.run(script.ops)
    driver.drain()
    logged = {d[1:] for m in driver.messages if m.kind == "step" for d in m.answer.deltas if d[0] == "waits"}
    request = next(request for request, limit in logged if limit == "seats")
    limits = {wait.reason.limit for wait in tell_of(driver.header, driver.messages, request).waits()}
    assert "seats" in limits
    assert limits - {"order"} <= {limit for other, limit in logged if other == request}
