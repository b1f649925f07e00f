"""Workloads: small samples of each format, faults in a sentence, and the real files where they are."""

from collections.abc import Callable
from fractions import Fraction
from itertools import islice
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedspec.spec.vocabulary import NS_PER_S
from schedspec.spec.workloads import (
    Arrival,
    Workload,
    WorkloadError,
    locate,
    parse_workload,
    to_requests,
)

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
    small = Workload(kind="azure", path=Path(), size=size)._scaled(arrival)
    (item,) = to_requests([small], 0, vocabulary_tokens=vocabulary_tokens)
    assert item.request.prompt_tokens == small.prompt_tokens >= 1
    assert small.output_tokens >= 1
    assert all(0 <= token < vocabulary_tokens for token in item.request.prompt_ids)


# --- faults ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "text", "sentence"),
    [
        (
            "azure",
            "A,B\n1,2\n",
            "has no column TIMESTAMP: an Azure trace has TIMESTAMP, ContextTokens, GeneratedTokens",
        ),
        (
            "azure",
            "",
            "has no column TIMESTAMP: an Azure trace has TIMESTAMP, ContextTokens, GeneratedTokens",
        ),
        ("azure", AZURE.replace("396", "many"), ":3: ContextTokens is 'many', but must be an integer"),
        ("azure", AZURE.replace("396", "1.5"), ":3: ContextTokens is '1.5', but must be an integer"),
        (
            "azure",
            AZURE.replace("2023-11-16 18:15:50.9951690", "now"),
            ":3: TIMESTAMP is 'now', but must be a",
        ),
        (
            "azure",
            AZURE.replace("11-16 18:15:50", "13-16 18:15:50"),
            ":3: TIMESTAMP is '2023-13-16 18:15:50.9",
        ),
        ("azure", AZURE.replace("18:16:00", "18:15:00"), "is not in order of time: sort its rows"),
        ("mooncake", MOONCAKE + "{}\n", ":4: '{}' is no line of a Mooncake trace, an object with timestamp"),
        ("mooncake", "x\n", ":1: 'x' is no line of a Mooncake trace"),
        ("mooncake", MOONCAKE.replace("600", "null"), ":1: input_length is None, but must be an integer"),
        (
            "sharegpt",
            VTC,
            "has no column num_prefill_tokens: a file of lengths has num_prefill_tokens, num_dec",
        ),
        ("vtc", VTC.replace("0.207938", ""), ":3: req_time_s is '', but must be seconds"),
    ],
)
def test_a_wrong_file_is_refused_in_a_sentence(write: Write, kind: str, text: str, sentence: str) -> None:
    path = write("file", text)
    with pytest.raises(WorkloadError) as caught:
        read(parse_workload(f"{kind}:file"))
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("azur", "there is no workload 'azur': did you mean 'azure'?"),
        ("burst", "there is no workload 'burst': known are azure, mooncake, sharegpt, arxiv, vtc"),
        (
            "azure:azure2023/nope.csv",
            "there is no azure2023/nope.csv in {data} ($SCHEDSPEC_DATA): "
            "get it from https://github.com/Azure/AzurePublicDataset and put it there",
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
    ],
)
def test_wrong_options_are_refused_in_a_sentence(write: Write, options: dict[str, str | int], sentence: str) -> None:
    write("a.csv", AZURE)
    with pytest.raises(WorkloadError) as caught:
        parse_workload("azure:a.csv", **options)  # type: ignore[arg-type]
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
