"""Results of the artefact of VTC (OSDI 2024), read as workloads: their clients are real.

Two forms: a CSV file of columns, and the artefact's own `all_results_*.jsonl`, one line with all requests.
"""

from collections.abc import Iterator, Sequence
from math import isfinite
from pathlib import Path

from attrs import frozen

from ..errors import shown
from .arrival import Arrival, Draws, WorkloadError
from .reading import Row, csv_rows, json_rows

COLUMNS = ("req_time_s", "client", "prompt_len", "output_len")
NAMES = ("req_time", "adapter_dir", "prompt_len", "output_len")
SEEN_COLUMNS, SEEN_NAMES = ("ttft_s", "latency_s"), ("first_token_latency", "request_latency")
REFUSED = -1.0


@frozen
class Seen:
    """A request of a measured run, and what its client saw: both are None if it was refused."""

    arrival: Arrival
    first_token_s: float | None
    latency_s: float | None


def read(path: Path, draws: Draws) -> Iterator[Arrival]:
    for row in _rows(path, (), ()):
        yield _arrival(row)


def read_seen(path: Path) -> list[Seen]:
    """A measured run, in either form.  Raises WorkloadError."""
    ttft, latency = SEEN_NAMES if path.suffix == ".jsonl" else SEEN_COLUMNS
    return [
        Seen(_arrival(row), _seen_s(row, ttft), _seen_s(row, latency)) for row in _rows(path, SEEN_COLUMNS, SEEN_NAMES)
    ]


def _rows(path: Path, columns: Sequence[str], names: Sequence[str]) -> Iterator[Row]:
    if path.suffix == ".jsonl":
        return _responses(path, (*NAMES, *names))
    what = "a measured run of VTC" if columns else "a VTC workload"
    return csv_rows(path, (*COLUMNS, *columns), what)


def _responses(path: Path, names: Sequence[str]) -> Iterator[Row]:
    lines = list(json_rows(path, ("config", "result"), "VTC's results"))
    if len(lines) > 1:
        raise WorkloadError(f"{lines[1].place}: is a second run: keep one line, a run, per file")
    place, result = lines[0].place, lines[0].fields["result"]
    responses = result.get("responses") if isinstance(result, dict) else None
    if not isinstance(responses, list) or not responses:
        raise WorkloadError(f"{place}: result has no responses, which VTC's results list")
    for number, response in enumerate(responses):
        where = f"{place}: responses[{number}]"
        if not isinstance(response, dict) or any(name not in response for name in names):
            raise WorkloadError(f"{where} is {shown(response)}, but must be an object with {', '.join(names)}")
        yield Row(where, response, is_text=False)


def _seen_s(row: Row, column: str) -> float | None:
    value = row.fields.get(column)
    try:
        seconds = float("nan") if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        seconds = float("nan")
    if seconds == REFUSED:
        return None
    if not isfinite(seconds) or seconds < 0:
        raise WorkloadError(f"{row.place}: {column} is {shown(value)}, but must be seconds, or -1 of who was refused")
    return seconds


def _arrival(row: Row) -> Arrival:
    """A client is an adapter in the artefact's own form: dummy-lora-7b-rank-8-13 is client 13."""
    time = "req_time_s" if row.is_text else "req_time"
    client = row.text("client") if row.is_text else row.text("adapter_dir").rpartition("-")[2]
    return Arrival(
        now_ns=row.seconds_ns(time),
        prompt_tokens=row.whole("prompt_len"),
        output_tokens=row.whole("output_len"),
        client=client or "default",
        place=row.place,
    )
