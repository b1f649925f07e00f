"""Results of the artefact of VTC (OSDI 2024), read as workloads: their clients are real.

Two forms: a CSV file of columns, and the artefact's own `all_results_*.jsonl`, one line with all requests.
"""

from collections.abc import Iterator
from pathlib import Path

from ..protocol import shown
from .arrival import Arrival, Draws, WorkloadError
from .reading import Row, csv_rows, json_rows

COLUMNS = ("req_time_s", "client", "prompt_len", "output_len")
NAMES = ("req_time", "adapter_dir", "prompt_len", "output_len")


def read(path: Path, draws: Draws) -> Iterator[Arrival]:
    if path.suffix == ".jsonl":
        yield from map(_response, _responses(path))
        return
    for row in csv_rows(path, COLUMNS, "a VTC workload"):
        yield _arrival(row, "req_time_s", row.text("client"))


def _responses(path: Path) -> Iterator[Row]:
    lines = list(json_rows(path, ("config", "result"), "VTC's results"))
    if len(lines) > 1:
        raise WorkloadError(f"{lines[1].place}: is a second run: keep one line, a run, per file")
    place, result = lines[0].place, lines[0].fields["result"]
    responses = result.get("responses") if isinstance(result, dict) else None
    if not isinstance(responses, list) or not responses:
        raise WorkloadError(f"{place}: result has no responses, which VTC's results list")
    for number, response in enumerate(responses):
        where = f"{place}: responses[{number}]"
        if not isinstance(response, dict) or any(name not in response for name in NAMES):
            raise WorkloadError(f"{where} is {shown(response)}, but must be an object with {', '.join(NAMES)}")
        yield Row(where, response, is_text=False)


def _response(row: Row) -> Arrival:
    """A client is an adapter there: dummy-lora-7b-rank-8-13 is client 13."""
    return _arrival(row, "req_time", row.text("adapter_dir").rpartition("-")[2])


def _arrival(row: Row, time: str, client: str) -> Arrival:
    return Arrival(
        now_ns=row.seconds_ns(time),
        prompt_tokens=row.whole("prompt_len"),
        output_tokens=row.whole("output_len"),
        client=client or "default",
        place=row.place,
    )
