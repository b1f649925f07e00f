"""Cost models against what is known of such devices without them."""

import json
from pathlib import Path
from typing import Any

import pytest

from schedspec.reference.simulation import PROFILES, Batch
from schedspec.reference.simulation.costs import (
    CostModel,
    EqualSteps,
    MixedBatch,
    PrefillTerms,
    Roofline,
    TwoPhases,
    decodes_ns,
)
from schedspec.spec.workloads import MissingWorkload, locate

from .simulated import MS

NAMES = list(PROFILES)


def roofline(name: str) -> Roofline:
    cost = PROFILES[name].cost
    assert isinstance(cost, Roofline)
    return cost


@pytest.mark.parametrize("name", NAMES)
def test_a_step_takes_a_whole_number_of_nanoseconds_and_some_time(name: str) -> None:
    cost = PROFILES[name].cost
    for batch in (
        Batch(1, 1),
        Batch(600, 600),
        Batch(600, 600_000),
        Batch(0, 0, ((0, 1),)),
        Batch(3, 9, ((512, 512),)),
    ):
        took = cost.step_ns(batch)
        assert type(took) is int
        assert took > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_longer_context_is_never_faster(name: str) -> None:
    cost = PROFILES[name].cost
    times = [cost.step_ns(Batch(16, 16 * context)) for context in (1, 100, 1_000, 10_000)]
    assert times == sorted(times)
    assert times[0] < times[-1]


@pytest.mark.parametrize("name", ["roofline-llama2-7b-a100", "roofline-llama2-7b-h100"])
def test_decode_is_flat_in_batch_size_up_to_the_knee(name: str) -> None:
    cost = roofline(name)
    knee = cost.knee_tokens
    assert {cost.linear_ps(tokens) for tokens in range(1, knee + 1)} == {cost.linear_ps(1)}
    beyond = [cost.linear_ps(knee * times) for times in (2, 4)]
    assert beyond[0] > cost.linear_ps(knee)
    assert beyond[1] == pytest.approx(2 * beyond[0], rel=1e-6)


@pytest.mark.parametrize(
    ("name", "floor_ms", "token_us"),
    [("roofline-llama2-7b-a100", 9.12, 64.6), ("roofline-llama2-7b-h100", 5.54, 20.4)],
)
def test_the_roofline_is_where_the_kernels_were_measured(name: str, floor_ms: float, token_us: float) -> None:
    """Lines through Vidur's profiles of the linear layers; two efficiencies for both devices leave 3 percent."""
    cost = roofline(name)
    assert cost.linear_ps(1) / 1e9 == pytest.approx(floor_ms, rel=0.03)
    assert (cost.linear_ps(4_096) - cost.linear_ps(2_048)) / 2_048 / 1e6 == pytest.approx(token_us, rel=0.03)


def test_kv_binds_before_compute() -> None:
    """Azure's conversations, 1,155 tokens in and 211 out on average: on an A100 the pool of a 7B model is full before
    its arithmetic is."""
    profile, cost = PROFILES["roofline-llama2-7b-a100"], roofline("roofline-llama2-7b-a100")
    running = profile.kv_tokens // (1_155 + 211)
    assert running < cost.knee_tokens
    assert cost.linear_ps(running) == cost.linear_ps(1)


def chunked_ns(name: str, prompt: int, chunk: int) -> int:
    cost = PROFILES[name].cost
    return sum(cost.step_ns(Batch(0, 0, ((past, min(chunk, prompt - past)),))) for past in range(0, prompt, chunk))


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("vtc-")])
def test_smaller_chunks_cost_more(name: str) -> None:
    """But for VTC's fit, whose prefill has no fixed time."""
    times = [chunked_ns(name, 4_096, chunk) for chunk in (64, 256, 512)]
    assert times == sorted(times, reverse=True)
    assert times[0] > times[-1]


def test_a_chunk_costs_a_fixed_time_where_the_model_says_so() -> None:
    cost = PROFILES["distserve-opt13b-a100"].cost
    assert isinstance(cost, TwoPhases)
    one, four = (chunked_ns("distserve-opt13b-a100", 2_048, chunk) for chunk in (2_048, 512))
    assert four - one == pytest.approx(3 * cost.prefill.fixed / 1_000, abs=4)  # a nanosecond of rounding in each chunk


def test_squares_of_chunks_add_up() -> None:
    terms = PrefillTerms(fixed=0, token=0, square=1)
    assert terms.ps(((0, 300), (300, 700))) == terms.ps(((0, 1_000),)) == 1_000_000


def test_many_short_decodes_do_not_take_less_than_nothing() -> None:
    """Niyama's fit gives each decode beyond 512 tokens -14 µs."""
    cost = PROFILES["niyama-llama3-8b-a100"].cost
    assert isinstance(cost, MixedBatch)
    assert cost.large.ps(Batch(2_000, 2_000)) < 0
    assert cost.step_ns(Batch(2_000, 2_000)) == cost.small.fixed // 1_000


def test_the_two_phases_of_a_mixed_step_are_paid_one_after_the_other() -> None:
    cost = PROFILES["vtc-llama2-7b-a10g"].cost
    both = cost.step_ns(Batch(8, 800, ((0, 100),)))
    assert both == cost.step_ns(Batch(8, 800)) + cost.step_ns(Batch(0, 0, ((0, 100),)))
    assert cost.step_ns(Batch(8, 800)) == int((15.3 + 0.254 * 8 + 0.002155 * 800) * MS)


# --- against the files that the constants come from, where they are -----------------------------------------


def source(name: str) -> Path:
    try:
        return locate(name)
    except MissingWorkload as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize(("name", "tp"), [("distserve-opt13b-a100", "1"), ("distserve-opt13b-a100-tp2", "2")])
def test_constants_of_distserve_are_those_of_its_file(name: str, tp: str) -> None:
    told: Any = json.loads(source("profiler-a100-80g.distserve.json").read_text())["facebook/opt-13b"][tp]
    cost = PROFILES[name].cost
    assert isinstance(cost, TwoPhases)
    assert cost.decode_many is not None
    prefill, few, many = cost.prefill, cost.decode, cost.decode_many
    stage_ms = 1  # a constant of its simulator, beside the file
    a, b, c = told["prefill"]
    assert [prefill.fixed, prefill.token, prefill.square] == [round(x * 1e9) for x in (a + stage_ms, b, c)]
    for terms, key in ((few, "decoding_smallbs"), (many, "decoding_largebs")):
        assert [terms.fixed, terms.context, terms.request] == [round(x * 1e9) for x in told[key]]
    assert cost.many == told["decoding_large_small_bs_threshold"]


class Plain:
    """A model that tells each step by itself."""

    def __init__(self, cost: CostModel) -> None:
        self.cost = cost

    def step_ns(self, batch: Batch) -> int:
        return self.cost.step_ns(batch)


@pytest.mark.parametrize("cost", [EqualSteps(7), *(profile.cost for profile in PROFILES.values())])
@pytest.mark.parametrize(("decodes", "context", "steps"), [(1, 1, 3), (33, 40, 5), (200, 90_000, 64), (7, 8, 0)])
def test_decodes_in_one_go_take_as_long_as_one_by_one(cost: CostModel, decodes: int, context: int, steps: int) -> None:
    told = list(decodes_ns(cost, decodes, context, steps))
    assert told == list(decodes_ns(Plain(cost), decodes, context, steps))
    assert told == [cost.step_ns(Batch(decodes, context + step * decodes)) for step in range(steps)]
