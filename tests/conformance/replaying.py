"""Real arrivals and lengths against a subject, on a virtual clock."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import define, frozen

from schedspec.spec.vocabulary import Message, Settings
from schedspec.spec.workloads import Arrival, Clients, Incoming, Workload, to_requests

from .driver import Driver
from .script import COMPLETE, STEP, Op

SETTINGS = Settings(blocks=2048, block_size=16, seats=128, token_budget=2048, watermark_blocks=20)
"""A pool that the Azure conversation trace fills now and then at its own rate."""

ENDS = ("finished", "failed", "cancelled", "expired")


@frozen(kw_only=True)
class StepTime:
    """How long a step takes: a fixed time, and one per token."""

    fixed_ns: int = 25_000_000
    per_token_ns: int = 50_000

    def of(self, tokens: int) -> int:
        return self.fixed_ns + self.per_token_ns * tokens


@frozen
class Replayed:
    """`too_large`: requests that no scheduler can serve to their end, `first_too_large` where the first one stands."""

    requests: int
    steps: int
    pairs: int
    cut_short: bool
    too_large: int = 0
    first_too_large: str = ""


def replay_workload(
    driver: Driver,
    workload: Workload,
    *,
    seed: int,
    step_time: StepTime,
    wall_s: float | None = None,
    progress: Callable[[int], None] = lambda requests: None,
) -> Replayed:
    """Submit requests when their time has come, cancel when their clients leave, step while there is work, drain at the
    end.

    After `wall_s` seconds of this machine's time no more requests come, and the result says so.
    """
    sizes = _Sizes(driver.settings.blocks * driver.settings.block_size)
    run = _Run(driver, Clients(to_requests(sizes.of(workload.arrivals()), seed)), step_time, progress)
    driver.heard = run.hear
    deadline = None if wall_s is None else time.monotonic() + wall_s
    while not driver.over and (run.clients.may_come or driver.monitor.live):
        run.clients_act()
        run.step()
        if deadline is not None and time.monotonic() > deadline:
            break
    cut_short = run.clients.may_come and not driver.over
    while not driver.over and driver.monitor.live:
        run.clients_leave()
        run.step()
    if not driver.over:
        driver.drain()
    return Replayed(run.requests, run.steps, run.pairs, cut_short, sizes.too_large, sizes.first)


@define
class _Sizes:
    pool_tokens: int
    too_large: int = 0
    first: str = ""

    def of(self, arrivals: Iterable[Arrival]) -> Iterator[Arrival]:
        for number, arrival in enumerate(arrivals):
            if arrival.kv_tokens > self.pool_tokens:
                self.too_large += 1
                self.first = self.first or arrival.place or f"request {number}"
            yield arrival


class _Run:
    def __init__(
        self,
        driver: Driver,
        clients: Clients,
        step_time: StepTime,
        progress: Callable[[int], None],
    ) -> None:
        self.driver = driver
        self.clients = clients
        self.step_time = step_time
        self.progress = progress
        self.submitted: Incoming | None = None
        self.requests = self.steps = self.pairs = 0

    def clients_act(self) -> None:
        """Everybody whose time has come; with nothing to do the clock jumps to the next one."""
        driver = self.driver
        due_ns = self.clients.next_ns
        if due_ns is not None and not driver.monitor.live:
            driver.do(Op("tick", ns=max(0, due_ns - driver.now_ns)))
        self.clients_leave()
        for incoming in self.clients.coming(driver.now_ns):
            self.submitted = incoming
            driver.do(Op("submit", incoming.request, incoming.output_tokens))
            self.requests += 1
            if driver.over:
                break
        self.progress(self.requests)

    def clients_leave(self) -> None:
        for request in self.clients.leaving(self.driver.now_ns):
            self.driver.do(Op("cancel", id=request))

    def hear(self, message: Message) -> None:
        """What becomes of a request is what its client goes by."""
        answer = message.answer
        if message.kind == "submit":
            self._hear_receipt(answer)
        deltas = answer if message.kind in ("complete", "cancel") else getattr(answer, "deltas", ())
        for name, *fields in deltas:
            if name == "delivered":
                self.clients.got_tokens(fields[0])
            elif name in ENDS:
                self.clients.ended(fields[0])

    def _hear_receipt(self, receipt: Any) -> None:
        assert self.submitted is not None
        if receipt.verdict in ("accepted", "deferred"):
            self.clients.accepted(self.submitted, self.driver.now_ns)
        elif receipt.verdict != "converted":  # else its client is served elsewhere, or need not stay
            self.clients.refused(self.submitted, self.driver.now_ns, receipt.retry_after_ns)

    def step(self) -> None:
        driver = self.driver
        driver.do(STEP)
        plan = driver.last_plan
        tokens = 0 if plan is None else sum(plan.tokens)
        self.steps += 1
        self.pairs += 0 if plan is None else len(plan.request)
        driver.do(Op("tick", ns=self.step_time.of(tokens)))
        driver.do(COMPLETE)
        driver.transfer()
