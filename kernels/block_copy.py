"""Blocks from one place to another, in one pool or between two on a device: swap, copy-on-write, transfer."""

import triton
import triton.language as tl
from torch import Tensor

from .arrays import require_arrays
from .floats import require_floats

TILE = 1_024


@triton.jit
def block_copy_kernel(
    source_ptr, target_ptr, from_ptr, to_ptr, source_blocks, target_blocks, elements, tile: tl.constexpr
):
    pair = tl.program_id(0)
    plane = tl.program_id(1).to(tl.int64)
    index = tl.program_id(2).to(tl.int64) * tile + tl.arange(0, tile)
    here = index < elements
    source = (plane * source_blocks + tl.load(from_ptr + pair)) * elements
    target = (plane * target_blocks + tl.load(to_ptr + pair)) * elements
    tl.store(target_ptr + target + index, tl.load(source_ptr + source + index, mask=here), mask=here)


def block_copy(source: Tensor, target: Tensor, froms: Tensor, tos: Tensor) -> None:
    """Pools [planes, blocks, elements] of one device; block froms[i] of the one becomes block tos[i] of the other, in
    every plane.  No block is written that is also read."""
    require_floats(source=source, target=target)
    require_arrays("block_copy", froms=froms, tos=tos)
    planes, source_blocks, elements = source.shape
    if froms.numel():
        block_copy_kernel[(froms.numel(), planes, triton.cdiv(elements, TILE))](
            source, target, froms, tos, source_blocks, target.shape[1], elements, tile=TILE, num_warps=4
        )


def block_copy_plain(source: Tensor, target: Tensor, froms: Tensor, tos: Tensor) -> None:
    target[:, tos.to(target.device)] = source[:, froms.to(source.device)].to(target.device)
