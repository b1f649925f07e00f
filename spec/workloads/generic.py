"""Anybody's requests: a CSV file, or an object per line, with the columns below.

Two are needed; the others have the defaults of `Arrival`, also where a field is empty.  Without `arrival_s` the times
are drawn, one request per second.  A name that is not listed is an error, so that no column is lost to a slip.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from ..hints import did_you_mean
from .arrival import Arrival, Draws, Patience, WorkloadError
from .gaps import times_ns
from .mooncake import read_hash_ids
from .reading import Row, csv_names, csv_rows, json_rows

NEEDED = ("prompt_tokens", "output_tokens")
_MOST_PRIORITY = 1 << 31
_MOST_RETRIES = 1_000

_PLAIN: Mapping[str, Callable[[Row, str], Any]] = {
    "max_output_tokens": Row.whole,
    "client": Row.text,
    "lane": Row.text,
    "priority": lambda row, name: row.whole(name, -_MOST_PRIORITY, _MOST_PRIORITY),
    "hash_tokens": Row.whole,
}
_TIMES = ("arrival_s", "cancel_after_s", "patience_s", "retries", "retry_s")
COLUMNS = (*NEEDED, *_PLAIN, *_TIMES)
NAMES = (*COLUMNS, "hash_ids")


def read_csv(path: Path, draws: Draws) -> Iterator[Arrival]:
    _check_known(f"{path}:1", csv_names(path), COLUMNS)
    return _arrivals(csv_rows(path, NEEDED, "a workload"), draws)


def read_jsonl(path: Path, draws: Draws) -> Iterator[Arrival]:
    def known(rows: Iterator[Row]) -> Iterator[Row]:
        for row in rows:
            _check_known(row.place, row.fields, NAMES)
            yield row

    return _arrivals(known(json_rows(path, NEEDED, "a workload")), draws)


def _check_known(place: str, found: Any, names: tuple[str, ...]) -> None:
    for name in found:
        if name not in names:
            raise WorkloadError(f"{place}: there is no column {name!r}: {did_you_mean(name, names)}")


def _arrivals(rows: Iterator[Row], draws: Draws) -> Iterator[Arrival]:
    drawn = times_ns(Random(draws.seed), cv=1.0 if draws.cv is None else draws.cv)
    is_timed: bool | None = None
    for row in rows:
        is_timed = row.has("arrival_s") if is_timed is None else is_timed
        yield _arrival(row, _now_ns(row, drawn, draws, is_timed=is_timed))


def _now_ns(row: Row, drawn: Iterator[int], draws: Draws, *, is_timed: bool) -> int:
    """All have a time, or none has."""
    if row.has("arrival_s") != is_timed:
        missing = (
            "has no arrival_s, but those above have" if is_timed else "has an arrival_s, but those above have none"
        )
        raise WorkloadError(f"{row.place}: {missing}: give all of them a time, or none")
    if not is_timed:
        return next(drawn)
    if draws.cv is not None:
        raise WorkloadError(f"{row.place}: has a time (arrival_s), so none is drawn: leave cv out")
    return row.seconds_ns("arrival_s")


def _arrival(row: Row, now_ns: int) -> Arrival:
    output = row.whole("output_tokens")
    fields = {name: read(row, name) for name, read in _PLAIN.items() if row.has(name)}
    if fields.get("max_output_tokens", output) < output:
        declared = fields["max_output_tokens"]
        raise WorkloadError(f"{row.place}: max_output_tokens is {declared}, less than the {output} of output_tokens")
    return Arrival(
        now_ns=now_ns,
        prompt_tokens=row.whole("prompt_tokens"),
        output_tokens=output,
        hash_ids=read_hash_ids(row) if row.has("hash_ids") else (),
        cancel_after_ns=row.seconds_ns("cancel_after_s") if row.has("cancel_after_s") else None,
        patience=_patience(row),
        place=row.place,
        **fields,
    )


def _patience(row: Row) -> Patience | None:
    if not row.has("patience_s"):
        needless = [name for name in ("retries", "retry_s") if row.has(name)]
        if needless:
            raise WorkloadError(f"{row.place}: has {needless[0]}, but no patience_s: say how long the client waits")
        return None
    return Patience(
        first_token_ns=row.seconds_ns("patience_s"),
        retries=row.whole("retries", 0, _MOST_RETRIES) if row.has("retries") else 0,
        retry_ns=row.seconds_ns("retry_s") if row.has("retry_s") else 0,
    )
