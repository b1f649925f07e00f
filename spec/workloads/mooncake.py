"""Mooncake's traces: lengths, and hashes of the prompt's blocks of 512 tokens, so that prefixes are shared."""

from collections.abc import Iterator
from pathlib import Path

from ..errors import shown
from .arrival import MOST_S, Arrival, Draws, WorkloadError
from .reading import Row, json_rows, whole

NAMES = ("timestamp", "input_length", "output_length", "hash_ids")
NS_PER_MS = 1_000_000
MOST_HASH = 1 << 62


def read(path: Path, draws: Draws) -> Iterator[Arrival]:
    for row in json_rows(path, NAMES, "a Mooncake trace"):
        prompt, output = row.whole("input_length"), row.whole("output_length")
        hash_ids = read_hash_ids(row)
        yield Arrival(
            now_ns=row.whole("timestamp", 0, MOST_S * 1_000) * NS_PER_MS,
            prompt_tokens=prompt,
            output_tokens=output,
            client=application(hash_ids),
            hash_ids=hash_ids,
            place=row.place,
        )


def read_hash_ids(row: Row) -> tuple[int, ...]:
    found = row.fields["hash_ids"]
    if not isinstance(found, list):
        raise WorkloadError(f"{row.place}: hash_ids is {shown(found)}, but must be a list of integers")
    return tuple(whole(row.place, "hash_ids", item, 0, MOST_HASH, is_text=False) for item in found)


def application(hash_ids: tuple[int, ...]) -> str:
    """No clients are recorded: requests that share their first two blocks, a system prompt, are one's."""
    return "-".join(["app", *map(str, hash_ids[:2])])
