"""A workload by its name, and how it is scaled: a file, statistics of one that is not at hand, or something hostile."""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from ..hints import did_you_mean
from ..vocabulary import NS_PER_S
from . import azure, fitted, generic, hostile, lengths, mooncake, vtc
from .arrival import MOST_TOKENS, Arrival, Draws, WorkloadError
from .gaps import check_cv
from .public import locate

_MOST_NS = 1 << 62
MOST_FACTOR = 1_000_000


def _positive(instance: object, attribute: Any, value: Fraction | int | None) -> None:
    if value is not None and value <= 0:
        raise WorkloadError(f"{attribute.name} is {value}, but must be greater than 0")


def _factor(instance: object, attribute: Any, value: Fraction | int) -> None:
    _positive(instance, attribute, value)
    if value > MOST_FACTOR:
        raise WorkloadError(f"{attribute.name} must be at most {MOST_FACTOR:,}: did you mean another option?")


@frozen(kw_only=True)
class Workload:
    """Where arrivals come from, and what is made of them.

    `first_s` keeps the beginning, in recorded time; `rate` 2 lets requests come twice as fast, while clients are as
    patient as before; `size` 1/2 halves prompts and outputs, never below one token.  Whatever is drawn follows from
    `seed`; `cv` asks for times of another burstiness where times are drawn.
    """

    name: str
    read: Callable[[Draws], Iterator[Arrival]]
    first_s: Fraction | None = field(default=None, validator=_positive)
    rate: Fraction = field(default=Fraction(1), validator=_factor)
    size: Fraction = field(default=Fraction(1), validator=_factor)
    seed: int = 0
    cv: float | None = None

    def arrivals(self, pool_tokens: int | None = None) -> Iterator[Arrival]:
        """In order of time, read as they are asked for.  Raises WorkloadError at the first request that cannot be: with
        `pool_tokens` also at one that is larger than the pool, and so can never be served to its end."""
        before = -1
        for number, arrival in enumerate(self.read(Draws(self.seed, self.cv))):
            place = arrival.place or f"{self.name}, request {number}"
            if arrival.now_ns < before:
                raise WorkloadError(f"{place}: is not in order of time, it comes before the one above: sort them")
            if self.first_s is not None and arrival.now_ns >= self.first_s * NS_PER_S:
                if before < 0:
                    raise WorkloadError(
                        f"{self.name} has no requests in its first {self.first_s} s: {place} is the first"
                    )
                return
            before = arrival.now_ns
            made = scaled(arrival, self.rate, self.size)
            _check(place, made, pool_tokens)
            yield made


def scaled(arrival: Arrival, rate: Fraction, size: Fraction) -> Arrival:
    if rate == size == 1:
        return arrival
    block = arrival.hash_tokens
    new_block = max(1, _times(block, size))
    if arrival.hash_ids:  # block by block, so that what was shared still is
        blocks, rest = divmod(arrival.prompt_tokens, block)
        prompt_tokens = blocks * new_block + _times(rest, size)
    else:
        prompt_tokens = _times(arrival.prompt_tokens, size)
    declared = arrival.max_output_tokens
    return evolve(
        arrival,
        now_ns=_times(arrival.now_ns, 1 / rate),
        prompt_tokens=max(1, prompt_tokens),
        output_tokens=max(1, _times(arrival.output_tokens, size)),
        max_output_tokens=None if declared is None else max(1, _times(declared, size)),
        hash_tokens=new_block,
    )


def _times(number: int, factor: Fraction) -> int:
    return number * factor.numerator // factor.denominator


def _check(place: str, arrival: Arrival, pool_tokens: int | None) -> None:
    prompt, output = arrival.prompt_tokens, arrival.output_tokens
    if max(prompt, output, arrival.max_output_tokens or 0) > MOST_TOKENS:
        raise WorkloadError(f"{place}: is larger than {MOST_TOKENS:,} tokens once it is scaled: give a smaller size")
    if arrival.now_ns > _MOST_NS:
        raise WorkloadError(f"{place}: comes after more than a hundred years once it is scaled: give a greater rate")
    if pool_tokens is not None and arrival.kv_tokens > pool_tokens:
        raise WorkloadError(
            f"{place}: needs KV of {arrival.kv_tokens:,} tokens ({prompt:,} of its prompt), but the pool has "
            f"{pool_tokens:,}: give it more blocks, or the workload a smaller size"
        )


# --- names --------------------------------------------------------------------------------------------------


@frozen
class _FileKind:
    """`usual`: the file that is meant if none is named."""

    read: Callable[[Path, Draws], Iterator[Arrival]]
    usual: str | None
    may_draw_times: bool = False


_FILES: Mapping[str, _FileKind] = {
    "azure": _FileKind(azure.read, "azure2023/AzureLLMInferenceTrace_conv.csv"),
    "mooncake": _FileKind(mooncake.read, "mooncake/conversation_trace.jsonl"),
    "sharegpt": _FileKind(lengths.read, "sharegpt/sharegpt_8k_filtered_stats_llama2_tokenizer.csv", True),
    "arxiv": _FileKind(lengths.read, "arxiv_summ/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv", True),
    "vtc": _FileKind(vtc.read, "vtc/real__FCFS.csv"),
    "csv": _FileKind(generic.read_csv, None, True),
    "jsonl": _FileKind(generic.read_jsonl, None, True),
}
_BUILT_IN: Mapping[str, Mapping[str, Callable[[Draws], Iterator[Arrival]]]] = {
    "fitted": fitted.SOURCES,
    "hostile": hostile.SOURCES,
}
_TIMED = ("hostile",)
KINDS = (*_FILES, *_BUILT_IN)


def parse_workload(
    text: str,
    *,
    first_s: Fraction | str | int | None = None,
    rate: Fraction | str | int = 1,
    size: Fraction | str | int = 1,
    seed: int = 0,
    cv: Fraction | str | float | None = None,
) -> Workload:
    """`KIND:FILE`, or `KIND` for the file that is usual; `fitted:NAME` and `hostile:KIND` need none.  Numbers may be
    texts: 0.5 and 1/3 are exact.  Raises WorkloadError."""
    kind, _, name = text.partition(":")
    if kind not in KINDS:
        raise WorkloadError(f"there is no workload {kind!r}: {did_you_mean(kind, KINDS)}")
    options: dict[str, Any] = {
        "first_s": None if first_s is None else _fraction("first_s", first_s),
        "rate": _fraction("rate", rate),
        "size": _fraction("size", size),
        "seed": seed,
        "cv": None if cv is None else check_cv(float(_fraction("cv", cv))),
    }
    Workload(name=text, read=lambda draws: iter(()), **options)  # its numbers are judged before its file is looked for
    if cv is not None and not (_FILES[kind].may_draw_times if kind in _FILES else kind not in _TIMED):
        raise WorkloadError(f"{kind} has times of its own, so none are drawn: leave cv out")
    if kind in _BUILT_IN:
        return Workload(name=text, read=_built_in(kind, name), **options)
    path = _path(kind, name)
    file = _FILES[kind]
    return Workload(name=f"{kind}:{path.name}", read=lambda draws: file.read(path, draws), **options)


def _built_in(kind: str, name: str) -> Callable[[Draws], Iterator[Arrival]]:
    sources = _BUILT_IN[kind]
    if not name:
        raise WorkloadError(
            f"{kind} needs a name, such as {kind}:{next(iter(sources))}: known are {', '.join(sources)}"
        )
    if name not in sources:
        raise WorkloadError(f"there is no workload {kind}:{name}: {did_you_mean(name, sources)}")
    return sources[name]


def _path(kind: str, name: str) -> Path:
    wanted = name or _FILES[kind].usual
    if wanted is None:
        raise WorkloadError(f"{kind} needs a file: write {kind}:FILE")
    return locate(wanted)


def _fraction(name: str, value: Fraction | str | float) -> Fraction:
    try:
        return Fraction(value)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise WorkloadError(f"{name} is {value!r}, but must be a number such as 2, 0.5 or 1/3") from None
