"""Block ids: the kernel is its twin, the twin is the reference's stack and tables, and small changes are seen."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

pytest.importorskip("torch", reason="kernels need torch: `make kernels` installs it")
pytest.importorskip("triton", reason="kernels need triton: `make kernels` installs it")

from schedspec.kernels import allocate as original
from schedspec.kernels.allocate import allocate_plain
from schedspec.kernels.arrays import TILE

from .planted import Change, planted
from .states import DEVICE, EDGES, FULL_EDGES, SMALL_TILE, array, draw, first, padded
from .watched import watch

WIDTH = 12


def is_equal(module: ModuleType, count: int, seed: int, tile: int) -> bool:
    """A pool in any order, rows in any order; needs are as large as what is there allows."""
    rng = Random(f"allocate {count} {seed}")
    stay = rng.choice((count, rng.randint(0, count), 0))
    held = draw(rng, count, 0, 5)
    entering = draw(rng, rng.choice((0, 1, 17, 40)), 0, WIDTH) if stay == count or seed % 2 else []
    spare = rng.randint(0, 20)
    needs = draw(rng, count, 0, 3)
    short = sum(needs[:stay]) + sum(entering) - sum(held[stay:])
    blocks = sum(held) + max(0, short) + spare
    ids = rng.sample(range(blocks), blocks)
    tables = [[ids.pop() for _ in range(some)] for some in held]
    free = list(ids)
    places = rng.sample(range(count + len(entering) + 2), count + len(entering))
    cells = array([-1] * (WIDTH * (count + len(entering) + 2))).reshape(-1, WIDTH)
    for row, table in zip(places, tables, strict=False):
        cells[row, : len(table)] = array(table)
    lengths, stack, top = padded(held, rng, 9), array([*free, *[-1] * (blocks - len(free) + 1)]), array([len(free)])
    module.allocate(
        cells, padded(places[:count], rng, 1), lengths, padded(needs, rng, 9), array([count]), array([stay]),
        padded(places[count:], rng, 1), padded(entering, rng, 9), array([len(entering)]), stack, top, tile=tile,
    )  # fmt: skip
    entering_tables = allocate_plain(tables, needs, stay=stay, entering_needs=entering, free=free)
    found = [first(cells[row], len(table)) for row, table in zip(places, tables + entering_tables, strict=True)]
    lasting = first(lengths, count), first(stack, int(top))
    return found == tables + entering_tables and lasting == ([len(table) for table in tables], free)


def small_states(module: ModuleType) -> Iterator[bool]:
    return (is_equal(module, count, seed, SMALL_TILE) for count in EDGES for seed in range(3))


def test_kernel_is_its_twin() -> None:
    assert all(small_states(original))


@pytest.mark.parametrize("count", FULL_EDGES)
def test_kernel_is_its_twin_at_the_edges_of_tiles(count: int) -> None:
    assert is_equal(original, count, 0, TILE)
    assert is_equal(original, count, 1, TILE)


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="no CUDA device is here")
@pytest.mark.parametrize("count", [1_024, 8_193])
def test_kernel_is_its_twin_on_a_device(count: int) -> None:
    assert all(is_equal(original, count, seed, TILE) for seed in range(50))


def test_what_is_beyond_a_row_or_the_stack_is_not_touched() -> None:
    """Needs that are not there are the caller's fault; nobody else's block may pay for it."""
    cells, held, top = array([7, 7, 9, 9]).reshape(2, 2), array([1]), array([2])
    none = array([])
    one = array([1])
    original.allocate(cells, array([0]), held, array([4]), one, one, none, none, array([0]), array([3, 4]), top)
    assert cells.tolist() == [[7, 4], [9, 9]]
    assert int(top) == 0


def test_twin_is_the_stack_of_the_reference() -> None:
    moved = several = 0
    for step in watch(policy="fcfs"):
        tables, free = [list(table) for table in step.tables], list(step.free)
        stay = len(tables) - len(step.victims)
        needs = [len(after) - len(before) for before, after in zip(tables, step.tables_after, strict=True)]
        entering = [blocks for *_, blocks in step.entered]
        entering_tables = allocate_plain(tables, needs, stay=stay, entering_needs=entering, free=free)
        assert (tables, entering_tables, free) == (step.tables_after, step.entering_tables, step.free_after)
        moved += bool(step.victims and any(needs[:stay]))
        several += len(step.victims) > 1
    assert moved > 20
    assert several > 5


FAULTS: dict[str, list[Change]] = {
    "the oldest victim first": [
        (
            "allocate",
            "top = push(tables_ptr, width, rows_ptr, held_ptr, count - 1, -1,",
            "top = push(tables_ptr, width, rows_ptr, held_ptr, stay, 1,",
        ),
    ],
    "from the beginning of a victim's table": [
        (
            "allocate",
            "place = tl.load(ends_ptr + order, mask=here, other=0) - 1 - number",
            "place = number - tl.load(ends_ptr + order, mask=here, other=0)"
            " + tl.load(held_ptr + begin + direction * order, mask=here, other=0)",
        ),
    ],
    "growth before releases": [
        ("allocate", "free_ptr + top + number, block", "free_ptr + number, block"),
    ],
    "an owner of the block before": [("allocate", "open_ & (end <= number)", "open_ & (end < number)")],
    "from the bottom of the stack": [("allocate", "free_ptr + top - 1 - number", "free_ptr + number")],
    "the block below the top": [("allocate", "free_ptr + top - 1 - number", "free_ptr + top - 2 - number")],
    "a tile forgets needs before": [("allocate", "total + tl.cumsum(needs)", "tl.cumsum(needs)")],
    "a tile forgets blocks before": [("allocate", "total + tl.cumsum(held)", "tl.cumsum(held)")],
    "a victim keeps its table": [("allocate", "tl.where(index < stay, held + needs, 0)", "held + needs")],
    "who enters takes what growth has": [("allocate", "return top - total", "return top")],
    "a block over another": [("allocate", "place += tl.load(from_ptr + index, mask=here, other=0)", "place += 0")],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault: str, tmp_path: Path) -> None:
    module = planted(tmp_path, "allocate", *FAULTS[fault])
    assert any(not is_equal(module, count, seed, SMALL_TILE) for seed in range(5) for count in (17, 50, 2))
