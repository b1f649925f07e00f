"""Recorded workloads as arrivals: when a request came, how long its prompt was, how long its output became.

`parse_workload("azure:FILE")` names one, `Workload.arrivals` reads it lazily, `to_requests` makes requests
of it.  The true output length stays beside the request: a scheduler must not see it before it has happened.
"""

import csv
import json
import os
import random
import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from fractions import Fraction
from hashlib import shake_128
from itertools import chain
from pathlib import Path
from typing import Any

from attrs import field, frozen

from .protocol import did_you_mean, shown
from .vocabulary import NS_PER_S, Request

MOONCAKE_BLOCK_TOKENS = 512
VOCABULARY_TOKENS = 32_000


class WorkloadError(ValueError):
    """A workload that is not there or cannot be read.  Its text is one sentence."""


class MissingWorkload(WorkloadError):
    """The file is not there."""


@frozen(kw_only=True)
class Arrival:
    """One request of a recorded workload.

    `hash_ids` name blocks of `hash_tokens` prompt tokens: equal names at the beginning are a shared prefix.
    """

    now_ns: int
    prompt_tokens: int
    output_tokens: int
    client: str = "default"
    hash_ids: tuple[int, ...] = ()
    hash_tokens: int = MOONCAKE_BLOCK_TOKENS


@frozen(kw_only=True)
class Incoming:
    """A request and what the subject is not told: how many tokens the model will make of it."""

    now_ns: int
    request: Request
    output_tokens: int


def _positive(instance: object, attribute: Any, value: Fraction | int | None) -> None:
    if value is not None and value <= 0:
        raise WorkloadError(f"{attribute.name} is {value}, but must be greater than 0")


@frozen(kw_only=True)
class Workload:
    """Which file, and what is made of it.

    `first_s` keeps the beginning, in recorded time; `rate` 2 lets requests come twice as fast; `size` 1/2
    halves prompts and outputs, never below one token.  Where a file has lengths only, arrivals are Poisson,
    one per second before `rate`, drawn from `seed`.
    """

    kind: str
    path: Path
    first_s: Fraction | None = field(default=None, validator=_positive)
    rate: Fraction = field(default=Fraction(1), validator=_positive)
    size: Fraction = field(default=Fraction(1), validator=_positive)
    seed: int = 0

    def arrivals(self) -> Iterator[Arrival]:
        before = 0
        for arrival in _KINDS[self.kind].read(self.path, self.seed):
            if self.first_s is not None and arrival.now_ns >= self.first_s * NS_PER_S:
                return
            if arrival.now_ns < before:
                raise WorkloadError(f"{self.path} is not in order of time: sort its rows")
            before = arrival.now_ns
            yield self._scaled(arrival)

    def _scaled(self, arrival: Arrival) -> Arrival:
        block = arrival.hash_tokens
        new_block = max(1, _times(block, self.size))
        if arrival.hash_ids:  # block by block, so that what was shared still is
            blocks, rest = divmod(arrival.prompt_tokens, block)
            prompt_tokens = blocks * new_block + _times(rest, self.size)
        else:
            prompt_tokens = _times(arrival.prompt_tokens, self.size)
        return Arrival(
            now_ns=_times(arrival.now_ns, 1 / self.rate),
            prompt_tokens=max(1, prompt_tokens),
            output_tokens=max(1, _times(arrival.output_tokens, self.size)),
            client=arrival.client,
            hash_ids=arrival.hash_ids,
            hash_tokens=new_block,
        )


def _times(number: int, factor: Fraction) -> int:
    return number * factor.numerator // factor.denominator


def parse_workload(
    text: str,
    *,
    first_s: Fraction | str | int | None = None,
    rate: Fraction | str | int = 1,
    size: Fraction | str | int = 1,
    seed: int = 0,
) -> Workload:
    """`KIND:FILE`, or `KIND` for the file that is usual.  Numbers may be texts: 0.5 and 1/3 are exact."""
    kind, _, name = text.partition(":")
    if kind not in _KINDS:
        raise WorkloadError(f"there is no workload {kind!r}: {did_you_mean(kind, _KINDS)}")
    numbers: dict[str, Any] = {
        "first_s": None if first_s is None else _fraction("first_s", first_s),
        "rate": _fraction("rate", rate),
        "size": _fraction("size", size),
    }
    path = Path(name or _KINDS[kind].usual)
    Workload(kind=kind, path=path, seed=seed, **numbers)  # its numbers are judged before its file is looked for
    return Workload(kind=kind, path=locate(str(path)), seed=seed, **numbers)


def _fraction(name: str, value: Fraction | str | int) -> Fraction:
    try:
        return Fraction(value)
    except (ValueError, ZeroDivisionError):
        raise WorkloadError(f"{name} is {value!r}, but must be a number such as 2, 0.5 or 1/3") from None


# --- where the files are ------------------------------------------------------------------------------------


def locate(name: str) -> Path:
    """The file itself, or the one of this name in the data folder or in one of the folders there."""
    if Path(name).is_file():
        return Path(name)
    root = _data_folder()
    for path in (root / name, *sorted(root.glob(f"*/{name}"))):
        if path.is_file():
            return path
    raise MissingWorkload(f"there is no {name} in {root} ($SCHEDSPEC_DATA): {_how_to_get(name)}")


def _data_folder() -> Path:
    folder = os.environ.get("SCHEDSPEC_DATA")
    return Path(folder) if folder else Path.cwd().parent / "shared" / "data"


def _how_to_get(name: str) -> str:
    for kind in _KINDS.values():
        usual = Path(kind.usual)
        if Path(name).name == usual.name or Path(name).parts[0] == usual.parts[0]:
            return f"get it from {kind.origin} and put it there"
    return "give the path of the file, or put it there"


# --- formats ------------------------------------------------------------------------------------------------


def _rows(path: Path, columns: tuple[str, ...], what: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """(path:line, row) of a CSV file."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        missing = [column for column in columns if column not in (reader.fieldnames or ())]
        if missing:
            raise WorkloadError(f"{path} has no column {missing[0]}: {what} has {', '.join(columns)}")
        for row in reader:
            yield f"{path}:{reader.line_num}", row


def _whole(place: str, column: str, value: Any) -> int:
    try:
        number = float(value)
        if number != int(number):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise WorkloadError(f"{place}: {column} is {shown(value)}, but must be an integer") from None
    return int(number)


_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|\+00:00)?")


def _timestamp_ns(place: str, text: str) -> int:
    """Nanoseconds since some fixed time.  Azure writes seven digits, one more than datetime keeps."""
    match = _TIMESTAMP.fullmatch(text or "")
    try:
        if match is None:
            raise ValueError
        since = datetime.fromisoformat(match[1]) - datetime(1970, 1, 1)
    except ValueError:
        raise WorkloadError(f"{place}: TIMESTAMP is {shown(text)}, but must be a time in UTC") from None
    return (since.days * 86_400 + since.seconds) * NS_PER_S + int((match[2] or "").ljust(9, "0"))


def _azure(path: Path, seed: int) -> Iterator[Arrival]:
    """The two files of 2023 are two services, and their names end with them: code, conv."""
    columns = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
    client = path.stem.rpartition("_")[2]
    first = None
    for place, row in _rows(path, columns, "an Azure trace"):
        now_ns = _timestamp_ns(place, row["TIMESTAMP"])
        first = now_ns if first is None else first
        yield Arrival(
            now_ns=now_ns - first,
            prompt_tokens=_whole(place, "ContextTokens", row["ContextTokens"]),
            output_tokens=_whole(place, "GeneratedTokens", row["GeneratedTokens"]),
            client=client,
        )


def _mooncake(path: Path, seed: int) -> Iterator[Arrival]:
    """No clients are recorded: requests that share their first two blocks, a system prompt, are one's."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield _mooncake_arrival(f"{path}:{number}", line)


def _mooncake_arrival(place: str, line: str) -> Arrival:
    try:
        row = json.loads(line)
        milliseconds, prompt, output = row["timestamp"], row["input_length"], row["output_length"]
        hash_ids = tuple(_whole(place, "hash_ids", item) for item in row["hash_ids"])
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        fields = "timestamp, input_length, output_length and hash_ids"
        problem = f"is no line of a Mooncake trace, an object with {fields}"
        raise WorkloadError(f"{place}: {shown(line.strip())} {problem}") from error
    return Arrival(
        now_ns=_whole(place, "timestamp", milliseconds) * 1_000_000,
        prompt_tokens=_whole(place, "input_length", prompt),
        output_tokens=_whole(place, "output_length", output),
        client="-".join(["app", *map(str, hash_ids[:2])]),
        hash_ids=hash_ids,
    )


def _lengths(path: Path, seed: int) -> Iterator[Arrival]:
    """Lengths without times, as Sarathi and Vidur publish them."""
    columns = ("num_prefill_tokens", "num_decode_tokens")
    draw = random.Random(seed)
    now_ns = 0
    for place, row in _rows(path, columns, "a file of lengths"):
        now_ns += int(draw.expovariate(1.0) * NS_PER_S)
        yield Arrival(
            now_ns=now_ns,
            prompt_tokens=_whole(place, "num_prefill_tokens", row["num_prefill_tokens"]),
            output_tokens=_whole(place, "num_decode_tokens", row["num_decode_tokens"]),
        )


def _vtc(path: Path, seed: int) -> Iterator[Arrival]:
    """The one workload here whose clients are real."""
    columns = ("req_time_s", "client", "prompt_len", "output_len")
    for place, row in _rows(path, columns, "a VTC workload"):
        try:
            now_ns = int(Fraction(row["req_time_s"]) * NS_PER_S)
        except (ValueError, TypeError):
            found = shown(row["req_time_s"])
            raise WorkloadError(f"{place}: req_time_s is {found}, but must be seconds") from None
        yield Arrival(
            now_ns=now_ns,
            prompt_tokens=_whole(place, "prompt_len", row["prompt_len"]),
            output_tokens=_whole(place, "output_len", row["output_len"]),
            client=row["client"],
        )


@frozen
class _Kind:
    read: Callable[[Path, int], Iterator[Arrival]]
    usual: str
    origin: str


_KINDS: Mapping[str, _Kind] = {
    "azure": _Kind(
        _azure,
        "azure2023/AzureLLMInferenceTrace_conv.csv",
        "https://github.com/Azure/AzurePublicDataset",
    ),
    "mooncake": _Kind(
        _mooncake,
        "mooncake/conversation_trace.jsonl",
        "https://github.com/kvcache-ai/Mooncake (FAST25-release/traces)",
    ),
    "sharegpt": _Kind(
        _lengths,
        "sharegpt/sharegpt_8k_filtered_stats_llama2_tokenizer.csv",
        "https://github.com/microsoft/sarathi-serve",
    ),
    "arxiv": _Kind(
        _lengths,
        "arxiv_summ/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv",
        "https://github.com/microsoft/vidur",
    ),
    "vtc": _Kind(
        _vtc,
        "vtc/real__FCFS.csv",
        "https://github.com/Ying1123/VTC-artifact, whose fair_bench results it restates",
    ),
}

# --- requests -----------------------------------------------------------------------------------------------


def to_requests(
    arrivals: Iterable[Arrival],
    seed: int,
    *,
    prefix: str = "r",
    max_output_tokens: int | None = None,
    vocabulary_tokens: int = VOCABULARY_TOKENS,
) -> Iterator[Incoming]:
    """Requests r0, r1, … whose prompt ids follow from the seed: equal hash ids give equal blocks of ids.

    A client declares `max_output_tokens`, or the true length where that is more; by default the true length
    rounded up to a power of two, since clients ask for round numbers.
    """
    for number, arrival in enumerate(arrivals):
        output = arrival.output_tokens
        declared = _power_of_two(output) if max_output_tokens is None else max(output, max_output_tokens)
        request = Request(
            id=f"{prefix}{number}",
            prompt_ids=_prompt_ids(arrival, f"{seed}:{prefix}{number}", seed, vocabulary_tokens),
            max_output_tokens=declared,
            client=arrival.client,
        )
        yield Incoming(now_ns=arrival.now_ns, request=request, output_tokens=output)


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _prompt_ids(arrival: Arrival, own: str, seed: int, vocabulary_tokens: int) -> tuple[int, ...]:
    left = arrival.prompt_tokens
    parts = []
    for hash_id in arrival.hash_ids:
        count = min(left, arrival.hash_tokens)
        parts.append(_ids(f"{seed}#{hash_id}", count, vocabulary_tokens))
        left -= count
    parts.append(_ids(own, left, vocabulary_tokens))
    return tuple(chain.from_iterable(parts))


def _ids(name: str, count: int, vocabulary_tokens: int) -> list[int]:
    """The first `count` ids of the endless sequence that the name stands for: the same everywhere."""
    if not count:
        return []
    words = array("I", shake_128(name.encode()).digest(4 * count))
    if sys.byteorder == "big":
        words.byteswap()
    return [word % vocabulary_tokens for word in words]
