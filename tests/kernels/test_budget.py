"""The token budget: the kernel is its twin, the twin is the reference's loop, and small changes are seen."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

pytest.importorskip("torch", reason="kernels need torch: `make kernels` installs it")
pytest.importorskip("triton", reason="kernels need triton: `make kernels` installs it")

from schedspec.kernels import budget as original
from schedspec.kernels.arrays import TILE
from schedspec.kernels.budget import budget_plain

from .planted import Change, planted
from .states import DEVICE, EDGES, FULL_EDGES, SMALL_TILE, array, draw, first, padded
from .watched import watch


def is_equal(module: ModuleType, count: int, seed: int, tile: int, *, large: bool = False) -> bool:
    rng = Random(f"budget {count} {seed}")
    size = rng.choice((1, 3, 16))
    wanted = draw(rng, count, 0, 1 << 33 if large else 8, 0 if large else 1 << 62)
    held = draw(rng, count, 0, 4)
    issued = [max(0, blocks * size - rng.randint(0, size)) for blocks in held]
    budget = rng.choice((1 << 34, 1 << 40) if large else (0, 1, count // 2, 4 * count, 1 << 12))
    tokens, needs, left = module.budget(
        padded(wanted, rng), padded(issued, rng), padded(held, rng, 5), array([count]),
        token_budget=budget, block_size=size, tile=tile,
    )  # fmt: skip
    found = first(tokens, count), first(needs, count), int(left)
    return found == budget_plain(wanted, issued, held, token_budget=budget, block_size=size)


def small_states(module: ModuleType) -> Iterator[bool]:
    return (is_equal(module, count, seed, SMALL_TILE, large=seed == 2) for count in EDGES for seed in range(3))


def test_kernel_is_its_twin() -> None:
    assert all(small_states(original))


@pytest.mark.parametrize("count", FULL_EDGES)
def test_kernel_is_its_twin_at_the_edges_of_tiles(count: int) -> None:
    assert is_equal(original, count, 0, TILE)


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="no CUDA device is here")
@pytest.mark.parametrize("count", [8_192, 65_537])
def test_kernel_is_its_twin_on_a_device(count: int) -> None:
    assert all(is_equal(original, count, seed, TILE, large=seed % 2 == 1) for seed in range(20))


def test_twin_is_the_loop_of_the_reference() -> None:
    clamped = 0
    for step in watch(policy="fcfs"):
        tokens, needs, left = budget_plain(
            step.wanted, step.issued, step.held, token_budget=step.budget, block_size=step.block_size
        )
        stay = len(tokens) - len(step.victims)
        assert [(at, given) for at, given in enumerate(tokens[:stay]) if given] == step.growth
        clamped += sum(tokens) < sum(step.wanted)
        if not step.victims:
            assert left == step.budget_left
            assert sum(needs) <= step.free_blocks
    assert clamped > 50


FAULTS: dict[str, list[Change]] = {
    "needs before the clamp": [
        ("budget", "missing = issued + tokens", "missing = issued + wanted"),
        ("budget", "(tokens > 0) & (missing > 0)", "(wanted > 0) & (missing > 0)"),
    ],
    "a token too much at a block's edge": [("budget", "(missing + block_size - 1)", "(missing + block_size)")],
    "the sum before includes its own": [("budget", "tl.cumsum(wanted) - wanted", "tl.cumsum(wanted)")],
    "a tile forgets those before": [("budget", "tl.minimum(given + tl.sum(wanted)", "tl.minimum(tl.sum(wanted)")],
    "sums of 32 bits": [("budget", "tl.cumsum(wanted) -", "tl.cumsum(wanted).to(tl.int32) -")],
    "one entry too many": [("budget", "here = index < count", "here = index <= count")],
    "huge wishes overflow": [("budget", "tl.minimum(tl.maximum(wanted, 0), token_budget)", "tl.maximum(wanted, 0)")],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault: str, tmp_path: Path) -> None:
    assert not all(small_states(planted(tmp_path, "budget", *FAULTS[fault])))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"wanted": array([1]).int()}, "wanted is torch.int32, but must be torch.int64"),
        ({"held": array([1, 2])}, "wanted 1, issued 1, held 2"),
        ({"token_budget": 1 << 60}, "token_budget is 1152921504606846976, but must be between 0 and"),
        ({"block_size": 0}, "block_size is 0, but must be between 1 and"),
    ],
)
def test_bad_input_is_a_sentence(change: dict[str, object], told: str) -> None:
    one = array([1])
    given: dict[str, object] = {"wanted": one, "issued": one, "held": one, "count": one}
    with pytest.raises(ValueError, match=told):
        original.budget(**(given | {"token_budget": 1, "block_size": 1} | change))  # type: ignore[arg-type]
