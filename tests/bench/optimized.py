"""The optimized scheduler beside the reference, in one process: from the results of a step in to the next plan out.

The optimized one gets and gives arrays, as an engine that has them would; the reference gets and gives columns, and
neither tells deltas.  What is submitted, and making the results, is not measured.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from random import Random
from typing import Protocol

import numpy as np
from attrs import Factory, define, frozen

from schedspec.optimized.scheduler import Scheduler as Optimized
from schedspec.reference import Scheduler as Reference
from schedspec.spec.vocabulary import Policy, Request, Settings

from .measure import Result, median, quiet
from .recording import outcome_of

ASKED_OF_WAITING = 1.3
"""With a hundred times as many who wait, a step takes at most so many times as long."""


@frozen(kw_only=True)
class Size:
    decoding: tuple[int, ...] = (16, 256, 1_024, 8_192)
    alone: tuple[int, ...] = (65_536,)
    mixed: int = 1_024
    clients: int = 1_000
    few: int = 1_000
    many: int = 100_000
    preempted: tuple[int, int] = (60, 1_024)
    rounds: int = 160
    repeats: int = 5


TINY = Size(decoding=(2, 4), alone=(8,), mixed=4, clients=3, few=4, many=12, preempted=(2, 8), rounds=12, repeats=2)


class Runs(Protocol):
    """A scheduler, a step of it, and the results of that step: seconds of both."""

    def submit(self, request: Request) -> None: ...

    def round(self) -> float: ...

    @property
    def waiting(self) -> int: ...


@define
class OfArrays:
    scheduler: Optimized

    def submit(self, request: Request) -> None:
        self.scheduler.submit(request, 0)

    def round(self) -> float:
        begun = time.thread_time()
        batch = self.scheduler.step_arrays()
        took = time.thread_time() - begun
        stop = np.zeros(int(batch.samples.sum()), dtype=np.bool_)
        begun = time.thread_time()
        self.scheduler.complete_arrays(batch, stop)
        return took + time.thread_time() - begun

    @property
    def waiting(self) -> int:
        return self.scheduler.queue.size


@define
class OfColumns:
    scheduler: Reference

    def submit(self, request: Request) -> None:
        self.scheduler.submit(request, 0)

    def round(self) -> float:
        begun = time.thread_time()
        plan = self.scheduler.step(0)
        took = time.thread_time() - begun
        outcome = outcome_of(plan)
        begun = time.thread_time()
        self.scheduler.complete(outcome, 0)
        return took + time.thread_time() - begun

    @property
    def waiting(self) -> int:
        return self.scheduler.state.queue.size


def both(settings: Settings) -> tuple[Runs, Runs]:
    return OfArrays(Optimized(settings)), OfColumns(Reference(settings, record=False))


POLICIES: tuple[Policy, ...] = ("fcfs", "vtc")


def bench(size: Size) -> Iterator[Result]:
    for policy in POLICIES:
        for running in size.decoding:
            yield decode(size, running, policy)
    for running in size.alone:
        yield decode_alone(size, running)
    for policy in POLICIES:
        yield mixed(size, policy)
    yield waiting(size)
    yield preempting(size)


def beside(name: str, fast: list[float], slow: list[float]) -> Result:
    """Medians of seconds, and how many times as long the reference takes."""
    ours, theirs = median(fast) * 1e6, median(slow) * 1e6
    unit = f"µs/step, the reference {theirs:,.0f} µs: {theirs / ours:.1f} times"
    more = {"best_us": min(fast) * 1e6, "reference_us": theirs, "times": theirs / ours}
    return Result(name=f"optimized.{name}", figure=ours, unit=unit, best="least", more=more)


def measured(runs: Runs, rounds: int, before: Callable[[Runs], None] = lambda runs: None) -> list[float]:
    samples = []
    with quiet():
        for _ in range(rounds):
            before(runs)
            samples.append(runs.round())
    return samples


def decode(size: Size, running: int, policy: Policy) -> Result:
    """All run, nobody waits, and nobody ends."""
    fast, slow = both(decoding(size, running, policy))
    for runs in (fast, slow):
        fill(size, runs, running)
    return beside(f"decode.{policy}.{running}", measured(fast, size.rounds), measured(slow, max(4, size.rounds // 10)))


def decode_alone(size: Size, running: int) -> Result:
    """More than the reference is asked for."""
    runs = OfArrays(Optimized(decoding(size, running, "fcfs")))
    fill(size, runs, running)
    samples = measured(runs, size.rounds)
    more = {"best_us": min(samples) * 1e6}
    name = f"optimized.decode.fcfs.{running}"
    return Result(name=name, figure=median(samples) * 1e6, unit="µs/step", best="least", more=more)


def decoding(size: Size, running: int, policy: Policy) -> Settings:
    output = size.rounds + 200
    return Settings(blocks=running * (output + 96) // 16, seats=running, token_budget=96 * running, policy=policy)


def fill(size: Size, runs: Runs, running: int) -> None:
    dice, output = Random(running), size.rounds + 200
    for number in range(running):
        prompt, client = tuple(range(dice.randint(16, 64))), f"c{number % size.clients}"
        runs.submit(Request(id=f"r{number}", prompt_ids=prompt, max_output_tokens=output, client=client))
    for _ in range(8):
        runs.round()


@define
class Arrivals:
    """Prompts of 256 tokens and outputs of 1 to 127, of many clients in turn: so that at 1,024 running 16 end and 16
    are admitted in a step."""

    clients: int
    prompt: tuple[int, ...] = tuple(range(256))
    numbers: Iterator[int] = Factory(count)
    dice: Random = Factory(lambda: Random(3))

    def keep(self, waiting: int, runs: Runs) -> None:
        while runs.waiting < waiting:
            number, output = next(self.numbers), self.dice.randint(1, 127)
            client = f"c{number % self.clients}"
            runs.submit(Request(id=f"r{number}", prompt_ids=self.prompt, max_output_tokens=output, client=client))


def mixed(size: Size, policy: Policy) -> Result:
    settings = Settings(
        blocks=25 * size.mixed,
        seats=size.mixed,
        token_budget=8 * size.mixed + 8_192,
        policy=policy,
    )
    samples = []
    for runs in both(settings):
        keep = partial(Arrivals(size.clients).keep, size.mixed)
        for _ in range(3 * size.rounds // 4):
            keep(runs)
            runs.round()
        samples.append(measured(runs, size.rounds, keep))
    return beside(f"mixed.{policy}.{size.mixed}", *samples)


def waiting(size: Size) -> Result:
    """A round with few who wait, a round with many, and so on: admissions in most of them."""
    settings = Settings(blocks=25 * size.mixed, seats=size.mixed, token_budget=8 * size.mixed + 8_192, policy="vtc")
    pair = [(OfArrays(Optimized(settings)), Arrivals(size.clients), depth) for depth in (size.few, size.many)]
    samples: list[list[float]] = [[], []]
    for _ in range(3 * size.rounds // 4 + size.rounds):
        for (runs, arrivals, depth), seen in zip(pair, samples, strict=True):
            arrivals.keep(depth, runs)
            with quiet():
                seen.append(runs.round())
    few, many = (median(seen[-size.rounds :]) * 1e6 for seen in samples)
    return Result(
        name="optimized.waiting.vtc",
        figure=many / few,
        unit=f"times as long with {size.many:,} waiting ({many:,.0f} µs) as with {size.few:,} ({few:,.0f} µs)",
        asked=ASKED_OF_WAITING,
        best="least",
        more={"few_us": few, "many_us": many},
    )


def preempting(size: Size) -> Result:
    """All are at the edge of their first block, and some have to leave."""
    victims, running = size.preempted
    blocks = 2 * (running - victims)
    settings = Settings(blocks=blocks, seats=running, token_budget=16 * running)
    samples: list[list[float]] = [[], []]
    for _ in range(size.repeats):
        for runs, seen in zip(both(settings), samples, strict=True):
            for number in range(running):
                runs.submit(Request(id=f"r{number}", prompt_ids=tuple(range(16)), max_output_tokens=32))
            runs.round()
            with quiet():
                seen.append(runs.round())
            if runs.waiting != victims:
                raise RuntimeError(f"{runs.waiting} were preempted, but {victims} should have been")
    return beside(f"preempting.{victims}_of_{running}", *samples)
