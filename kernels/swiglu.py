"""SwiGLU (Shazeer, 2020, "GLU Variants Improve Transformer"): the gate through SiLU, times the other half."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from .floats import FUSION, LOG2_E, exp2_plain, require_floats

TILE = 1_024


@triton.jit
def swiglu_kernel(x_ptr, out_ptr, count, width: tl.constexpr, log2_e: tl.constexpr, tile: tl.constexpr):
    index = tl.program_id(0).to(tl.int64) * tile + tl.arange(0, tile)
    here = index < count
    row = index // width
    gate = tl.load(x_ptr + index + row * width, mask=here, other=0.0).to(tl.float32)
    up = tl.load(x_ptr + index + row * width + width, mask=here, other=0.0).to(tl.float32)
    out = tl.div_rn(gate, 1.0 + tl.exp2(gate * -log2_e)) * up
    tl.store(out_ptr + index, out.to(out_ptr.dtype.element_ty), mask=here)


def swiglu(x: Tensor) -> Tensor:
    """x [count, 2 width], gates before the others: [count, width]."""
    require_floats(x=x)
    count, width = x.shape[0], x.shape[1] // 2
    out = torch.empty((count, width), dtype=x.dtype, device=x.device)
    if count:
        grid = (triton.cdiv(count * width, TILE),)
        swiglu_kernel[grid](x, out, count * width, width=width, log2_e=LOG2_E, tile=TILE, num_warps=4, **FUSION)
    return out


def swiglu_plain(x: Tensor) -> Tensor:
    gate, up = x.float().chunk(2, dim=1)
    return (gate / (1.0 + exp2_plain(gate * -LOG2_E)) * up).to(x.dtype)
