"""Workloads: small samples of each format, faults in a sentence, and the real files where they are."""

from collections.abc import Callable
from fractions import Fraction
from itertools import islice, pairwise
from pathlib import Path
from statistics import mean, median, pstdev
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedspec.cli import cli
from schedspec.spec.vocabulary import NS_PER_S
from schedspec.spec.workloads import (
    Arrival,
    Draws,
    Patience,
    Workload,
    WorkloadError,
    azure,
    locate,
    parse_workload,
    to_requests,
)
from schedspec.spec.workloads.workload import scaled

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:16:00.0000001,1,1
"""
MOONCAKE = """\
{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}
{"timestamp": 3000, "input_length": 1024, "output_length": 2, "hash_ids": [0, 2]}
{"timestamp": 3000, "input_length": 100, "output_length": 1, "hash_ids": [3]}
"""
LENGTHS = """num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio
74,918,992,0.08
290,905,1195,0.32
"""
VTC = """req_time_s,client,prompt_len,output_len,ttft_s,latency_s
0.000000,13,13,199,1.18,9.41
0.207938,2,36,137,1.54,6.77
"""

VTC_JSON = """{"config": {}, "result": {"responses": [\
{"req_time": 0.0, "adapter_dir": "dummy-lora-7b-rank-8-13", "prompt_len": 13, "output_len": 199},\
{"req_time": 0.20793754160099873, "adapter_dir": "dummy-lora-7b-rank-8-2", "prompt_len": 36, "output_len": 137}]}}
"""
CSV = """arrival_s,prompt_tokens,output_tokens,max_output_tokens,client,lane,priority,cancel_after_s,patience_s,retries
0,3,5,8,ann,chat,-1,,2.5,3
0.5,300,1,,,,,0.25,,
"""

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a file into the data folder."""
    monkeypatch.setenv("SCHEDSPEC_DATA", str(tmp_path))

    def put(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return put


def read(workload: Workload) -> list[Arrival]:
    return list(workload.arrivals())


def test_azure_keeps_all_seven_digits(write: Write) -> None:
    write("azure2023/trace_conv.csv", AZURE)
    assert read(parse_workload("azure:trace_conv.csv")) == [
        Arrival(now_ns=0, prompt_tokens=374, output_tokens=44, client="conv"),
        Arrival(now_ns=4_314_579_000, prompt_tokens=396, output_tokens=109, client="conv"),
        Arrival(now_ns=13_319_410_100, prompt_tokens=1, output_tokens=1, client="conv"),
    ]


def test_azure_of_later_years_has_a_zone(write: Write) -> None:
    text = AZURE.replace(".6805900,", ".680590+00:00,").replace(".9951690,", "+00:00,")
    write("azure2024.csv", text)
    assert [arrival.now_ns for arrival in read(parse_workload("azure:azure2024.csv"))][1] == 3_319_410_000


def test_mooncake_has_shared_blocks(write: Write) -> None:
    write("m.jsonl", MOONCAKE)
    assert read(parse_workload("mooncake:m.jsonl"))[:2] == [
        Arrival(now_ns=0, prompt_tokens=600, output_tokens=5, client="app-0-1", hash_ids=(0, 1)),
        Arrival(now_ns=3 * NS_PER_S, prompt_tokens=1024, output_tokens=2, client="app-0-2", hash_ids=(0, 2)),
    ]


def test_lengths_get_poisson_arrivals_of_the_seed(write: Write) -> None:
    write("l.csv", LENGTHS)
    found = read(parse_workload("sharegpt:l.csv", seed=1))
    assert [(arrival.prompt_tokens, arrival.output_tokens) for arrival in found] == [(74, 918), (290, 905)]
    assert found == read(parse_workload("arxiv:l.csv", seed=1))
    assert found[0].now_ns != read(parse_workload("arxiv:l.csv", seed=2))[0].now_ns


def test_vtc_has_clients(write: Write) -> None:
    write("v.csv", VTC)
    second = Arrival(now_ns=207_938_000, prompt_tokens=36, output_tokens=137, client="2")
    assert read(parse_workload("vtc:v.csv"))[1] == second


def test_vtc_reads_the_artefacts_own_results(write: Write) -> None:
    write("all_results_real.jsonl", VTC_JSON)
    second = Arrival(now_ns=207_937_541, prompt_tokens=36, output_tokens=137, client="2")
    assert read(parse_workload("vtc:all_results_real.jsonl"))[1] == second
    write("two.jsonl", VTC_JSON * 2)
    with pytest.raises(WorkloadError, match=r":2: is a second run: keep one line, a run, per file"):
        read(parse_workload("vtc:two.jsonl"))
    write("bad.jsonl", VTC_JSON.replace('"prompt_len": 36', '"prompt_len": false'))
    with pytest.raises(WorkloadError, match=r":1: responses\[1\]: prompt_len is False, but must be an integer"):
        read(parse_workload("vtc:bad.jsonl"))


def test_anybodys_columns(write: Write) -> None:
    write("mine.csv", CSV)
    patience = Patience(first_token_ns=2_500_000_000, retries=3)
    assert read(parse_workload("csv:mine.csv")) == [
        Arrival(
            now_ns=0,
            prompt_tokens=3,
            output_tokens=5,
            max_output_tokens=8,
            client="ann",
            lane="chat",
            priority=-1,
            patience=patience,
        ),
        Arrival(now_ns=500_000_000, prompt_tokens=300, output_tokens=1, cancel_after_ns=250_000_000),
    ]
    (one, _) = to_requests(parse_workload("csv:mine.csv").arrivals(), 0)
    assert (one.request.lane, one.request.priority, one.request.max_output_tokens) == ("chat", -1, 8)
    assert one.patience == patience


def test_anybodys_lines_may_share_prefixes(write: Write) -> None:
    write("mine.jsonl", '{"prompt_tokens": 8, "output_tokens": 1, "hash_ids": [1, 2], "hash_tokens": 4}\n' * 2)
    one, two = to_requests(parse_workload("jsonl:mine.jsonl").arrivals(), 0)
    assert one.request.prompt_ids == two.request.prompt_ids
    assert 0 < one.now_ns < two.now_ns


@pytest.mark.parametrize("kind", ["sharegpt", "csv"])
def test_drawn_times_have_the_burstiness_that_is_asked_for(write: Write, kind: str) -> None:
    columns = "num_prefill_tokens,num_decode_tokens" if kind == "sharegpt" else "prompt_tokens,output_tokens"
    write("l.csv", columns + "\n" + "5,6\n" * 4_000)
    for cv in (0, 0.5, 1, 3):
        times = [arrival.now_ns for arrival in read(parse_workload(f"{kind}:l.csv", cv=cv))]
        gaps = [after - before for before, after in pairwise(times)]
        assert mean(gaps) == pytest.approx(NS_PER_S, rel=0.15)
        assert pstdev(gaps) / mean(gaps) == pytest.approx(cv, rel=0.1)
    write("timed.csv", CSV)
    with pytest.raises(WorkloadError, match=r":2: has a time \(arrival_s\), so none is drawn: leave cv out"):
        read(parse_workload("csv:timed.csv", cv=1))


# --- options -----------------------------------------------------------------------------------------------


def test_the_beginning_is_cut_in_recorded_time(write: Write) -> None:
    write("a.csv", AZURE)
    assert len(read(parse_workload("azure:a.csv", first_s=13))) == 2
    assert len(read(parse_workload("azure:a.csv", first_s="13.32", rate=1000))) == 3


def test_rate_and_size_are_exact(write: Write) -> None:
    write("a.csv", AZURE)
    found = read(parse_workload("azure:a.csv", rate="1/3", size="0.1"))
    assert [arrival.now_ns for arrival in found] == [0, 3 * 4_314_579_000, 3 * 13_319_410_100]
    assert [arrival.prompt_tokens for arrival in found] == [37, 39, 1]
    assert [arrival.output_tokens for arrival in found] == [4, 10, 1]


def test_smaller_requests_share_as_the_large_ones_did(write: Write) -> None:
    write("m.jsonl", MOONCAKE)
    small = [item.request for item in to_requests(parse_workload("mooncake:m.jsonl", size="0.1").arrivals(), 0)]
    assert [len(request.prompt_ids) for request in small] == [51 + 8, 2 * 51, 10]
    assert small[0].prompt_ids[:51] == small[1].prompt_ids[:51]
    assert small[0].prompt_ids[51:] != small[1].prompt_ids[51:59]


# --- requests ----------------------------------------------------------------------------------------------


def test_equal_hashes_are_equal_ids() -> None:
    first = Arrival(now_ns=0, prompt_tokens=1200, output_tokens=9, hash_ids=(0, 1, 2))
    second = Arrival(now_ns=5, prompt_tokens=1536, output_tokens=9, hash_ids=(0, 1, 3))
    one, two = to_requests([first, second], 0)
    assert one.request.prompt_ids[:1024] == two.request.prompt_ids[:1024]
    assert one.request.prompt_ids[1024:] != two.request.prompt_ids[1024:1200]
    assert two.now_ns == 5


def test_prompts_without_hashes_share_nothing() -> None:
    one, two = to_requests([Arrival(now_ns=0, prompt_tokens=20, output_tokens=1)] * 2, 0)
    assert one.request.prompt_ids[:4] != two.request.prompt_ids[:4]


def test_the_subject_does_not_see_the_true_length() -> None:
    arrivals = [Arrival(now_ns=0, prompt_tokens=1, output_tokens=n) for n in (1, 5, 64, 65)]
    assert [item.request.max_output_tokens for item in to_requests(arrivals, 0)] == [1, 8, 64, 128]
    assert [item.output_tokens for item in to_requests(arrivals, 0)] == [1, 5, 64, 65]
    limited = to_requests(arrivals, 0, max_output_tokens=64)
    assert [item.request.max_output_tokens for item in limited] == [64, 64, 64, 65]


def test_ids_stay_what_they_are() -> None:
    """Results that were published with a seed have to be reproducible: other ids are another workload."""
    arrival = Arrival(now_ns=0, prompt_tokens=6, output_tokens=1, hash_ids=(7,), hash_tokens=3)
    (item,) = to_requests([arrival], 3)
    assert item.request.id == "r0"
    assert item.request.prompt_ids == (4851, 15871, 4517, 17057, 16452, 1283)


@settings(deadline=None)  # a loaded runner is no fault
@given(
    st.integers(1, 3000),
    st.lists(st.integers(0, 5), max_size=6),
    st.fractions(Fraction(1, 600), 3),
    st.integers(1, 50_000),
)
def test_prompts_have_their_length(
    prompt_tokens: int, hash_ids: list[int], size: Fraction, vocabulary_tokens: int
) -> None:
    arrival = Arrival(now_ns=0, prompt_tokens=prompt_tokens, output_tokens=1, hash_ids=tuple(hash_ids))
    small = scaled(arrival, Fraction(1), size)
    (item,) = to_requests([small], 0, vocabulary_tokens=vocabulary_tokens)
    assert item.request.prompt_tokens == small.prompt_tokens >= 1
    assert small.output_tokens >= 1
    assert all(0 <= token < vocabulary_tokens for token in item.request.prompt_ids)


# --- faults ------------------------------------------------------------------------------------------------

WRONG = {
    # Azure
    "another table": (
        "azure",
        "A,B\n1,2\n",
        ":1: has no column TIMESTAMP: an Azure trace has TIMESTAMP, ContextTokens,",
    ),
    "nothing": (
        "azure",
        "",
        " is empty: an Azure trace has a line of columns, TIMESTAMP, ContextTokens, GeneratedTokens, a",
    ),
    "no rows": ("azure", AZURE[:40], " has no requests: it ends after its line of columns"),
    "a word": ("azure", AZURE.replace("396", "many"), ":3: ContextTokens is 'many', but must be an integer"),
    "a part": ("azure", AZURE.replace("396", "1.5"), ":3: ContextTokens is '1.5', but must be an integer"),
    "nan": ("azure", AZURE.replace("396", "nan"), ":3: ContextTokens is 'nan', but must be an integer"),
    "inf": ("azure", AZURE.replace("396", "inf"), ":3: ContextTokens is 'inf', but must be an integer"),
    "negative": (
        "azure",
        AZURE.replace("396", "-4"),
        ":3: ContextTokens is -4, but must be at least 1: leave such requests",
    ),
    "zero": (
        "azure",
        AZURE.replace("109", "0"),
        ":3: GeneratedTokens is 0, but must be at least 1: leave such requests out",
    ),
    "absurd": (
        "azure",
        AZURE.replace("396", "396" + "0" * 9),
        ":3: ContextTokens is 396000000000, but must be at most 10,000",
    ),
    "more than a float": ("azure", AZURE.replace("396", "9" * 400), ":3: ContextTokens is '999"),
    "no time": (
        "azure",
        AZURE.replace("2023-11-16 18:15:50.9951690", ""),
        ":3: TIMESTAMP is '', but must be a time in UTC",
    ),
    "another time": (
        "azure",
        AZURE.replace("2023-11-16 18:15:50.9951690", "now"),
        ":3: TIMESTAMP is 'now', but must be a",
    ),
    "a 13th month": (
        "azure",
        AZURE.replace("11-16 18:15:50", "13-16 18:15:50"),
        ":3: TIMESTAMP is '2023-13-16 18:15:50.9",
    ),
    "another century": ("azure", AZURE.replace("2023-11-16 18:16", "2123-11-16 18:16"), ":4: TIMESTAMP is '2123"),
    "not sorted": (
        "azure",
        AZURE.replace("18:16:00", "18:15:00"),
        ":4: is not in order of time, it comes before the one abo",
    ),
    "cut off": ("azure", AZURE + "2023-11-16 18:1", ":5: has no ContextTokens: the line is cut off"),
    "a comma too many": (
        "azure",
        AZURE.replace(",109", ",1,109"),
        ":3: has more fields than there are columns: is there a",
    ),
    "a column twice": (
        "azure",
        AZURE.replace("TIMESTAMP", "TIMESTAMP,TIMESTAMP"),
        ":1: has the column TIMESTAMP twice",
    ),
    "an endless field": (
        "azure",
        AZURE + '"' + "x" * 200_000,
        ": is no line of a CSV file (field larger than field limit",
    ),
    # Mooncake
    "no names": (
        "mooncake",
        MOONCAKE + "{}\n",
        ":4: has no timestamp: each line of a Mooncake trace is an object with timestamp, input_le",
    ),
    "no object": ("mooncake", "3\n", ":1: '3' is no line of a Mooncake trace"),
    "no JSON": ("mooncake", "x\n", ":1: 'x' is no line of a Mooncake trace"),
    "deep JSON": ("mooncake", "[" * 100_000, ":1: '[[["),
    "a number of 5,000 digits": (
        "mooncake",
        MOONCAKE.replace("600", "6" * 5_000),
        ":1: has an integer of more than 4,300 digits",
    ),
    "null": ("mooncake", MOONCAKE.replace("600", "null"), ":1: input_length is None, but must be an integer"),
    "a boolean": ("mooncake", MOONCAKE.replace("600", "true"), ":1: input_length is True, but must be an integer"),
    "a text": ("mooncake", MOONCAKE.replace("600", '"600"'), ":1: input_length is '600', but must be an integer"),
    "NaN": ("mooncake", MOONCAKE.replace("600", "NaN"), ":1: has NaN, which is no number of JSON"),
    "Infinity": ("mooncake", MOONCAKE.replace("600", "Infinity"), ":1: has Infinity, which is no number of JSON"),
    "before 0": ("mooncake", MOONCAKE.replace(": 0, ", ": -1, ", 1), ":1: timestamp is -1, but must be at least 0"),
    "no hashes": ("mooncake", MOONCAKE.replace("[0, 1]", "7"), ":1: hash_ids is 7, but must be a list of integers"),
    "a boolean hash": (
        "mooncake",
        MOONCAKE.replace("[0, 1]", "[true]"),
        ":1: hash_ids is True, but must be an integer",
    ),
    "no lines": (
        "mooncake",
        "\n\n",
        " is empty: a Mooncake trace has an object per line, with timestamp, input_length, output",
    ),
    # lengths, VTC
    "VTC's table": (
        "sharegpt",
        VTC,
        ":1: has no column num_prefill_tokens: a file of lengths has num_prefill_tokens, num_dec",
    ),
    "no seconds": ("vtc", VTC.replace("0.207938", ""), ":3: req_time_s is '', but must be seconds, such as 12.5"),
    "one nth": ("vtc", VTC.replace("0.207938", "1/0"), ":3: req_time_s is '1/0', but must be seconds, such as 12.5"),
    "nan seconds": ("vtc", VTC.replace("0.207938", "nan"), ":3: req_time_s is 'nan', but must be seconds"),
    "seconds before 0": (
        "vtc",
        VTC.replace("0.207938", "-3"),
        ":3: req_time_s is '-3', but must be seconds from 0 to 316",
    ),
    "a date": (
        "vtc",
        VTC.replace("0.207938", "1700000000"),
        ":3: req_time_s is '1700000000', but must be seconds from 0 to",
    ),
    "a large exponent": (
        "vtc",
        VTC.replace("0.207938", "1e999999999"),
        ":3: req_time_s is '1e999999999', but must be second",
    ),
    # anybody's
    "a slip": ("csv", CSV.replace("client", "clinet"), ":1: there is no column 'clinet': did you mean 'client'?"),
    "some times": (
        "csv",
        CSV.replace("0.5,", ","),
        ":3: has no arrival_s, but those above have: give all of them a time",
    ),
    "no times where all should have one": (
        "csv",
        "prompt_tokens,output_tokens,arrival_s\n5,7\n5,7\n",
        ":2: has no arrival_s: the line is cut off, or write a comma before each empty field",
    ),
    "blocks of nothing": (
        "csv",
        "prompt_tokens,output_tokens,hash_tokens\n5,7,0\n",
        ":2: hash_tokens is 0, but must be at least 1: it says how many tokens each of hash_ids stands for",
    ),
    "declares too little": (
        "csv",
        CSV.replace(",8,", ",2,"),
        ":2: max_output_tokens is 2, less than the 5 of output_tokens",
    ),
    "retries alone": (
        "csv",
        "prompt_tokens,output_tokens,retries\n1,1,3\n",
        ":2: has retries, but no patience_s: say how",
    ),
    "semicolons": (
        "csv",
        CSV.replace(",", ";"),
        ":1: its columns are separated by semicolons: separate them by commas",
    ),
    "tabs": ("azure", AZURE.replace(",", "\t"), ":1: its columns are separated by tabs: separate them by commas"),
    "numbers at once": ("csv", "5,5\n7,7\n", ":1: is a line of numbers: put a line with the names of its columns"),
    "an open quote": (
        "csv",
        'prompt_tokens,output_tokens\n5,"5\n7,7\n',
        ":3: output_tokens is '5\\n7,7\\n', but must be an integer: is a quote not closed, there or above?",
    ),
    "a name twice": (
        "jsonl",
        '{"prompt_tokens": 1, "prompt_tokens": 2, "output_tokens": 1}',
        ":1: has 'prompt_tokens' twice in an object",
    ),
    "a client of 3": (
        "jsonl",
        '{"prompt_tokens": 1, "output_tokens": 1, "client": 3}',
        ":1: client is 3, but must be a text",
    ),
    "half of a letter": (
        "jsonl",
        '{"prompt_tokens": 1, "output_tokens": 1, "client": "\\ud800"}',
        ":1: client has half of a letter",
    ),
    "an unknown name": (
        "jsonl",
        '{"prompt_tokens": 1, "output_tokens": 1, "x": 3}',
        ":1: there is no column 'x': known are",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_file_is_refused_in_a_sentence(write: Write, what: str) -> None:
    kind, text, sentence = WRONG[what]
    path = write("file", text)
    with pytest.raises(WorkloadError) as caught:
        read(parse_workload(f"{kind}:file"))
    assert str(caught.value).startswith(f"{path}")
    assert sentence in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("kind", "text"), [("azure", AZURE), ("mooncake", MOONCAKE)])
def test_what_is_no_utf_8_is_told_with_its_line(write: Write, kind: str, text: str) -> None:
    path = write("file", "")
    lines = text.encode().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"\xff" + b"".join(lines[1:]))
    with pytest.raises(WorkloadError, match=r":2: is not UTF-8 \(invalid start byte\): save the file as UTF-8"):
        read(parse_workload(f"{kind}:file"))
    path.write_bytes(text.encode("utf-16"))
    with pytest.raises(WorkloadError, match=r":1: is not UTF-8"):
        read(parse_workload(f"{kind}:file"))


@pytest.mark.parametrize("command", [["check", "reference", "--workload"], ["replay"]])
def test_a_folder_is_not_taken_for_a_file_that_is_not_there(command: list[str], tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, [*command, f"csv:{tmp_path}"])
    assert done.exit_code == 2
    assert " ".join(done.output.split()) == f"error: {tmp_path} is a folder: name the file in it that is meant"


@pytest.mark.parametrize("command", [["check", "reference", "--workload"], ["replay"]])
def test_the_commands_tell_it_before_anything_runs(write: Write, tmp_path: Path, command: list[str]) -> None:
    path = write("a.csv", AZURE.replace("396", "-4"))
    done = CliRunner().invoke(cli, [*command, f"azure:{path}", "--report", str(tmp_path / "report")])
    assert done.exit_code == 2
    assert " ".join(done.output.split()) == (
        f"error: {path}:3: ContextTokens is -4, but must be at least 1: leave such requests out"
    )
    assert not (tmp_path / "report").exists()


SAMPLES = {
    "azure": AZURE,
    "mooncake": MOONCAKE,
    "sharegpt": LENGTHS,
    "vtc": VTC,
    "vtc.jsonl": VTC_JSON,
    "csv": CSV,
    "jsonl": '{"prompt_tokens": 8, "output_tokens": 1, "arrival_s": 0.5, "hash_ids": [1, 2], "patience_s": 3}\n' * 2,
}
BITS = st.sampled_from(
    [b"", b"-", b"0", b"9" * 20, b"\n", b",", b'"', b"\xff", b"\x00", b"nan", b"true", b"null", b"[", b"}"]
)


@pytest.mark.parametrize("sample", SAMPLES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_with_anything_in_it_is_read_or_refused(write: Write, sample: str, data: st.DataObject) -> None:
    """Bytes in place of others: arrivals, all of them possible, or one WorkloadError that names the file."""
    good = SAMPLES[sample].encode()
    begin = data.draw(st.integers(0, len(good)))
    end = min(len(good), begin + data.draw(st.integers(0, 8)))
    path = write(f"file.{sample}", "")
    path.write_bytes(good[:begin] + data.draw(BITS | st.binary(max_size=4)) + good[end:])
    found, sentence = read_or_refused(f"{sample.partition('.')[0]}:{path}")
    assert all(arrival.prompt_tokens >= 1 and arrival.output_tokens >= 1 for arrival in found)
    assert [arrival.now_ns for arrival in found] == sorted(arrival.now_ns for arrival in found)
    assert bool(found) != bool(sentence)
    assert not sentence or str(path) in sentence
    assert "\n" not in sentence


def read_or_refused(text: str) -> tuple[list[Arrival], str]:
    try:
        return read(parse_workload(text)), ""
    except WorkloadError as error:
        return [], str(error)


def test_what_cannot_be_opened_is_told(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="cannot be read: Is a directory"):
        list(azure.read(tmp_path, Draws(0)))


def test_a_request_that_is_larger_than_the_pool_is_told_with_its_line(write: Write) -> None:
    path = write("a.csv", AZURE)
    assert len(list(parse_workload("azure:a.csv").arrivals(pool_tokens=504))) == 3
    with pytest.raises(WorkloadError) as caught:
        list(parse_workload("azure:a.csv").arrivals(pool_tokens=503))
    assert str(caught.value) == (
        f"{path}:3: needs KV of 504 tokens (396 of its prompt), but the pool has 503: give it more blocks, or the "
        f"workload a smaller size"
    )
    with pytest.raises(WorkloadError, match=r"hostile:prompt-mix, request \d+: needs"):
        list(parse_workload("hostile:prompt-mix").arrivals(pool_tokens=1_000))


def test_what_scaling_makes_absurd_is_told(write: Write) -> None:
    write("a.csv", AZURE)
    with pytest.raises(WorkloadError, match=r":2: is larger than 10,000,000 tokens once it is scaled: give a smaller"):
        read(parse_workload("azure:a.csv", size=100_000))
    with pytest.raises(WorkloadError, match=r":3: comes after more than a hundred years once it is scaled: give a gr"):
        read(parse_workload("azure:a.csv", rate="1/10000000000"))


def test_a_beginning_without_requests_is_told(write: Write) -> None:
    path = write("m.jsonl", MOONCAKE.splitlines()[1])
    with pytest.raises(WorkloadError) as caught:
        read(parse_workload("mooncake:m.jsonl", first_s=2))
    assert str(caught.value) == f"mooncake:m.jsonl has no requests in its first 2 s: {path}:1 is the first"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("azur", "there is no workload 'azur': did you mean 'azure'?"),
        (
            "burst",
            "there is no workload 'burst': known are azure, mooncake, sharegpt, arxiv, vtc, csv, jsonl, "
            "fitted, hostile",
        ),
        (
            "azure:azure2023/nope.csv",
            "there is no azure2023/nope.csv in {data} ($SCHEDSPEC_DATA): "
            "get it from https://github.com/Azure/AzurePublicDataset and put it there",
        ),
        (
            "azure:azure2023/AzureLLMInferenceTrace_code.csv",
            "there is no azure2023/AzureLLMInferenceTrace_code.csv in {data} ($SCHEDSPEC_DATA): get it from https://github.com"
            "/Azure/AzurePublicDataset/blob/790921015d50dd6aae7f7e47f39ba0e235ad6b08/data/AzureLLMInferenceTrace_code.csv"
            " and put it there",
        ),
        ("csv", "csv needs a file: write csv:FILE"),
        ("fitted:azure", "there is no workload fitted:azure: did you mean 'azure-conv'?"),
        (
            "fitted",
            "fitted needs a name, such as fitted:azure-conv: known are azure-conv, azure-code, mooncake-conversation, "
            "mooncake-toolagent, sharegpt, arxiv-4k, arxiv-16k, vtc-real",
        ),
        (
            "hostile:flood",
            "there is no workload hostile:flood: known are prompt-mix, output-mix, cancels, bursts, "
            "noisy-tenant, retry-storm, sweep, everything",
        ),
        (
            "azure:nope.csv",
            "there is no nope.csv in {data} ($SCHEDSPEC_DATA): give the path of the file, or put it there",
        ),
    ],
)
def test_a_wrong_name_is_refused_in_a_sentence(
    text: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDSPEC_DATA", str(tmp_path))
    with pytest.raises(WorkloadError) as caught:
        parse_workload(text)
    assert str(caught.value) == sentence.format(data=tmp_path)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rate": "fast"}, "rate is 'fast', but must be a number such as 2, 0.5 or 1/3"),
        ({"rate": "1/0"}, "rate is '1/0', but must be a number such as 2, 0.5 or 1/3"),
        ({"size": 0}, "size is 0, but must be greater than 0"),
        ({"first_s": -1}, "first_s is -1, but must be greater than 0"),
        ({"size": "nan"}, "size is 'nan', but must be a number such as 2, 0.5 or 1/3"),
        ({"rate": float("inf")}, "rate is inf, but must be a number such as 2, 0.5 or 1/3"),
        ({"cv": 2}, "azure has times of its own, so none are drawn: leave cv out"),
        ({"cv": -1}, "cv is -1, but must be from 0 (evenly spaced) over 1 (Poisson) to 100 (bursts)"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(write: Write, options: dict[str, Any], sentence: str) -> None:
    write("a.csv", AZURE)
    with pytest.raises(WorkloadError) as caught:
        parse_workload("azure:a.csv", **options)
    assert str(caught.value) == sentence


def test_the_data_folder_stands_beside_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCHEDSPEC_DATA", raising=False)
    data = tmp_path / "shared/data/azure2023"
    checkout = tmp_path / "checkout"
    data.mkdir(parents=True)
    checkout.mkdir()
    (data / "a.csv").write_text(AZURE, encoding="utf-8")
    monkeypatch.chdir(checkout)
    assert locate("azure2023/a.csv") == locate("a.csv") == data / "a.csv"


def test_files_that_nobody_reads_to_the_end_are_closed(write: Write) -> None:
    """An open file would be a ResourceWarning, which is an error here."""
    write("a.csv", AZURE)
    write("m.jsonl", MOONCAKE)
    for text in ("azure:a.csv", "mooncake:m.jsonl"):
        assert len(list(islice(parse_workload(text).arrivals(), 1))) == 1


# --- the real files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "rows", "seconds", "prompt_median", "prompt_max", "output_max"),
    [
        ("azure", 19_366, 3501, 1020, 14_050, 1000),
        ("mooncake", 12_031, 3536, 6909, 126_195, 2000),
        ("sharegpt", 30_731, None, 1730, 8141, 1024),
        ("arxiv", 28_257, None, 2730, 4054, 4056),
        ("vtc", 1500, 600, 40, 1021, 977),
    ],
)
def test_the_real_files(
    kind: str, rows: int, seconds: int | None, prompt_median: int, prompt_max: int, output_max: int
) -> None:
    try:
        workload = parse_workload(kind)
    except WorkloadError as error:
        pytest.skip(str(error))
    found = read(workload)
    assert len(found) == rows
    assert seconds is None or found[-1].now_ns // NS_PER_S == seconds
    assert median(arrival.prompt_tokens for arrival in found) == prompt_median
    assert max(arrival.prompt_tokens for arrival in found) == prompt_max
    assert max(arrival.output_tokens for arrival in found) == output_max


def test_the_real_mooncake_shares_a_third_of_its_blocks() -> None:
    try:
        workload = parse_workload("mooncake")
    except WorkloadError as error:
        pytest.skip(str(error))
    seen: set[int] = set()
    hits = blocks = 0
    for arrival in workload.arrivals():
        hits += len(seen.intersection(arrival.hash_ids))
        blocks += len(arrival.hash_ids)
        seen.update(arrival.hash_ids)
    assert 0.36 < hits / blocks < 0.37
