"""Schedulers that are measured alike: from the results of a step in to the next plan out, on one clock.

What is submitted, and making the results, is outside of the clock; ends, early stops, frees and block tables are
inside.  `OfArrays` gets and gives arrays, as an engine that has them would, and compares tokens with the end token;
`OfColumns` gets and gives the columns of the protocol.  Neither tells deltas.
"""

import time
from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from typing import Any, Protocol

import numpy as np
from attrs import Factory, define

from schedspec.optimized.batch import Batch
from schedspec.optimized.scheduler import Scheduler as Optimized
from schedspec.reference import Scheduler as Reference
from schedspec.spec.vocabulary import Plan, Request, Settings

from .measure import quiet
from .recording import outcome_of

END_TOKEN = 2
A_TOKEN = 7
"""No model ends early here: lengths are declared.  Whether one does is asked all the same."""


class Runs(Protocol):
    """`planned`: how many tokens each plan so far had.  Two that decide alike plan as many in each."""

    planned: list[int]

    def submit(self, request: Request) -> None: ...

    def round(self) -> float:
        """The results of the last step, and the next step: seconds of both."""

    @property
    def waiting(self) -> int: ...


@define
class OfArrays:
    scheduler: Optimized
    batch: Batch = Factory(lambda: Batch(0))
    planned: list[int] = Factory(list)

    @classmethod
    def of(cls, settings: Settings) -> "OfArrays":
        return cls(Optimized(settings))

    def submit(self, request: Request) -> None:
        self.scheduler.submit(request, 0)

    def round(self) -> float:
        tokens = np.full(int(self.batch.samples.sum()), A_TOKEN)
        begun = time.thread_time()
        self.scheduler.complete_arrays(self.batch, tokens == END_TOKEN)
        self.batch = self.scheduler.step_arrays()
        took = time.thread_time() - begun
        self.planned.append(int(self.batch.tokens.sum()))
        return took

    @property
    def waiting(self) -> int:
        return self.scheduler.queue.size


@define
class OfColumns:
    """The reference, or the optimized scheduler behind the door of the protocol, which tells its deltas."""

    scheduler: Any
    plan: Plan | None = None
    planned: list[int] = Factory(list)

    @classmethod
    def of(cls, settings: Settings) -> "OfColumns":
        return cls(Reference(settings, record=False))

    def submit(self, request: Request) -> None:
        self.scheduler.submit(request, 0)

    def round(self) -> float:
        outcome = None if self.plan is None else outcome_of(self.plan)
        begun = time.thread_time()
        if outcome is not None:
            self.scheduler.complete(outcome, 0)
        self.plan = self.scheduler.step(0)
        took = time.thread_time() - begun
        self.planned.append(sum(self.plan.tokens))
        return took

    @property
    def waiting(self) -> int:
        queue = self.scheduler.queue if isinstance(self.scheduler, Optimized) else self.scheduler.state.queue
        size: int = queue.size
        return size


def measured(runs: Runs, rounds: int, before: Callable[[Runs], None] = lambda runs: None) -> list[float]:
    samples = []
    with quiet():
        for _ in range(rounds):
            before(runs)
            samples.append(runs.round())
    return samples


# --- states ------------------------------------------------------------------------------------------------------


def decoding(running: int, rounds: int, policy: Any = "fcfs") -> Settings:
    """Room for all to decode for so many rounds."""
    output = rounds + 64
    return Settings(blocks=running * (output + 96) // 16, seats=running, token_budget=96 * running, policy=policy)


def fill(runs: Runs, running: int, rounds: int, clients: int) -> None:
    """All run, nobody waits, and nobody ends for so many rounds."""
    dice = Random(running)
    for number in range(running):
        prompt, client = tuple(range(dice.randint(16, 64))), f"c{number % clients}"
        runs.submit(Request(id=f"r{number}", prompt_ids=prompt, max_output_tokens=rounds + 64, client=client))
    for _ in range(8):
        runs.round()


def replacing(running: int, policy: Any = "fcfs") -> Settings:
    return Settings(blocks=25 * running, seats=running, token_budget=8 * running + 8_192, policy=policy)


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


def short_of_blocks(victims: int, running: int) -> Settings:
    """When each of those with a full block needs another one, so many have to leave."""
    return Settings(blocks=2 * (running - victims), seats=running, token_budget=16 * running)


def all_at_the_edge(runs: Runs, running: int) -> None:
    for number in range(running):
        runs.submit(Request(id=f"r{number}", prompt_ids=tuple(range(16)), max_output_tokens=32))
    runs.round()
