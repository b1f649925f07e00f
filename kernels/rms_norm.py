"""RMSNorm (Zhang and Sennrich, NeurIPS 2019): a row over the root of its mean square, times the weight."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from .floats import FUSION, halves_sum_plain, is_interpreted, require_floats


@triton.jit
def rms_norm_kernel(x_ptr, w_ptr, out_ptr, count, epsilon, width: tl.constexpr, rows: tl.constexpr, tile: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * rows + tl.arange(0, rows)
    place = tl.arange(0, tile)
    here = (row < count)[:, None] & (place < width)[None, :]
    x = tl.load(x_ptr + row[:, None] * width + place[None, :], mask=here, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + place, mask=place < width, other=0.0).to(tl.float32)
    mean = tl.sum(x * x, axis=1) / width
    root = tl.sqrt_rn(mean + epsilon)
    out = tl.div_rn(x, root[:, None]) * w[None, :]
    tl.store(out_ptr + row[:, None] * width + place[None, :], out.to(out_ptr.dtype.element_ty), mask=here)


def rms_norm(x: Tensor, w: Tensor, epsilon: float) -> Tensor:
    """x [count, width], w [width]: of x's shape.  Sums in float32."""
    require_floats(x=x, w=w)
    count, width = x.shape
    out = torch.empty_like(x)
    rows = 16 if is_interpreted() else 1
    if count:
        rms_norm_kernel[(triton.cdiv(count, rows),)](
            x, w, out, count, epsilon, width=width, rows=rows, tile=triton.next_power_of_2(width), num_warps=4, **FUSION
        )
    return out


def rms_norm_plain(x: Tensor, w: Tensor, epsilon: float) -> Tensor:
    x32 = x.float()
    mean = halves_sum_plain(x32 * x32) / x.shape[1]
    root = torch.sqrt(mean + epsilon)
    return (x32 / root[:, None] * w.float()).to(x.dtype)
