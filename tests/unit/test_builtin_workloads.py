"""Workloads without a file: the same for a seed, as long as what they were fitted to, and as hostile as they say."""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from itertools import islice, pairwise
from math import ceil, log
from random import Random
from statistics import correlation, mean, median, pstdev

import pytest

from schedspec.spec.vocabulary import NS_PER_S
from schedspec.spec.workloads import Arrival, MissingWorkload, parse_workload
from schedspec.spec.workloads.distributions import LogNormal, Quantiles
from schedspec.spec.workloads.fits import FITS
from schedspec.spec.workloads.hostile import IMPATIENT, SOURCES

BUILT_IN = [*(f"fitted:{name}" for name in FITS), *(f"hostile:{name}" for name in SOURCES)]
FROM_FILES = {
    "azure-conv": "azure",
    "mooncake-conversation": "mooncake",
    "sharegpt": "sharegpt",
    "arxiv-4k": "arxiv",
    "vtc-real": "vtc",
}


@cache
def read(name: str, seed: int = 0, **options: object) -> list[Arrival]:
    """Read only."""
    return list(parse_workload(name, seed=seed, **options).arrivals())  # type: ignore[arg-type]


def permille(values: Sequence[int], level: int) -> int:
    """Nearest rank."""
    return sorted(values)[max(0, ceil(len(values) * level / 1_000) - 1)]


def percentile(values: Sequence[int], percent: int) -> int:
    return permille(values, 10 * percent)


def prompts(arrivals: Sequence[Arrival]) -> list[int]:
    return [arrival.prompt_tokens for arrival in arrivals]


def outputs(arrivals: Sequence[Arrival]) -> list[int]:
    return [arrival.output_tokens for arrival in arrivals]


def gaps(arrivals: Sequence[Arrival]) -> list[int]:
    return [after.now_ns - before.now_ns for before, after in pairwise(arrivals)]


def share_that_was_there(arrivals: Sequence[Arrival]) -> float:
    """Blocks that an endless prefix cache would have."""
    seen: set[int] = set()
    hits = blocks = 0
    for arrival in arrivals:
        hits += len(seen.intersection(arrival.hash_ids))
        blocks += len(arrival.hash_ids)
        seen.update(arrival.hash_ids)
    return hits / blocks


# --- all of them -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_seed_gives_the_same_workload_and_another_one_another(name: str) -> None:
    def beginning(seed: int) -> list[Arrival]:
        return list(islice(parse_workload(name, seed=seed).arrivals(), 200))

    assert beginning(3) == beginning(3)
    assert beginning(3) != beginning(4)


def test_workloads_stay_what_they_are() -> None:
    """Results that were published with a seed have to be reproducible: other bytes are another workload."""
    found = {name: sha256(repr(read(name, seed=7, first_s=60)).encode()).hexdigest()[:12] for name in BUILT_IN}
    assert found == PINNED


@pytest.mark.parametrize("name", BUILT_IN)
def test_they_are_in_order_of_time_and_scale(name: str) -> None:
    found = read(name, first_s=400)
    assert all(gap >= 0 for gap in gaps(found))
    twice = read(name, first_s=100, rate=2)
    assert [arrival.now_ns for arrival in twice] == [arrival.now_ns // 2 for arrival in found[: len(twice)]]
    assert [arrival.patience for arrival in twice] == [arrival.patience for arrival in found[: len(twice)]]


@pytest.mark.parametrize("name", ["fitted:sharegpt", "hostile:sweep"])
def test_they_last_an_hour(name: str) -> None:
    assert 3_590 * NS_PER_S < read(name)[-1].now_ns < 3_600 * NS_PER_S


# --- fitted ------------------------------------------------------------------------------------------------


def real_file(fit: str) -> list[Arrival]:
    try:
        return read(FROM_FILES[fit])
    except MissingWorkload as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("fit", FROM_FILES)
def test_tables_are_counted_from_the_file(fit: str) -> None:
    real = real_file(fit)
    for column, table in ((prompts, FITS[fit].prompt), (outputs, FITS[fit].output)):
        assert isinstance(table, Quantiles)
        values = sorted(column(real))
        counted = tuple((level, permille(values, level)) for level, _ in table.table)
        assert counted == table.table
    assert FITS[fit].most_tokens in (max(map(sum, zip(prompts(real), outputs(real), strict=True))), 8_192)


@pytest.mark.parametrize("fit", FROM_FILES)
def test_lengths_hang_together_as_little_as_it_is_said(fit: str) -> None:
    """The head of `fitted.py`."""
    real, fitted = (correlation(*logarithms(arrivals)) for arrivals in (real_file(fit), read(f"fitted:{fit}")))
    if fit == "arxiv-4k":
        assert real == pytest.approx(-0.48, abs=0.01)
        assert -0.48 < fitted < -0.1
    else:
        assert 0.05 <= real <= 0.295
        assert abs(fitted) < 0.05


def logarithms(arrivals: Sequence[Arrival]) -> tuple[list[float], list[float]]:
    return list(map(log, prompts(arrivals))), list(map(log, outputs(arrivals)))


@pytest.mark.parametrize("fit", FROM_FILES)
def test_a_fit_is_as_long_as_the_file_that_it_was_fitted_to(fit: str) -> None:
    """Median and P90 within a tenth, means within a ninth: quantiles are kept, what is between them is a line."""
    real = real_file(fit)
    fitted = read(f"fitted:{fit}")
    for column in (prompts, outputs):
        for percent in (50, 90):
            assert percentile(column(fitted), percent) == pytest.approx(percentile(column(real), percent), rel=0.1)
        assert mean(column(fitted)) == pytest.approx(mean(column(real)), rel=0.11)
    assert mean(gaps(fitted)) == pytest.approx(mean(gaps(real)), rel=0.05)
    assert pstdev(gaps(fitted)) / mean(gaps(fitted)) == pytest.approx(pstdev(gaps(real)) / mean(gaps(real)), rel=0.1)
    assert max(map(sum, zip(prompts(fitted), outputs(fitted), strict=True))) <= FITS[fit].most_tokens
    ours, theirs = (Counter(arrival.client for arrival in arrivals) for arrivals in (fitted, real))
    if fit == "vtc-real":
        assert [ours[str(n)] / len(fitted) for n in range(4)] == pytest.approx(
            [count / len(real) for _, count in theirs.most_common(4)], rel=0.15
        )
    if fit == "mooncake-conversation":
        assert share_that_was_there(fitted) == pytest.approx(share_that_was_there(real), abs=0.02)
        assert {arrival.now_ns % (3 * NS_PER_S) for arrival in fitted} == {0}


def test_fits_to_published_figures_have_them() -> None:
    """Those of `fits.py`, where no file was at hand."""
    code = read("fitted:azure-code")
    assert median(prompts(code)) == pytest.approx(1_469, rel=0.03)
    assert mean(prompts(code)) == pytest.approx(2_048, rel=0.03)
    assert percentile(prompts(code), 99) == pytest.approx(7_436, rel=0.01)
    assert median(outputs(code)) == 13
    assert mean(outputs(code)) == pytest.approx(27.9, rel=0.05)
    assert len(code) / 3_600 == pytest.approx(2.57, rel=0.25)  # an hour of such bursts says little
    arxiv = read("fitted:arxiv-16k")
    assert [percentile(prompts(arxiv), percent) for percent in (50, 90)] == pytest.approx([7_059, 12_985], rel=0.03)
    assert [percentile(outputs(arxiv), percent) for percent in (50, 90)] == pytest.approx([208, 371], rel=0.03)
    tool = read("fitted:mooncake-toolagent", first_s=900)
    assert len(tool) == pytest.approx(23_608 / 4, rel=0.04)
    assert mean(prompts(tool)) == pytest.approx(8_596, rel=0.06)
    assert mean(outputs(tool)) == pytest.approx(182, rel=0.02)
    assert share_that_was_there(tool) == pytest.approx(0.59, abs=0.02)


def test_another_burstiness_changes_the_times_alone() -> None:
    plain, bursts = read("fitted:azure-conv"), read("fitted:azure-conv", cv=4)
    assert pstdev(gaps(bursts)) / mean(gaps(bursts)) == pytest.approx(4, rel=0.1)
    assert prompts(plain)[:1000] == prompts(bursts)[:1000]


def test_a_table_of_quantiles_is_a_line_in_between() -> None:
    class Dice:
        def __init__(self, at: int) -> None:
            self.at = at

        def randrange(self, most: int) -> int:
            return self.at

    table = Quantiles(((0, 1), (500, 11), (1000, 111)))
    at = (0, 250_000, 499_999, 500_000, 750_000, 999_999)
    assert [table.draw(Dice(place)) for place in at] == [1, 6, 10, 11, 61, 110]  # type: ignore[arg-type]
    assert LogNormal(5, 0.0, most=4).draw(Random(0)) == 4


# --- hostile -----------------------------------------------------------------------------------------------


def test_prompts_and_outputs_are_mixed() -> None:
    by_prompt = read("hostile:prompt-mix", first_s=1_000)
    assert 0.08 < sum(tokens >= 4_096 for tokens in prompts(by_prompt)) / len(by_prompt) < 0.12
    assert median(prompts(by_prompt)) < 64
    by_output = read("hostile:output-mix", first_s=1_000)
    assert 0.18 < sum(tokens >= 1_000 for tokens in outputs(by_output)) / len(by_output) < 0.22
    assert median(outputs(by_output)) <= 8


def test_clients_leave_at_once_and_later() -> None:
    leaves = [arrival.cancel_after_ns for arrival in read("hostile:cancels", first_s=1_000)]
    stay, at_once = leaves.count(None) / len(leaves), leaves.count(0) / len(leaves)
    assert 0.37 < stay < 0.43
    assert 0.17 < at_once < 0.23
    assert sum(after is not None and after > 2 * NS_PER_S for after in leaves) > len(leaves) / 10


def test_bursts_come_at_one_time() -> None:
    assert Counter(arrival.now_ns for arrival in read("hostile:bursts", first_s=90)) == {
        second * NS_PER_S: 120 for second in (0, 30, 60)
    }


def test_a_tenant_is_noisy_now_and_then() -> None:
    found = read("hostile:noisy-tenant", first_s=600)
    noisy = [arrival for arrival in found if arrival.client == "noisy"]
    assert {arrival.now_ns // (30 * NS_PER_S) % 2 for arrival in noisy} == {1}
    assert len(noisy) > 1.5 * (len(found) - len(noisy))
    assert len({arrival.client for arrival in found}) == 11


def test_the_rate_is_swept() -> None:
    found = read("hostile:sweep", first_s=120)
    counts = Counter(arrival.now_ns // (15 * NS_PER_S) for arrival in found)
    assert [counts[window] / 15 for window in range(8)] == pytest.approx([1, 2, 4, 8, 16, 8, 4, 2], rel=0.5)


def test_clients_of_a_storm_have_little_patience() -> None:
    found = read("hostile:retry-storm", first_s=20)
    assert {arrival.patience for arrival in found} == {IMPATIENT}
    assert sum(arrival.now_ns == 10 * NS_PER_S for arrival in found) == 60


def test_everything_is_all_of_them_at_once() -> None:
    found = read("hostile:everything", first_s=40)
    parts = sum(len(read(f"hostile:{kind}", first_s=40)) for kind in SOURCES if kind != "everything")
    assert len(found) == parts
    assert {arrival.client.partition("/")[0] for arrival in found} == set(SOURCES) - {"everything"}


PINNED = {
    "fitted:azure-conv": "7a1b3d423cc7",
    "fitted:azure-code": "ed0e4034048f",
    "fitted:mooncake-conversation": "7761c3a4a87a",
    "fitted:mooncake-toolagent": "310a9daba0f2",
    "fitted:sharegpt": "8b5e2aae5248",
    "fitted:arxiv-4k": "5ba9285a3556",
    "fitted:arxiv-16k": "c5444b2ae29d",
    "fitted:vtc-real": "0bee075c6fb4",
    "hostile:prompt-mix": "d060d71bb62a",
    "hostile:output-mix": "8a3bfa61d02f",
    "hostile:cancels": "f72ac627ddf0",
    "hostile:bursts": "5dbd8953a20a",
    "hostile:noisy-tenant": "1c86556360d2",
    "hostile:retry-storm": "4a6f2c7b5fdb",
    "hostile:sweep": "a6b3fbbee029",
    "hostile:everything": "adc0cec97125",
}
