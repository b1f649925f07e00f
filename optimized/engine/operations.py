"""What a forward pass is made of: the kernels, or their plain twins.  Both are batch-invariant."""

from collections.abc import Callable
from typing import Any

from attrs import frozen


@frozen
class Operations:
    """Functions of the shapes that `kernels/` states."""

    name: str
    matmul: Callable[..., Any]
    rms_norm: Callable[..., Any]
    swiglu: Callable[..., Any]
    kv_write: Callable[..., Any]
    attention: Callable[..., Any]
    block_copy: Callable[..., Any]


def triton() -> Operations:
    """On a CUDA device, or under the interpreter where TRITON_INTERPRET=1 was set before triton was loaded."""
    from ...kernels.attention import attention
    from ...kernels.block_copy import block_copy
    from ...kernels.kv_write import kv_write
    from ...kernels.matmul import matmul
    from ...kernels.rms_norm import rms_norm
    from ...kernels.swiglu import swiglu

    return Operations("triton", matmul, rms_norm, swiglu, kv_write, attention, block_copy)


def plain() -> Operations:
    """On a CPU."""
    from ...kernels.attention import attention_plain
    from ...kernels.block_copy import block_copy_plain
    from ...kernels.kv_write import kv_write_plain
    from ...kernels.matmul import matmul_plain
    from ...kernels.rms_norm import rms_norm_plain
    from ...kernels.swiglu import swiglu_plain

    return Operations(
        "plain", matmul_plain, rms_norm_plain, swiglu_plain, kv_write_plain, attention_plain, block_copy_plain
    )
