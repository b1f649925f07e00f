"""Admission from one queue: the kernel is its twin, the twin is the reference's loop, and small changes are seen."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch", reason="kernels need torch: `make kernels` installs it")
pytest.importorskip("triton", reason="kernels need triton: `make kernels` installs it")

from schedspec.kernels import admit_fcfs as original
from schedspec.kernels.admit_fcfs import admit_fcfs_plain
from schedspec.kernels.arrays import TILE
from schedspec.kernels.budget import budget_plain
from schedspec.kernels.room import NO_BLOCKS, NO_SEAT, NO_TOKENS, NOBODY
from schedspec.kernels.victims import victims_plain

from .planted import Change, planted
from .states import DEVICE, EDGES, FULL_EDGES, SMALL_TILE, array, draw, first, padded
from .watched import watch


def is_equal(module: ModuleType, count: int, seed: int, tile: int, *, large: bool = False) -> bool:
    rng = Random(f"admit_fcfs {count} {seed}")
    scale = 1 << 30 if large else 1
    chunk = [scale * tokens for tokens in draw(rng, count, 1, 8)]
    tested = rng.choice(([0] * count, draw(rng, count, 0, 40 * scale)))
    reserved = rng.choice(([0] * count, [0] * count, chunk, draw(rng, count, 0, 16 * scale, 1 << 62)))
    running = rng.choice((0, 0, 3))
    block_size = rng.choice((1, 4, 16))
    part = rng.randint(0, count)
    needed = sum(-(-tokens // block_size) for tokens in chunk[:part])
    limits: dict[str, Any] = {
        "seats": rng.choice((running + part, running + count + 1, running + count + 1)),
        "watermark": rng.choice((0, 1, 3)),
        "chunked": rng.random() < 0.6,
        "block_size": block_size,
    }
    room: dict[str, Any] = {
        "budget": sum(chunk[:part]) + rng.choice((0, 1, 2, 5, sum(chunk))),
        "blocks": rng.choice((needed, needed + 1, needed + 3, sum(chunk) + 4, 2 * sum(chunk) + 4)),
    }
    stay = running - (rng.random() < 0.3 and running > 0)
    tokens, charge, entered, why, budget_left, blocks_left = module.admit_fcfs(
        padded(chunk, rng), padded(tested, rng), padded(reserved, rng), array([count]), array([running]), array([stay]),
        array([room["budget"]]), array([room["blocks"]]), **limits, tile=tile,
    )  # fmt: skip
    expected = admit_fcfs_plain(chunk, tested, reserved, running=running, stay=stay, **room, **limits)
    here = int(entered)
    return expected == (first(tokens, here), first(charge, here), int(why), int(budget_left), int(blocks_left))


def small_states(module: ModuleType) -> Iterator[bool]:
    return (is_equal(module, count, seed, SMALL_TILE, large=seed % 7 == 6) for count in EDGES for seed in range(8))


def test_kernel_is_its_twin() -> None:
    assert all(small_states(original))


@pytest.mark.parametrize("count", FULL_EDGES)
def test_kernel_is_its_twin_at_the_edges_of_tiles(count: int) -> None:
    assert all(is_equal(original, count, seed, TILE) for seed in range(3))


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="no CUDA device is here")
@pytest.mark.parametrize("count", [8_192, 100_000])
def test_kernel_is_its_twin_on_a_device(count: int) -> None:
    assert all(is_equal(original, count, seed, TILE, large=seed % 2 == 1) for seed in range(20))


def test_twin_is_the_loop_of_the_reference() -> None:
    reasons: dict[int, int] = dict.fromkeys((NOBODY, NO_SEAT, NO_TOKENS, NO_BLOCKS), 0)
    for step in watch(policy="fcfs"):
        _, needs, budget = budget_plain(
            step.wanted, step.issued, step.held, token_budget=step.budget, block_size=step.block_size
        )
        stay, blocks, _ = victims_plain(needs, step.held, free=step.free_blocks)
        entering = admit_fcfs_plain(
            step.chunk, [0] * len(step.chunk), step.reserved, running=len(needs), stay=stay, budget=budget,
            blocks=blocks, **step.limits,
        )  # fmt: skip
        expected = [(at, *entry) for at, entry in enumerate(zip(entering.tokens, entering.blocks, strict=True))]
        assert expected == step.entered
        reasons[entering.why] += bool(step.waiting and not step.victims)
    assert min(reasons.values()) > 20


FAULTS: dict[str, list[Change]] = {
    "a seat too many": [("room", "place + running >= seats", "place + running > seats")],
    "an empty budget enters": [("room", "lacks_tokens = budget_here <= 0", "lacks_tokens = budget_here < 0")],
    "< for ≤": [("room", "(test > blocks_here - kept)", "(test >= blocks_here - kept)")],
    "the watermark binds from the first on": [
        ("room", "place + running > 0, watermark", "place + running >= 0, watermark")
    ],
    "the watermark never binds among those who enter": [
        ("room", "place + running > 0, watermark", "running > 0, watermark")
    ],
    "blocks before the clamp": [("room", "tl.maximum(tokens, reserved)", "tl.maximum(chunk, reserved)")],
    "a token too much at a block's edge": [
        ("room", "(positions - 1) // block_size + 1", "positions // block_size + 1")
    ],
    "blocks before include its own": [("room", "(tl.cumsum(charge) - charge)", "tl.cumsum(charge)")],
    "tokens before include its own": [("room", "(tl.cumsum(asked) - asked)", "tl.cumsum(asked)")],
    "a tile forgets blocks before": [("admit_fcfs", "blocks_given += tl.sum(charge)", "blocks_given = tl.sum(charge)")],
    "a tile forgets tokens before": [("admit_fcfs", "tokens_given += tl.sum(tokens)", "tokens_given = tl.sum(tokens)")],
    "what is tested is not": [("room", "tl.maximum(charge, blocks_of(tested, block_size))", "charge")],
    "what is tested is charged": [("room", "return tokens, charge, tl", "return tokens, test, tl")],
    "a misfit is skipped": [
        (
            "admit_fcfs",
            "tl.min(tl.where(here & (misfit > 0), place, waiting))",
            "first + tl.sum(tl.where(here & (misfit == 0), 1, 0))",
        )
    ],
    "sums of 32 bits": [
        (
            "room",
            "budget - tokens_given - (tl.cumsum(asked) - asked)",
            "budget - tokens_given - (tl.cumsum(asked) - asked).to(tl.int32)",
        )
    ],
    "victims and admissions": [("admit_fcfs", "tl.where(tl.load(stay_ptr) < running, 0, waiting)", "waiting + 0")],
    "whole prompts are cut": [("room", "if not chunked:", "if chunked:")],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault: str, tmp_path: Path) -> None:
    module = planted(tmp_path, "admit_fcfs", *FAULTS[fault])
    states = [(count, seed) for seed in range(21) for count in (17, 33, 3)]
    assert any(not is_equal(module, count, seed, SMALL_TILE, large=seed % 7 == 6) for count, seed in states)
