"""What waits costs a step nothing: time of step and complete under each policy, with few and with many who wait.

Both schedulers are measured side by side, a round of one and a round of the other, with a thousand clients each and
somebody admitted in most steps.  Submissions keep the queues as long as they were, and are not measured.
"""

from collections.abc import Iterator
from itertools import count, cycle
from random import Random
from typing import get_args

from attrs import define, frozen

from schedspec.spec.vocabulary import NS_PER_S, Policy, Request, Settings

from .measure import Result, median, quiet
from .recording import Recorder
from .schedulers import step_seconds

ASKED = {"vtc": 2.0, "drr": 2.0, "lanes": 2.0}
"""With a hundred times as many who wait, a step takes at most so many times as long."""

OF_PREFIXES = ("lpm", "dlpm")
LANES = ("default", "default", "offline")


@frozen(kw_only=True)
class Size:
    clients: int = 1_000
    few: int = 1_000
    many: int = 100_000
    seats: int = 64
    rounds: int = 200
    repeats: int = 5


TINY = Size(clients=3, few=4, many=12, seats=2, rounds=4, repeats=2)


def bench(size: Size) -> Iterator[Result]:
    for policy in get_args(Policy):
        yield scaling(size, policy)


def scaling(size: Size, policy: Policy) -> Result:
    queues = [Queued.of(size, policy, waiting) for waiting in (size.few, size.many)]
    rounds = max(1, size.rounds // 10) if policy in OF_PREFIXES else size.rounds  # they look at 128 for each pick
    samples = [tuple(map(sum, zip(*_rounds(queues, rounds), strict=True))) for _ in range(size.repeats)]
    few, many = (median([sample[place] for sample in samples]) / rounds * 1e6 for place in range(2))
    return Result(
        name=f"policies.{policy}",
        figure=median([sample[1] / sample[0] for sample in samples]),
        unit=f"times as long with {size.many:,} waiting ({many:,.0f} µs) as with {size.few:,} ({few:,.0f} µs)",
        asked=ASKED.get(policy),
        best="least",
        more={"few_us": few, "many_us": many},
    )


@define
class Queued:
    """A scheduler in which so many wait."""

    recorder: Recorder
    arrivals: Iterator[Request]
    waiting: int

    @classmethod
    def of(cls, size: Size, policy: Policy, waiting: int) -> "Queued":
        return cls(Recorder(settings_for(size, policy), record=False), arrivals(size, policy), waiting)

    def round(self) -> float:
        """Seconds of a step and its results."""
        for _ in range(self.waiting - self.recorder.scheduler.state.queue.size):
            self.recorder.submit(next(self.arrivals))
        return step_seconds(self.recorder)


def _rounds(queues: list[Queued], rounds: int) -> Iterator[list[float]]:
    for queue in queues:
        queue.round()
    with quiet():
        for _ in range(rounds):
            yield [queue.round() for queue in queues]


def settings_for(size: Size, policy: Policy) -> Settings:
    caching = policy in OF_PREFIXES
    return Settings(
        blocks=8 * size.seats, seats=size.seats, token_budget=64 * size.seats, policy=policy, prefix_caching=caching
    )


def arrivals(size: Size, policy: Policy) -> Iterator[Request]:
    """Requests of all clients in turn; prompts share prefixes where a policy looks at them."""
    dice = Random(policy)
    families = [tuple(dice.randrange(1_000) for _ in range(48)) for _ in range(8)]
    for number, client in zip(count(), cycle(range(size.clients))):
        prompt = dice.choice(families) if policy in OF_PREFIXES else families[0][: dice.randint(8, 48)]
        yield Request(
            id=f"r{number}",
            prompt_ids=prompt,
            max_output_tokens=dice.randint(4, 24),
            client=f"c{client}",
            lane=dice.choice(LANES),
            priority=dice.randrange(4),
            deadline_ns=dice.randrange(1_000) * NS_PER_S if policy == "edf" else None,
        )
