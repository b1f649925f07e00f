"""A model on a device, by name: its cost model, how many tokens of KV fit, and where the constants come from."""

from collections.abc import Mapping

from attrs import frozen

from .costs import (
    CostModel,
    DecodeTerms,
    Device,
    MixedBatch,
    MixedTerms,
    PrefillTerms,
    Roofline,
    Transformer,
    TwoPhases,
)


@frozen(kw_only=True)
class Profile:
    """`kv_tokens`: what the pool holds."""

    cost: CostModel
    kv_tokens: int
    source: str


GIB = 1 << 30
POOL_PERCENT = 90
"""Of the device's memory, before the weights are loaded (vLLM's default for gpu_memory_utilization in these papers)."""


def kv_tokens(memory_bytes: int, weight_bytes: int, kv_bytes: int) -> int:
    """Tokens whose KV fits beside the weights."""
    return (memory_bytes * POOL_PERCENT // 100 - weight_bytes) // kv_bytes


# NVIDIA A100 80GB data sheet (SXM): BF16 tensor core 312 TFLOP/s, 2,039 GB/s.
A100 = Device(flop_per_s=312_000_000_000_000, bytes_per_s=2_039_000_000_000)
# NVIDIA H100 data sheet (SXM): BF16 tensor core 1,979 TFLOP/s with sparsity, half of it without; 3.35 TB/s.
H100 = Device(flop_per_s=989_000_000_000_000, bytes_per_s=3_350_000_000_000)
# https://huggingface.co/meta-llama/Llama-2-7b-hf, config.json.
LLAMA2_7B = Transformer(layers=32, hidden=4_096, kv_width=4_096, intermediate=11_008)
LLAMA2_7B_BYTES = 2 * 6_738_415_616
LLAMA3_8B_BYTES, LLAMA3_8B_KV_BYTES = 2 * 8_030_261_248, 131_072


def _roofline(device: Device) -> Profile:
    """0.64 of the peak arithmetic and 0.70 of the peak memory rate: what Vidur's kernel profiles of the linear layers
    (microsoft/vidur, commit 7d475133, data/profiling) imply, on both devices."""
    return Profile(
        cost=Roofline(device=device, model=LLAMA2_7B, flop_percent=64, bytes_percent=70),
        kv_tokens=kv_tokens(80 * GIB, LLAMA2_7B_BYTES, LLAMA2_7B.kv_bytes),
        source="roofline of NVIDIA's data sheet, efficiencies from Vidur's profiles (MLSys 2024)",
    )


# Niyama (ASPLOS 2026), microsoft/sarathi-serve, branch niyama_asplos2026, commit 72339db5; given in seconds.
_NIYAMA = MixedBatch(
    small_tokens=512,
    small=MixedTerms(
        fixed=14_936_000_000, token=58_820_000, prefill=22_480_000, decode=36_350_000, context=111_100, past=755_500
    ),
    large=MixedTerms(
        fixed=5_004_000_000, token=27_190_000, prefill=68_630_000, decode=-41_440_000, context=166_300, past=2_727_000
    ),
)

# DistServe (OSDI 2024), LLMServe/DistServe, commit 82831f16, simdistserve: profiler-a100-80g.distserve.json, given in
# milliseconds; the fixed millisecond of one pipeline stage is in `fixed` of the prefill.
_OPT_13B = TwoPhases(
    prefill=PrefillTerms(fixed=19_102_546_475, token=101_912_257, square=7_122),
    decode=DecodeTerms(fixed=19_934_702_625, request=38_506_977, context=626_936),
    many=95,
    decode_many=DecodeTerms(fixed=7_166_188_947, request=158_310_962, context=579_800),
)
_OPT_13B_TP2 = TwoPhases(
    prefill=PrefillTerms(fixed=15_742_973_695, token=68_577_207, square=2_450),
    decode=DecodeTerms(fixed=13_294_796_350, request=62_963_932, context=341_092),
    many=95,
    decode_many=DecodeTerms(fixed=10_638_741_913, request=85_629_136, context=311_834),
)

# Splitwise (ISCA 2024), Mutinifni/splitwise-sim, commit 8f99e7dc, perf_model.csv: lines fitted to its measurements.
_LLAMA2_70B_H100_TP8 = TwoPhases(
    prefill=PrefillTerms(fixed=4_600_000_000, token=91_200_000),
    decode=DecodeTerms(fixed=30_000_000_000, request=230_000_000, context=145_000),
)
_LLAMA2_70B_H100_TP4 = TwoPhases(
    prefill=PrefillTerms(fixed=700_000_000, token=107_400_000),
    decode=DecodeTerms(fixed=28_800_000_000, request=290_000_000, context=100_000),
)

# VTC (OSDI 2024), Ying1123/VTC-artifact, commit 192c2e20: lines fitted to its profile (fair_bench) of an A10G.
_LLAMA2_7B_A10G = TwoPhases(
    prefill=PrefillTerms(fixed=0, token=217_700_000),
    decode=DecodeTerms(fixed=15_300_000_000, request=254_000_000, context=2_155_000),
)

# The same device as its requests met it: that profile has full batches only.  Fitted to the time between the tokens of
# each request of the artefact's measured synthetic runs (not of `real`), prefills taken out, batch sizes weighing the
# same; the fixed time is the host's, and a prefill has it too.  `tests/bench/vtc_fit.py` fits it again.
_LLAMA2_7B_A10G_SERVED = TwoPhases(
    prefill=PrefillTerms(fixed=31_120_000_000, token=217_700_000),
    decode=DecodeTerms(fixed=31_120_000_000, request=55_430_000, context=1_156_700),
)

PROFILES: Mapping[str, Profile] = {
    "niyama-llama3-8b-a100": Profile(
        cost=_NIYAMA,
        kv_tokens=kv_tokens(80 * GIB, LLAMA3_8B_BYTES, LLAMA3_8B_KV_BYTES),
        source="linear mixed batch, fitted by Niyama (ASPLOS 2026)",
    ),
    "roofline-llama2-7b-a100": _roofline(A100),
    "roofline-llama2-7b-h100": _roofline(H100),
    "distserve-opt13b-a100": Profile(cost=_OPT_13B, kv_tokens=66_144, source="DistServe's simulator (OSDI 2024)"),
    "distserve-opt13b-a100-tp2": Profile(
        cost=_OPT_13B_TP2, kv_tokens=163_008, source="DistServe's simulator (OSDI 2024)"
    ),
    "splitwise-llama2-70b-h100-tp8": Profile(
        cost=_LLAMA2_70B_H100_TP8, kv_tokens=1_460_000, source="lines fitted to Splitwise's measurements (ISCA 2024)"
    ),
    "splitwise-llama2-70b-h100-tp4": Profile(
        cost=_LLAMA2_70B_H100_TP4, kv_tokens=520_000, source="lines fitted to Splitwise's measurements (ISCA 2024)"
    ),
    "vtc-llama2-7b-a10g": Profile(
        cost=_LLAMA2_7B_A10G, kv_tokens=10_000, source="lines fitted to the profile of VTC's artefact (OSDI 2024)"
    ),
    "vtc-llama2-7b-a10g-served": Profile(
        cost=_LLAMA2_7B_A10G_SERVED,
        kv_tokens=10_000,
        source="lines fitted to the synthetic runs that VTC's artefact measured (OSDI 2024)",
    ),
}

DEFAULT = "niyama-llama3-8b-a100"
"""One device, and the only fit of mixed steps: prefill and decode in one."""
