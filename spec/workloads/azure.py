"""Azure's LLM inference traces (2023, and those of later years that have the same columns)."""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from ..errors import shown
from ..vocabulary import NS_PER_S
from .arrival import MOST_S, Arrival, Draws, WorkloadError
from .reading import csv_rows

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|\+00:00)?", re.ASCII)


def read(path: Path, draws: Draws) -> Iterator[Arrival]:
    """The two files of 2023 are two services, and their names end with them: code, conv."""
    client = path.stem.rpartition("_")[2]
    first = None
    for row in csv_rows(path, COLUMNS, "an Azure trace"):
        now_ns = _timestamp_ns(row.place, row.fields["TIMESTAMP"])
        first = now_ns if first is None else first
        if now_ns - first > MOST_S * NS_PER_S:
            found = shown(row.fields["TIMESTAMP"])
            raise WorkloadError(
                f"{row.place}: TIMESTAMP is {found}, more than ten years after the first: is it mistyped?"
            )
        yield Arrival(
            now_ns=now_ns - first,
            prompt_tokens=row.whole("ContextTokens"),
            output_tokens=row.whole("GeneratedTokens"),
            client=client,
            place=row.place,
        )


def _timestamp_ns(place: str, text: str) -> int:
    """Nanoseconds since some fixed time.  Azure writes seven digits, one more than datetime keeps."""
    match = _TIMESTAMP.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        since = datetime.fromisoformat(match[1]) - datetime(1970, 1, 1)
    except ValueError:
        raise WorkloadError(f"{place}: TIMESTAMP is {shown(text)}, but must be a time in UTC") from None
    return (since.days * 86_400 + since.seconds) * NS_PER_S + int((match[2] or "").ljust(9, "0"))
