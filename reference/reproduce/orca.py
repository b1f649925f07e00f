"""Orca (Yu et al., OSDI 2022): throughput at equal latency, of iteration-level and of request-level batching.

The paper's cost of GPT-3 175B on 16 A100-40GB is not published, so a number cannot be reproduced, its direction can: a
step takes the paper's floor, or longer if its tokens are more than that hides, and reads the KV of its context.
FasterTransformer pads: every prompt to the longest of its batch, and who has ended decodes on until the batch ends, and
is answered then.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from math import inf

from attrs import define, field, frozen

from ...spec.vocabulary import NS_PER_S, Settings
from ..scheduler import Scheduler
from ..simulation import Batch, CostModel, Log, Record, Simulation
from ..systems import FASTERTRANSFORMER, ORCA, System
from .drawn import Lengths, poisson, uniform
from .framework import Constant, Reproduction, Run, Target
from .search import largest, percentile

PAPER = "Orca, OSDI 2022, "
FLOOR_NS = 95_000_000
OBJECTIVE_NS = 190_000_000
TOKEN_PS = 219_000_000
CONTEXT_PS = 542_000
SLOTS = 56_896
BLOCK_SIZE = 16
MODEL_TOKENS = 2_048
MIXED = ((32, 512), (1, 128))
EQUAL = (32, 256)
ORCA_BATCHES, FT_BATCHES = (1, 8, 16, 32), (1, 8, 16)
TRACE_S, SAMPLE_S = 300, 40
WITHIN = 0.05

CONSTANTS = (
    Constant("floor_ms", 95, PAPER + "section 6.2: one iteration of the 175B model; the objective is twice that"),
    Constant("objective_ms_per_token", 190, PAPER + "section 6.2: median of end-to-end latency over generated tokens"),
    Constant("token_us", 219, "2 · 175e9 FLOP over 8 A100 (312 TFLOP/s) at 0.64 of the peak, stages one after another"),
    Constant("context_token_ns", 542, "4,718,592 B of KV a token over 8 A100-40GB (1.555 TB/s) at 0.70 of the peak"),
    Constant("kv_slots", SLOTS, "0.9 of 16 · 40 GiB less 350 GB of weights, over 4,718,592 B"),
    Constant("model_tokens", MODEL_TOKENS, PAPER + "section 6.1: the longest sequence; FasterTransformer takes it all"),
    Constant("mixed_tokens", MIXED, PAPER + "section 6.2: prompt and output, uniform, Poisson arrivals"),
    Constant("equal_tokens", EQUAL, PAPER + "section 6.2: homogeneous traces (32, 32) and (256, 256)"),
    Constant("batch limits of Orca", ORCA_BATCHES, PAPER + "figure 10"),
    Constant("batch limits of FasterTransformer", FT_BATCHES, PAPER + "section 6.2: the best were 1 and 8"),
    Constant("trace_s", TRACE_S, "judged are those who come in it, but for its first and last tenth; searched to 5 %"),
)

TARGETS = (
    Target(
        "throughput, Orca / FasterTransformer",
        10,
        PAPER + "section 6.2: 36.9 = 6.81 / 0.185 req/s, of which half an order depends on micro-batches",
        at_least=True,
        directional=True,
    ),
    Target("batch limits at which Orca's throughput rises", 3, PAPER + "figure 10", within_points=0, directional=True),
    Target(
        "batch limits at which FasterTransformer's throughput rises",
        1,
        PAPER + "figure 10: at most 1 of 2, since its best are 1 and 8",
        at_most=True,
        directional=True,
    ),
    Target("homogeneous, least of Orca / FasterTransformer", 1, PAPER + "figure 11", at_least=True, directional=True),
    Target("homogeneous, most of Orca / FasterTransformer", 3, PAPER + "figure 11", at_most=True, directional=True),
)


@frozen
class StepTime:
    """The floor, or what the tokens take if that is longer; and the context."""

    def step_ns(self, batch: Batch) -> int:
        linear_ns = max(FLOOR_NS, batch.tokens * TOKEN_PS // 1_000)
        return linear_ns + (batch.context_tokens + batch.past_tokens) * CONTEXT_PS // 1_000


@define(eq=False)
class Padded:
    """What a batch costs that stays together: `width` requests, each as long as the longest.  `tokens` were run, and
    `padding` of them for nobody."""

    cost: CostModel
    width: int = field(init=False, default=0)
    tokens: int = field(init=False, default=0)
    padding: int = field(init=False, default=0)

    def step_ns(self, batch: Batch) -> int:
        padded = self._padded(batch)
        self.tokens += padded.tokens
        self.padding += padded.tokens - batch.tokens
        return self.cost.step_ns(padded)

    def _padded(self, batch: Batch) -> Batch:
        if batch.chunks:
            self.width = len(batch.chunks)
            return Batch(chunks=((0, max(tokens for _, tokens in batch.chunks)),) * self.width)
        return Batch(self.width, batch.context_tokens * self.width // batch.decodes)


def orca(seats: int, lengths: Lengths, per_s: float, seconds: int, seed: int) -> float:
    """Median of latency over generated tokens, in nanoseconds."""
    log = _run(ORCA.make(_settings(ORCA, seats)), StepTime(), lengths, per_s, seconds, seed)
    return _median(log, seconds, {request: record.ended_ns for request, record in log.records.items()})


def faster_transformer(seats: int, lengths: Lengths, per_s: float, seconds: int, seed: int, cost: Padded) -> float:
    """The same; a request is answered when the last of its batch has ended."""
    system = FASTERTRANSFORMER.make(_settings(FASTERTRANSFORMER, seats))
    log = _run(system, cost, lengths, per_s, seconds, seed)
    ends: dict[int | None, int | None] = {None: None}
    for record in log.records.values():
        last = ends.setdefault(record.admitted_ns, 0)
        ends[record.admitted_ns] = None if last is None or record.ended_ns is None else max(last, record.ended_ns)
    return _median(log, seconds, {request: ends[record.admitted_ns] for request, record in log.records.items()})


def _settings(system: System, seats: int) -> Settings:
    sizes = {"blocks": SLOTS // BLOCK_SIZE, "block_size": BLOCK_SIZE, "seats": seats, "max_model_tokens": MODEL_TOKENS}
    return system.settings(**sizes, token_budget=seats * MODEL_TOKENS)


def _run(system: Scheduler, cost: CostModel, lengths: Lengths, per_s: float, seconds: int, seed: int) -> Log:
    simulation = Simulation(system, cost, until_ns=seconds * NS_PER_S)
    return simulation.run(poisson(lengths, per_s, seconds, seed))


def _median(log: Log, seconds: int, ends_ns: Mapping[str, int | None]) -> float:
    """Who was not answered until the end counts as never."""
    tenth_ns = seconds * NS_PER_S // 10
    judged = [record for record in log.records.values() if tenth_ns <= record.arrived_ns < 9 * tenth_ns]
    return percentile((_latency(record, ends_ns[record.id]) for record in judged), 50)


def _latency(record: Record, end_ns: int | None) -> float:
    return inf if end_ns is None else (end_ns - record.arrived_ns) / record.output_tokens


def throughput(latency: Callable[[float], float]) -> float:
    """The largest rate whose median latency is within the objective, in requests a second."""
    return largest(lambda per_s: latency(per_s) <= OBJECTIVE_NS, guess=0.5, within=WITHIN)


def measure(run: Run) -> Mapping[str, float]:
    seconds = SAMPLE_S if run.sample else TRACE_S
    mixed, pad = uniform(*MIXED), Padded(StepTime())

    def of_orca(seats: int, lengths: Lengths) -> float:
        return throughput(lambda per_s: orca(seats, lengths, per_s, seconds, run.seed))

    def of_ft(seats: int, lengths: Lengths) -> float:
        return throughput(lambda per_s: faster_transformer(seats, lengths, per_s, seconds, run.seed, pad))

    ours = {seats: of_orca(seats, mixed) for seats in run.stages("Orca", ORCA_BATCHES)}
    theirs = {seats: of_ft(seats, mixed) for seats in run.stages("FasterTransformer", FT_BATCHES)}
    run.note(
        f"padding is {100 * pad.padding / pad.tokens:.0f} % of what FasterTransformer computes, prompts from 32 to 512"
    )
    run.note("Orca, requests/s by batch limit: " + _listed(ours))
    run.note("FasterTransformer, requests/s by batch limit: " + _listed(theirs))
    equal = {}
    for tokens in run.stages("homogeneous", EQUAL):
        same = uniform((tokens, tokens), (tokens, tokens))
        equal[tokens] = of_orca(8, same) / of_ft(8, same)
    run.note("homogeneous, batch limit 8, Orca over FasterTransformer: " + _listed(equal))
    rates = list(ours.values())
    return {
        "throughput, Orca / FasterTransformer": max(rates) / max(theirs.values()),
        "batch limits at which Orca's throughput rises": sum(
            before * (1 + WITHIN) < after for before, after in pairwise(rates)
        ),
        "batch limits at which FasterTransformer's throughput rises": sum(
            before * (1 + WITHIN) < after for before, after in pairwise(theirs.values())
        ),
        "homogeneous, least of Orca / FasterTransformer": min(equal.values()),
        "homogeneous, most of Orca / FasterTransformer": max(equal.values()),
    }


def _listed(values: Mapping[int, float]) -> str:
    return ", ".join(f"{name}: {value:.2f}" for name, value in values.items())


ORCA_THROUGHPUT = Reproduction(
    name="orca",
    title="throughput at equal median latency, of Orca and of FasterTransformer",
    source="Yu et al., Orca: A Distributed Serving System for Transformer-Based Generative Models, OSDI 2022",
    constants=CONSTANTS,
    targets=TARGETS,
    measure=measure,
)
