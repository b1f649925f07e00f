"""Planted faults of another kind: clean traces of the reference with one thing changed.

`corpus` has clean runs, `mutated(seed)` one of them with one change, both the same in every process.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from attrs import evolve, frozen

from schedspec.conformance.driver import Driver
from schedspec.conformance.scenarios import scenarios
from schedspec.conformance.script import COMPLETE, STEP, Op, cancel, submit
from schedspec.reference import Scheduler, make
from schedspec.reference.faults import FAULTS
from schedspec.reference.job import WAITING
from schedspec.reference.state import Entry
from schedspec.spec.vocabulary import Delta, Header, Message, Outcome, Plan, Receipt, Settings, SubjectFactory

RANDOM_RUNS = 60
SPARE_RUNS = 40


@frozen
class Run:
    """A recorded run; `left_out` is an event that the monitor that judges it forgets."""

    header: Header
    messages: tuple[Message, ...]
    left_out: str = ""


@cache
def corpus() -> tuple[Run, ...]:
    """The directed scenarios of one pool, and random runs in tight ones.  Two pools have a relation of their own."""
    runs = []
    for scenario in scenarios(0):
        if scenario.script.settings.pools.are_two or scenario.is_later:
            continue
        driver = Driver.start(make, scenario.script.settings, 0)
        driver.run(scenario.script.ops)
        runs.append(_recorded(driver))
    runs += [_random_run(make, seed) for seed in range(RANDOM_RUNS)]
    return (*runs, *(_spare_run(seed) for seed in range(SPARE_RUNS)))


class DeliversSpares(Scheduler):
    """Another legal way: a token that comes back after a preemption is delivered while its request still waits."""

    def settle(self, entry: Entry, tokens: Mapping[str, int]) -> bool:
        job = entry.job
        position = entry.start + entry.tokens
        waits = job.state == WAITING and entry.samples and position == job.known
        if not waits or entry.epoch == job.epoch:
            return super().settle(entry, tokens)
        job.known += 1
        job.outputs += 1
        job.tokens.append(tokens[job.id])
        return True


def _recorded(driver: Driver) -> Run:
    driver.drain()
    assert not driver.over, "the corpus is clean"
    return Run(driver.header, tuple(driver.messages))


SPARE_POOL = Settings(blocks=5, block_size=1, token_budget=8, overlap_depth=2)
"""Where requests are preempted while their tokens are under way."""


def _spare_run(seed: int) -> Run:
    rng = random.Random(seed)
    driver = Driver.start(DeliversSpares, SPARE_POOL, seed)
    _drive(driver, rng)
    return _recorded(driver)


def _random_run(factory: SubjectFactory, seed: int) -> Run:
    rng = random.Random(seed)
    driver = Driver.start(factory, _settings(rng), seed)
    _drive(driver, rng)
    return _recorded(driver)


def _drive(driver: Driver, rng: random.Random) -> None:
    submitted = 0
    for _ in range(40):
        kind = rng.choices(("submit", "cancel", "repeat", "step", "complete"), (5, 1, 1, 6, 6))[0]
        if kind == "submit":
            submitted += 1
            driver.do(_submission(rng, submitted))
        elif kind == "cancel" and submitted:
            driver.do(cancel(f"r{rng.randint(1, submitted)}"))
        elif kind == "repeat":
            driver.do(Op("repeat", back=rng.randint(1, 2)))
        elif kind == "step":
            driver.do(STEP)
        elif kind == "complete":
            driver.do(COMPLETE)


def _settings(rng: random.Random) -> Settings:
    return Settings(
        blocks=rng.randint(3, 10),
        block_size=rng.choice((1, 2, 2, 3)),
        seats=rng.randint(1, 5),
        token_budget=rng.choice((2, 4, 8, 12)),
        watermark_blocks=rng.choice((0, 0, 1)),
        policy=rng.choice(("fcfs", "priority")),
        victim=rng.choice(("newest", "lowest_priority")),
        at_blocked_head=rng.choice(("break", "skip")),
        reserve=rng.choice(("on_demand", "on_demand", "known", "declared")),
        prefix_caching=rng.random() < 0.5,
        chunked_prefill=rng.random() < 0.8,
        overlap_depth=rng.choice((1, 1, 2)),
        max_prompt_tokens=rng.choice((1000, 6)),
        max_output_tokens=rng.choice((1000, 6)),
        max_model_tokens=rng.choice((1000, 11)),
    )


def _submission(rng: random.Random, number: int) -> Op:
    length = rng.randint(1, 8)
    prompt = (1, 2, 3, 4, 5, 6, 7, 8)[:length] if rng.random() < 0.5 else length
    stop = rng.choice((None, None, 1, 2))
    return submit(f"r{number}", prompt, rng.randint(1, 8), stop_after=stop, priority=rng.randint(0, 2))


_COLUMNS = ("request", "start", "tokens", "samples")

# --- one change ----------------------------------------------------------------------------------------------


def mutated(seed: int) -> Run:
    """A run of the corpus with one change; with the run as it is where the change does not apply."""
    rng = random.Random(seed)
    return with_a_change(rng.choice(corpus()), rng)


def with_a_change(run: Run, rng: random.Random) -> Run:
    if rng.random() < 0.1:
        return Run(_stricter(run.header, rng), run.messages)
    places = [place for place, m in enumerate(run.messages) if m.kind not in ("observe", "end")]
    place = rng.choice(places)
    changed = _CHANGES[run.messages[place].kind](run.messages[place], rng, _ids(run), run.header.settings)
    return Run(run.header, (*run.messages[:place], *changed, *run.messages[place + 1 :]))


def _stricter(header: Header, rng: random.Random) -> Header:
    """The same run, judged by settings that were not its own, with one claim more or less."""
    settings = header.settings
    changes: dict[str, Any] = rng.choice(
        (
            {"token_budget": max(1, settings.token_budget - rng.randint(1, 4))},
            {"seats": max(1, settings.seats - 1)},
            {"watermark_blocks": min(settings.blocks - 1, settings.watermark_blocks + 1)},
            {"max_prompt_tokens": 3},
            {"max_output_tokens": 3},
            {"max_model_tokens": 6},
            {"chunked_prefill": False},
        )
    )
    claims = header.capabilities.claims - {rng.choice(sorted(header.capabilities.claims))}
    capabilities = evolve(header.capabilities, claims=claims)
    return evolve(header, settings=evolve(settings, **changes), capabilities=capabilities)


def _ids(run: Run) -> list[str]:
    return [m.given.id for m in run.messages if m.kind == "submit"]


def _submit(message: Message, rng: random.Random, ids: list[str], settings: Settings) -> list[Message]:
    receipt: Receipt = message.answer
    if receipt.verdict == "accepted":
        reason = rng.choice(("kv_blocks", "prompt_tokens", "output_tokens", "model_tokens", "token_budget", "other"))
        refused = Receipt(verdict="refused", reason=reason, limit=1, value=2)
        return rng.choice(
            ([evolve(message, answer=refused)], [message, message], [message, evolve(message, answer=refused)])
        )
    if receipt.verdict == "refused":
        swapped = evolve(receipt, limit=receipt.value, value=receipt.limit)
        accepted = Receipt(verdict="accepted")
        return rng.choice(([evolve(message, answer=accepted)], [evolve(message, answer=swapped)], [message, message]))
    return [evolve(message, answer=Receipt(verdict="accepted"))]


def _cancel(message: Message, rng: random.Random, ids: list[str], settings: Settings) -> list[Message]:
    if message.answer and rng.random() < 0.3:
        return [evolve(message, answer=[])]
    if not message.answer:
        return [evolve(message, answer=[("cancelled", message.given)] if message.given in ids else [])]
    return [evolve(message, answer=_other_deltas(list(message.answer), rng, ids, settings))]


def _notify(message: Message, rng: random.Random, ids: list[str], settings: Settings) -> list[Message]:
    return [message]


def _step(message: Message, rng: random.Random, ids: list[str], settings: Settings) -> list[Message]:
    plan: Plan = message.answer
    if plan.deltas and rng.random() < 0.5:
        return [evolve(message, answer=evolve(plan, deltas=_other_deltas(list(plan.deltas), rng, ids, settings)))]
    if rng.random() < 0.05:
        return [evolve(message, answer=evolve(plan, step=max(0, plan.step - 1)))]
    return [evolve(message, answer=_other_plan(plan, rng, ids))]


def _other_plan(plan: Plan, rng: random.Random, ids: list[str]) -> Plan:
    columns: dict[str, Any] = {name: list(getattr(plan, name)) for name in _COLUMNS}
    if not plan.request:
        return plan
    row = rng.randrange(len(plan.request))
    change = rng.choice(("drop", "twice", "start", "tokens", "samples", "request", "stranger", "split", "late"))
    if change == "drop":
        for column in columns.values():
            del column[row]
    elif change == "twice":
        for column in columns.values():
            column.append(column[row])
    elif change == "start":
        columns["start"][row] = max(0, columns["start"][row] + rng.choice((-1, 1)))
    elif change == "tokens":
        columns["tokens"][row] = max(0, columns["tokens"][row] + rng.choice((-1, 1, 2)))
    elif change == "samples":
        columns["samples"][row] = 1 - columns["samples"][row]
    elif change == "request":
        columns["request"][row] = rng.choice(ids)
    elif change == "late" and columns["tokens"][row] >= 2:
        columns["start"][row] += 1
        columns["tokens"][row] -= 1
    elif change == "split" and columns["tokens"][row] >= 2:
        for name, more in (("request", ""), ("start", 1), ("tokens", -1), ("samples", 0)):
            columns[name].insert(row + 1, columns[name][row] + more)
        columns["tokens"][row] = 1
        columns["samples"][row] = 0
    elif change == "stranger":
        for name, value in (("request", rng.choice(ids)), ("start", 0), ("tokens", 1), ("samples", 0)):
            columns[name].append(value)
    return evolve(plan, **columns)


def _complete(message: Message, rng: random.Random, ids: list[str], settings: Settings) -> list[Message]:
    outcome: Outcome = message.given
    if rng.random() < 0.1:
        return [message, message]
    if outcome.request and rng.random() < 0.3:
        row = rng.randrange(len(outcome.request))
        stop, token = list(outcome.stop), list(outcome.token)
        if rng.random() < 0.5:
            stop[row] = not stop[row]
        else:
            token[row] += 1
        return [evolve(message, given=evolve(outcome, stop=stop, token=token))]
    return [evolve(message, answer=_other_deltas(list(message.answer), rng, ids, settings))]


def _other_deltas(deltas: list[Delta], rng: random.Random, ids: list[str], settings: Settings) -> list[Delta]:
    change = rng.choice(("drop", "drop", "twice", "swap", "edit", "edit", "edit", "add"))
    if change == "add" or not deltas:
        deltas.insert(rng.randint(0, len(deltas)), _invented(rng, ids, settings))
        return deltas
    place = rng.randrange(len(deltas))
    if change == "drop":
        del deltas[place]
    elif change == "twice":
        deltas.insert(place, deltas[place])
    elif change == "swap" and len(deltas) > 1:
        other = rng.randrange(len(deltas))
        deltas[place], deltas[other] = deltas[other], deltas[place]
    elif change == "edit":
        deltas[place] = _edited(deltas[place], rng, ids, settings)
    return deltas


def _invented(rng: random.Random, ids: list[str], settings: Settings) -> Delta:
    request, block = rng.choice(ids), rng.randrange(settings.blocks)
    return rng.choice(
        (
            ("took", request, [block]),
            ("shared", request, [block]),
            ("gave", request, [block]),
            ("indexed", request, [block]),
            ("unindexed", [block]),
            ("admitted", request, rng.randint(0, 3)),
            ("resumed", request, rng.randint(0, 3)),
            ("preempted", request, "recompute", rng.choice((request, rng.choice(ids)))),
            ("finished", request, "stop"),
            ("failed", request, "memory"),
            ("cancelled", request),
            ("expired", request),
            ("delivered", [request], [1]),
        )
    )


def _edited(delta: Delta, rng: random.Random, ids: list[str], settings: Settings) -> Delta:
    """Another request, block, number or kind."""
    kind = delta[0]
    if kind == "delivered":
        return _edited_delivery(delta, rng, ids)
    if kind == "unindexed":
        return (kind, [rng.randrange(settings.blocks)])
    if rng.random() < 0.2:
        return (kind, rng.choice(ids), *delta[2:])
    if kind in ("took", "shared", "gave", "indexed"):
        blocks = list(delta[2])
        place = rng.randrange(len(blocks))
        if rng.random() < 0.3:
            return (rng.choice(("took", "shared")) if kind in ("took", "shared") else kind, delta[1], blocks[:-1])
        blocks[place] = rng.randrange(settings.blocks)
        return (rng.choice((kind, kind, "shared" if kind == "took" else kind)), delta[1], blocks)
    if kind in ("admitted", "resumed"):
        other = "resumed" if kind == "admitted" else "admitted"
        cached = max(0, delta[2] + rng.choice((-1, 1, 2, 8)))
        return rng.choice(((other, *delta[1:]), (kind, delta[1], cached)))
    if kind == "finished":
        return rng.choice((("failed", delta[1], "memory"), ("cancelled", delta[1]), ("expired", delta[1])))
    if kind == "cancelled":
        return rng.choice((("finished", delta[1], "stop"), ("failed", delta[1], "memory"), ("expired", delta[1])))
    return (kind, rng.choice(ids), *delta[2:])


def _edited_delivery(delta: Delta, rng: random.Random, ids: list[str]) -> Delta:
    requests, tokens = list(delta[1]), list(delta[2])
    row = rng.randrange(len(requests))
    change = rng.choice(("token", "request", "drop", "twice"))
    if change == "token":
        tokens[row] += 1
    elif change == "request":
        requests[row] = rng.choice(ids)
    elif change == "drop":
        del requests[row], tokens[row]
    else:
        requests.append(requests[row])
        tokens.append(tokens[row])
    return ("delivered", requests, tokens)


_CHANGES: dict[str, Callable[[Message, random.Random, list[str], Settings], list[Message]]] = {
    "submit": _submit,
    "cancel": _cancel,
    "notify": _notify,
    "step": _step,
    "complete": _complete,
}


class DelaysSpares(DeliversSpares):
    """A spare token is kept, and delivered with the next result."""

    def __init__(self, settings: Settings, seed: int) -> None:
        super().__init__(settings, seed)
        self.kept: list[Delta] = []

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        entries = self.state.in_flight.get(outcome.step, [])
        stale = {entry.job.id for entry in entries if entry.epoch != entry.job.epoch}
        before, self.kept = self.kept, []
        deltas: list[Delta] = []
        for delta in super().complete(outcome, now_ns):
            if delta[0] == "delivered" and (late := stale & set(delta[1])):
                rows = list(zip(delta[1], delta[2], strict=True))
                self.kept.append(_delivery([row for row in rows if row[0] in late]))
                delta = _delivery([row for row in rows if row[0] not in late])
            deltas.append(delta)
        return before + deltas

    def observe(self) -> None:  # type: ignore[override]  # a snapshot would show the token that is kept
        return None


def _delivery(rows: list[tuple[str, int]]) -> Delta:
    return ("delivered", [request for request, _ in rows], [token for _, token in rows])


def late_spares(seed: int) -> Run:
    """A random run of the scheduler that delays spare tokens, in a pool where there are some."""
    rng = random.Random(seed)
    driver = Driver.start(DelaysSpares, SPARE_POOL, seed)
    _drive(driver, rng)
    driver.drain()
    return Run(driver.header, tuple(driver.messages))


# --- runs of seeded faults -----------------------------------------------------------------------------------


def faulty_scenario(rule: str, number: int) -> Run:
    """A scenario with the seeded fault of a rule, up to where the driver stopped."""
    script = tuple(scenarios(0))[number].script
    driver = Driver.start(FAULTS[rule], script.settings, 0)
    driver.run(script.ops)
    driver.drain()
    return Run(driver.header, tuple(driver.messages))


def faulty(rule: str, seed: int) -> Run:
    """A random run of the seeded fault of a rule, up to where the driver stopped."""
    rng = random.Random(seed)
    driver = Driver.start(FAULTS[rule], _settings(rng), seed)
    _drive(driver, rng)
    driver.drain()
    return Run(driver.header, tuple(driver.messages))
