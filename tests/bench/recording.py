"""Runs of the reference as messages, for benches of what reads them.

Tokens are made up and no model stops anybody: a request runs to its declared length.
"""

import random
from collections.abc import Callable, Iterator, Sequence

from attrs import evolve

from schedspec.reference import Scheduler
from schedspec.spec.vocabulary import Header, Message, Outcome, Plan, Request, Settings

STEP_NS = 25_000_000
VOCABULARY = 32_003

Arrivals = Iterator[Request]
Feed = Callable[[Message], object]


class Recorder:
    """A reference scheduler whose calls come back as messages."""

    def __init__(self, settings: Settings, *, record: bool = True) -> None:
        self.scheduler = Scheduler(settings, 0, record=record)
        self.header = Header(settings=settings, capabilities=self.scheduler.capabilities(), subject="reference")
        self.now_ns = 0

    def submit(self, request: Request) -> Message:
        return Message("submit", self.now_ns, request, self.scheduler.submit(request, self.now_ns))

    def step(self) -> Message:
        self.now_ns += STEP_NS
        return Message("step", self.now_ns, None, self.scheduler.step(self.now_ns))

    def complete(self, plan: Plan, stop: Sequence[bool] = ()) -> Message:
        """`stop`: where the model ends a request, for as many rows as there are; nowhere else."""
        outcome = outcome_of(plan)
        if stop:
            outcome = evolve(outcome, stop=list(stop[: len(outcome.request)]))
        return Message("complete", self.now_ns, outcome, self.scheduler.complete(outcome, self.now_ns))

    def round(self) -> list[Message]:
        step = self.step()
        return [step, self.complete(step.answer)]

    def busy_round(self, arrivals: Arrivals, waiting: int) -> list[Message]:
        """A round before which so many requests wait."""
        missing = waiting - self.scheduler.state.queue.size
        return [self.submit(next(arrivals)) for _ in range(missing)] + self.round()

    def fill(self, arrivals: Arrivals, running: int, feed: Feed) -> None:
        """Submit so many requests and run until the prompt of each is computed."""
        for _ in range(running):
            feed(self.submit(next(arrivals)))
        state = self.scheduler.state
        while len(state.running) < running or any(not job.outputs for job in state.running.values()):
            for message in self.round():
                feed(message)

    @property
    def live(self) -> int:
        return len(self.scheduler.state.jobs)


def outcome_of(plan: Plan) -> Outcome:
    """A token for each entry that samples."""
    rows = [request for request, samples in zip(plan.request, plan.samples, strict=True) if samples]
    tokens = [(plan.step * 7919 + row) % VOCABULARY for row in range(len(rows))]
    return Outcome(step=plan.step, request=rows, token=tokens, stop=[False] * len(rows))


def requests(seed: int, prompt: tuple[int, int], output: tuple[int, int], prefix: str = "r") -> Arrivals:
    """An endless row of requests that share no prefix, of lengths drawn evenly from the two ranges."""
    rng = random.Random(seed)
    number = 0
    while True:
        number += 1
        length = rng.randint(*prompt)
        start = rng.randrange(1 << 30)
        ids = tuple(range(start, start + length))
        yield Request(id=f"{prefix}{number}", prompt_ids=ids, max_output_tokens=rng.randint(*output))


def run(recorder: Recorder, arrivals: Arrivals, lines: int, waiting: int) -> Iterator[Message]:
    """About so many messages, while so many requests wait; then nobody comes any more, and the run ends."""
    count = 0
    while count < lines or recorder.live:
        messages = recorder.busy_round(arrivals, waiting if count < lines else 0)
        count += len(messages)
        yield from messages
    yield Message("end", recorder.now_ns)
