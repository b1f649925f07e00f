"""The reference and the optimized scheduler in lock step: the same operations, and every answer compared.

The optimized one runs twice, behind each of its doors: the protocol, and arrays.  `python tests/unit/lock_step.py 0
10000` compares so many drawn workloads.
"""

import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from attrs import Factory, define, evolve

if __name__ == "__main__":
    ROOT = Path(__file__).resolve().parents[2]
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from schedspec.conformance.features import of_feature, with_features
from schedspec.conformance.script import COMPLETE, STEP, Op, Script, cancel, submit, with_deadline, with_setting
from schedspec.conformance.walks import walk
from schedspec.optimized import race
from schedspec.optimized.batch import Batch
from schedspec.optimized.scheduler import Scheduler as Optimized
from schedspec.reference import Scheduler as Reference
from schedspec.spec.vocabulary import OF_CLIENTS, OF_SERVICE, Outcome, Plan, Policy, Request, Settings, Unsupported

NEAREST = {"policy": {"dlpm": "drr", "lpm": "fcfs"}}
"""What is asked for instead of a policy that is not supported; of other settings the default is."""


LONG = 120
"""Operations of a run that is not looked at after each of them; its answers all are."""


class Differs(AssertionError):
    """The two answered differently."""


def supported(settings: Settings) -> Settings:
    """The nearest that the optimized scheduler has."""
    while True:
        try:
            Optimized(settings)
        except Unsupported as refusal:
            plain = getattr(Settings(), refusal.setting)
            nearest = NEAREST.get(refusal.setting, {}).get(str(refusal.value), plain)
            settings = with_setting(settings, refusal.setting, nearest)
        else:
            return settings


@define(eq=False)
class Pair:
    """One run.  Tokens are drawn; a model stops after `stop_after` outputs."""

    settings: Settings
    reference: Reference
    optimized: Optimized
    arrays: Optimized
    dice: Random
    stop_after: dict[str, int] = Factory(dict)
    prompts: dict[str, int] = Factory(dict)
    plans: deque[tuple[Plan, Batch]] = Factory(deque)
    outcomes: deque[tuple[Outcome, Batch]] = Factory(lambda: deque(maxlen=4))
    look_every: int = 1
    calls: int = 0
    steps: int = 0

    @classmethod
    def of(cls, settings: Settings, seed: int, kind: type[Optimized] = Optimized, calm_steps: int = 1) -> "Pair":
        pair = cls(settings, Reference(settings), kind(settings), kind(settings), Random(seed))
        pair.optimized.calm_steps = pair.arrays.calm_steps = calm_steps
        shown, expected = pair.optimized.capabilities(), pair.reference.capabilities()
        same("capabilities", evolve(shown, name=expected.name, version=expected.version), expected)
        return pair

    def do(self, op: Op) -> None:
        """One operation, behind both doors; one that cannot be done now is nothing."""
        if op.kind == "submit":
            assert op.request is not None
            self.submit(op.request, op.stop_after)
        elif op.kind == "cancel":
            deltas = self.reference.cancel(op.id, 0)
            same("cancel", self.optimized.cancel(op.id, 0), deltas)
            same("cancel", self.arrays.cancel(op.id, 0), deltas)
        elif op.kind == "step":
            self.step()
        elif op.kind == "complete" and self.plans:
            self.complete(*self.next_outcome(op.back - 1))
        elif op.kind == "repeat" and len(self.outcomes) >= op.back:
            self.complete(*self.outcomes[-op.back])
        self.calls += 1
        if self.calls % self.look_every == 0:
            self.look()

    def drain(self, most: int = 3_000) -> None:
        """Until every request has ended."""
        while (self.reference.state.jobs or self.plans) and most:
            self.do(STEP)
            while self.plans:
                self.do(COMPLETE)
            most -= 1
        self.look()

    def submit(self, request: Request, stop_after: int | None) -> None:
        self.prompts.setdefault(request.id, request.prompt_tokens)
        if stop_after is not None:
            self.stop_after.setdefault(request.id, stop_after)
        receipt = self.reference.submit(request, 0)
        same("submit", self.optimized.submit(request, 0), receipt)
        same("submit", self.arrays.submit(request, 0), receipt)

    def step(self) -> None:
        self.steps += 1
        plan = self.reference.step(0)
        same("step", self.optimized.step(0), plan)
        batch = self.arrays.step_arrays()
        columns = (batch.step, self.arrays.ids_of(batch.row), *map(list, (batch.start, batch.tokens, batch.samples)))
        same("step of arrays", columns, (plan.step, plan.request, plan.start, plan.tokens, plan.samples))
        if plan.request:
            self.plans.append((plan, batch))

    def next_outcome(self, late: int) -> tuple[Outcome, Batch]:
        """Of the oldest plan, or of a later one."""
        place = min(late, len(self.plans) - 1)
        plan, batch = self.plans[place]
        del self.plans[place]
        entries = zip(plan.request, plan.start, plan.tokens, plan.samples, strict=True)
        rows = [(request, start + tokens - self.prompts[request] + 1) for request, start, tokens, s in entries if s]
        outcome = Outcome(
            step=plan.step,
            request=[request for request, _ in rows],
            token=[self.dice.randrange(1 << 20) for _ in rows],
            stop=[made >= self.stop_after.get(request, made + 1) for request, made in rows],
        )
        self.outcomes.append((outcome, batch))
        return outcome, batch

    def complete(self, outcome: Outcome, batch: Batch) -> None:
        deltas = self.reference.complete(outcome, 0)
        same("complete", self.optimized.complete(outcome, 0), deltas)
        finished = [delta[1] for delta in deltas if delta[0] == "finished"]
        jobs = list(self.arrays.rows.jobs)
        ended = self.arrays.complete_arrays(batch, np.array(outcome.stop, dtype=np.bool_))
        shown = [job.request.id for row in ended.tolist() if (job := jobs[row]) is not None]
        same("complete of arrays", shown, finished)

    def look(self) -> None:
        shown = self.reference.observe()
        same("observe", self.optimized.observe(), shown)
        same("observe of arrays", self.arrays.observe(), shown)


def same(what: str, shown: object, expected: object) -> None:
    if shown != expected:
        raise Differs(f"{what}: {shown} is not {expected}")


# --- workloads -------------------------------------------------------------------------------------------------


def compare(script: Script, kind: type[Optimized] = Optimized) -> Pair:
    """A script as far as it goes, with what overlap it has, and its end.  Raises Differs."""
    race.FRONT = (1, 2, 64)[script.seed % 3]  # there are few clients: so that some are looked up, and others not
    pair = Pair.of(script.settings, script.seed, kind, calm_steps=1 + script.seed % 2)
    pair.look_every = 1 if len(script.ops) < LONG else 7
    for op in script.ops:
        if op.kind != "step" or len(pair.plans) < max(2, script.settings.overlap_depth):
            pair.do(op)
    pair.drain()
    return pair


def drawn(seed: int) -> Script:
    """A walk of the suite, or, every third time, a longer one that crosses the sizes of the arrays."""
    if seed % 3:
        script = walk(seed)
        return Script(supported(script.settings), seed, script.ops)
    return longer_walk(seed)


POLICIES: tuple[Policy, ...] = ("fcfs", "priority", "vtc", "vtc", "lcf", "round_robin", "srpt", "edf", "mlfq")
WEIGHTS: tuple[dict[str, int], ...] = (
    {},
    {"product_weight": 1},
    {"square_weight": 1},
    {"request_weight": 5, "input_weight": 0},
    {"input_weight": 0, "output_weight": 0, "request_weight": 1},
    {"output_weight": 1 << 29},
    {"output_weight": 1 << 61},
    {"product_weight": 1 << 63},
)


def longer_walk(seed: int) -> Script:
    """More requests than the first arrays have rows, more clients than they have counters, and outputs that go on for
    many steps in which nothing happens; some results come late."""
    dice = Random(f"longer {seed}")
    policy = dice.choice(POLICIES)
    size = dice.choice((1, 2, 3, 4, 8, 16))
    seats = dice.choice((2, 5, 16, 17, 40))
    chunked = dice.random() < 0.85
    settings = Settings(
        blocks=dice.choice((64, 100, 300)) // size + 48,
        block_size=size,
        seats=seats,
        token_budget=dice.choice((8, seats, 2 * seats, 64)) if chunked else 128,
        watermark_blocks=dice.choice((0, 0, 1, 5)),
        policy=policy,
        victim=dice.choice(("newest", "newest", "lowest_priority")),
        at_blocked_head=dice.choice(("break", "break", "skip")),
        reserve=dice.choice(("on_demand", "on_demand", "known", "declared")),
        chunked_prefill=chunked,
        chunk_tokens=dice.choice((0, 0, 3, 16)),
        overlap_depth=dice.choice((1, 1, 2, 3)),
        resident_tokens=dice.choice((0, 0, 0, 200)),
        prefilling_requests=dice.choice((0, 0, 0, 1, 3)),
    )
    if policy in ("vtc", "lcf"):
        settings = evolve(settings, **dice.choice(WEIGHTS), prices=dice.choice(({}, {"c1": 3, "c2": 2})))  # type: ignore[arg-type]
    clients = dice.choice((1, 2, 5, 40))
    ops: Iterable[Op] = _operations(dice, clients, settings.overlap_depth)
    if dice.random() < 0.6:
        settings = with_features(Random(f"features {seed}"), settings)
    if settings.policy in OF_CLIENTS and dice.random() < 0.3:
        settings = evolve(settings, aging_picks=dice.randint(1, 4), aging_credit=dice.choice((20, 200)))
    if settings.policy in OF_SERVICE and dice.random() < 0.3:
        settings = evolve(settings, charge_prediction=True)
    settings = supported(_with_limits(Random(f"limits {seed}"), settings))
    asked = Random(f"requests {seed}")
    return Script(settings, seed, [of_feature(asked, with_deadline(op), settings) for op in ops])


def _with_limits(dice: Random, settings: Settings) -> Settings:
    """Now and then the longest prompts, outputs or both together are refused at the door."""
    if dice.random() < 0.7:
        return settings
    limits = {"max_prompt_tokens": (1, 20, 39), "max_output_tokens": (1, 5, 29), "max_model_tokens": (2, 40, 60)}
    name = dice.choice(sorted(limits))
    return with_setting(settings, name, dice.choice(limits[name]))


def _operations(dice: Random, clients: int, depth: int) -> Iterator[Op]:
    number = 0
    longest = dice.choice((6, 30, 48))
    stops, cancels, late = dice.choice((0, 30)), dice.choice((0, 0, 5)), dice.choice((0, 0, 20))
    for _ in range(dice.choice((2, 4, 8))):
        for _ in range(dice.choice((1, 3, 12))):
            number += 1
            yield _arrival(dice, number, clients, longest, stops)
        for _ in range(dice.choice((2, 10, 40))):
            yield from (STEP,) * dice.choice((1, depth))
            if dice.randrange(100) < cancels:
                yield cancel(f"r{dice.randint(1, number)}")
            yield Op("complete", back=2) if dice.randrange(100) < late else COMPLETE
            if dice.randrange(100) < 3:
                yield Op("repeat", back=dice.randint(1, 2))


def _arrival(dice: Random, number: int, clients: int, longest: int, stops: int) -> Op:
    output = dice.randint(1, longest)
    stop = dice.randint(1, output) if dice.randrange(100) < stops else None
    asked: dict[str, Any] = {"priority": dice.randrange(3), "client": f"c{dice.randrange(clients)}"}
    if dice.random() < 0.3:
        asked["predicted_output_tokens"] = dice.randint(1, 2 * longest)
    return submit(f"r{number}", dice.randint(1, 40), output, stop_after=stop, **asked)


def first_difference(kind: type[Optimized], seeds: Iterable[int]) -> int | None:
    """The seed of the first workload that tells a scheduler from the reference: by an answer, or by a crash."""
    for seed in seeds:
        script = drawn(seed)
        kind(script.settings)
        try:
            compare(script, kind)
        except Exception:
            return seed
    return None


def main() -> None:
    """Says how many were equal, also when it is interrupted."""
    first, end = (*map(int, sys.argv[1:]), 10_000)[:2]
    begun, kinds, steps = time.monotonic(), Counter[str](), 0
    with suppress(KeyboardInterrupt):
        for seed in range(first, end):
            script = drawn(seed)
            try:
                steps += compare(script).steps
            except Differs as difference:
                raise SystemExit(f"workload {seed}, {script.settings}: {difference}") from None
            kinds[script.settings.policy] += 1
    print(f"{kinds.total()} workloads, {steps} steps, equal: {dict(kinds)}; {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()

__all__ = ["Differs", "Pair", "compare", "drawn", "first_difference", "supported"]
