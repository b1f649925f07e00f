"""Matrix product with fixed tiles: a row of the result depends on that row alone, not on how many there are.

No split along the sum, and no choice of an algorithm by the shape of the batch: both are how a library's product gives
another last bit for a batch of one (He et al., "Defeating Nondeterminism in LLM Inference", Thinking Machines Lab,
2025)."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from .floats import FUSION, halves_sum_plain, is_interpreted, product, require_floats

ROWS, COLUMNS, DEPTH = 64, 64, 32
"""Tile of a device; the interpreter has one of 16 each."""


@triton.jit
def matmul_kernel(
    x_ptr, w_ptr, out_ptr, count, width,
    depth: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr, step: tl.constexpr, exact: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * rows + tl.arange(0, rows)
    column = tl.program_id(1).to(tl.int64) * columns + tl.arange(0, columns)
    total = tl.full((rows, columns), 0.0, tl.float32)
    for first in range(0, depth, step):
        place = first + tl.arange(0, step)
        x = tl.load(
            x_ptr + row[:, None] * depth + place[None, :],
            mask=(row < count)[:, None] & (place < depth)[None, :],
            other=0.0,
        )
        w = tl.load(
            w_ptr + column[None, :] * depth + place[:, None],
            mask=(column < width)[None, :] & (place < depth)[:, None],
            other=0.0,
        )
        total = product(x, w, total, exact)
    tl.store(
        out_ptr + row[:, None] * width + column[None, :],
        total.to(out_ptr.dtype.element_ty),
        mask=(row < count)[:, None] & (column < width)[None, :],
    )


def matmul(x: Tensor, w: Tensor) -> Tensor:
    """x [count, depth] times w [width, depth] transposed: [count, width], summed in float32."""
    require_floats(x=x, w=w)
    count, depth = x.shape
    width = w.shape[0]
    if w.shape[1] != depth:
        raise ValueError(f"x has rows of {depth}, but w of {w.shape[1]}: they must be equal")
    out = torch.empty((count, width), dtype=x.dtype, device=x.device)
    exact = is_interpreted()
    rows, columns, step = (16, 128, 32) if exact else (ROWS, COLUMNS, DEPTH)
    if count:
        grid = (triton.cdiv(count, rows), triton.cdiv(width, columns))
        matmul_kernel[grid](
            x, w, out, count, width, depth=depth, rows=rows, columns=columns, step=step, exact=exact,
            num_warps=4, **FUSION,
        )  # fmt: skip
    return out


def matmul_plain(x: Tensor, w: Tensor) -> Tensor:
    """The same: a tile of the depth after the other."""
    total = torch.zeros((x.shape[0], w.shape[0]), dtype=torch.float32)
    for first in range(0, x.shape[1], DEPTH):
        part = slice(first, first + DEPTH)
        total = total + halves_sum_plain(x[:, None, part].float() * w[None, :, part].float())
    return total.to(x.dtype)
