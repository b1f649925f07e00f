"""A file of columns holds the run that the lines hold; one that is damaged is refused in one sentence."""

import io
import random
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner
from tests.bench.recording import Recorder, requests

from schedspec.cli import cli
from schedspec.spec.errors import ProtocolError
from schedspec.spec.protocol import read_plan
from schedspec.spec.trace import TraceError, TraceWriter, read_trace
from schedspec.spec.trace_columns import FEWEST, HEAD, KEPT, LONGEST, MAGIC, MOST_NEW, ColumnsWriter, convert_trace
from schedspec.spec.values import Flags, Naturals, Texts
from schedspec.spec.vocabulary import Capabilities, Header, Message, Outcome, Plan, Request, Settings

RUNNING = FEWEST + 6
HEAD_OF_FOUR = Header(settings=Settings(blocks=4, seats=2), capabilities=Capabilities())


@pytest.fixture(scope="module")
def run() -> tuple[Header, list[Message]]:
    recorder = Recorder(Settings(blocks=2_000, block_size=4, seats=RUNNING, token_budget=600))
    messages: list[Message] = []
    recorder.fill(requests(1, (3, 40), (12, 30)), RUNNING, messages.append)
    for _ in range(30):
        messages += recorder.round()
    return recorder.header, [*messages, Message("observe", recorder.now_ns, None, recorder.scheduler.observe())]


def columns_of(header: Header, messages: list[Message]) -> bytes:
    file = io.BytesIO()
    writer = ColumnsWriter(file, header)
    for message in messages:
        writer.write(message)
    return file.getvalue()


def lines_of(header: Header, messages: list[Message]) -> str:
    file = io.StringIO()
    writer = TraceWriter(file, header)
    for message in messages:
        writer.write(message)
    return file.getvalue()


def read(data: bytes, *, arrays: bool = False) -> tuple[Header, list[Message]]:
    header, messages = read_trace(io.BytesIO(data), arrays=arrays)
    return header, list(messages)


def test_it_says_what_the_lines_say(run: tuple[Header, list[Message]]) -> None:
    header, messages = run
    data = columns_of(header, messages)
    assert read(data) == read(lines_of(header, messages).encode())
    assert len(data) < len(lines_of(header, messages))


def test_columns_may_stay_as_they_stand(run: tuple[Header, list[Message]]) -> None:
    header, messages = run
    found = read(columns_of(header, messages), arrays=True)[1]
    assert lines_of(header, found) == lines_of(header, messages)
    steps = [m.answer for m in found if m.kind == "step" and len(m.answer.request) >= FEWEST]
    assert {type(plan.start) for plan in steps} == {Naturals}
    assert {type(plan.request) for plan in steps} == {Texts}
    assert steps[-1].request is steps[-2].request  # it stands in the file once


def test_what_is_no_column_stays_in_the_text() -> None:
    ids = [f"größe-{n}\ud800" for n in range(FEWEST)]
    huge = [1 << 63, *range(FEWEST)]
    short = Plan(step=1, request=ids[:3], start=[0] * 3, tokens=[1] * 3, samples=[0] * 3)
    messages = [
        Message("step", 0, None, short),
        Message("step", 0, None, Plan(step=2, request=ids, start=huge[:-1], tokens=[1] * FEWEST, samples=[1] * FEWEST)),
        Message("complete", 0, Outcome(step=2), [("delivered", ids, [1 << 70] * FEWEST), ("finished", "a", "stop")]),
        Message("cancel", 0, "a", []),
        Message("notify", 0, {"column": 1}, []),
        Message("end", 0),
    ]
    header = HEAD_OF_FOUR
    assert read(columns_of(header, messages)) == read(lines_of(header, messages).encode())


def test_a_column_is_written_again_when_it_was_long_ago() -> None:
    """More columns than are kept, in one message and over many; old ones come back."""
    header, rng = HEAD_OF_FOUR, random.Random(1)
    pool = [[number] * FEWEST for number in range(3 * KEPT)]
    ids = [f"r{n}" for n in range(FEWEST)]
    messages = []
    for _ in range(200):
        deltas = [("delivered", ids, rng.choice(pool[: rng.choice((5, 3 * KEPT))])) for _ in range(rng.choice((1, 30)))]
        messages.append(Message("complete", 0, Outcome(step=1), deltas))
    assert read(columns_of(header, messages)) == read(lines_of(header, messages).encode())


def test_a_message_names_few_new_columns() -> None:
    ids = [f"r{n}" for n in range(FEWEST)]
    deltas = [("delivered", ids, [number] * FEWEST) for number in range(3 * KEPT)]
    data = columns_of(HEAD_OF_FOUR, [Message("complete", 0, Outcome(step=1), deltas)])
    assert data.count(b"naturals") + data.count(b"texts\0") == MOST_NEW


def test_converting_there_and_back(run: tuple[Header, list[Message]], tmp_path: Path) -> None:
    lines, columns, again = (tmp_path / name for name in ("run.jsonl", "run.columns", "again.jsonl"))
    lines.write_text(lines_of(*run))
    for source, target in ((lines, columns), (columns, again)):
        result = CliRunner().invoke(cli, ["convert", str(source), str(target)])
        assert result.exit_code == 0, result.output
    assert again.read_bytes() == lines.read_bytes()
    for source, target in ((tmp_path / "none.jsonl", columns), (lines, tmp_path / "no" / "run.columns")):
        assert CliRunner().invoke(cli, ["convert", str(source), str(target)]).exit_code == 2
    with pytest.raises(ValueError, match="is the trace itself"):
        convert_trace(lines, lines)
    assert again.read_bytes() == lines.read_bytes()


def test_a_broken_run_is_judged_alike(run: tuple[Header, list[Message]], tmp_path: Path) -> None:
    header, messages = run
    place = next(n for n, m in enumerate(messages) if m.kind == "step" and len(m.answer.request) == RUNNING)
    plan: Plan = messages[place].answer
    wrong = evolve(plan, start=(plan.start[0] + 1, *list(plan.start)[1:]))
    broken = [*messages[:place], evolve(messages[place], answer=wrong), *messages[place + 1 :]]
    (tmp_path / "run.jsonl").write_text(lines_of(header, broken))
    (tmp_path / "run.columns").write_bytes(columns_of(header, broken))
    told = []
    for name in ("run.jsonl", "run.columns"):
        for plain in ([], ["--plain"]):
            report = tmp_path / f"report-{name}{len(plain)}"
            args = ["trace", str(tmp_path / name), "--json", "--report", str(report), *plain]
            result = CliRunner().invoke(cli, args)
            assert result.exit_code == 1
            told.append(sorted(path.name for path in (report / "failures").iterdir()))
            shortest = sorted((report / "failures").glob("*.jsonl"))
            told[-1] += [path.read_text() for path in shortest]
    assert told[0] == told[1] == told[2] == told[3]
    assert "STEP-4.jsonl" in told[0]


# --- damaged ---------------------------------------------------------------------------------------------------


def part(kind: bytes, content: bytes) -> bytes:
    return kind.ljust(8, b"\0") + len(content).to_bytes(8, "little") + content + b"\0" * (-len(content) % 8)


START = part(MAGIC, b"")
SETTINGS = b'{"blocks":4,"seats":2}'
HEADER = part(
    b"message",
    b'{"schema":"schedspec/1","type":"header","settings":' + SETTINGS + b',"capabilities":{},"seed":0,"subject":"s"}',
)
END = part(b"message", b'{"schema":"schedspec/1","type":"end","now_ns":5}')


def step(**columns: str) -> bytes:
    fields = {"request": "[]", "start": "[]", "tokens": "[]", "samples": "[]"} | columns
    plan = ",".join(f'"{name}":{text}' for name, text in fields.items())
    return part(b"message", f'{{"schema":"schedspec/1","type":"step","now_ns":5,"plan":{{"step":1,{plan}}}}}'.encode())


FOUR = (4).to_bytes(8, "little")
DAMAGED = {
    "cut off in the middle of a part": START + HEADER + END[:-8],
    "cut off in the middle of": START + HEADER + END[:10],
    "the head of the file is damaged": MAGIC + b"\1".ljust(8, b"\0") + HEADER,
    "the trace is empty": START,
    "the first line must be the header": START + END,
    "no such part": START + HEADER + part(b"floats", FOUR),
    f"but none has more than {LONGEST:,}": START + HEADER + b"message\0" + (1 << 62).to_bytes(8, "little"),
    "a column of integers has one below 0": START + HEADER + part(b"naturals", FOUR + (1 << 63).to_bytes(8, "little")),
    "a column of integers has 12 bytes": START + HEADER + part(b"naturals", FOUR + b"\0\0\0\0"),
    "a column of texts is not JSON": START + HEADER + part(b"texts", b"[1,"),
    "must be an array of strings": START + HEADER + part(b"texts", b'["a",1]'),
    "a byte that is neither 0 nor 1": START + HEADER + part(b"flags", b"\0\1\2"),
    "names the column 0, but it is none": START + HEADER + step(start='{"column":0}'),
    "names the column 1, but": START + HEADER + part(b"naturals", FOUR) + step(start='{"column":1}'),
    "names the column True, but": START + HEADER + part(b"naturals", FOUR) + step(start='{"column":true}'),
    "names the column None, but": START + HEADER + step(start="{}"),
    "has 1 entry where request has 0": START + HEADER + part(b"naturals", FOUR) + step(start='{"column":0}'),
    "request[0] is 4, but must be a string": START + HEADER + part(b"naturals", FOUR) + step(request='{"column":0}'),
    "start[0] is 'a', but must be an integer": START + HEADER + part(b"texts", b'["a"]') + step(start='{"column":0}'),
    "samples[0] is 4, but must be 0 or 1": (
        START + HEADER + part(b"texts", b'["a"]') + part(b"naturals", FOUR)
        + step(request='{"column":0}', start='{"column":1}', tokens='{"column":1}', samples='{"column":1}')
    ),
    "a message is not JSON": START + HEADER + part(b"message", b'{"schema"'),
    "another version of schedspec": START + HEADER + part(b"message", b'{"schema":"schedspec/9"}'),
    "one file holds one run": START + HEADER + END + END,
}  # fmt: skip


@pytest.mark.parametrize("sentence", DAMAGED)
@pytest.mark.parametrize("arrays", [False, True])
def test_a_damaged_file_is_refused(sentence: str, arrays: bool) -> None:
    with pytest.raises(TraceError) as error:
        read(DAMAGED[sentence], arrays=arrays)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_the_error_says_where(tmp_path: Path) -> None:
    path = tmp_path / "run.columns"
    path.write_bytes(START + HEADER + END[:-8])
    result = CliRunner().invoke(cli, ["trace", str(path), "--report", str(tmp_path / "report")])
    assert result.exit_code == 2
    assert f"byte {HEAD + len(HEADER):,}: the file is cut off" in result.output.replace("\n", " ")


def test_a_file_that_is_damaged_anywhere_is_read_or_refused(run: tuple[Header, list[Message]]) -> None:
    """Whatever a byte becomes: no other error, and no other form of a column."""
    header, messages = run
    data = columns_of(header, messages[: RUNNING + 12])
    rng = random.Random(5)
    refused = 0
    for _ in range(300):
        wrong = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            wrong[rng.randrange(len(wrong))] = rng.randrange(256)
        cut = bytes(wrong[: rng.choice((len(wrong), rng.randrange(len(wrong))))])
        try:
            read(cut, arrays=True)
        except (TraceError, ProtocolError):
            refused += 1
    assert refused > 100


def test_the_border_trusts_only_columns_that_were_looked_at() -> None:
    class Other(tuple[Any, ...]):
        __slots__ = ()

    with pytest.raises(ProtocolError, match=r"request\[0\] is 1"):
        read_plan(Plan(step=1, request=Other((1,)), start=(0,), tokens=(1,), samples=(0,)))
    twice = Plan(step=1, request=Texts(("a", "a")), start=Naturals("q", [0, 0]), tokens=(1, 1), samples=(0, 0))
    with pytest.raises(ProtocolError, match="twice"):
        read_plan(twice)
    assert Request(id="a", prompt_ids=Naturals("q", [1, 2]), max_output_tokens=1).prompt_ids == (1, 2)
    assert Flags((True, False)) == (True, False)
