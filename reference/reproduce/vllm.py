"""PagedAttention (Kwon et al., SOSP 2023): what of the KV memory holds tokens, and how many requests run at once."""

from collections.abc import Mapping

from ...spec.vocabulary import NS_PER_S
from ..scheduler import Scheduler
from ..simulation import Simulation
from ..simulation.costs import DecodeTerms, PrefillTerms, TwoPhases
from ..systems import ORCA_MAX, ORCA_ORACLE, ORCA_POW2, VLLM_2023, VLLM_2023_SWAP
from ..systems.buddy import Contiguous
from .drawn import Lengths, Watching, geometric, of_workload, poisson
from .framework import Constant, Reproduction, Run, Target

PAPER = "PagedAttention, SOSP 2023, "
BLOCK_SIZE = 16
SLOTS = 15_728  # 983 blocks of 16
PLENTY_SLOTS = 60_096  # 3,756 blocks of 16
MODEL_TOKENS = 2_048
SHAREGPT = (161.31, 337.99)
ALPACA = (19.31, 58.45)
FULL_PER_S, PUBLISHED_PER_S = 4.0, 2.0
ALPACA_PER_S = 30.0
TRACE_S, SAMPLE_S, WARM_SHARE = 300.0, 60.0, 0.2
SEATS, BATCHED_TOKENS = 256, 2_560
WATERMARK_PERCENT = 1
SWAP_BLOCK_NS = 409_600

# simdistserve, profiler-a100-80g.vllm.json, facebook/opt-13b, TP 1, in milliseconds; here in picoseconds.
COST = TwoPhases(
    prefill=PrefillTerms(fixed=22_052_204_789, token=140_509_239, square=8_077),
    decode=DecodeTerms(fixed=23_475_041_008, request=60_726_861, context=592_934),
    many=95,
    decode_many=DecodeTerms(fixed=20_206_356_174, request=120_003_139, context=490_773),
)

CONSTANTS = (
    Constant("kv_slots", SLOTS, PAPER + "table 1: OPT-13B, 12 GB of KV at 800 KiB a token, 15.7K slots"),
    Constant("plentiful_kv_slots", PLENTY_SLOTS, PAPER + "table 1: OPT-175B, 60.1K slots"),
    Constant("block_size", BLOCK_SIZE, PAPER + "section 7.2: the default"),
    Constant("model_tokens", MODEL_TOKENS, PAPER + "section 6.1: the maximum sequence length of the model"),
    Constant("sharegpt_mean_tokens", SHAREGPT, PAPER + "figure 11 (a): prompt and output"),
    Constant("alpaca_mean_tokens", ALPACA, PAPER + "figure 11 (b): prompt and output"),
    Constant("law_of_lengths", "geometric", "figure 11 gives means; of all laws with a mean the one of most entropy"),
    Constant(
        "requests_per_s",
        FULL_PER_S,
        "twice the paper's: at 2 a second its A100-40GB is full (30.42 requests of about 500 tokens in 15.7K slots),"
        " the A100-80GB of the cost model is not, and what is compared is memory that somebody waits for",
    ),
    Constant("published_requests_per_s", PUBLISHED_PER_S, PAPER + "figure 13 (a); measured too, and told in a note"),
    Constant("alpaca_requests_per_s", ALPACA_PER_S, PAPER + "figure 13 (b)"),
    Constant("trace_s", TRACE_S, "five minutes of the paper's hour; the first fifth is left out, while memory fills"),
    Constant("seats", SEATS, "vLLM 0.1, max_num_seqs"),
    Constant("batched_tokens", BATCHED_TOKENS, "vLLM 0.1, max_num_batched_tokens"),
    Constant("watermark_percent", WATERMARK_PERCENT, "vLLM 0.1, BlockSpaceManager"),
    Constant("cost", "OPT-13B on an A100-80G under vLLM", "DistServe's simulator (OSDI 2024), commit 82831f16; TP 1"),
    Constant("swap_block_ns", SWAP_BLOCK_NS, "16 · 819,200 B at 32 GB/s, PCIe 4.0 x16 of the A100's data sheet"),
    Constant("allocator of Orca", "buddy", PAPER + "section 6.1"),
)

FIGURE_2, FIGURE_13 = PAPER + "figure 2", PAPER + "figure 13 (a)"
TARGETS = (
    Target("KV use, Orca (Max)", 20.4, FIGURE_2, within_points=5, unit="%"),
    Target("KV use, Orca (Pow2)", 26.8, FIGURE_2, within_points=5, unit="%"),
    Target("KV use, Orca (Oracle)", 38.2, FIGURE_2, within_points=5, unit="%"),
    Target("KV use, vLLM", 96.3, FIGURE_2, within_points=5, unit="%"),
    Target("requests at once, vLLM / Orca (Oracle)", 30.42 / 13.62, FIGURE_13, within_percent=25),
    Target("requests at once, vLLM / Orca (Max)", 30.42 / 7.00, FIGURE_13, within_percent=25),
    Target("ranks of requests at once that are as published", 4, FIGURE_13, within_points=0),
    Target(
        "time per token of a full server, recompute / swap",
        1.2,
        PAPER + "section 7.3: recompute is never more than 20 % above swap's latency",
        at_most=True,
    ),
    Target(
        "requests at once with plenty of memory, vLLM / Orca (Oracle)",
        1.1,
        PAPER + "section 6.2, figure 12 (f): Alpaca with OPT-175B",
        at_most=True,
        directional=True,
    ),
)

CONTIGUOUS = {"Orca (Max)": ORCA_MAX, "Orca (Pow2)": ORCA_POW2, "Orca (Oracle)": ORCA_ORACLE}
NAMES = (*CONTIGUOUS, "vLLM")


def system(name: str, slots: int) -> Scheduler:
    """One of the four, with a pool of so many slots."""
    sizes = {"blocks": slots // BLOCK_SIZE, "block_size": BLOCK_SIZE, "seats": SEATS, "max_model_tokens": MODEL_TOKENS}
    kept = {"token_budget": BATCHED_TOKENS, "watermark_blocks": sizes["blocks"] * WATERMARK_PERCENT // 100}
    if name == "vLLM":
        return VLLM_2023.make(VLLM_2023.settings(**sizes, **kept))
    if name == "vLLM, swapping":
        host = {"host_blocks": sizes["blocks"], "swap_block_ns": SWAP_BLOCK_NS}
        return VLLM_2023_SWAP.make(VLLM_2023_SWAP.settings(**sizes, **kept, **host))
    own = CONTIGUOUS[name]
    return Contiguous(own, own.settings(**sizes, token_budget=SEATS * MODEL_TOKENS))


def one(name: str, slots: int, lengths: Lengths, per_s: float, seconds: float, seed: int) -> tuple[float, float]:
    """Share of the slots that hold tokens, and requests in a step, both averaged over time, after the warm-up."""
    warm_s = int(WARM_SHARE * seconds)
    cost = Watching(COST, skip_ns=warm_s * NS_PER_S)
    simulation = Simulation(system(name, slots), cost, until_ns=int(seconds) * NS_PER_S)
    log = simulation.run(poisson(lengths, per_s, seconds, seed, MODEL_TOKENS))
    resident = log.resident.integrals[warm_s : int(seconds)]
    return sum(resident) / (len(resident) * log.resident.window_ns * slots), cost.requests


def tokens_per_s(name: str, lengths: Lengths, seconds: float, seed: int) -> float:
    """That are delivered while there is always somebody who waits."""
    swap_ns = SWAP_BLOCK_NS if name == "vLLM, swapping" else 0
    simulation = Simulation(system(name, SLOTS), COST, until_ns=int(seconds) * NS_PER_S, swap_block_ns=swap_ns)
    log = simulation.run(poisson(lengths, FULL_PER_S, seconds, seed, MODEL_TOKENS))
    return sum(len(record.token_ns) for record in log.records.values()) / seconds


def measure(run: Run) -> Mapping[str, float]:
    seconds = SAMPLE_S if run.sample else TRACE_S
    sharegpt = of_workload(run.others(MODEL_TOKENS)) if run.lengths else geometric(*SHAREGPT, MODEL_TOKENS)
    found = {name: one(name, SLOTS, sharegpt, FULL_PER_S, seconds, run.seed) for name in run.stages("ShareGPT", NAMES)}
    use = {name: 100 * share for name, (share, _) in found.items()}
    at_once = {name: requests for name, (_, requests) in found.items()}
    rates = {
        name: tokens_per_s(name, sharegpt, seconds, run.seed)
        for name in run.stages("recovery", ("vLLM", "vLLM, swapping"))
    }
    run.note("tokens/s of a full server: " + ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items()))
    alpaca, few_s = geometric(*ALPACA, MODEL_TOKENS), seconds / 10
    plenty = {
        name: one(name, PLENTY_SLOTS, alpaca, ALPACA_PER_S, few_s, run.seed)[1]
        for name in run.stages("Alpaca", ("Orca (Oracle)", "vLLM"))
    }
    run.note("requests at once: " + ", ".join(f"{name} {number:.2f}" for name, number in at_once.items()))
    share, slower = one("vLLM", SLOTS, sharegpt, PUBLISHED_PER_S, seconds, run.seed)
    run.note(f"vLLM at 2 requests a second: {slower:.2f} at once, {100 * share:.1f} % of the slots; nobody waits then")
    run.note("published: Orca (Max) 7.00, Orca (Pow2) 9.81, Orca (Oracle) 13.62, vLLM 30.42 (figure 13 (a))")
    return {
        **{f"KV use, {name}": share for name, share in use.items()},
        "requests at once, vLLM / Orca (Oracle)": at_once["vLLM"] / at_once["Orca (Oracle)"],
        "requests at once, vLLM / Orca (Max)": at_once["vLLM"] / at_once["Orca (Max)"],
        "ranks of requests at once that are as published": sum(
            name == rank for name, rank in zip(sorted(NAMES, key=at_once.__getitem__), NAMES, strict=True)
        ),
        "time per token of a full server, recompute / swap": rates["vLLM, swapping"] / rates["vLLM"],
        "requests at once with plenty of memory, vLLM / Orca (Oracle)": plenty["vLLM"] / plenty["Orca (Oracle)"],
    }


VLLM = Reproduction(
    name="vllm",
    title="KV memory that holds tokens, and requests at once, of Orca's three reservations and paged memory",
    source="Kwon et al., Efficient Memory Management for Large Language Model Serving with PagedAttention, SOSP 2023",
    constants=CONSTANTS,
    targets=TARGETS,
    measure=measure,
    takes_lengths=True,
)
