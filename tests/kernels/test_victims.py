"""Newest-first victims: the kernel is its twin, the twin is the reference's loop, and small changes are seen."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

pytest.importorskip("torch", reason="kernels need torch: `make kernels` installs it")
pytest.importorskip("triton", reason="kernels need triton: `make kernels` installs it")

from schedspec.kernels import victims as original
from schedspec.kernels.arrays import TILE
from schedspec.kernels.budget import budget_plain
from schedspec.kernels.victims import victims_plain

from .planted import Change, planted
from .states import DEVICE, EDGES, FULL_EDGES, SMALL_TILE, array, draw, padded
from .watched import watch


def is_equal(module: ModuleType, count: int, seed: int, tile: int, *, large: bool = False) -> bool:
    rng = Random(f"victims {count} {seed}")
    scale = 1 << 31 if large else 1
    needs = [scale * need for need in draw(rng, count, 0, 2)]
    held = [scale * blocks for blocks in draw(rng, count, 0, 3)]
    staying = rng.randint(0, count)
    exactly = sum(needs[:staying]) - sum(held[staying:])  # so many stay, and there is no block to spare
    free = rng.choice((0, sum(needs), max(0, exactly), max(0, exactly - 1), max(0, exactly + 1)))
    stay, left, requester = module.victims(
        padded(needs, rng), padded(held, rng), array([count]), array([free]), tile=tile
    )
    return (int(stay), int(left), int(requester)) == victims_plain(needs, held, free=free)


def small_states(module: ModuleType) -> Iterator[bool]:
    return (is_equal(module, count, seed, SMALL_TILE, large=seed == 2) for count in EDGES for seed in range(5))


def test_kernel_is_its_twin() -> None:
    assert all(small_states(original))


@pytest.mark.parametrize("count", FULL_EDGES)
def test_kernel_is_its_twin_at_the_edges_of_tiles(count: int) -> None:
    assert is_equal(original, count, 0, TILE)
    assert is_equal(original, count, 1, TILE)


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="no CUDA device is here")
@pytest.mark.parametrize("count", [8_192, 65_537])
def test_kernel_is_its_twin_on_a_device(count: int) -> None:
    assert all(is_equal(original, count, seed, TILE, large=seed % 2 == 1) for seed in range(20))


def test_twin_is_the_loop_of_the_reference() -> None:
    preempted = tight = 0
    for step in watch(policy="fcfs"):
        _, needs, _ = budget_plain(
            step.wanted, step.issued, step.held, token_budget=step.budget, block_size=step.block_size
        )
        stay, left, requester = victims_plain(needs, step.held, free=step.free_blocks)
        assert list(range(len(needs) - 1, stay - 1, -1)) == step.victims
        assert requester == step.requester
        preempted += stay < len(needs)
        tight += left == 0 and sum(needs) > 0
    assert preempted > 50
    assert tight > 20


FAULTS: dict[str, list[Change]] = {
    "< for ≤": [("victims", "upto > free + all_held", "upto >= free + all_held")],
    "a block more than there is": [("victims", "upto > free + all_held", "upto > free + all_held + 1")],
    "what the suffix holds is not released": [("victims", "upto > free + all_held", "upto > free")],
    "a tile forgets needs before": [("victims", "needed + kept + tl.cumsum", "kept + tl.cumsum")],
    "a tile forgets blocks before": [("victims", "needed + kept + tl.cumsum", "needed + tl.cumsum")],
    "sums of 32 bits": [("victims", "tl.cumsum(needs + held)", "tl.cumsum(needs + held).to(tl.int32)")],
    "the last misfit": [
        ("victims", "tl.min(tl.where(here & (upto", "tl.max(tl.where(here & (upto"),
        ("victims", "index, count))\n        stays", "index, 0))\n        stays"),
    ],
    "a victim asks": [
        ("victims", "stays & (needs > 0)", "here & (needs > 0)"),
        ("victims", "requester < stay", "requester < count"),
    ],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault: str, tmp_path: Path) -> None:
    assert not all(small_states(planted(tmp_path, "victims", *FAULTS[fault])))
