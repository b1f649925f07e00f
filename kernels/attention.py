"""Attention over paged KV: chunks of prompts and decodes of any lengths, in one launch (PagedAttention: Kwon et al.,
SOSP 2023).

Keys are taken in tiles from position 0 on, and tiles in *splits* of a fixed number (Flash-Decoding, 2023).  A split
begins from nothing, and splits are joined one after the other, whether one program does them all or each has one: so
the order of a sum depends on the position of the query alone, not on its chunk nor on who else is there.  Who does
which split is `work_of`'s to choose; the bits are the same."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from .floats import FUSION, LOG2_E, exp2_plain, halves_sum_plain, is_interpreted, product, require_floats, require_loops

NOTHING = float("-inf")


class Tiles(NamedTuple):
    """`rows` of a program: queries times heads of a group; `keys` of a tile; `tiles` of a split.  One choice for all
    batches, or nothing is invariant."""

    rows: int
    keys: int
    tiles: int

    @property
    def split_keys(self) -> int:
        return self.keys * self.tiles


INTERPRETED = Tiles(rows=16, keys=16, tiles=2)


WARPS = 8


def on_device(dtype: str, chip: str) -> Tiles:
    """The largest that spill nothing.  The same for a decode and for a chunk, though a decode fills a few rows only."""
    if dtype == "float32":
        return Tiles(rows=32, keys=16, tiles=32)
    return Tiles(rows=64, keys=16, tiles=32) if chip == "sm_80" else Tiles(rows=64, keys=32, tiles=16)


def tiles_for(q: Tensor) -> Tiles:
    if is_interpreted():
        return INTERPRETED
    older = (
        q.device.type == "cuda" and torch.version.hip is None and torch.cuda.get_device_capability(q.device) < (9, 0)
    )
    return on_device(str(q.dtype).removeprefix("torch."), "sm_80" if older else "sm_90")


class Batch(NamedTuple):
    """Entries of a step: `counts[i]` queries from position `starts[i]` on, in the rows after those of the entry before;
    `tables` [entries, most blocks], int64."""

    starts: Sequence[int]
    counts: Sequence[int]
    tables: Tensor


class Item(NamedTuple):
    """Work of a program: `queries` from `row` on, the first at `position`, over splits [first, last).  `partial`
    is where it leaves the state of split 0, -1 if it does all splits and joins them itself."""

    entry: int
    row: int
    queries: int
    position: int
    first: int
    last: int
    partial: int


@triton.jit
def attention_kernel(
    q_ptr, pool_ptr, tables_ptr, items_ptr, out_ptr, top_ptr, weight_ptr, sum_ptr, blocks, table_blocks, scale,
    heads: tl.constexpr, kv_heads: tl.constexpr, group: tl.constexpr, block_size: tl.constexpr,
    head_dim: tl.constexpr, dim_tile: tl.constexpr, rows: tl.constexpr, keys: tl.constexpr, tiles: tl.constexpr,
    exact: tl.constexpr,
):  # fmt: skip
    item_ptr = items_ptr + tl.program_id(0) * 7
    kv_head = tl.program_id(1)
    entry, first_row = tl.load(item_ptr), tl.load(item_ptr + 1)
    count, position = tl.load(item_ptr + 2).to(tl.int32), tl.load(item_ptr + 3).to(tl.int32)
    first, last = tl.load(item_ptr + 4).to(tl.int32), tl.load(item_ptr + 5).to(tl.int32)
    partial = tl.load(item_ptr + 6)
    row = tl.arange(0, rows)
    query, member = row // group, row % group
    dim = tl.arange(0, dim_tile)
    in_group: tl.constexpr = heads // kv_heads
    here = (query < count) & (member < in_group)
    q_place = (first_row + query) * heads + kv_head * in_group + member
    inside = here[:, None] & (dim < head_dim)[None, :]
    q = tl.load(q_ptr + q_place[:, None] * head_dim + dim[None, :], mask=inside, other=0.0)
    end = position + count
    all_top = tl.full((rows,), float("-inf"), tl.float32)
    all_weight = tl.full((rows,), 0.0, tl.float32)
    all_sum = tl.full((rows, dim_tile), 0.0, tl.float32)
    for split in range(first, last):
        top = tl.full((rows,), float("-inf"), tl.float32)
        weight = tl.full((rows,), 0.0, tl.float32)
        total = tl.full((rows, dim_tile), 0.0, tl.float32)
        begin = split * (tiles * keys)
        stop = tl.minimum(begin + tiles * keys, end)
        for place in range(begin, stop, keys):
            key = place + tl.arange(0, keys)
            is_key = key < end
            block = tl.load(tables_ptr + entry * table_blocks + key // block_size, mask=is_key, other=0)
            line = (block * kv_heads + kv_head) * block_size + key % block_size
            k = tl.load(
                pool_ptr + line[None, :] * head_dim + dim[:, None],
                mask=is_key[None, :] & (dim < head_dim)[:, None],
                other=0.0,
            )
            scores = product(q, k, tl.full((rows, keys), 0.0, tl.float32), exact) * scale
            scores = tl.where(key[None, :] <= (position + query)[:, None], scores, float("-inf"))
            new_top = tl.maximum(top, tl.max(scores, axis=1))
            known = tl.where(new_top == float("-inf"), 0.0, new_top)
            less = tl.exp2(top - known)
            p = tl.exp2(scores - known[:, None])
            weight = weight * less + tl.sum(p, axis=1)
            value_line = line + blocks * kv_heads * block_size
            v = tl.load(
                pool_ptr + value_line[:, None] * head_dim + dim[None, :],
                mask=is_key[:, None] & (dim < head_dim)[None, :],
                other=0.0,
            )
            total = product(p.to(v.dtype), v, total * less[:, None], exact)
            top = new_top
        if partial >= 0:
            slot = ((partial + split) * kv_heads + kv_head) * rows + row
            tl.store(top_ptr + slot, top)
            tl.store(weight_ptr + slot, weight)
            tl.store(sum_ptr + slot[:, None] * dim_tile + dim[None, :], total)
        else:
            all_top, all_weight, all_sum = joined(all_top, all_weight, all_sum, top, weight, total)
    if partial < 0:
        out = tl.div_rn(all_sum, all_weight[:, None])
        tl.store(out_ptr + q_place[:, None] * head_dim + dim[None, :], out.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def joined(all_top, all_weight, all_sum, top, weight, total):
    """The state after one more split; a split in which a query has no key changes nothing of it."""
    new_top = tl.maximum(all_top, top)
    known = tl.where(new_top == float("-inf"), 0.0, new_top)
    old, new = tl.exp2(all_top - known), tl.exp2(top - known)
    return new_top, all_weight * old + weight * new, all_sum * old[:, None] + total * new[:, None]


@triton.jit
def join_kernel(
    items_ptr, top_ptr, weight_ptr, sum_ptr, out_ptr,
    heads: tl.constexpr, kv_heads: tl.constexpr, group: tl.constexpr, head_dim: tl.constexpr,
    dim_tile: tl.constexpr, rows: tl.constexpr,
):  # fmt: skip
    item_ptr = items_ptr + tl.program_id(0) * 7
    kv_head = tl.program_id(1)
    first_row, count = tl.load(item_ptr + 1), tl.load(item_ptr + 2)
    last, partial = tl.load(item_ptr + 5), tl.load(item_ptr + 6)
    row = tl.arange(0, rows)
    query, member = row // group, row % group
    dim = tl.arange(0, dim_tile)
    in_group: tl.constexpr = heads // kv_heads
    inside = ((query < count) & (member < in_group))[:, None] & (dim < head_dim)[None, :]
    all_top = tl.full((rows,), float("-inf"), tl.float32)
    all_weight = tl.full((rows,), 0.0, tl.float32)
    all_sum = tl.full((rows, dim_tile), 0.0, tl.float32)
    for split in range(0, last):
        slot = ((partial + split) * kv_heads + kv_head) * rows + row
        top, weight = tl.load(top_ptr + slot), tl.load(weight_ptr + slot)
        total = tl.load(sum_ptr + slot[:, None] * dim_tile + dim[None, :])
        all_top, all_weight, all_sum = joined(all_top, all_weight, all_sum, top, weight, total)
    out = tl.div_rn(all_sum, all_weight[:, None])
    q_place = (first_row + query) * heads + kv_head * in_group + member
    tl.store(out_ptr + q_place[:, None] * head_dim + dim[None, :], out.to(out_ptr.dtype.element_ty), mask=inside)


def work_of(batch: Batch, tiles: Tiles, group: int, wanted: int) -> tuple[list[Item], list[Item], int]:
    """Items for the programs, those whose parts are to be joined, and how many states there are.  While there are fewer
    items than `wanted`, each split has its own."""
    whole = list(_query_tiles(batch, tiles.rows // group, tiles.split_keys))
    if len(whole) >= wanted:
        return whole, [], 0
    items: list[Item] = []
    parted: list[Item] = []
    states = 0
    for item in whole:
        if item.last == 1:
            items.append(item)
            continue
        item = item._replace(partial=states)
        parted.append(item)
        items += [item._replace(first=split, last=split + 1) for split in range(item.last)]
        states += item.last
    return items, parted, states


def _query_tiles(batch: Batch, most: int, split_keys: int) -> Iterator[Item]:
    row = 0
    for entry, (start, count) in enumerate(zip(batch.starts, batch.counts, strict=True)):
        for before in range(0, count, most):
            here = min(most, count - before)
            splits = -(-(start + before + here) // split_keys)
            yield Item(entry, row + before, here, start + before, 0, splits, -1)
        row += count


def attention(q: Tensor, pool: Tensor, batch: Batch, tiles: Tiles | None = None, wanted: int | None = None) -> Tensor:
    """q [count, heads, head_dim]; pool of a layer [2, blocks, kv_heads, block_size, head_dim]: [count, heads,
    head_dim].  Each query sees the keys up to its own position, which are written.  `wanted`: programs that keep the
    device busy; it changes no bit of the result."""
    require_floats(q=q, pool=pool)
    require_loops()
    count, heads, head_dim = q.shape
    _, blocks, kv_heads, block_size, _ = pool.shape
    usual = tiles_for(q)
    tiles = tiles or usual
    group = triton.next_power_of_2(heads // kv_heads)
    if group > tiles.rows:
        raise ValueError(f"{heads // kv_heads} query heads share a key head, but a tile has {tiles.rows} rows")
    out = torch.empty_like(q)
    if not count:
        return out
    items, parted, states = work_of(batch, tiles, group, _programs(q.device) if wanted is None else wanted)
    dim_tile = max(16, triton.next_power_of_2(head_dim))
    shape = {"heads": heads, "kv_heads": kv_heads, "group": group, "head_dim": head_dim, "dim_tile": dim_tile}
    rows = max(1, states * kv_heads * tiles.rows)
    top, weight = torch.empty((2, rows), dtype=torch.float32, device=q.device)
    sums = torch.empty((rows, dim_tile), dtype=torch.float32, device=q.device)
    told = torch.tensor(items + parted, dtype=torch.int64).to(q.device)
    attention_kernel[(len(items), kv_heads)](
        q, pool, batch.tables, told, out, top, weight, sums, blocks, batch.tables.shape[1],
        LOG2_E / head_dim**0.5, block_size=block_size, rows=tiles.rows, keys=tiles.keys, tiles=tiles.tiles,
        exact=is_interpreted(), num_warps=WARPS, **shape, **FUSION,
    )  # fmt: skip
    if parted:
        join_kernel[(len(parted), kv_heads)](
            told[len(items) :], top, weight, sums, out, rows=tiles.rows, num_warps=WARPS, **shape, **FUSION
        )
    return out


def _programs(device: torch.device) -> int:
    """Two for each multiprocessor."""
    return 2 * torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def attention_plain(q: Tensor, pool: Tensor, batch: Batch, tiles: Tiles = INTERPRETED) -> Tensor:
    """The same, an entry after the other."""
    out = torch.empty_like(q)
    row = 0
    for entry, (start, count) in enumerate(zip(batch.starts, batch.counts, strict=True)):
        rows = slice(row, row + count)
        out[rows] = _entry_plain(q[rows].float(), pool, batch.tables[entry], start, tiles).to(q.dtype)
        row += count
    return out


State = tuple[Tensor, Tensor, Tensor]


def _entry_plain(q: Tensor, pool: Tensor, table: Tensor, start: int, tiles: Tiles) -> Tensor:
    """q [count, heads, head_dim], of positions from `start` on."""
    count, heads, head_dim = q.shape
    end = start + count
    position = start + torch.arange(count)
    state = _nothing(count, heads, head_dim)
    for begin in range(0, end, tiles.split_keys):
        part = _nothing(count, heads, head_dim)
        for place in range(begin, min(begin + tiles.split_keys, end), tiles.keys):
            key = torch.arange(place, min(place + tiles.keys, end))
            k, v = _read(pool, table, key, heads)
            scores = halves_sum_plain(q[:, :, None] * k[None]) * (LOG2_E / head_dim**0.5)
            scores = torch.where(key <= position[:, None, None], scores, NOTHING)
            part = _seen_plain(part, _padded(scores, tiles.keys, NOTHING), _padded(v, tiles.keys, 0.0))
        state = _joined_plain(state, part)
    return state[2] / state[1][..., None]


def _nothing(count: int, heads: int, head_dim: int) -> State:
    return torch.full((count, heads), NOTHING), torch.zeros(count, heads), torch.zeros(count, heads, head_dim)


def _read(pool: Tensor, table: Tensor, key: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """Keys [heads, keys, head_dim] and values [heads, head_dim, keys]."""
    _, _, kv_heads, block_size, _ = pool.shape
    k, v = pool[:, table[key // block_size], :, key % block_size].unbind(1)
    head = torch.arange(heads) // (heads // kv_heads)
    return k.float().transpose(0, 1)[head], v.float().permute(1, 2, 0)[head]


def _padded(x: Tensor, size: int, value: float) -> Tensor:
    return torch.nn.functional.pad(x, (0, size - x.shape[-1]), value=value)


def _seen_plain(state: State, scores: Tensor, v: Tensor) -> State:
    """After one more tile: scores [count, heads, keys]."""
    top, weight, total = state
    new_top = torch.maximum(top, scores.amax(-1))
    known = torch.where(new_top == NOTHING, 0.0, new_top)
    less, p = exp2_plain(top - known), exp2_plain(scores - known[..., None])
    total = total * less[..., None] + halves_sum_plain(p[:, :, None] * v[None])
    return new_top, weight * less + halves_sum_plain(p), total


def _joined_plain(one: State, other: State) -> State:
    new_top = torch.maximum(one[0], other[0])
    known = torch.where(new_top == NOTHING, 0.0, new_top)
    old, new = exp2_plain(one[0] - known), exp2_plain(other[0] - known)
    return new_top, one[1] * old + other[1] * new, one[2] * old[..., None] + other[2] * new[..., None]
