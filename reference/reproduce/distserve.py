"""DistServe (Zhong et al., OSDI 2024): goodput of two pools and of one, and the delays that its section 3 derives."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from math import sqrt
from random import Random
from statistics import fmean, pvariance, stdev

from attrs import evolve, frozen

from ...spec.pools import DECODE, PREFILL, Pools
from ...spec.vocabulary import NS_PER_S, Outcome, Request, Settings
from ...spec.workloads import Incoming
from ..scheduler import Scheduler
from ..simulation import PROFILES, Batch, CostModel, Simulation
from ..simulation.costs import TwoPhases
from ..simulation.metrics import tpot_ns, ttft_ns
from ..simulation.pools import TwoPools
from ..systems import VLLM_2023
from ..systems.distserve import Disaggregated
from .drawn import Lengths, by_quantiles, incoming, uniform
from .framework import Constant, Reproduction, Run, Target
from .vllm import COST as VLLM_COST

PAPER = "DistServe, OSDI 2024, "
ARTEFACT = "DistServe's simulator (simdistserve, commit 82831f16), "
BLOCK_SIZE = 16
MODEL_TOKENS = 2_048
PROMPT_QUANTILES = (
    *(9, 31, 94, 180, 279, 345, 430, 501, 573, 658, 758, 821, 867, 972, 1_047, 1_157, 1_319, 1_421, 1_512, 1_718),
    2_003,
)
OUTPUT_QUANTILES = (2, 5, 9, 12, 14, 18, 23, 33, 36, 48, 67, 111, 164, 201, 236, 278, 337, 403, 478, 594, 1_085)
SHAREGPT = by_quantiles(PROMPT_QUANTILES, OUTPUT_QUANTILES, MODEL_TOKENS)
EQUAL_TOKENS = (512, 64)
REQUESTS, RUNS, FIRST_RUNS = 300, 6, 2
KV_BYTES, LINK_BYTES_PER_S = 819_200, 600_000_000_000
OVERHEAD_PS, OVERHEAD_TOKEN_PS, STAGE_PS = 2_000_000_000, 100_000, 1_000_000_000
MS = 1_000_000

DEVICES = {1: PROFILES["distserve-opt13b-a100"], 2: PROFILES["distserve-opt13b-a100-tp2"]}
"""By tensor parallelism; their prefills have the time of a pipeline stage in them."""
KV_TOKENS = {tp: device.kv_tokens for tp, device in DEVICES.items()}
CONFIGURATIONS = ((1, 1), (2, 1), (1, 2), (2, 2))
"""Tensor parallelism of prefill and of decode: all that 4 GPUs hold without pipelines, one instance of each."""
PREFILL_LIMITS, DECODE_LIMITS = (128, 8_192), (1_024, 65_536)
SEARCHED = (200.0 * MS, 100.0 * MS)
CHATBOT = (250.0 * MS, 100.0 * MS)
EQUAL = (400.0 * MS, 40.0 * MS)
ATTAINMENT = 0.9
SEARCH_WITHIN, SEARCH_MOST = 0.25, 5.0
GOODPUT_WITHIN, GOODPUT_MOST = 0.05, 8.0
GOODPUT_RUNS = 2
LEAST_PER_GPU = 0.25
VLLM_MEASURED_MS = {1_513: 223.8, 1_516: 229.1, 1_589: 226.1, 1_608: 239.0}
SERVICE_NS, SPEED_UP = 100_000_000, 1.6
ARRIVALS, SAMPLE_ARRIVALS, BATCHES = 20_000, 2_000, 25

CONSTANTS = (
    Constant("cost", "OPT-13B on A100-80G, TP 1 and 2", ARTEFACT + "profiler-a100-80g.distserve.json"),
    Constant("cost of vLLM", "OPT-13B on an A100-80G, TP 1", ARTEFACT + "profiler-a100-80g.vllm.json"),
    Constant("overhead_ms", "2 + 1e-4 a token; 1 a pipeline stage of prefill", ARTEFACT + "time_estimator.py"),
    Constant("kv_tokens", KV_TOKENS, ARTEFACT + "max_num_tokens.csv"),
    Constant(
        "sharegpt_tokens",
        {"prompt": PROMPT_QUANTILES, "output": OUTPUT_QUANTILES},
        ARTEFACT + "alignment/data-ground-truth/opt-13b-sharegpt/distserve-300-3.exp: quantiles of its 300 requests;"
        " means 780 and 176, where the paper has 755 and 200",
    ),
    Constant("model_tokens", MODEL_TOKENS, "OPT's context"),
    Constant("requests", REQUESTS, ARTEFACT + "README.md: N=300 in each run, Poisson arrivals"),
    Constant(
        "runs", RUNS, "of the artefact's search for the best, a seed each; ours is their mean, the artefact reports one"
    ),
    Constant("prefill batch: requests, tokens", PREFILL_LIMITS, "distserve/config.py: ContextStageSchedConfig"),
    Constant("decode batch: requests, tokens", DECODE_LIMITS, "distserve/config.py: DecodingStageSchedConfig"),
    Constant("link_bytes_per_s", LINK_BYTES_PER_S, PAPER + "section 6.1: NVLink; 819,200 B of KV a token"),
    Constant(
        "objective of the search", "TTFT 200 ms, TPOT 100 ms, each at P90, at most 4 GPUs", ARTEFACT + "README.md"
    ),
    Constant(
        "search",
        {"most": SEARCH_MOST, "within": SEARCH_WITHIN},
        ARTEFACT + "README.md, parallel_bisect.py: rates per GPU; the last that passed is reported",
    ),
    Constant("chatbot", "TTFT 250 ms, TPOT 100 ms, both by 90 %", PAPER + "table 1: OPT-13B, ShareGPT"),
    Constant(
        "least rate", LEAST_PER_GPU, ARTEFACT + "ae-scripts/e2e/_plot.py: who meets at no rate counts with this one"
    ),
    Constant("equal prompts", {"tokens": EQUAL_TOKENS, "TTFT, TPOT ms": (400, 40)}, PAPER + "section 1, figure 1"),
    Constant(
        "vllm_measured_ms",
        VLLM_MEASURED_MS,
        ARTEFACT + "alignment/data-ground-truth/opt-13b-sharegpt/vllm-100-1.exp: TTFT by prompt tokens; only told",
    ),
    Constant("vLLM", "1,024 requests, 16,384 tokens in a step, block 16", ARTEFACT + "the baseline's flags"),
    Constant("service_ms, utilisation, speed-up of two", (100, 0.7, 1.6), "of section 3.2's formulas; any will do"),
)

TARGETS = (
    Target("best rate per GPU", 1.56, ARTEFACT + "the documented example", within_percent=10, unit="req/s/GPU"),
    Target("GPUs of the best: prefill", 2, ARTEFACT + "TP 2", within_points=0),
    Target("GPUs of the best: decode", 1, ARTEFACT + "TP 1", within_points=0),
    Target("goodput per GPU, two pools / vLLM", 2.0, PAPER + "section 6.2: 2.0x for OPT-13B", at_least=True),
    Target(
        "goodput per GPU of equal prompts, two pools / one pool of the same engine",
        2.0,
        PAPER + "section 1: 3.3 against 1.6 req/s/GPU, of a 13B model",
        at_least=True,
    ),
    *(
        Target(f"M/D/1, {name}: deviation from the formula in standard errors", 3, PAPER + formula, at_most=True)
        for name, formula in (
            ("single", "section 3.1, equation 1: D + R D² / (2 (1 - R D))"),
            ("two stages", "equation 2: D + R D² / (4 (2 - R D))"),
            ("tensor parallel", "equation 3: D / K + R D² / (2 K (K - R D))"),
        )
    ),
)


# --- goodput -------------------------------------------------------------------------------------------------


@frozen
class WithOverhead:
    """The artefact adds its dispatcher's time to a step, and to a prefill that of its pipeline."""

    cost: TwoPhases
    stage_ps: int = 0

    def step_ns(self, batch: Batch) -> int:
        overhead_ps = OVERHEAD_PS + OVERHEAD_TOKEN_PS * batch.tokens + self.stage_ps
        return self.cost.step_ns(batch) + overhead_ps // 1_000


def of_device(tp: int) -> TwoPhases:
    """As in the artefact's profile: the time of a stage is left to whoever adds it."""
    cost = DEVICES[tp].cost
    assert isinstance(cost, TwoPhases)
    return evolve(cost, prefill=evolve(cost.prefill, fixed=cost.prefill.fixed - STAGE_PS))


def arrivals(lengths: Lengths, per_s: float, seed: int, requests: int) -> Iterator[Incoming]:
    """Clients declare what the model's context leaves them."""
    times, sizes = Random(f"{seed} times"), Random(f"{seed} lengths")
    now_s = 0.0
    for number in range(requests):
        now_s += times.expovariate(per_s)
        yield incoming(f"r{number}", int(now_s * NS_PER_S), *lengths(sizes), MODEL_TOKENS)


def two_pools(prefill_tp: int, decode_tp: int) -> TwoPools:
    """The reference's two pools, on the published devices."""
    settings = Settings(
        blocks=KV_TOKENS[prefill_tp] // BLOCK_SIZE,
        block_size=BLOCK_SIZE,
        seats=PREFILL_LIMITS[0],
        token_budget=PREFILL_LIMITS[1],
        chunked_prefill=False,
        overlap_depth=2,
        pools=Pools(
            decode_blocks=KV_TOKENS[decode_tp] // BLOCK_SIZE,
            decode_seats=DECODE_LIMITS[0],
            decode_token_budget=DECODE_LIMITS[1],
            transfer_ns=3_600 * NS_PER_S,
        ),
    )
    costs = {PREFILL: WithOverhead(of_device(prefill_tp), STAGE_PS), DECODE: WithOverhead(of_device(decode_tp))}
    return TwoPools(
        Disaggregated(settings), costs, lambda positions: positions * KV_BYTES * NS_PER_S // LINK_BYTES_PER_S
    )


Latencies = list[tuple[float, float]]
"""Of each request: time to its first token, and per token after it, in nanoseconds."""


@frozen
class Case:
    """Requests, the limits that they are held to, and the seeds of runs that are looked at together."""

    lengths: Lengths
    limits: tuple[float, float]
    seeds: Sequence[int]
    requests: int


def of_two_pools(
    case: Case, configuration: tuple[int, int], per_s: float, seed: int, *, decodes: bool = True
) -> Latencies:
    """`decodes`: or every request ends with its first token."""
    coming = arrivals(case.lengths, per_s, seed, case.requests)
    if not decodes:
        coming = (evolve(one, output_tokens=1) for one in coming)
    courses = two_pools(*configuration).run(coming)
    return [(course.ttft_ns, course.tpot_ns) for course in courses.values()]


def of_one_pool(case: Case, cost: CostModel, per_s: float, seed: int) -> Latencies:
    """Prefill and decode on one GPU, by turns, as vLLM of 2023 does it."""
    sizes = {"blocks": KV_TOKENS[1] // BLOCK_SIZE, "block_size": BLOCK_SIZE, "seats": 1_024, "token_budget": 16_384}
    coming = arrivals(case.lengths, per_s, seed, case.requests)
    log = Simulation(VLLM_2023.make(VLLM_2023.settings(**sizes)), cost).run(coming)
    return [(ttft_ns(record), tpot_ns(record) or 0) for record in log.records.values()]


Attained = Callable[[float], tuple[float, float, float]]
"""A rate -> shares of requests within the first limit, within the second, within both."""


def attained(case: Case, latencies: Callable[[float, int], Latencies]) -> Attained:
    def at(per_s: float) -> tuple[float, float, float]:
        found = [one for seed in case.seeds for one in latencies(per_s, seed)]
        met = [(first <= case.limits[0], rest <= case.limits[1]) for first, rest in found]
        shares = ([a for a, _ in met], [b for _, b in met], [a and b for a, b in met])
        first, rest, both = (sum(share) / len(met) for share in shares)
        return first, rest, both

    return at


def split(case: Case, configuration: tuple[int, int]) -> Attained:
    """Where prefill alone is too slow nothing else is looked at: a decode pool that is full makes it no faster."""
    alone = attained(case, lambda rate, seed: of_two_pools(case, configuration, rate, seed, decodes=False))
    whole = attained(case, lambda rate, seed: of_two_pools(case, configuration, rate, seed))

    def at(per_s: float) -> tuple[float, float, float]:
        first = alone(per_s)
        return whole(per_s) if first[0] >= ATTAINMENT else (first[0], 0.0, 0.0)

    return at


def colocated(case: Case, cost: CostModel) -> Attained:
    return attained(case, lambda rate, seed: of_one_pool(case, cost, rate, seed))


def bisected(meets: Callable[[float], bool], most: float, within: float) -> float:
    """The last rate that met it, from the middle of 0 to `most`; 0 if none did."""
    low, high = 0.0, most
    while high - low >= within:
        middle = (low + high) / 2
        low, high = (middle, high) if meets(middle) else (low, middle)
    return low


def searched(configuration: tuple[int, int], seed: int, requests: int) -> float:
    """What the artefact's search reports per GPU."""
    gpus = sum(configuration)
    at = split(Case(SHAREGPT, SEARCHED, (seed,), requests), configuration)
    return bisected(lambda rate: min(at(rate * gpus)[:2]) >= ATTAINMENT, SEARCH_MOST, SEARCH_WITHIN)


def goodput(at: Attained, gpus: int) -> float:
    """Requests a second and GPU of which 90 % meet both objectives."""
    return bisected(lambda rate: at(rate * gpus)[2] >= ATTAINMENT, GOODPUT_MOST, GOODPUT_WITHIN)


def goodputs(run: Run, best: tuple[int, int], requests: int) -> dict[str, float]:
    """The ratios of the paper."""
    same, seeds = WithOverhead(of_device(1), STAGE_PS), range(1 if run.sample else GOODPUT_RUNS)
    chat = Case(SHAREGPT, CHATBOT, seeds, requests)
    two, one = goodput(split(chat, best), sum(best)), goodput(colocated(chat, same), 1)
    vllm = goodput(colocated(chat, VLLM_COST), 1)
    run.note(f"chatbot, goodput per GPU: two pools {two:.2f}, one pool of the same engine {one:.2f}, vLLM {vllm:.2f}")
    tell_of_vllm(run)
    equal = Case(uniform(*((tokens, tokens) for tokens in EQUAL_TOKENS)), EQUAL, seeds, requests)
    apart, together = goodput(split(equal, (1, 1)), 2), goodput(colocated(equal, same), 1)
    run.note(f"equal prompts, goodput per GPU: two pools {apart:.2f}, one pool of the same engine {together:.2f}")
    return {
        "goodput per GPU, two pools / vLLM": two / max(vllm, LEAST_PER_GPU),
        "goodput per GPU of equal prompts, two pools / one pool of the same engine": apart / together,
    }


def tell_of_vllm(run: Run) -> None:
    """The bound that its profile sets, whatever schedules, and how far the profile is from what was measured."""
    dice = Random(run.seed)
    prompts = [SHAREGPT(dice)[0] for _ in range(10_000)]
    late = sum(VLLM_COST.step_ns(Batch(chunks=((0, tokens),))) > CHATBOT[0] for tokens in prompts) / len(prompts)
    apart = ", ".join(
        f"{tokens} tokens {VLLM_COST.step_ns(Batch(chunks=((0, tokens),))) / MS:.0f} and {measured:.0f} ms"
        for tokens, measured in VLLM_MEASURED_MS.items()
    )
    so = ", so that no schedule meets the objective by 90 %" if late > 1 - ATTAINMENT else ""
    run.note(f"under vLLM's profile {100 * late:.1f} % of the prompts take longer than 250 ms alone{so}")
    run.note(f"who meets the objective at no rate counts with {LEAST_PER_GPU}, as in the artefact's plot")
    run.note(f"the profile is slower than what the artefact measured, profile and measured: {apart}")


# --- M/D/1 ---------------------------------------------------------------------------------------------------


def first_tokens(service_ns: int, stages: int, per_s: float, count: int, seed: int) -> list[float]:
    """Times to the first token, in nanoseconds, of equal prompts that the reference runs one a step: a device of so
    many stages takes the next step when its first stage is free."""
    settings = Settings(blocks=64, block_size=1, seats=32, token_budget=1, overlap_depth=max(2, stages))
    scheduler, dice = Scheduler(settings), Random(f"{seed} {stages} {service_ns}")
    came, waits = dict[str, int](), list[float]()
    events: list[tuple[int, int, int]] = []
    now_s, free_ns, waiting = 0.0, 0, 0
    for number in range(count):
        now_s += dice.expovariate(per_s)
        heappush(events, (int(now_s * NS_PER_S), 1, number))
    while events:
        now_ns, kind, number = heappop(events)
        if kind == 1:
            came[f"r{number}"], waiting = now_ns, waiting + 1
            scheduler.submit(Request(id=f"r{number}", prompt_ids=(0,), max_output_tokens=1), now_ns)
        elif kind == 0:
            (entry,) = scheduler.state.in_flight[number]
            waits.append(now_ns - came.pop(entry.job.id))
            scheduler.complete(Outcome(step=number, request=[entry.job.id], token=[0], stop=[True]), now_ns)
        if waiting and free_ns <= now_ns:
            waiting, free_ns = waiting - 1, now_ns + service_ns // stages
            heappush(events, (now_ns + service_ns, 0, scheduler.step(now_ns).step))
            heappush(events, (free_ns, 2, 0))
    return waits


def deviation(times_ns: Sequence[float], expected_s: float) -> float:
    """In standard errors, by means of batches: neighbours are not independent."""
    size = len(times_ns) // BATCHES
    means = [fmean(times_ns[place * size : (place + 1) * size]) / NS_PER_S for place in range(BATCHES)]
    return abs(fmean(means) - expected_s) / sqrt(pvariance(means) / (BATCHES - 1))


def formulas(count: int, seed: int) -> Iterator[tuple[str, float]]:
    d, k, use = SERVICE_NS / NS_PER_S, SPEED_UP, 0.7
    r = use / d
    yield "single", deviation(first_tokens(SERVICE_NS, 1, r, count, seed), d + r * d * d / (2 * (1 - r * d)))
    r = 2 * use / d
    yield "two stages", deviation(first_tokens(SERVICE_NS, 2, r, count, seed), d + r * d * d / (4 * (2 - r * d)))
    r = k * use / d
    expected = d / k + r * d * d / (2 * k * (k - r * d))
    yield "tensor parallel", deviation(first_tokens(round(SERVICE_NS / k), 1, r, count, seed), expected)


# --- all of it -----------------------------------------------------------------------------------------------


def tell_runs(run: Run, rates: Sequence[float]) -> None:
    near = sum(TARGETS[0].is_met(rate) for rate in rates)
    run.note(
        f"{len(rates)} runs of the artefact's search report {min(rates):.2f} to {max(rates):.2f}, {near} of them within"
        f" the tolerance; the standard error of their mean is {stdev(rates) / sqrt(len(rates)):.2f}. The artefact made"
        " one, of 300 requests that are not at hand"
    )


def measure(run: Run) -> Mapping[str, float]:
    runs, requests = (2, 100) if run.sample else (RUNS, REQUESTS)
    found = {
        one: [searched(one, seed, requests) for seed in range(FIRST_RUNS)]
        for one in run.stages("TP of prefill and decode", CONFIGURATIONS)
    }
    mean = {one: fmean(rates) for one, rates in found.items()}
    run.note("per GPU: " + ", ".join(f"prefill TP{p} decode TP{d} {rate:.2f}" for (p, d), rate in mean.items()))
    best = max(found, key=mean.__getitem__)
    rates = found[best] + [searched(best, seed, requests) for seed in run.stages("the best", range(FIRST_RUNS, runs))]
    tell_runs(run, rates)
    said = dict(formulas(SAMPLE_ARRIVALS if run.sample else ARRIVALS, run.seed))
    return {
        "best rate per GPU": fmean(rates),
        "GPUs of the best: prefill": best[0],
        "GPUs of the best: decode": best[1],
        **goodputs(run, best, requests),
        **{f"M/D/1, {name}: deviation from the formula in standard errors": value for name, value in said.items()},
    }


DISTSERVE = Reproduction(
    name="distserve",
    title="goodput of two pools against one, and delays of a prefill instance",
    source="Zhong et al., DistServe: Disaggregating Prefill and Decoding for Goodput-optimized LLM Serving, OSDI 2024",
    constants=CONSTANTS,
    targets=TARGETS,
    measure=measure,
)
