"""Lines that are read with known columns say what they say when they are read whole."""

import io
import json
from typing import Any

import pytest
from tests.bench.recording import Recorder, requests

from schedspec.optimized.reading import FEWEST, ColumnLoads
from schedspec.spec import strict_json
from schedspec.spec.trace import TraceError, TraceWriter, read_trace
from schedspec.spec.vocabulary import Settings

IDS = [f"r{number}" for number in range(FEWEST)]


def line_of(ids: list[Any], **more: Any) -> bytes:
    plan = {"step": 1, "request": ids, "start": [0] * len(ids)}
    return json.dumps({"type": "step", "plan": plan} | more, separators=(",", ":")).encode()


def result_of(ids: list[Any], *deltas: Any) -> bytes:
    outcome = {"request": ids, "step": 1, "token": [1] * len(ids)}
    return json.dumps({"outcome": outcome, "deltas": deltas}, separators=(",", ":")).encode()


def knowing(ids: list[Any]) -> ColumnLoads:
    loads = ColumnLoads()
    for _ in range(2):
        assert loads(line_of(ids)) == json.loads(line_of(ids))
    return loads


def as_lists(found: Any) -> Any:
    return json.loads(json.dumps(found))


def test_a_known_column_is_not_read_again() -> None:
    loads = knowing(IDS)
    for line in (line_of(IDS), result_of(IDS, ["delivered", IDS, [1] * FEWEST], ["finished", "r0", "stop"])):
        assert as_lists(loads(line)) == json.loads(line)
    assert loads.spared == 4


def test_spaces_are_free() -> None:
    line = json.dumps(json.loads(line_of(IDS))).encode()
    loads = ColumnLoads()
    assert all(as_lists(loads(line)) == json.loads(line) for _ in range(4))
    assert loads.spared == 2


STRANGE = [
    [*IDS[:-1], 'r"]'],
    [*IDS[:-1], "r\\"],
    [*IDS[:-1], "größer"],
    [*IDS[:-1], ',"request":['],
    [*IDS[:-1], "\u0000column"],
    [*IDS, IDS[0]],
]


@pytest.mark.parametrize("ids", STRANGE)
def test_ids_may_be_strange(ids: list[str]) -> None:
    loads = knowing(ids)
    lines = [line_of(ids), line_of(IDS), result_of(ids, ["delivered", ids, []]), line_of(ids)]
    lines.append(line_of(ids).decode().encode("unicode_escape"))
    lines.append(json.dumps({"plan": {"step": 1, "request": ids}}, separators=(",", ":"), ensure_ascii=False).encode())
    for line in lines:
        assert said(loads, line) == said(strict_json.loads, line)


def said(loads: Any, line: Any) -> Any:
    try:
        return as_lists(loads(line))
    except ValueError as error:
        return str(error)


TEXT = json.dumps(IDS, separators=(",", ":"))
LINES = [
    line_of(IDS[:-1]),
    line_of([*IDS, "more"]),
    line_of(IDS, note="\u0000column"),
    line_of(IDS, note=line_of(IDS).decode()),
    line_of(IDS, event={"request": IDS}),
    line_of(IDS, deltas=[["delivered", "\u0000column", []], ["delivered", IDS, []]]),
    line_of(IDS, **{'x"request': IDS}),
    line_of(IDS)[:-5],
    line_of(IDS) + b"}",
    f'{{"plan":{{"request":{TEXT},"request":{TEXT}}}}}'.encode(),
    f'{{"plan":{{"request":{TEXT}x}}}}'.encode(),
    f'{{"request":{TEXT}}}'.encode(),
    f'[["delivered",{TEXT}]]'.encode(),
    f'["delivered",{TEXT}]'.encode(),
    b"",
    line_of(IDS).decode(),
]


@pytest.mark.parametrize("line", LINES)
def test_whatever_else_is_in_a_line(line: Any) -> None:
    assert said(knowing(IDS), line) == said(strict_json.loads, line)


def test_a_trace_is_read_the_same() -> None:
    recorder = Recorder(Settings(blocks=1_000, block_size=4, seats=FEWEST, token_budget=400))
    file = io.StringIO()
    writer = TraceWriter(file, recorder.header)
    recorder.fill(requests(1, (3, 9), (20, 20)), FEWEST, writer.write)
    for _ in range(8):
        for message in recorder.round():
            writer.write(message)
    data, loads = file.getvalue().encode(), ColumnLoads()
    assert list(read_trace(io.BytesIO(data), loads)[1]) == list(read_trace(io.BytesIO(data))[1])
    assert loads.spared > 20
    cut = data[:-20]
    told = []
    for some in (ColumnLoads(), json.loads):
        with pytest.raises(TraceError) as error:
            list(read_trace(io.BytesIO(cut), some)[1])
        told.append(str(error.value))
    assert told[0] == told[1]
