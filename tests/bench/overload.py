"""The door under overload, on workloads and seeds that nothing was fitted to: `python -m tests.bench.overload`.

Each workload comes at growing rates to one scheduler with a door, on a virtual clock with a published cost model.
Useful are tokens, while requests come, of whoever gets its first token within ten seconds.  The rate at which their sum
is at 95 % of its peak is the saturation; at twice that all messages are judged as well: bounded queues, refusals that
are explicit and true, promises.  Some of those that were told when to come again do so in a run of their own, in which
nobody else comes after them.  Beside it the same arrivals without a door.

The declared time model is what an operator would measure: the most that a step took, in a run at a low rate and one at
a high one, as a fixed part and one for each token.  Steps may exceed it: then promises do not bind, and `delays` says
how often.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import takewhile
from typing import Any

from attrs import define, evolve, field, frozen

from schedspec.reference import make
from schedspec.reference.simulation import PROFILES, Batch, Record, Simulation
from schedspec.spec.declared_time import DeclaredTime
from schedspec.spec.monitor import Monitor
from schedspec.spec.vocabulary import NS_PER_S, Door, Header, Message, Settings
from schedspec.spec.workloads import Incoming, parse_workload, to_requests

WORKLOADS = (
    *("fitted:azure-conv", "fitted:sharegpt", "hostile:bursts", "hostile:prompt-mix", "hostile:noisy-tenant"),
    *("hostile:retry-storm", "hostile:output-mix", "hostile:cancels"),
)
IN_TIME_NS = 10 * NS_PER_S
SECONDS = 20
LOADS = tuple(Fraction(2**n, 2) for n in range(6))
PROBES = 3
SETTINGS = Settings(blocks=4_096, block_size=16, seats=64, token_budget=512, reserve="declared")
PROFILE = "niyama-llama3-8b-a100"
ASKED = 0.9


@define
class Measured:
    """A cost model that remembers its longest steps, beside `token_ns` for each token."""

    token_ns: int
    fixed_ns: int = 0

    def step_ns(self, batch: Batch) -> int:
        step_ns = PROFILES[PROFILE].cost.step_ns(batch)
        self.fixed_ns = max(self.fixed_ns, step_ns - self.token_ns * batch.tokens)
        return step_ns


@define
class Judged:
    """A subject each of whose messages is judged.  `late`: how often a step took longer than declared."""

    settings: Settings
    subject: Any = field(init=False)
    monitor: Monitor = field(init=False)
    time: DeclaredTime = field(init=False)
    longest_queue: int = 0
    told: list[tuple[Any, int]] = field(factory=list)
    reasons: dict[str, int] = field(factory=dict)
    untold: int = 0

    def __attrs_post_init__(self) -> None:
        self.subject = make(self.settings, 0)
        header = Header(settings=self.settings, capabilities=self.subject.capabilities())
        self.monitor, self.time = Monitor(header, content=False), DeclaredTime(self.settings.door)

    def _hear(self, message: Message) -> Any:
        self.time.hear(self.monitor, message)
        self.monitor.feed(message)
        self.longest_queue = max(self.longest_queue, self.monitor.waiting)
        return message.answer

    def submit(self, request: Any, now_ns: int) -> Any:
        receipt = self._hear(Message("submit", now_ns, request, self.subject.submit(request, now_ns)))
        if receipt.verdict == "refused":
            self.reasons[receipt.reason] = self.reasons.get(receipt.reason, 0) + 1
            self.untold += receipt.limit is None or receipt.value is None
            if receipt.retry_after_ns is not None:
                self.told.append((request, now_ns + receipt.retry_after_ns))
        return receipt

    def cancel(self, request: str, now_ns: int) -> Any:
        return self._hear(Message("cancel", now_ns, request, self.subject.cancel(request, now_ns)))

    def step(self, now_ns: int) -> Any:
        return self._hear(Message("step", now_ns, None, self.subject.step(now_ns)))

    def complete(self, outcome: Any, now_ns: int) -> Any:
        return self._hear(Message("complete", now_ns, outcome, self.subject.complete(outcome, now_ns)))


@frozen
class Run:
    useful: int
    refused: int
    late: int
    requests: int


def arrivals(name: str, rate: Fraction, seed: int) -> Iterator[Incoming]:
    """As many as come in the time, at `rate` times their own pace."""
    found = to_requests(parse_workload(name, rate=rate, seed=seed).arrivals(), seed)
    return takewhile(lambda incoming: incoming.now_ns < SECONDS * NS_PER_S, found)


def run(subject: Any, cost: Measured, name: str, rate: Fraction, seed: int) -> Run:
    log = Simulation(subject, cost).run(arrivals(name, rate, seed))
    records = list(log.records.values())
    in_time = [record for record in records if is_in_time(record)]
    ends = SECONDS * NS_PER_S
    accepted = [record for record in records if record.refused is None and record.end != "cancelled"]
    return Run(
        sum(sum(when <= ends for when in record.token_ns) for record in in_time),
        sum(record.refused is not None for record in records),
        sum(not is_in_time(record) for record in accepted),
        len(records),
    )


def is_in_time(record: Record) -> bool:
    return bool(record.token_ns) and record.token_ns[0] - record.arrived_ns <= IN_TIME_NS


def comes_again(settings: Settings, name: str, rate: Fraction, seed: int, request: Any, when_ns: int) -> bool | None:
    """Whether it is accepted, if nobody came after it; None: somebody of those before comes back by himself."""
    before = []
    for incoming in arrivals(name, rate, seed):
        before.append(incoming)
        if incoming.patience is not None or incoming.cancel_after_ns is not None:
            return None
        if incoming.request.id == request.id:
            break
    again = evolve(before[-1], now_ns=when_ns, request=evolve(request, id="again"))
    log = Simulation(make(settings, 0), Measured(token_ns=settings.door.token_ns)).run([*before, again])
    return log.records["again"].refused is None


def door_for(name: str, seed: int) -> Door:
    """With a time model that was measured on another seed."""
    cost = Measured(token_ns=100_000)
    for rate in (LOADS[0], LOADS[-2]):
        run(make(SETTINGS, 0), cost, name, rate, seed + 1_000)
    return Door(
        queue_requests=500, queue_age_ns=IN_TIME_NS - NS_PER_S, step_ns=cost.fixed_ns, token_ns=cost.token_ns,
        first_token_ns=IN_TIME_NS,
    )  # fmt: skip


def measure(name: str, seed: int) -> tuple[str, bool]:
    began = time.process_time()
    door = door_for(name, seed)
    settings = evolve(SETTINGS, door=door)
    cost = Measured(token_ns=door.token_ns)
    useful = {rate: run(make(settings, 0), cost, name, rate, seed).useful for rate in LOADS}
    peak = max(useful.values())
    saturation = next(rate for rate in LOADS if useful[rate] >= 0.95 * peak)
    judged = Judged(settings)
    found = run(judged, cost, name, 2 * saturation, seed)
    without = run(make(SETTINGS, 0), cost, name, 2 * saturation, seed)
    probed = judged.told[:: max(1, len(judged.told) // PROBES)][:PROBES]
    came = [comes_again(settings, name, 2 * saturation, seed, *one) for one in probed]
    true, false = came.count(True), came.count(False)
    broken = sorted({violation.rule for violation in judged.monitor.violations} - {"LIVE-11"})
    exercised = judged.monitor.exercised()
    counted = ", ".join(f"{rule} {exercised[rule]}" for rule in ("ADMIT-3", "ADMIT-4", "ADMIT-5", "ADMIT-8"))
    share = found.useful / peak
    says = (
        f"{name} seed {seed}: saturated at {float(saturation):g}x; at twice that {share:.0%} of the peak of"
        f" {peak / SECONDS:,.0f} useful tokens/s, without a door {without.useful / peak:.0%};"
        f" {found.requests} came, {found.refused} refused {judged.reasons}, {judged.untold} without a limit,"
        f" {len(judged.told)} told when to come again, of {true + false} probed {true} accepted then;"
        f" {found.late} accepted and late; at most {judged.longest_queue} waited; {judged.time.delays} delays;"
        f" broken: {broken or 'none'} ({counted}); {time.process_time() - began:.0f} s"
    )
    return says, share >= ASKED and not broken and not judged.untold and not false


def main(arguments: Sequence[str]) -> int:
    """WORKLOAD … [SEED …]; all workloads, and seed 7, by default."""
    seeds = [int(text) for text in arguments if text.isdigit()] or [7]
    names = [text for text in arguments if not text.isdigit()] or list(WORKLOADS)
    held = True
    for name in names:
        for seed in seeds:
            says, is_held = measure(name, seed)
            print(says, flush=True)
            held = held and is_held
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
