"""Runs of the reference as messages, for benches of what reads them.

Tokens are made up and no model stops anybody: a request runs to its declared length.
"""

import random
from collections import deque
from collections.abc import Callable, Iterator

from schedspec.reference import Scheduler
from schedspec.spec.vocabulary import Header, Message, Outcome, Plan, Request, Settings

STEP_NS = 25_000_000
VOCABULARY = 32_003

Arrivals = Iterator[Request]


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

    def complete(self, plan: Plan) -> Message:
        outcome = outcome_of(plan)
        return Message("complete", self.now_ns, outcome, self.scheduler.complete(outcome, self.now_ns))

    def round(self) -> tuple[Message, Message]:
        step = self.step()
        return step, self.complete(step.answer)

    @property
    def live(self) -> int:
        return len(self.scheduler.state.jobs)

    @property
    def waiting(self) -> int:
        return self.scheduler.state.queue.size


def outcome_of(plan: Plan) -> Outcome:
    """A token for each entry that samples."""
    rows = [request for request, samples in zip(plan.request, plan.samples, strict=True) if samples]
    tokens = [(plan.step * 7919 + row) % VOCABULARY for row in range(len(rows))]
    return Outcome(step=plan.step, request=rows, token=tokens, stop=[False] * len(rows))


def requests(seed: int, prompt: tuple[int, int], output: tuple[int, int]) -> Arrivals:
    """An endless row of requests that share no prefix, of lengths drawn evenly from the two ranges."""
    rng = random.Random(seed)
    number = 0
    while True:
        number += 1
        length = rng.randint(*prompt)
        start = rng.randrange(1 << 30)
        yield Request(
            id=f"r{number}", prompt_ids=tuple(range(start, start + length)), max_output_tokens=rng.randint(*output)
        )


def messages(recorder: Recorder, arrivals: Arrivals, wanted: int, waiting: int) -> Iterator[Message]:
    """So many messages of a system that always has `waiting` requests in its queue; then it runs dry, and ends."""
    count = 0
    while count < wanted or recorder.live:
        while count < wanted and recorder.waiting < waiting:
            yield recorder.submit(next(arrivals))
            count += 1
        yield from recorder.round()
        count += 2
    yield Message("end", recorder.now_ns)


def filled(recorder: Recorder, arrivals: Arrivals, running: int, feed: Callable[[Message], object]) -> None:
    """Submit so many requests and run until the prompt of each is computed."""
    for _ in range(running):
        feed(recorder.submit(next(arrivals)))
    state = recorder.scheduler.state
    while len(state.running) < running or any(job.issued < job.request.prompt_tokens for job in state.running.values()):
        deque(map(feed, recorder.round()), maxlen=0)
