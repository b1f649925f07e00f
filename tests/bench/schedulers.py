"""Time of a decode step of the reference, per running request: step and complete, making the outcome left out."""

import time
from collections.abc import Iterator
from itertools import islice

from attrs import frozen

from schedspec.spec.vocabulary import Request, Settings

from .measure import Result, median, quiet
from .recording import Recorder, outcome_of, requests

ASKED_US = {False: 2.5, True: 4.0}
"""By whether deltas are recorded."""


@frozen(kw_only=True)
class Size:
    running: tuple[int, ...] = (16, 64, 256, 1024)
    waiting: int = 100_000
    repeats: int = 7
    pairs: int = 4_096  # at least, in one repeat


TINY = Size(running=(2, 4), waiting=10, repeats=2, pairs=8)


def bench(size: Size) -> Iterator[Result]:
    queue = list(islice(requests(2, (16, 16), (16, 16), "w"), size.waiting))
    for record in (False, True):
        for caching in (False, True):
            for running in size.running:
                yield decode(size, running, [], record=record, caching=caching)
            yield decode(size, size.running[-1], queue, record=record, caching=caching)


def decode(size: Size, running: int, queue: list[Request], *, record: bool, caching: bool) -> Result:
    rounds = -(-size.pairs // running)
    output = rounds * size.repeats + 512
    settings = Settings(
        blocks=running * (512 + output) // 16 + running,
        seats=running,
        token_budget=max(64, 8 * running),
        prefix_caching=caching,
    )
    recorder = Recorder(settings, record=record)
    recorder.fill(requests(1, (64, 512), (output, output)), running, lambda message: None)
    for request in queue:
        recorder.submit(request)
    samples = []
    for _ in range(size.repeats):
        with quiet():
            samples.append(sum(step_seconds(recorder) for _ in range(rounds)) / rounds / running * 1e6)
    parts = ["reference.decode", str(running)]
    parts += ["prefix_cache"] * caching + ["recorded"] * record + [f"waiting_{len(queue)}"] * bool(queue)
    return Result(
        name=".".join(parts),
        figure=median(samples),
        unit="µs/request",
        asked=ASKED_US[record] if running == size.running[-1] else None,
        best="least",
        more={"best": min(samples)},
    )


def step_seconds(recorder: Recorder) -> float:
    scheduler = recorder.scheduler
    begun = time.thread_time()
    plan = scheduler.step(0)
    took = time.thread_time() - begun
    outcome = outcome_of(plan)
    begun = time.thread_time()
    scheduler.complete(outcome, 0)
    return took + time.thread_time() - begun
