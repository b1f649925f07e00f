"""Parts of the reproductions that are quick: the allocator, the search, the costs, and one short measurement."""

from random import Random

import pytest

from schedspec.reference.reproduce import REPRODUCTIONS
from schedspec.reference.reproduce.drawn import geometric
from schedspec.reference.reproduce.orca import Padded, StepTime
from schedspec.reference.reproduce.sarathi import DECODE_NS, PAIR_PS, PREFILL_NS, Yi34B
from schedspec.reference.reproduce.search import largest, percentile
from schedspec.reference.reproduce.vllm import MODEL_TOKENS, SHAREGPT, SLOTS, one
from schedspec.reference.simulation import Batch
from schedspec.reference.systems.buddy import Buddies


def test_every_constant_and_target_has_its_source() -> None:
    for name, reproduction in REPRODUCTIONS.items():
        assert reproduction.name == name
        assert all(constant.source for constant in reproduction.constants)
        assert all(target.source for target in reproduction.targets)
        names = [target.name for target in reproduction.targets]
        assert len(set(names)) == len(names)


def test_runs_of_buddies_are_aligned_disjoint_and_become_one_again() -> None:
    dice, buddies = Random(0), Buddies(983)
    whole = {size: set(starts) for size, starts in buddies.free.items() if starts}
    held: list[tuple[int, int]] = []
    for _ in range(400):
        size = 1 << dice.randrange(8)
        if held and (dice.random() < 0.5 or not buddies.has(size)):
            buddies.give(*held.pop(dice.randrange(len(held))))
        else:
            held.append((buddies.take(size), size))
        runs = held + [(start, size) for size, starts in buddies.free.items() for start in starts]
        assert all(start % size == 0 for start, size in runs)
        assert sorted(block for start, size in runs for block in range(start, start + size)) == list(range(983))
    for run in held:
        buddies.give(*run)
    assert {size: starts for size, starts in buddies.free.items() if starts} == whole


def test_seven_of_the_longest_fit_and_a_fifth_of_the_slots_holds_tokens() -> None:
    """Orca (Max) of figures 2 and 13: 7.00 at once, 20.4 %."""
    share, at_once = one("Orca (Max)", SLOTS, geometric(*SHAREGPT, MODEL_TOKENS), 4.0, 120.0, seed=0)
    assert at_once == pytest.approx(7.0, abs=0.01)
    assert 100 * share == pytest.approx(20.4, abs=5)


@pytest.mark.parametrize("limit", [0.3, 1.0, 5.2])
def test_the_search_ends_just_below_the_limit(limit: float) -> None:
    found = largest(lambda rate: rate <= limit, guess=1.0)
    assert limit * 0.95 <= found <= limit


def test_percentiles_are_of_the_nearest_rank() -> None:
    assert [percentile([3, 1, 2, 4], percent) for percent in (25, 50, 99)] == [1, 2, 4]
    assert percentile([], 99) == 0


def test_who_has_ended_is_padding_until_the_batch_ends() -> None:
    cost = Padded(StepTime())
    cost.step_ns(Batch(chunks=((0, 10), (0, 30))))
    assert (cost.tokens, cost.padding) == (60, 20)
    cost.step_ns(Batch(decodes=1, context_tokens=31))
    assert (cost.tokens, cost.padding) == (62, 21)


def test_measured_steps_are_on_the_curve_and_a_decode_beside_a_prompt_is_nearly_free() -> None:
    yi = Yi34B()
    assert [yi.step_ns(Batch(chunks=((0, tokens),))) for tokens, _ in PREFILL_NS] == [ns for _, ns in PREFILL_NS]
    assert [yi.step_ns(Batch(decodes=requests)) for requests, _ in DECODE_NS] == [ns for _, ns in DECODE_NS]
    alone, mixed = (yi.step_ns(batch) for batch in (Batch(chunks=((0, 1_024),)), Batch(3, 30, ((0, 1_021),))))
    assert mixed == pytest.approx(alone, rel=0.02)


def test_prompts_in_a_step_attend_to_themselves_alone() -> None:
    yi = Yi34B()
    two, one = yi.step_ns(Batch(chunks=((0, 8_192), (0, 8_192)))), yi.step_ns(Batch(chunks=((0, 16_384),)))
    assert one - two == PAIR_PS * 8_192 * 8_192 // 1_000  # each token of the second half reads the first half
    chunks = sum(yi.step_ns(Batch(chunks=((past, 512),))) for past in range(0, 8_192, 512))
    assert chunks == pytest.approx(1_958.5e6, rel=0.001)  # figure 9: in chunks of 512
