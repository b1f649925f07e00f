"""Lengths without times, as Sarathi-Serve and Vidur publish them: ShareGPT, arXiv summaries."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

from .arrival import Arrival, Draws
from .gaps import times_ns
from .reading import csv_rows

COLUMNS = ("num_prefill_tokens", "num_decode_tokens")


def read(path: Path, draws: Draws) -> Iterator[Arrival]:
    """One request per second on average."""
    times = times_ns(Random(draws.seed), cv=1.0 if draws.cv is None else draws.cv)
    for row, now_ns in zip(csv_rows(path, COLUMNS, "a file of lengths"), times, strict=False):
        yield Arrival(
            now_ns=now_ns,
            prompt_tokens=row.whole("num_prefill_tokens"),
            output_tokens=row.whole("num_decode_tokens"),
            place=row.place,
        )
