"""Traces come back as they were written, obey the schema, and a wrong one is refused in a sentence."""

import io
import json
import pickle
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from attrs import evolve, fields_dict
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from schedspec.spec import trace
from schedspec.spec.encoding import encode
from schedspec.spec.errors import ProtocolError, SubjectFault
from schedspec.spec.protocol import (
    read_capabilities,
    read_deltas,
    read_observation,
    read_outcome,
    read_plan,
    read_receipt,
    read_request,
    read_settings,
)
from schedspec.spec.trace import TraceError, TraceWriter, read_trace
from schedspec.spec.vocabulary import (
    CLAIMS,
    CONSTANTS,
    CONVERSIONS,
    DELTAS,
    DISPLACEMENTS,
    FINISH_REASONS,
    LEASE_ENDS,
    LEVELS,
    ORDERINGS,
    POOLS,
    PREEMPTIONS,
    REFUSAL_REASONS,
    SCHEMA,
    TRANSFERS,
    WAIT_LIMITS,
    Capabilities,
    Delta,
    Door,
    Header,
    Lane,
    Message,
    Observation,
    Outcome,
    Plan,
    Policy,
    Pools,
    Receipt,
    Request,
    RequestView,
    Settings,
    hybrid,
)

SCHEMA_FILE = Path(trace.__file__).with_name("trace.schema.json")
SCHEMA_TEXT = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
LINE = Draft202012Validator(SCHEMA_TEXT)

HEADER = Header(settings=Settings(), capabilities=Capabilities(name="toy"), seed=7, subject="toy:make")

# --- random messages ----------------------------------------------------------------------------------------

ids = st.text(max_size=5)
naturals = st.integers(0, 2**40)
columns = st.lists(naturals, max_size=4).map(tuple)
id_columns = st.lists(ids, max_size=4).map(tuple)


@st.composite
def deltas(draw: st.DrawFn) -> tuple[Delta, ...]:
    return tuple(draw(st.lists(st.sampled_from(sorted(DELTAS)).flatmap(_delta), max_size=4)))


def _delta(name: str) -> st.SearchStrategy[Delta]:
    if name == "delivered":
        rows = st.lists(st.tuples(ids, naturals), max_size=4)
        return rows.map(lambda found: (name, tuple(r for r, _ in found), tuple(t for _, t in found)))
    fields: dict[str, st.SearchStrategy[Any]] = {
        "request": ids,
        "requester": st.none() | ids,
        "blocks": columns,
        "cached_tokens": naturals,
        "how": st.sampled_from(PREEMPTIONS),
        "reason": st.sampled_from(FINISH_REASONS) if name == "finished" else ids,
        "limit": st.sampled_from(WAIT_LIMITS),
        "dependencies": id_columns,
        "until_ns": naturals,
        "ended_by": st.sampled_from(LEASE_ENDS),
        "decided_after_ns": naturals,
        "into": st.sampled_from(CONVERSIONS),
        "transfer": st.integers(1, 2**40),
        "outcome": st.sampled_from(TRANSFERS),
        "by": st.sampled_from(ORDERINGS),
        "cause": st.sampled_from(DISPLACEMENTS),
        **dict.fromkeys(("before", "after"), st.integers(1, 99)),
        **dict.fromkeys(("held_ns", "waited_ns", "ran_ns", "whole_ns"), st.integers()),
    }
    return st.tuples(st.just(name), *(fields[field] for field in DELTAS[name]))


requests = st.builds(
    Request,
    id=ids,
    prompt_ids=st.lists(naturals, min_size=1, max_size=4),
    max_output_tokens=st.integers(),
    client=ids,
    lane=ids,
    priority=st.integers(),
    deadline_ns=st.none() | st.integers(),
    idempotency_key=st.none() | ids,
    dependencies=id_columns,
    predicted_output_tokens=st.none() | st.integers(),
    adapter=st.none() | ids,
    survives_disconnect=st.booleans(),
    was_converted=st.booleans(),
)
receipts = st.one_of(
    st.builds(Receipt, verdict=st.just("accepted"), deltas=deltas()),
    st.builds(
        Receipt,
        verdict=st.just("refused"),
        reason=st.sampled_from(REFUSAL_REASONS),
        limit=st.none() | st.integers(),
        value=st.none() | st.integers(),
        retry_after_ns=st.none() | naturals,
    ),
    st.builds(Receipt, verdict=st.just("duplicate"), of=ids),
    st.builds(Receipt, verdict=st.just("converted"), how=ids),
    st.builds(Receipt, verdict=st.just("deferred"), decided_after_ns=naturals),
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    request = tuple(draw(st.lists(ids, max_size=4, unique=True)))

    def column(values: st.SearchStrategy[int]) -> tuple[int, ...]:
        return tuple(draw(values) for _ in request)

    return Plan(
        step=draw(naturals),
        request=request,
        start=column(naturals),
        tokens=column(naturals),
        samples=column(st.integers(0, 1)),
        deltas=draw(deltas()),
        pool=draw(st.sampled_from((None, *POOLS))),
    )


@st.composite
def outcomes(draw: st.DrawFn) -> Outcome:
    request = draw(id_columns)
    token = tuple(draw(naturals) for _ in request)
    stop = tuple(draw(st.booleans()) for _ in request)
    pause = tuple(draw(ids) for _ in request) if draw(st.booleans()) else ()
    return Outcome(step=draw(naturals), request=request, token=token, stop=stop, pause=pause)


views = st.builds(RequestView, **dict.fromkeys(["issued", "computed", "outputs", "in_flight"], st.integers()))
observations = st.builds(
    Observation,
    counters=st.dictionaries(ids, st.integers(), max_size=3),
    requests=st.dictionaries(ids, views, max_size=3),
    tables=st.dictionaries(ids, columns, max_size=3),
    free=columns,
    evictable=columns,
    reserved=columns,
    null=columns,
    obligations=st.lists(st.tuples(naturals, ids, ids), max_size=3).map(tuple),
    ref_counts=st.dictionaries(naturals, st.integers(), max_size=3),
    index=columns,
)
events = st.dictionaries(ids, st.none() | st.booleans() | st.integers() | ids | st.lists(ids), max_size=3)
messages = st.one_of(
    st.builds(Message, st.just("submit"), naturals, requests, receipts),
    st.builds(Message, st.just("cancel"), naturals, ids, deltas()),
    st.builds(Message, st.just("notify"), naturals, events, deltas()),
    st.builds(Message, st.just("step"), naturals, st.none(), plans()),
    st.builds(Message, st.just("complete"), naturals, outcomes(), deltas()),
    st.builds(Message, st.just("observe"), naturals, st.none(), st.none() | observations),
)


@st.composite
def runs(draw: st.DrawFn) -> list[Message]:
    found = sorted(draw(st.lists(messages, max_size=5)), key=lambda message: message.now_ns)
    last = found[-1].now_ns if found else 0
    return [*found, *([Message("end", last)] if draw(st.booleans()) else [])]


@settings(deadline=None)  # a loaded runner is no fault
@given(runs())
def test_what_is_written_is_read(run: list[Message]) -> None:
    header, found = read_trace(io.StringIO(written(HEADER, run)))
    assert header == HEADER
    assert list(found) == run


@settings(deadline=None)  # a loaded runner is no fault
@given(runs())
def test_what_is_written_obeys_the_schema(run: list[Message]) -> None:
    for line in written(HEADER, run).splitlines():
        LINE.validate(json.loads(line))


@settings(deadline=None)  # a loaded runner is no fault
@given(messages)
def test_columns_may_be_lists_in_process(message: Message) -> None:
    """A subject answers with what it has; the canonical object is the same."""
    read: dict[str, Callable[[Any], Any]] = {
        "submit": read_receipt,
        "step": read_plan,
        "observe": read_observation,
    }
    check: Callable[[Any], Any] = read.get(message.kind, read_deltas)
    plain = json.loads(encode(message.answer))
    assert check(plain) == message.answer
    assert check(message.answer) == message.answer


def written(header: Header, run: list[Message]) -> str:
    file = io.StringIO()
    writer = TraceWriter(file, header)
    for message in run:
        writer.write(message)
    return file.getvalue()


# --- files --------------------------------------------------------------------------------------------------


def test_a_path_is_read_and_closed_even_if_nobody_reads_on(tmp_path: Path) -> None:
    """An open file would be a ResourceWarning, which is an error here."""
    path = tmp_path / "run.jsonl"
    path.write_text(written(HEADER, [Message("end", 5)]), encoding="utf-8")
    assert read_trace(path)[0] == HEADER
    assert list(read_trace(str(path))[1]) == [Message("end", 5)]


def test_bytes_and_blank_lines_are_read() -> None:
    text = written(HEADER, [Message("end", 5)]).replace("\n", "\n\n")
    assert list(read_trace(io.BytesIO(text.encode()))[1]) == [Message("end", 5)]


def test_memory_does_not_grow_with_the_trace(tmp_path: Path) -> None:
    plan = Plan(step=1, request=("a",), start=(0,), tokens=(1,), samples=(1,))
    head, line = written(HEADER, [Message("step", 0, None, plan)]).splitlines(keepends=True)

    def peak(count: int) -> int:
        path = tmp_path / f"{count}.jsonl"
        path.write_text(head + line * count, encoding="utf-8")
        tracemalloc.start()
        assert sum(1 for _ in read_trace(path)[1]) == count
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(1000)  # whatever is kept from the first use on
    assert peak(10_000) < peak(1000) + 10_000  # a byte a line: an object would take fifty


# --- wrong traces -------------------------------------------------------------------------------------------

HEAD = encode({"schema": SCHEMA, "type": "header", "settings": {}, "capabilities": {}}) + "\n"


def line(kind: str, **fields: Any) -> str:
    return encode({"schema": SCHEMA, "type": kind, "now_ns": 3, **fields}) + "\n"


END = line("end")
DELTAS_FIELD: dict[str, Any] = {"deltas": []}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "t:1: the trace is empty: its first line must be the header"),
        ("\n\n", "t:2: the trace is empty: its first line must be the header"),
        ("nothing\n", "t:1: the line is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("[1]\n", "t:1: the line is [1], but must be an object with schema and type"),
        ("[" * 100_000 + "\n", "t:1: the line is not JSON: it is nested too deeply"),
        (
            '{"a": 1}\n',
            "t:1: schema is missing, but this version reads 'schedspec/1': is this a trace of schedspec?",
        ),
        (
            '{"schema": "schedspec/2"}\n',
            "t:1: schema is 'schedspec/2', but this version reads 'schedspec/1': another version of schedspec wrote it",
        ),
        (
            END,
            "t:1: type is 'end', but the first line must be the header: settings and capabilities",
        ),
        (
            HEAD + END[:-9],
            "t:2: the last line is cut off: the run that wrote it was ended in the middle, delete this line",
        ),
        (HEAD + HEAD, "t:2: type is 'header', but a trace has one header: one file holds one run"),
        (HEAD + line("stop"), "t:2: type is 'stop', but there is no such type: did you mean 'step'?"),
        (
            HEAD + line("x"),
            "t:2: type is 'x', but there is no such type: known are "
            "header, submit, cancel, notify, step, complete, observe, end",
        ),
        (HEAD + END + END, "t:3: this line stands after the end: one file holds one run"),
        (
            HEAD + line("observe", observation=None, now_ns=5) + END,
            "t:3: now_ns is 3, but the message before had 5: time never goes back",
        ),
        (HEAD + line("end", now_ns=-1), "t:2: end: now_ns is -1, but must be an integer of at least 0"),
        (
            HEAD + line("end", now_ns=1.0),
            "t:2: end: now_ns is 1.0, but must be an integer of at least 0: write 1 instead of 1.0",
        ),
        (
            HEAD + line("step", plans={}),
            "t:2: step: plans is {}, but a line of type step has no such field: did you mean 'plan'?",
        ),
        (HEAD + line("step"), "t:2: step: plan is missing, but a line of type step has it"),
        (
            HEAD + line("step", plan=None),
            "t:2: step: plan is None, but must be a Plan or an object with its fields: "
            "has the method a return statement?",
        ),
        (
            HEAD + line("cancel", request_id=5, **DELTAS_FIELD),
            "t:2: cancel: request_id is 5, but must be a string: ids and names are strings, write '5'",
        ),
        (
            HEAD + line("notify", event=[], **DELTAS_FIELD),
            "t:2: notify: event is [], but must be an object: a dict from name to value",
        ),
        (
            HEAD.replace('"settings":{}', '"settings":{"blocks":0,"seats":0}') + END,
            "t:1: header: settings is {'blocks': 0, 'seats': 0}, but has faults: blocks is 0, but must be an "
            "integer of at least 1; seats is 0, but must be an integer of at least 1",
        ),
        (
            HEAD.replace('"settings":{},', ""),
            "t:1: header: settings is missing, but must be a Settings or an object with its fields",
        ),
        (
            HEAD.replace('"settings"', '"setings"'),
            "t:1: header: setings is {}, but a line of type header has no such field: did you mean 'settings'?",
        ),
    ],
)
def test_a_wrong_trace_is_refused_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(TraceError) as caught:
        list(read_trace(named(text))[1])
    assert str(caught.value).startswith(sentence)
    assert caught.value.line == int(sentence.split(":")[1])


def named(text: str) -> io.StringIO:
    file = io.StringIO(text)
    file.name = "t"
    return file


def test_an_unknown_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b'{"schema": "\xff"}\n')
    with pytest.raises(TraceError, match="the line is not JSON: byte 13 is no UTF-8"):
        read_trace(path)


def test_what_json_cannot_hold_is_not_written() -> None:
    with pytest.raises(TypeError, match=r"^object has no form in JSON: <object object at"):
        encode({"event": object()})
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode({"event": float("nan")})


# --- wrong answers ------------------------------------------------------------------------------------------


def plan(**fields: Any) -> dict[str, Any]:
    return {"step": 1, "request": ["a"], "start": [0], "tokens": [1], "samples": [1], **fields}


class Array:
    """As numpy's is: no list, and its entries are no ints."""

    def tolist(self) -> list[int]:
        return []

    def __repr__(self) -> str:
        return "array([1])"


class Scalar:
    def __index__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return "int64(1)"


class Name(str):
    pass


async def late() -> None:
    pass


@pytest.mark.parametrize(
    ("read", "answer", "sentence"),
    [
        (
            read_plan,
            None,
            "step: plan is None, but must be a Plan or an object with its fields: has the method a return statement?",
        ),
        (read_plan, [1], "step: plan is [1], but must be a Plan or an object with its fields"),
        (read_plan, {}, "step: step is missing, but Plan needs it: of step, request, start, tokens, samples"),
        (
            read_plan,
            plan(token=[1]),
            "step: token is [1], but Plan has no such field: did you mean 'tokens'?",
        ),
        (read_plan, plan(step=-1), "step: step is -1, but must be an integer of at least 0"),
        (
            read_plan,
            plan(step=True),
            "step: step is True, but must be an integer of at least 0: true and false are no numbers, write 1 or 0",
        ),
        (
            read_plan,
            plan(tokens=[1.0]),
            "step: tokens[0] is 1.0, but must be an integer of at least 0: write 1 instead of 1.0",
        ),
        (
            read_plan,
            plan(tokens=[1.5]),
            "step: tokens[0] is 1.5, but must be an integer of at least 0: round it in the subject",
        ),
        (
            read_plan,
            plan(tokens=["1"]),
            "step: tokens[0] is '1', but must be an integer of at least 0: write it without quotes",
        ),
        (
            read_plan,
            plan(tokens=[Scalar()]),
            "step: tokens[0] is int64(1), but must be an integer of at least 0: "
            "Scalar is no int, convert it with int() or .tolist()",
        ),
        (
            read_plan,
            plan(tokens=Array()),
            "step: tokens is array([1]), but must be a list: convert the array with .tolist()",
        ),
        (
            read_plan,
            plan(tokens=1),
            "step: tokens is 1, but must be a list: one array for each field, even of one entry",
        ),
        (
            read_plan,
            plan(request="a"),
            "step: request is 'a', but must be a list: one array for each field, even of one entry",
        ),
        (read_plan, plan(start=[-1]), "step: start[0] is -1, but must be an integer of at least 0"),
        (
            read_plan,
            plan(samples=[2]),
            "step: samples[0] is 2, but must be 0 or 1: "
            "one token after the last position, or none while a prompt is unfinished",
        ),
        (
            read_plan,
            plan(start=[0, 1]),
            "step: start is [0, 1], but has 2 entries where request has 1: columns have one entry for each request",
        ),
        (
            read_plan,
            plan(request=[5]),
            "step: request[0] is 5, but must be a string: ids and names are strings, write '5'",
        ),
        (
            read_plan,
            plan(request=[Name("a")]),
            "step: request[0] is 'a', but must be a string: Name is no plain string, convert it with str()",
        ),
        (
            read_plan,
            plan(request=["b", "a", "a"], start=[0, 4, 4], tokens=[1, 1, 1], samples=[1, 1, 1]),
            "step: request[2] is 'a', but the plan lists request 'a' twice from position 4: "
            "keep one of the two entries",
        ),
        (
            read_deltas,
            None,
            "complete: deltas is None, but must be a list: "
            "has the method a return statement? nothing to report is an empty list",
        ),
        (
            read_deltas,
            ["took"],
            "complete: deltas[0] is 'took', but must be a list of a name and its fields: like ['took', 'r1', [7]]",
        ),
        (
            read_deltas,
            [["tok", "a", [1]]],
            "complete: deltas[0] is ['tok', 'a', [1]], but no delta is called 'tok': did you mean 'took'?",
        ),
        (
            read_deltas,
            [[1]],
            "complete: deltas[0] is [1], but no delta is called 1: spec/PROTOCOL.md has them all",
        ),
        (
            read_deltas,
            [["took", "a"]],
            "complete: deltas[0] is ['took', 'a'], but has 1 entry after its name: took has request, blocks",
        ),
        (
            read_deltas,
            [["took", "a", [-7]]],
            "complete: deltas[0].blocks[0] is -7, but must be an integer of at least 0",
        ),
        (
            read_deltas,
            [["took", "a", 7]],
            "complete: deltas[0].blocks is 7, but must be a list: one array for each field, even of one entry",
        ),
        (
            read_deltas,
            [["finished", "a", "lenght"]],
            "complete: deltas[0].reason is 'lenght', but must be stop or length: did you mean 'length'?",
        ),
        (
            read_deltas,
            [["delivered", ["a"], []]],
            "complete: deltas[0].tokens is [], but has 0 entries where deltas[0].requests has 1: "
            "columns have one entry for each request",
        ),
        (
            read_receipt,
            {"verdict": "accept"},
            "submit: verdict is 'accept', but must be one of accepted, refused, duplicate, converted, deferred: "
            "did you mean 'accepted'?",
        ),
        (
            read_receipt,
            {"verdict": "refused"},
            "submit: reason is None, but a refusal says why: one of " + ", ".join(REFUSAL_REASONS),
        ),
        (
            read_receipt,
            {"verdict": "duplicate"},
            "submit: of is None, but a duplicate says of which request: its id",
        ),
        (
            read_receipt,
            {"verdict": "converted"},
            "submit: how is None, but a conversion says into what: one of pool, model, asynchronous",
        ),
        (
            read_capabilities,
            {"observes": "table"},
            "capabilities: observes is 'table', but must be one of decisions, counters, tables: did you mean 'tables'?",
        ),
        (
            read_capabilities,
            {"claims": ["fcsf"]},
            "capabilities: claims is 'fcsf', but no rule knows such a claim: did you mean 'fcfs'?",
        ),
        (
            read_capabilities,
            {"claims": "fcfs"},
            "capabilities: claims is 'fcfs', but must be a list of claims: like ['fcfs', 'hard_budget']",
        ),
        (
            read_capabilities,
            {"ordered": 1},
            "capabilities: ordered is 1, but must be true or false: convert it with bool()",
        ),
        (
            read_observation,
            {"ref_counts": {"x": 1}},
            "observe: a key of ref_counts is 'x', but must be an integer of at least 0",
        ),
        (
            read_observation,
            {"tables": []},
            "observe: tables is [], but must be an object: a dict from name to value",
        ),
        (
            read_observation,
            {"tables": {"a": [1, None]}},
            "observe: tables['a'][1] is None, but must be an integer of at least 0",
        ),
        (
            read_observation,
            {"requests": {"a": {"state": "waiting"}}},
            "observe: requests['a'].issued is missing, but RequestView needs it: "
            "of state, issued, computed, outputs, in_flight",
        ),
        (
            read_observation,
            {"obligations": [[1, "a"]]},
            "observe: obligations[0] is [1, 'a'], but must be block, owner and reason",
        ),
        (
            read_outcome,
            {"step": 1, "request": ["a"], "token": [1], "stop": [0]},
            "complete: stop[0] is 0, but must be true or false: convert it with bool()",
        ),
        (
            read_request,
            {"id": "a", "prompt_ids": [], "max_output_tokens": 1},
            "submit: prompt_ids is [], but a prompt has at least one token",
        ),
        (read_settings, {"seats": "4"}, "configure: seats is '4', but must be an integer"),
        (
            read_settings,
            {"seat": 4},
            "configure: seat is 4, but Settings has no such field: did you mean 'seats'?",
        ),
    ],
)
def test_a_wrong_answer_is_refused_in_a_sentence(read: Callable[[Any], Any], answer: Any, sentence: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        read(answer)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_an_async_method_is_named() -> None:
    answer = late()
    with pytest.raises(ProtocolError, match=r"the method is async, the adapter has to wait for it$"):
        read_plan(answer)
    answer.close()


def test_a_request_may_have_two_chunks_in_a_plan() -> None:
    two = plan(request=["a", "a"], start=[0, 4], tokens=[4, 4], samples=[0, 1])
    assert read_plan(two).request == ("a", "a")


def test_a_canonical_plan_owns_its_columns() -> None:
    mine = ["a"]
    answer = Plan(step=1, request=mine, start=[0], tokens=[1], samples=[1])
    read = read_plan(answer)
    mine[0] = "b"
    assert read.request == ("a",)


def test_long_values_are_cut() -> None:
    fault = ProtocolError("step", "request", list(range(10_000)), "is long")
    assert str(fault) == "step: request is [0, 1, 2, 3, 4, 5, ...], but is long"


def test_faults_travel_between_processes() -> None:
    for fault in (
        ProtocolError("step", "start", -1, "is negative", "hint"),
        SubjectFault("step", "hung", "hint"),
    ):
        again = pickle.loads(pickle.dumps(fault))
        assert (type(again), str(again)) == (type(fault), str(fault))


# --- the schema says what the code says ---------------------------------------------------------------------


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA_TEXT)


@pytest.mark.parametrize(
    ("name", "cls"),
    [
        ("settings", Settings),
        ("lane", Lane),
        ("door", Door),
        ("pools", Pools),
        ("capabilities", Capabilities),
        ("request", Request),
        ("receipt", Receipt),
        ("plan", Plan),
        ("outcome", Outcome),
        ("observation", Observation),
        ("request_view", RequestView),
    ],
)
def test_the_schema_has_every_field(name: str, cls: type) -> None:
    assert list(definition(name)["properties"]) == list(fields_dict(cls))


def test_the_schema_has_the_closed_lists() -> None:
    found = {tuple(items["const"] for items in option["prefixItems"][:1]): option for option in delta_options()}
    assert [name for (name,) in found] == list(DELTAS)
    assert [option["minItems"] - 1 for option in delta_options()] == [len(f) for f in DELTAS.values()]
    assert definition("capabilities")["properties"]["claims"]["items"]["enum"] == list(CLAIMS)
    assert list(definition("capabilities")["properties"]["constants"]["properties"]) == list(CONSTANTS)
    assert definition("settings")["properties"]["policy"]["enum"] == list(get_args(Policy))
    assert definition("capabilities")["properties"]["observes"]["enum"] == list(LEVELS)
    assert definition("receipt")["properties"]["reason"]["anyOf"][0]["enum"] == list(REFUSAL_REASONS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "step"},
        {"type": "step", "now_ns": 0, "plan": {}},
        {"type": "step", "now_ns": 0, "plan": plan(samples=[2])},
        {"type": "step", "now_ns": 0, "plan": plan(deltas=[["tok", "a", [1]]])},
        {"type": "step", "now_ns": 0, "plan": plan(deltas=[["took", "a"]])},
        {"type": "step", "now_ns": 0, "plan": plan(deltas=[["took", "a", [1], 2]])},
        {"type": "submit", "now_ns": 0, "request": {"id": "a"}, "receipt": {"verdict": "accepted"}},
        {"type": "observe", "now_ns": 0, "observation": {"ref_counts": {"x": 1}}},
        {"type": "cancel", "now_ns": 0, "request_id": "a", "deltas": [], "more": 1},
    ],
)
def test_the_schema_refuses_what_the_code_refuses(wrong: Mapping[str, Any]) -> None:
    whole = {"schema": SCHEMA, **wrong}
    assert not LINE.is_valid(whole)
    with pytest.raises(TraceError):
        list(read_trace(io.StringIO(HEAD + encode(whole) + "\n"))[1])


@pytest.mark.parametrize("verdict", ["refused", "duplicate", "converted", "deferred"])
def test_the_schema_wants_what_a_verdict_needs(verdict: str) -> None:
    request = {"id": "a", "prompt_ids": [1], "max_output_tokens": 1}
    whole = {"type": "submit", "now_ns": 0, "request": request, "receipt": {"verdict": verdict}}
    assert not LINE.is_valid({"schema": SCHEMA, **whole})


def definition(name: str) -> dict[str, Any]:
    found: dict[str, Any] = SCHEMA_TEXT["$defs"][name]
    return found


def delta_options() -> list[dict[str, Any]]:
    options: list[dict[str, Any]] = definition("delta")["oneOf"]
    return options


@pytest.mark.parametrize(
    "asked",
    [
        Settings(policy="priority", blocks=5),
        Settings(policy="vtc", prices={"a": 2, "b": 1}, client_seats=2),
        hybrid(blocks=10, door=Door(queue_requests=3, queue_age_ns=10**9)),
        hybrid(lanes=[Lane(name="chat", share_percent=70, order="vtc", objective_steps=3, load_tokens=9)]),
    ],
)
def test_settings_and_constants_survive(asked: Settings) -> None:
    declared = Capabilities(name="toy", claims={"drr"}, constants={"quantum": 3})
    header = evolve(HEADER, settings=asked, capabilities=declared, seed=-3)
    text = written(header, [])
    assert read_trace(io.StringIO(text))[0] == header
    assert LINE.is_valid(json.loads(text))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"settings": {"prices": {"a": 2}}}, "prices is given, but policy 'fcfs' has no queues of clients"),
        ({"settings": {"door": {"queue_request": 1}}}, "did you mean 'queue_requests'?"),
        (
            {"settings": {"door": {"queue_age_ns": -1}}},
            "queue_age_ns is -1, but must be an integer of at least 0",
        ),
        ({"settings": {"prices": [1]}}, "prices[0] is 1, but must be a list"),
        ({"settings": {"policy": "lanes", "lanes": [{"name": "chat"}]}}, "lanes[0].share_percent is missing"),
        ({"settings": {"policy": "lanes", "lanes": [{"name": 1, "share_percent": 5}]}}, "lanes[0].name is 1"),
        ({"settings": {"policy": "lanes", "lanes": [{"nam": "a", "share_percent": 5}]}}, "did you mean 'name'?"),
        ({"capabilities": {"claims": ["drr"]}}, "the claim 'drr' says nothing without quantum"),
        ({"capabilities": {"constants": {"quantun": 1}}}, "did you mean 'quantum'?"),
        ({"capabilities": {"constants": {"quantum": -1}}}, "must be an integer of at least 0"),
    ],
)
def test_a_header_that_makes_no_sense(wrong: dict[str, Any], sentence: str) -> None:
    head = {"schema": SCHEMA, "type": "header", "settings": {}, "capabilities": {}} | wrong
    with pytest.raises(TraceError) as error:
        read_trace(io.StringIO(encode(head) + "\n"))
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
