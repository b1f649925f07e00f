"""The engine's kernels are their twins up to rounding, bit for bit the same in every batch, and small changes are
seen."""

from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch", reason="kernels need torch: `make kernels` installs it")
pytest.importorskip("triton", reason="kernels need triton: `make kernels` installs it")

import torch
from triton.runtime.errors import InterpreterError

from schedspec.kernels import attention as attention_module
from schedspec.kernels import bench_engine
from schedspec.kernels import kv_write as kv_write_module
from schedspec.kernels.attention import Batch, Tiles, attention, attention_plain, work_of
from schedspec.kernels.block_copy import block_copy, block_copy_plain
from schedspec.kernels.floats import exp2_plain, halves_sum_plain
from schedspec.kernels.kv_write import kv_write_plain
from schedspec.kernels.matmul import matmul, matmul_plain
from schedspec.kernels.rms_norm import rms_norm, rms_norm_plain
from schedspec.kernels.swiglu import swiglu, swiglu_plain

from .planted import Change, planted
from .states import DEVICE

torch.set_num_threads(1)
TYPES = (torch.float32, torch.bfloat16)
CLOSE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
"""A bfloat16 has 8 bits; the interpreter cuts where a device rounds."""


def normal(*shape: int, dtype: Any = torch.float32, seed: int = 0) -> Any:
    dice = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=dice).to(dtype).to(DEVICE)


def is_close(one: Any, other: Any) -> bool:
    """Where one is not a number, neither is the other."""
    return bool(torch.allclose(one.float(), other.float().to(one.device), CLOSE[one.dtype], CLOSE[one.dtype], True))


@pytest.mark.parametrize("dtype", TYPES)
def test_products_and_norms_are_their_twins(dtype: Any) -> None:
    x, w = normal(19, 21, dtype=dtype), normal(37, 21, dtype=dtype)
    assert is_close(matmul(x, w), matmul_plain(x.cpu(), w.cpu()))
    assert is_close(rms_norm(x, w[0], 0.5), rms_norm_plain(x.cpu(), w[0].cpu(), 0.5))
    assert is_close(swiglu(x[:, :20].contiguous()), swiglu_plain(x[:, :20].cpu()))


def test_the_twins_are_what_torch_computes() -> None:
    x, w = normal(7, 45), normal(9, 45)
    assert torch.allclose(matmul_plain(x, w), x @ w.T, atol=1e-5)
    assert torch.allclose(rms_norm_plain(x, w[0], 1e-5), torch.nn.functional.rms_norm(x, (45,), w[0], 1e-5), atol=1e-6)
    gate, up = x[:, :44].chunk(2, 1)
    assert torch.allclose(swiglu_plain(x[:, :44]), torch.nn.functional.silu(gate) * up, atol=1e-6)
    powers = torch.linspace(-126, 127, 10_001)
    assert float((exp2_plain(powers) / torch.exp2(powers.double()) - 1).abs().max()) < 3 * 2**-24
    assert exp2_plain(torch.tensor([-torch.inf, -127.0, torch.nan])).tolist()[:2] == [0.0, 0.0]
    assert torch.equal(halves_sum_plain(torch.arange(7.0)), torch.tensor(21.0))


@pytest.mark.parametrize("product", [matmul, matmul_plain])
def test_a_row_of_a_product_does_not_depend_on_the_others(product: Any) -> None:
    x, w = normal(18, 40), normal(5, 40)
    whole = product(x, w)
    for row in (0, 7, 17):
        assert torch.equal(product(x[row : row + 1].contiguous(), w)[0], whole[row])


# --- keys and values ---------------------------------------------------------------------------------------


def written(module: ModuleType, dtype: Any) -> bool:
    """Three query heads of a key head, a block size that is no power of two, blocks in no order."""
    heads, kv_heads, dim, size, blocks = 6, 2, 12, 3, 9
    qkv = normal(7, (heads + 2 * kv_heads) * dim, dtype=dtype)
    turn = normal(50, dim // 2)
    positions, slots = (
        torch.tensor(values, device=DEVICE) for values in ([0, 3, 6, 9, 12, 15, 49], [5, 1, 26, 0, 8, 9, 20])
    )
    pools = [torch.full((2, blocks, kv_heads, size, dim), torch.nan, dtype=dtype) for _ in range(2)]
    there = pools[0].to(DEVICE)
    q = module.kv_write(qkv, turn.cos(), turn.sin(), positions, slots, there)
    arguments = (qkv, turn.cos(), turn.sin(), positions, slots)
    expected = kv_write_plain(*[a.cpu() for a in arguments], pools[1])  # type: ignore[call-arg]
    return is_close(q, expected) and is_close(there, pools[1])


@pytest.mark.parametrize("dtype", TYPES)
def test_keys_and_values_are_written_to_their_slots_and_nowhere_else(dtype: Any) -> None:
    assert written(kv_write_module, dtype)


def test_queries_are_turned_by_their_position() -> None:
    """What turned keys and queries give depends on how far they are apart."""
    x = normal(1, 8).expand(6, 8)
    angle = torch.outer(torch.arange(6.0), torch.tensor([1.0, 0.1]))
    pool = torch.zeros(2, 6, 1, 1, 4)
    q = kv_write_plain(
        torch.cat([x[:, :4], x[:, :4], x[:, 4:]], 1), angle.cos(), angle.sin(), torch.arange(6), torch.arange(6), pool
    )
    scores = q[:, 0] @ pool[0, :, 0, 0].T
    assert torch.allclose(torch.diagonal(scores, -2), scores[2, 0].expand(4), atol=1e-5)


def test_blocks_are_copied_within_a_pool_and_between_two() -> None:
    source = normal(4, 9, 10)
    target = torch.zeros(4, 8, 10, device=DEVICE)
    froms, tos = (torch.tensor(values, device=DEVICE) for values in ([3, 8], [7, 0]))
    block_copy(source, target, froms, tos)
    expected = torch.zeros(4, 8, 10)
    block_copy_plain(source.cpu(), expected, froms, tos)
    assert torch.equal(target.cpu(), expected)
    assert bool((target[:, 7] == source[:, 3]).all())


@pytest.mark.parametrize("elements", [1_023, 1_024, 1_025])
def test_the_end_of_a_block_is_copied(elements: int) -> None:
    """Around the edge of a tile."""
    source, target = normal(1, 2, elements), torch.zeros(1, 2, elements, device=DEVICE)
    block_copy(source, target, *(torch.tensor([block], device=DEVICE) for block in (1, 0)))
    assert torch.equal(target[:, 0], source[:, 1])
    assert not bool(target[:, 1].any())


# --- attention ---------------------------------------------------------------------------------------------

STARTS, COUNTS = (0, 70, 5), (5, 1, 9)
SIZE, BLOCKS, KV_HEADS, DIM = 3, 40, 2, 12


def state(dtype: Any = torch.float32) -> tuple[Any, Any, Batch]:
    """A prompt, a decode over three splits, and a chunk; what is behind the keys is not a number."""
    dice = Random("attention")
    pool = normal(2, BLOCKS, KV_HEADS, SIZE, DIM, dtype=dtype)
    tables = torch.tensor([dice.sample(range(BLOCKS), 24) for _ in STARTS], device=DEVICE)
    used = {int(b) for i, n in enumerate((5, 71, 14)) for b in tables[i, : -(-n // SIZE)]}
    pool[:, [block for block in range(BLOCKS) if block not in used]] = torch.nan
    return normal(sum(COUNTS), 6, DIM, dtype=dtype), pool, Batch(STARTS, COUNTS, tables)


def attends(module: ModuleType, dtype: Any = torch.float32) -> bool:
    q, pool, batch = state(dtype)
    expected = attention_plain(q.cpu(), pool.cpu(), batch._replace(tables=batch.tables.cpu()))
    return all(is_close(module.attention(q, pool, batch, wanted=wanted), expected) for wanted in (1, 1_000))


def ignores_the_batch(module: ModuleType) -> bool:
    """A decode alone, and with the others, by one program or by one for each split."""
    q, pool, batch = state()
    whole = module.attention(q, pool, batch, wanted=1)[5]
    alone = Batch(STARTS[1:2], COUNTS[1:2], batch.tables[1:2])
    return bool(torch.equal(module.attention(q[5:6].contiguous(), pool, alone, wanted=1_000)[0], whole))


@pytest.mark.parametrize("dtype", TYPES)
def test_attention_is_its_twin(dtype: Any) -> None:
    assert attends(attention_module, dtype)


def test_the_twin_is_what_torch_computes() -> None:
    q, pool, batch = state()
    got = attention_plain(q.cpu(), pool.cpu(), batch._replace(tables=batch.tables.cpu()))
    row = 0
    for start, count, table in zip(STARTS, COUNTS, batch.tables.cpu(), strict=True):
        keys = torch.arange(start + count)
        k, v = (
            side[table[keys // SIZE], :, keys % SIZE].repeat_interleave(3, 1).transpose(0, 1) for side in pool.cpu()
        )
        mask = keys[None] <= start + torch.arange(count)[:, None]
        expected = torch.nn.functional.scaled_dot_product_attention(
            q[row : row + count].cpu().transpose(0, 1), k, v, attn_mask=mask
        )
        assert torch.allclose(got[row : row + count], expected.transpose(0, 1), atol=1e-5)
        row += count


def sees_the_last_key(module: ModuleType) -> bool:
    """Decodes whose last key is the first or last of a tile or of a split, and the only one that counts."""
    ends = (1, 16, 17, 32, 33, 49, 65)
    pool = torch.full((2, 65, 1, 1, 2), -9.0, device=DEVICE)
    tables = torch.arange(65, device=DEVICE).expand(len(ends), 65).contiguous()
    q = torch.full((len(ends), 1, 2), 90.0, device=DEVICE)
    pool[1] = 0.0
    for end in ends:
        pool[:, end - 1] = end
    batch = Batch([end - 1 for end in ends], [1] * len(ends), tables)
    return all(
        module.attention(q, pool, batch, wanted=wanted)[:, 0, 0].tolist() == list(map(float, ends))
        for wanted in (1, 1_000)
    )


def test_a_decode_sees_its_own_key_at_each_edge() -> None:
    assert sees_the_last_key(attention_module)


def test_attention_does_not_depend_on_the_batch_nor_on_chunks() -> None:
    assert ignores_the_batch(attention_module)
    q, pool, batch = state()
    whole = attention(q, pool, batch, wanted=1)[6:]
    parts = Batch((5, 7, 12), (2, 5, 2), batch.tables[[2, 2, 2]])
    assert torch.equal(attention(q[6:].contiguous(), pool, parts, wanted=1), whole)


def test_every_query_and_split_is_somebodys_work() -> None:
    dice = Random("work")
    for wanted in (1, 1_000):
        starts, counts = [dice.randrange(99) for _ in range(9)], [dice.randint(1, 20) for _ in range(9)]
        batch = Batch(starts, counts, torch.zeros(9, 1))
        items, parted, states = work_of(batch, Tiles(16, 8, 2), 4, wanted)
        done = sorted(
            (item.row + query, split)
            for item in items
            for query in range(item.queries)
            for split in range(item.first, item.last)
        )
        assert len(done) == len(set(done))
        assert {row for row, _ in done} == set(range(sum(counts)))
        last = dict(done)
        ends = [start + n for start, count in zip(starts, counts, strict=True) for n in range(count)]
        assert all(last[row] >= position // 16 for row, position in enumerate(ends))
        places = [item.partial + split for item in items if item.partial >= 0 for split in range(item.first, item.last)]
        assert sorted(places) == list(range(states))
        assert sum(item.last for item in parted) == states


SLOW = "the last key at an edge"
FAULTS: dict[str, tuple[str, list[Change]]] = {
    "a key too few": ("attention", [("attention", "key[None, :] <= (position", "key[None, :] < (position")]),
    "a key too many": (
        "attention",
        [
            (
                "attention",
                "scores = tl.where(key[None, :] <= (position + query)",
                "scores = tl.where(key[None, :] <= (end - 1 + 0 * query)",
            )
        ],
    ),
    "the table of another entry": (
        "attention",
        [("attention", "entry * table_blocks + key", "0 * table_blocks + key")],
    ),
    "the next offset": (
        "attention",
        [("attention", "* block_size + key % block_size", "* block_size + (key + 1) % block_size")],
    ),
    SLOW: (
        "attention",
        [
            (
                "attention",
                "stop = tl.minimum(begin + tiles * keys, end)",
                "stop = tl.minimum(begin + tiles * keys, end - (end % 16 == 1))",
            )
        ],
    ),
    "values of another head": (
        "attention",
        [("attention", "line + blocks * kv_heads * block_size", "line + blocks * block_size")],
    ),
    "a split is forgotten": (
        "attention",
        [("attention", "for split in range(0, last):", "for split in range(1, last):")],
    ),
    "the state of another head": (
        "attention",
        [
            (
                "attention",
                "kv_heads + kv_head) * rows + row\n        top, weight",
                "kv_heads + 0 * kv_head) * rows + row\n        top, weight",
            )
        ],
    ),
    "splits follow the batch": (
        "attention",
        [("attention", "    tiles = tiles or usual\n", "    tiles = usual._replace(tiles=1 + len(batch.starts))\n")],
    ),
    "states are joined backwards": (
        "attention",
        [
            (
                "attention",
                "    for split in range(0, last):\n        slot = ((partial + split)",
                "    for split in range(0, last):\n        slot = ((partial + last - 1 - split)",
            )
        ],
    ),
    "the slot behind": ("kv_write", [("kv_write", "+ slot % block_size", "+ (slot + 1) % block_size")]),
    "keys for values": ("kv_write", [("kv_write", "((is_value * blocks", "((0 * is_value * blocks")]),
    "turned the other way": ("kv_write", [("kv_write", "x * cos - y * sin", "x * cos + y * sin")]),
    "values are turned": (
        "kv_write",
        [("kv_write", "(head < heads + kv_heads)[:, None]", "(head < heads + 2 * kv_heads)[:, None]")],
    ),
}


def looks_right(name: str, module: ModuleType) -> bool:
    if name == "kv_write":
        return written(module, torch.float32)
    return attends(module) and sees_the_last_key(module) and ignores_the_batch(module)


@pytest.mark.parametrize("fault", [pytest.param(name, marks=[pytest.mark.deep] * (name == SLOW)) for name in FAULTS])
def test_a_planted_fault_is_seen(fault: str, tmp_path: Path) -> None:
    name, changes = FAULTS[fault]
    module = planted(tmp_path, name, *changes)
    try:
        same = looks_right(name, module)
    except InterpreterError:  # 0 / 0
        same = False
    assert not same


# --- bad input ---------------------------------------------------------------------------------------------


def test_a_wrong_argument_is_one_sentence() -> None:
    with pytest.raises(TypeError, match=r"w is torch\.float64, but must be float32 or bfloat16"):
        matmul(normal(2, 4), normal(3, 4).double())
    with pytest.raises(TypeError, match=r"x is not in one piece: use \.contiguous\(\)"):
        matmul(normal(4, 2).T, normal(3, 4))
    with pytest.raises(ValueError, match="x has rows of 4, but w of 5: they must be equal"):
        matmul(normal(2, 4), normal(3, 5))
    q, pool, batch = state()
    with pytest.raises(ValueError, match="3 query heads share a key head, but a tile has 2 rows"):
        attention(q, pool, batch, Tiles(2, 16, 1))


def test_nobody_is_nothing() -> None:
    _, pool, batch = state()
    nobody = Batch((), (), batch.tables[:0])
    assert attention(normal(0, 6, DIM), pool, nobody).shape == (0, 6, DIM)
    assert matmul(normal(0, 4), normal(3, 4)).shape == (0, 3)
    assert swiglu(normal(0, 4)).shape == (0, 2)


# --- what the bench measures -------------------------------------------------------------------------------


@pytest.mark.parametrize("queries", [1, pytest.param(6, marks=pytest.mark.deep)])  # torch's mask takes 8 s to import
def test_the_bench_measures_the_same_of_both(queries: int) -> None:
    case = bench_engine.Case("small", 2, 22, queries, 0)
    q, pool, batch = bench_engine.state(case, "cpu")
    own = bench_engine.dense(case, q, pool, batch)().transpose(1, 2).reshape(q.shape)
    assert is_close(attention_plain(q, pool, batch), own)
    assert bench_engine.operations(case) == 4 * 2 * 32 * 128 * sum(range(23 - queries, 23))


def test_without_a_device_the_bench_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert bench_engine.main() == 0
    assert capsys.readouterr().out == "There is no CUDA device here, so no GPU figure was measured.\n"
