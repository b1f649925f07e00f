"""Statistics of the public traces, each beside its source and what it was fitted to.

*Quantiles* are those of the public file, counted once and written down (nearest rank).  *Log-normals* go through
published figures where the file was not at hand.
"""

from collections.abc import Mapping

from attrs import frozen

from .arrival import MOST_TOKENS
from .distributions import Lengths, LogNormal, Quantiles, through_p90


@frozen(kw_only=True)
class Fit:
    """`most_tokens` bounds prompt and output together.  With `tick_s` requests come in bunches at its multiples.
    `again_permille` of the requests go on with an earlier one's prompt; `shares` are the clients' shares of all."""

    source: str
    fitted_to: str
    per_s: float
    prompt: Lengths
    output: Lengths
    most_tokens: int
    cv: float = 1.0
    tick_s: int | None = None
    again_permille: int = 0
    client: str = "default"
    shares: tuple[int, ...] = ()


# Quantiles at 0, 1, 5, 10, 20, …, 90, 95, 99 and 100 %.
_LEVELS = (0, 10, 50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 950, 990, 1000)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


def _table(tokens: str) -> Quantiles:
    return Quantiles(tuple(zip(_LEVELS, _numbers(tokens), strict=True)))


AZURE = "Azure LLM inference trace 2023, Azure/AzurePublicDataset (CC-BY 4.0); Splitwise, ISCA 2024"
MOONCAKE = "Mooncake, FAST 2025, kvcache-ai/Mooncake (Apache-2.0)"
SARATHI = "Sarathi-Serve, OSDI 2024, table 2; microsoft/sarathi-serve (Apache-2.0)"

_MOONCAKE_PROMPT = "891 894 901 964 1662 3263 4993 6909 9570 13196 17869 27367 39552 85401 126195"
_MOONCAKE_OUTPUT = "1 3 10 24 100 213 291 350 399 447 504 597 698 1120 2000"


def _scaled(tokens: str, mean: int, to: int) -> str:
    return " ".join(str(max(1, number * to // mean)) for number in _numbers(tokens))


FITS: Mapping[str, Fit] = {
    "azure-conv": Fit(
        source=AZURE,
        fitted_to="quantiles, rate and burstiness of AzureLLMInferenceTrace_conv.csv (19,366 requests)",
        per_s=5.53,
        cv=1.09,
        prompt=_table("2 29 181 207 387 403 703 1020 1071 1130 1315 2735 4083 4142 14050"),
        output=_table("7 16 41 54 77 91 103 129 177 384 400 424 451 601 1000"),
        most_tokens=14_089,
        client="conv",
    ),
    "azure-code": Fit(
        source=AZURE,
        fitted_to="published figures: 2.57 requests/s, cv 13.2; prompts: median 1,469, mean 2,048, P99 7,436, which is "
        "where they end; outputs: median 13, mean 27.9, most 1,899",
        per_s=2.57,
        cv=13.2,
        prompt=LogNormal(1469, 0.884, most=7437),
        output=LogNormal(13, 1.236, most=1899),
        most_tokens=9_000,
        client="code",
    ),
    "mooncake-conversation": Fit(
        source=MOONCAKE,
        fitted_to="quantiles and rate of conversation_trace.jsonl (12,031 requests); bunches every 3 s; 36.6 % of its "
        "blocks were there before",
        per_s=3.40,
        tick_s=3,
        prompt=_table(_MOONCAKE_PROMPT),
        output=_table(_MOONCAKE_OUTPUT),
        most_tokens=126_527,
        again_permille=435,
    ),
    "mooncake-toolagent": Fit(
        source=MOONCAKE,
        fitted_to="published figures: 23,608 requests in an hour, means of 8,596 and 182 tokens, 59 % of its blocks "
        "were there before; the shape is assumed to be that of mooncake-conversation, whose means are 12,035 and 343",
        per_s=23_608 / 3_600,
        prompt=_table(_scaled(_MOONCAKE_PROMPT, 12_035, 8_596)),
        output=_table(_scaled(_MOONCAKE_OUTPUT, 343, 182)),
        most_tokens=126_527,
        again_permille=730,
    ),
    "sharegpt": Fit(
        source=SARATHI,
        fitted_to="quantiles of sharegpt_8k_filtered_stats_llama2_tokenizer.csv (30,731 requests), the paper's",
        per_s=1.0,
        prompt=_table("1 12 29 74 382 777 1203 1730 2401 3235 4278 5696 6563 7434 8141"),
        output=_table("2 6 44 84 181 271 346 415 493 581 683 834 920 998 1024"),
        most_tokens=8_192,
    ),
    "arxiv-4k": Fit(
        source="Vidur, MLSys 2024, microsoft/vidur (MIT)",
        fitted_to="quantiles of arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv (28,257 requests)",
        per_s=1.0,
        prompt=_table("1 73 747 1242 1802 2150 2453 2730 2996 3249 3490 3702 3813 3934 4054"),
        output=_table("5 36 60 78 104 125 145 167 192 222 268 372 737 3273 4056"),
        most_tokens=4_096,
    ),
    "arxiv-16k": Fit(
        source=SARATHI,
        fitted_to="published figures: prompts: median 7,059, P90 12,985; outputs: median 208, P90 371; 16,384 in all, "
        "which cuts off so much of the log-normal that its own median is another",
        per_s=1.0,
        prompt=LogNormal(7885, 0.651, most=MOST_TOKENS),
        output=through_p90(208, 371, most=MOST_TOKENS),
        most_tokens=16_384,
    ),
    "vtc-real": Fit(
        source="VTC, OSDI 2024, Ying1123/VTC-artifact (Apache-2.0): LMSYS's arena, 27 clients",
        fitted_to="quantiles, rate, burstiness and clients' shares of its real trace (1,500 requests)",
        per_s=2.5,
        cv=1.10,
        prompt=_table("2 2 2 5 10 16 24 40 68 124 214 432 653 902 1021"),
        output=_table("2 3 10 17 43 85 140 211 308 400 511 513 513 785 977"),
        most_tokens=1_657,
        shares=_numbers("296 262 199 120 67 66 56 46 44 43 40 36 31 26 25 23 22 22 19 19 12 11 7 3 2 2 1"),
    ),
}
