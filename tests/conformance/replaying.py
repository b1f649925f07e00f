"""Real arrivals and lengths against a subject, on a virtual clock."""

import time
from collections.abc import Callable, Iterator

from attrs import frozen

from schedspec.spec.vocabulary import Settings
from schedspec.spec.workloads import Incoming, Workload, to_requests

from .driver import Driver
from .script import COMPLETE, STEP, Op

SETTINGS = Settings(blocks=2048, block_size=16, seats=128, token_budget=2048, watermark_blocks=20)
"""A pool that the Azure conversation trace fills now and then at its own rate."""


@frozen(kw_only=True)
class StepTime:
    """How long a step takes: a fixed time, and one per token."""

    fixed_ns: int = 25_000_000
    per_token_ns: int = 50_000

    def of(self, tokens: int) -> int:
        return self.fixed_ns + self.per_token_ns * tokens


@frozen
class Replayed:
    requests: int
    steps: int
    pairs: int
    cut_short: bool


def replay_workload(
    driver: Driver,
    workload: Workload,
    *,
    seed: int,
    step_time: StepTime,
    wall_s: float | None = None,
    progress: Callable[[int], None] = lambda requests: None,
) -> Replayed:
    """Submit requests when their time has come, step while there is work, drain at the end.

    After `wall_s` seconds of this machine's time no more requests come, and the result says so.
    """
    run = _Run(driver, to_requests(workload.arrivals(), seed), step_time, progress)
    deadline = None if wall_s is None else time.monotonic() + wall_s
    while not driver.over and run.incoming is not None:
        run.submit_due()
        run.step()
        if deadline is not None and time.monotonic() > deadline:
            break
    cut_short = run.incoming is not None and not driver.over
    while not driver.over and driver.monitor.live:
        run.step()
    if not driver.over:
        driver.drain()
    return Replayed(run.requests, run.steps, run.pairs, cut_short)


class _Run:
    def __init__(
        self,
        driver: Driver,
        source: Iterator[Incoming],
        step_time: StepTime,
        progress: Callable[[int], None],
    ) -> None:
        self.driver = driver
        self.source = source
        self.step_time = step_time
        self.progress = progress
        self.incoming = next(source, None)
        self.requests = self.steps = self.pairs = 0

    def submit_due(self) -> None:
        """Everybody whose time has come; with nothing to do the clock jumps to the next one."""
        driver = self.driver
        if self.incoming is not None and not driver.monitor.live:
            driver.do(Op("tick", ns=max(0, self.incoming.now_ns - driver.now_ns)))
        while self.incoming is not None and self.incoming.now_ns <= driver.now_ns and not driver.over:
            driver.do(Op("submit", self.incoming.request, self.incoming.output_tokens))
            self.requests += 1
            self.incoming = next(self.source, None)
        self.progress(self.requests)

    def step(self) -> None:
        driver = self.driver
        driver.do(STEP)
        plan = driver.last_plan
        tokens = 0 if plan is None else sum(plan.tokens)
        self.steps += 1
        self.pairs += 0 if plan is None else len(plan.request)
        driver.do(Op("tick", ns=self.step_time.of(tokens)))
        driver.do(COMPLETE)
