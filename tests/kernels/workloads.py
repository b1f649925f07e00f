"""Small crowded workloads for schedulers with all their state: what is asked, in what order, and what was stopped."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from attrs import Factory, define

from schedspec.reference import Scheduler as Reference
from schedspec.spec.settings import Lane
from schedspec.spec.vocabulary import Outcome, Plan, Request, Settings, Subject

POLICIES = ("fcfs", "priority", "edf", "sjf", "aging", "vtc", "lanes")
LANES = (
    Lane(name="fast", share_percent=60, max_prompt_tokens=8, burst=9),
    Lane(name="batch", share_percent=15, by_shape=False),
    Lane(name="rest", share_percent=25),
)


class Differs(AssertionError):
    """The two answered differently."""


def same(what: str, shown: object, expected: object) -> None:
    if shown != expected:
        raise Differs(f"{what}: {shown} is not {expected}")


def settings_of(dice: Random, policy: str) -> Settings:
    """Memory is for two or three requests; now and then there is enough."""
    size = dice.choice((1, 2, 4, 16))
    chunked = dice.random() < 0.7
    chosen: dict[str, Any] = {"policy": policy}
    if policy in ("vtc", "lanes"):
        weights = dice.choice(((1, 2), (0, 1), (3, 1)))
        chosen |= {"input_weight": weights[0], "output_weight": weights[1], "request_weight": dice.choice((0, 5))}
        chosen |= {"product_weight": dice.choice((0, 0, 1)), "square_weight": dice.choice((0, 0, 1))}
        chosen |= {"prices": dice.choice(({}, {"a": 3, "c": 2})), "lanes": LANES if policy == "lanes" else ()}
    blocks = max(3, dice.randint(20, 200 if dice.random() < 0.2 else 40) // size)
    return Settings(
        blocks=blocks,
        block_size=size,
        seats=dice.choice((1, 3, 5, 9)),
        token_budget=dice.choice((1, 7, 20, 40)) if chunked else 40,
        watermark_blocks=dice.randint(0, min(3, blocks - 1)),
        chunked_prefill=chunked,
        chunk_tokens=dice.choice((0, 0, 3, 8)) if chunked else 0,
        reserve=dice.choice(("on_demand", "on_demand", "on_demand", "known", "declared")),
        overlap_depth=dice.choice((1, 1, 2)),
        **chosen,
    )


@define(eq=False)
class Pair:
    """The reference, and a subject that has to answer as it does.  `seen`: what happened, how often."""

    settings: Settings
    reference: Reference
    subject: Subject
    dice: Random
    plans: deque[Plan] = Factory(deque)
    seen: dict[str, int] = Factory(dict)

    def submit(self, name: str) -> None:
        request = Request(
            id=name,
            prompt_ids=range(self.dice.randint(1, 20)),
            max_output_tokens=self.dice.randint(1, 12),
            client=self.dice.choice("abcde"),
            lane=self.dice.choice(("batch", "default", "default")),
            priority=self.dice.randint(0, 2),
            deadline_ns=self.dice.choice((None, 5, 9)),
        )
        same("submit", self.subject.submit(request, 0), self.reference.submit(request, 0))

    def cancel(self) -> None:
        """Of those who live; now and then of one who does not."""
        name = self.dice.choice(sorted(self.reference.state.jobs) or ["nobody"])
        same("cancel", list(self.subject.cancel(name, 0)), list(self.reference.cancel(name, 0)))

    def step(self) -> None:
        plan = self.reference.step(0)
        same("step", self.subject.step(0), plan)
        if plan.request:
            self.plans.append(plan)
        for name, *_ in plan.deltas:
            self.seen[name] = self.seen.get(name, 0) + 1

    def complete(self, place: int = 0) -> None:
        """Of a plan that waits for its result; some stop early, and one in ten results comes twice."""
        plan = self.plans[place]
        del self.plans[place]
        names = [request for request, samples in zip(plan.request, plan.samples, strict=True) if samples]
        stop = [self.dice.random() < 0.05 for _ in names]
        outcome = Outcome(step=plan.step, request=names, token=[7] * len(names), stop=stop)
        for _ in range(1 + (self.dice.random() < 0.1)):
            same("complete", list(self.subject.complete(outcome, 0)), list(self.reference.complete(outcome, 0)))

    def look(self) -> None:
        same("observe", self.subject.observe(), self.reference.observe())


def compare(policy: str, seed: int, subject: Callable[[Settings, Random], Subject], steps: int = 16) -> dict[str, int]:
    """A drawn workload, as far as it goes.  Raises Differs; what happened, how often."""
    dice = Random(f"{policy} {seed}")
    settings = settings_of(dice, policy)
    pair = Pair(settings, Reference(settings), subject(settings, dice), dice)
    for number in range(steps):
        for extra in range(dice.choice((0, 0, 1, 1, 2, 4)) if number else 6):
            pair.submit(f"{number}.{extra}")
        if dice.random() < 0.15:
            pair.cancel()
        pair.step()
        while len(pair.plans) >= settings.overlap_depth:
            pair.complete(-1 if dice.random() < 0.1 else 0)  # now and then the last one first
            pair.look()
    pair.look()
    return pair.seen


def first_difference(policy: str, seeds: range, subject: Callable[[Settings, Random], Subject]) -> int | None:
    """The seed of the first workload that tells a subject from the reference: by an answer, or by a crash."""
    for seed in seeds:
        try:
            compare(policy, seed, subject)
        except Exception:
            return seed
    return None
