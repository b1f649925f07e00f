"""Queries and keys turned by their position (RoPE: Su et al., 2021), keys and values written to their slots.

A *slot* is block x block_size + offset.  The pool of a layer is [2, blocks, kv_heads, block_size, head_dim], keys
before values, so that what one head reads of a block lies in one piece."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from .floats import FUSION, is_interpreted, require_floats

LINES = 16
"""Heads of tokens that a program takes on a device."""


@triton.jit
def kv_write_kernel(
    qkv_ptr, cos_ptr, sin_ptr, positions_ptr, slots_ptr, q_ptr, pool_ptr, count, blocks,
    heads: tl.constexpr, kv_heads: tl.constexpr, block_size: tl.constexpr, head_dim: tl.constexpr,
    lines: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    half: tl.constexpr = head_dim // 2
    all_heads: tl.constexpr = heads + 2 * kv_heads
    line = tl.program_id(0).to(tl.int64) * lines + tl.arange(0, lines)
    row, head = line // all_heads, line % all_heads
    place = tl.arange(0, tile)
    is_row = row < count
    here = is_row[:, None] & (place < half)[None, :]
    source = qkv_ptr + line[:, None] * head_dim + place[None, :]
    low = tl.load(source, mask=here, other=0.0)
    high = tl.load(source + half, mask=here, other=0.0)
    turn = tl.load(positions_ptr + row, mask=is_row, other=0)[:, None] * half + place[None, :]
    turns = here & (head < heads + kv_heads)[:, None]
    cos = tl.load(cos_ptr + turn, mask=turns, other=1.0)
    sin = tl.load(sin_ptr + turn, mask=turns, other=0.0)
    x, y = low.to(tl.float32), high.to(tl.float32)
    turned_low = tl.where(turns, (x * cos - y * sin).to(low.dtype), low)
    turned_high = tl.where(turns, (y * cos + x * sin).to(high.dtype), high)
    target = q_ptr + (row * heads + head)[:, None] * head_dim + place[None, :]
    of_query = here & (head < heads)[:, None]
    tl.store(target, turned_low, mask=of_query)
    tl.store(target + half, turned_high, mask=of_query)
    slot = tl.load(slots_ptr + row, mask=is_row, other=0)
    is_value = (head >= heads + kv_heads).to(tl.int64)
    kv_head = head - heads - is_value * kv_heads
    place_in_pool = ((is_value * blocks + slot // block_size) * kv_heads + kv_head) * block_size + slot % block_size
    target = pool_ptr + place_in_pool[:, None] * head_dim + place[None, :]
    of_pool = here & (head >= heads)[:, None]
    tl.store(target, turned_low, mask=of_pool)
    tl.store(target + half, turned_high, mask=of_pool)


def kv_write(qkv: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, slots: Tensor, pool: Tensor) -> Tensor:
    """qkv [count, (heads + 2 kv_heads) head_dim]; cos, sin [positions, head_dim / 2] in float32; positions, slots
    [count]: the turned queries [count, heads, head_dim].  Keys and values lie in the pool of the layer then."""
    require_floats(qkv=qkv, pool=pool)
    _, blocks, kv_heads, block_size, head_dim = pool.shape
    heads = qkv.shape[1] // head_dim - 2 * kv_heads
    count = qkv.shape[0]
    q = torch.empty((count, heads, head_dim), dtype=qkv.dtype, device=qkv.device)
    lines = 64 if is_interpreted() else LINES
    if count:
        kv_write_kernel[(triton.cdiv(count * (heads + 2 * kv_heads), lines),)](
            qkv, cos, sin, positions, slots, q, pool, count, blocks, heads=heads, kv_heads=kv_heads,
            block_size=block_size, head_dim=head_dim, lines=lines, tile=triton.next_power_of_2(head_dim // 2),
            num_warps=4, **FUSION,
        )  # fmt: skip
    return q


def turned_plain(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [count, heads, head_dim]; cos, sin [count, head_dim / 2]."""
    low, high = x.float().chunk(2, dim=-1)
    c, s = cos[:, None], sin[:, None]
    return torch.cat([low * c - high * s, high * c + low * s], dim=-1).to(x.dtype)


def kv_write_plain(qkv: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, slots: Tensor, pool: Tensor) -> Tensor:
    _, _, kv_heads, block_size, head_dim = pool.shape
    heads = qkv.shape[1] // head_dim - 2 * kv_heads
    parts = qkv.view(qkv.shape[0], -1, head_dim)
    turned = turned_plain(parts[:, : heads + kv_heads], cos[positions], sin[positions])
    for row, slot in enumerate(slots.tolist()):
        block, offset = divmod(slot, block_size)
        pool[0, block, :, offset] = turned[row, heads:]
        pool[1, block, :, offset] = parts[row, heads + kv_heads :]
    return turned[:, :heads].contiguous()
