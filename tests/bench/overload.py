"""The door under overload, on workloads and seeds that nothing was fitted to: `python -m tests.bench.overload`.

Each workload comes at growing rates to one scheduler with a door, on a virtual clock with a published cost model.
Useful are tokens, prompts and outputs, while requests come, of whoever gets its first token within ten seconds.  They
are divided by the time in which something useful could be done at all: while somebody, refused or not, came less than
ten seconds ago, or runs (where arrivals are bursts there are lulls, which no door can fill).  The rate doubles until
far more comes than is useful; the first at 95 % of the peak is the saturation.  At twice that all messages are judged
as well, and asked is:

    useful       at least 90 % of the peak; the same arrivals without a door have less than that
    in time      everybody who was accepted and did not leave has its first token within ten seconds
    bounded      never more wait than the door lets in
    explicit     each refusal has its reason, limit and value, and says when to come again, unless even an empty
                 system would refuse it
    true         who comes again then is accepted, if nobody came in between: probed, in a run of its own with all calls
                 until the refusal and none after it

The declared time model is what an operator would measure: the most that a step took, in a run at a low rate and one at
a high one, as a fixed part and one for each token.  Steps may exceed it: then promises do not bind, and `delays` says
how often.
"""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
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
SECONDS = 60
LOADS = tuple(Fraction(2**n, 2) for n in range(9))
FAR_MORE = 8
PROBES = 6
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
    calls: list[tuple[int, Any]] = field(factory=list)
    left_ns: dict[str, int] = field(factory=dict)
    told: list[tuple[int, int]] = field(factory=list)
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
        self.calls.append((now_ns, request))
        if receipt.verdict == "refused":
            self.reasons[receipt.reason] = self.reasons.get(receipt.reason, 0) + 1
            if receipt.retry_after_ns is not None:
                self.told.append((len(self.calls), now_ns + receipt.retry_after_ns))
            is_for_good = make(self.settings, 0).submit(request, 0).verdict == "refused"
            says_when = receipt.retry_after_ns is not None or is_for_good
            self.untold += receipt.limit is None or receipt.value is None or not says_when
        return receipt

    def cancel(self, request: str, now_ns: int) -> Any:
        self.left_ns.setdefault(request, now_ns)
        return self._hear(Message("cancel", now_ns, request, self.subject.cancel(request, now_ns)))

    def step(self, now_ns: int) -> Any:
        return self._hear(Message("step", now_ns, None, self.subject.step(now_ns)))

    def complete(self, outcome: Any, now_ns: int) -> Any:
        return self._hear(Message("complete", now_ns, outcome, self.subject.complete(outcome, now_ns)))


@frozen
class Run:
    """`useful`: tokens per second of the time in which there was a chance."""

    useful: float
    tokens: int
    refused: int
    late: int
    requests: int
    offered: int


def arrivals(name: str, rate: Fraction, seed: int) -> Iterator[Incoming]:
    """As many as come in the time, at `rate` times their own pace."""
    found = to_requests(parse_workload(name, rate=rate, seed=seed).arrivals(), seed)
    return takewhile(lambda incoming: incoming.now_ns < SECONDS * NS_PER_S, found)


def run(subject: Any, cost: Measured, name: str, rate: Fraction, seed: int) -> Run:
    ends = SECONDS * NS_PER_S
    simulation = Simulation(subject, cost, until_ns=ends + IN_TIME_NS + NS_PER_S)
    records = list(simulation.run(arrivals(name, rate, seed)).records.values())
    in_time = [record for record in records if is_in_time(record) and record.token_ns[0] <= ends]
    accepted = [record for record in records if record.refused is None and record.end != "cancelled"]
    tokens = sum(record.prompt_tokens + sum(when <= ends for when in record.token_ns) for record in in_time)
    return Run(
        tokens * NS_PER_S / max(1, chances_ns(records, ends)),
        tokens,
        sum(record.refused is not None for record in records),
        sum(not is_in_time(record) for record in accepted if record.arrived_ns <= ends),
        len(records),
        sum(record.prompt_tokens + record.output_tokens for record in records if "~" not in record.id),
    )


def chances_ns(records: Sequence[Record], ends: int) -> int:
    """How long there was somebody of whom something useful could be made: the union of the times of all who came."""
    chances, until = 0, 0
    for record in sorted(records, key=lambda record: record.arrived_ns):
        over = min(ends, max((record.arrived_ns + IN_TIME_NS, *record.token_ns[-1:])))
        chances += max(0, over - max(until, record.arrived_ns))
        until = max(until, over)
    return chances


def is_in_time(record: Record) -> bool:
    return bool(record.token_ns) and record.token_ns[0] - record.arrived_ns <= IN_TIME_NS


def comes_again(judged: Judged, calls: int, when_ns: int, outputs: Mapping[str, int]) -> bool:
    """Whether the last of so many is accepted then, if nobody came after it."""
    now_ns, request = judged.calls[calls - 1]
    before = []
    for came_ns, one in judged.calls[:calls]:
        left_ns = judged.left_ns.get(one.id, now_ns + 1)
        after_ns = left_ns - came_ns if left_ns <= now_ns else None
        output_tokens = outputs[one.id.split("~")[0]]
        before.append(Incoming(now_ns=came_ns, request=one, output_tokens=output_tokens, cancel_after_ns=after_ns))
    again = evolve(before[-1], now_ns=when_ns, request=evolve(request, id="again"), cancel_after_ns=None)
    cost = Measured(token_ns=judged.settings.door.token_ns)
    log = Simulation(make(judged.settings, 0), cost, until_ns=when_ns + 1).run([*before, again])
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


def saturation(settings: Settings, name: str, seed: int) -> tuple[Fraction, float]:
    """The rate, and the peak of what is useful.  Where arrivals are bursts a rate at which more comes than the machine
    can do need not be its peak yet: it ends where far more comes."""
    useful: dict[Fraction, float] = {}
    for rate in LOADS:
        found = run(make(settings, 0), Measured(token_ns=settings.door.token_ns), name, rate, seed)
        useful[rate] = found.useful
        if found.offered > FAR_MORE * found.tokens:
            break
    peak = max(useful.values())
    return next(rate for rate in useful if useful[rate] >= 0.95 * peak), peak


def measure(name: str, seed: int) -> tuple[str, bool]:
    began = time.process_time()
    door = door_for(name, seed)
    settings = evolve(SETTINGS, door=door)
    cost = Measured(token_ns=door.token_ns)
    rate, peak = saturation(settings, name, seed)
    judged = Judged(settings)
    found = run(judged, cost, name, 2 * rate, seed)
    without = run(make(SETTINGS, 0), cost, name, 2 * rate, seed)
    peak = max(peak, found.useful)
    outputs = {one.request.id: one.output_tokens for one in arrivals(name, 2 * rate, seed)}
    probed = judged.told[:: max(1, len(judged.told) // PROBES)][:PROBES]
    came = [comes_again(judged, *one, outputs) for one in probed]
    broken = sorted({violation.rule for violation in judged.monitor.violations} - {"LIVE-11"})
    asked = {
        "useful": found.useful >= ASKED * peak > without.useful,
        "in time": not found.late,
        "bounded": judged.longest_queue <= door.queue_requests,
        "explicit": not judged.untold,
        "true": all(came),
        "rules": not broken,
    }
    missed = [what for what, is_so in asked.items() if not is_so]
    says = (
        f"{name} seed {seed}: {'missed ' + ', '.join(missed) if missed else 'ok'}; saturated at {float(rate):g}x;"
        f" at twice that {found.useful / peak:.0%} of the peak of {peak:,.0f} useful tokens/s, without a door"
        f" {without.useful / peak:.0%} and {without.late} late; {found.requests} came, {found.refused} refused"
        f" {judged.reasons}, {judged.untold} without a limit or a time, {len(judged.told)} told when to come again, of"
        f" {len(came)} probed {came.count(True)} accepted then; {found.late} accepted and late;"
        f" at most {judged.longest_queue} of {door.queue_requests} waited; {judged.time.delays} delays;"
        f" broken: {broken or 'none'}; {time.process_time() - began:.0f} s"
    )
    return says, not missed


def main(arguments: Sequence[str]) -> int:
    """WORKLOAD … [SEED …] [--seconds=N]; all workloads, and seed 7, by default."""
    global SECONDS
    for text in arguments:
        if text.startswith("--seconds="):
            SECONDS = int(text.partition("=")[2])
    given = [text for text in arguments if not text.startswith("--")]
    seeds = [int(text) for text in given if text.isdigit()] or [7]
    names = [text for text in given if not text.isdigit()] or list(WORKLOADS)
    held = True
    for seed in seeds:
        for name in names:
            says, is_held = measure(name, seed)
            print(says, flush=True)
            held = held and is_held
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
