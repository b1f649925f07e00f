"""A whole step in one program: it is its twin, and the twin is the step of the reference."""

from random import Random
from typing import Any

import pytest

pytest.importorskip("torch", reason="kernels need torch: `make kernels` installs it")
pytest.importorskip("triton", reason="kernels need triton: `make kernels` installs it")

from schedspec.kernels.arrays import TILE
from schedspec.kernels.step import NUMBERS, Outputs, step, step_plain

from .states import DEVICE, EDGES, FULL_EDGES, SMALL_TILE, array, draw, first, padded
from .watched import watch

WIDTH = 12


def is_equal(count: int, seed: int, tile: int) -> bool:
    rng = Random(f"step {count} {seed}")
    size = rng.choice((1, 4))
    held = draw(rng, count, 1, 5)
    issued = [max(0, blocks * size - rng.choice((0, 0, 1))) for blocks in held]
    wanted = draw(rng, count, 0, 2)
    waiting = rng.choice((0, 1, 17, 40))
    chunk = draw(rng, waiting, 1, 6)
    reserved = [0] * waiting if rng.random() < 0.5 else chunk
    blocks = sum(held) + rng.choice((0, count // 4, count, 2 * count + 200))
    ids = rng.sample(range(blocks), blocks)
    tables = [[ids.pop() for _ in range(some)] for some in held]
    free = list(ids)
    rows = rng.sample(range(count + waiting), count + waiting)
    limits: dict[str, Any] = {
        "token_budget": rng.choice((count // 2, 2 * count + 20)),
        "seats": count + rng.choice((0, 3, 50)),
        "watermark": rng.choice((0, 2)),
        "chunked": rng.random() < 0.7,
        "block_size": size,
    }
    cells = array([-1] * (WIDTH * (count + waiting))).reshape(-1, WIDTH)
    for row, table in zip(rows, tables, strict=False):
        cells[row, : len(table)] = array(table)
    lengths, stack, top = padded(held, rng, 9), array([*free, *[-1] * (blocks - len(free) + 1)]), array([len(free)])
    out = Outputs.of(count + 3, waiting + 3, DEVICE)
    step(
        padded(wanted, rng), padded(issued, rng), lengths, padded(rows[:count], rng, 1), array([count]),
        padded(chunk, rng), padded([0] * waiting, rng), padded(reserved, rng), array([waiting]),
        padded(rows[count:], rng, 1), cells, stack, top, out, **limits, tile=tile,
    )  # fmt: skip
    made = step_plain(wanted, issued, tables, chunk, [0] * waiting, reserved, free, **limits)
    numbers = dict(zip(NUMBERS, out.numbers.tolist(), strict=True))
    entered = numbers["entered"]
    entering = (first(out.entering_tokens, entered), first(out.entering_needs, entered), *(
        numbers[name] for name in ("why", "budget_left", "blocks_left")
    ))  # fmt: skip
    after = tables + made.entering_tables
    return (
        (first(out.tokens, count), numbers["stay"], numbers["requester"], entering) == made[:4]
        and [first(cells[row], len(table)) for row, table in zip(rows, after, strict=False)] == after
        and (first(lengths, count), first(stack, int(top))) == ([len(table) for table in tables], free)
    )


def test_kernel_is_its_twin() -> None:
    assert all(is_equal(count, seed, SMALL_TILE) for count in EDGES for seed in range(2))


@pytest.mark.parametrize("count", FULL_EDGES)
def test_kernel_is_its_twin_at_the_edges_of_tiles(count: int) -> None:
    assert is_equal(count, 0, TILE)


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="no CUDA device is here")
@pytest.mark.parametrize("count", [1_024, 8_193])
def test_kernel_is_its_twin_on_a_device(count: int) -> None:
    assert all(is_equal(count, seed, TILE) for seed in range(50))


def test_twin_is_the_step_of_the_reference() -> None:
    for seen in watch(policy="fcfs"):
        tables, free = [list(table) for table in seen.tables], list(seen.free)
        made = step_plain(
            seen.wanted, seen.issued, tables, seen.chunk, [0] * len(seen.chunk), seen.reserved, free,
            token_budget=seen.budget, **seen.limits,
        )  # fmt: skip
        assert list(range(len(tables) - 1, made.stay - 1, -1)) == seen.victims
        assert made.requester == seen.requester
        assert (tables, made.entering_tables, free) == (seen.tables_after, seen.entering_tables, seen.free_after)
