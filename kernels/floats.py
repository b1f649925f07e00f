"""What the kernels of the engine share: one order for every sum, whatever else is in the batch.

A result is *batch-invariant* if it depends on its own inputs alone, bit for bit.  Two things make it so: each sum is
made in tiles of a fixed size in a fixed order, and nothing is fused that one compiler fuses and another does not
(`FUSION`).  The twins sum by halves, with products and sums that IEEE 754 rounds once; the exponential is made of
those."""

import os
from importlib import metadata

import torch
import triton
import triton.language as tl
from torch import Tensor

FUSION = {"enable_fp_fusion": False}
"""Every launch: a product and a sum are rounded apart, in whichever kernel they stand."""
FLOATS = (torch.float32, torch.bfloat16)
LOG2_E = 1.4426950408889634
_EXP2 = tuple(0.6931471805599453**n / f for n, f in enumerate((1, 1, 2, 6, 24, 120, 720, 5040)))


def is_interpreted() -> bool:
    """Kernels run under Triton's interpreter, where a matrix product is numpy's: it depends on the place of a row, and
    takes bfloat16 for integers.  So products are summed there without it."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def require_loops() -> None:
    """Triton's interpreter before 3.7 makes an array of one element the bound of a loop, which numpy from 2.4 on does
    not take for an integer.  Raises RuntimeError with what to install instead."""
    if is_interpreted() and _version(triton.__version__) < (3, 7) and _version(metadata.version("numpy")) >= (2, 4):
        raise RuntimeError(
            f"triton {triton.__version__} does not interpret loops with numpy {metadata.version('numpy')}:"
            " pip install 'numpy<2.4', or triton 3.7 with a torch that goes with it"
        )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])


@triton.jit
def product(a, b, total, exact: tl.constexpr):
    """total + a @ b in float32.  `exact`: without the matrix unit, in one order for every row."""
    if exact:
        return total + tl.sum(a.to(tl.float32)[:, :, None] * b.to(tl.float32)[None, :, :], axis=1)
    return tl.dot(a, b, total, input_precision="ieee")


def halves_sum_plain(terms: Tensor) -> Tensor:
    """The sum along the last dimension: one half onto the other, until one is left."""
    size = terms.shape[-1]
    while size > 1:
        half = (size + 1) // 2
        upper = terms[..., half:size]
        terms = torch.cat([terms[..., : size - half] + upper, terms[..., size - half : half]], dim=-1)
        size = half
    return terms[..., 0]


def exp2_plain(x: Tensor) -> Tensor:
    """2 to the x in float32, within 3 units in the last place; 0 below -126, NaN stays.  Nothing but products and sums:
    a library's depends on where in an array a number stands."""
    clamped = x.clamp(min=-126.0, max=127.0)
    whole = clamped.round()
    rest = clamped - whole
    value = torch.full_like(rest, _EXP2[-1])
    for factor in reversed(_EXP2[:-1]):
        value = value * rest + factor
    scale = ((whole.nan_to_num().to(torch.int32) + 127) << 23).view(torch.float32)
    return torch.where(x < -126.0, 0.0, value * scale)


def require_floats(**tensors: Tensor) -> None:
    """Raises TypeError unless all are of one float type that the kernels know, and lie in one piece."""
    first = next(iter(tensors.values()))
    for name, tensor in tensors.items():
        if tensor.dtype not in FLOATS or tensor.dtype != first.dtype:
            raise TypeError(
                f"{name} is {tensor.dtype}, but must be float32 or bfloat16, as all others: use .to({first.dtype})"
            )
        if not tensor.is_contiguous():
            raise TypeError(f"{name} is not in one piece: use .contiguous()")
