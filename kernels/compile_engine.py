"""The kernels of the engine as they are compiled ahead of time: the shapes of a layer of Llama 3 8B (Grattafiori et
al., 2024, table 3), in both types."""

from collections.abc import Iterator
from typing import Any

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, MLP = 4_096, 32, 8, 128, 14_336
BLOCK_SIZE = 16

Case = tuple[str, Any, dict[str, Any], dict[str, str], dict[str, Any], dict[str, dict[str, Any]]]


def of_engine() -> Iterator[Case]:
    """Name, kernel, constants, types of arguments, options, constants of one chip."""
    from .attention import on_device
    from .block_copy import TILE, block_copy_kernel
    from .floats import FUSION

    for kind, name in (("fp32", "float32"), ("bf16", "bfloat16")):
        for what, kernel, constants, kinds, warps in _of_type(f"*{kind}", name):
            older = on_device(name, "sm_80")
            on = {"sm_80": {"keys": older.keys, "tiles": older.tiles}} if what == "attention" else {}
            yield f"{what}, {name}", kernel, constants, kinds, {"num_warps": warps, **FUSION}, on
        pools = {"source_ptr": f"*{kind}", "target_ptr": f"*{kind}"}
        yield f"block_copy, {name}", block_copy_kernel, {"tile": TILE}, pools, {"num_warps": 4}, {}


def _of_type(kind: str, name: str) -> Iterator[tuple[str, Any, dict[str, Any], dict[str, str], int]]:
    from .attention import WARPS, attention_kernel, join_kernel, on_device
    from .floats import LOG2_E
    from .kv_write import LINES, kv_write_kernel
    from .matmul import COLUMNS, DEPTH, ROWS, matmul_kernel
    from .rms_norm import rms_norm_kernel
    from .swiglu import TILE, swiglu_kernel

    def pointers(*names: str, to: str = kind) -> dict[str, str]:
        return {f"{name}_ptr": to for name in names}

    product = {"rows": ROWS, "columns": COLUMNS, "step": DEPTH, "exact": False}
    yield "matmul", matmul_kernel, {"depth": HIDDEN} | product, pointers("x", "w", "out"), 4
    normed = {"width": HIDDEN, "rows": 1, "tile": HIDDEN}
    yield "rms_norm", rms_norm_kernel, normed, pointers("x", "w", "out") | {"epsilon": "fp32"}, 4
    yield "swiglu", swiglu_kernel, {"width": MLP, "log2_e": LOG2_E, "tile": TILE}, pointers("x", "out"), 4
    shape = {"heads": HEADS, "kv_heads": KV_HEADS, "head_dim": HEAD_DIM}
    floats = pointers("qkv", "q", "pool") | pointers("cos", "sin", to="*fp32")
    written = shape | {"block_size": BLOCK_SIZE, "lines": LINES, "tile": HEAD_DIM // 2}
    yield "kv_write", kv_write_kernel, written, floats, 4
    tiles = on_device(name, "sm_90")
    states = pointers("top", "weight", "sum", to="*fp32")
    of_rows = shape | {"group": HEADS // KV_HEADS, "dim_tile": HEAD_DIM, "rows": tiles.rows}
    tiled = {"block_size": BLOCK_SIZE, "keys": tiles.keys, "tiles": tiles.tiles, "exact": False}
    attended = pointers("q", "pool", "out") | states | {"scale": "fp32"}
    yield "attention", attention_kernel, of_rows | tiled, attended, WARPS
    yield "join", join_kernel, of_rows, pointers("out") | states, WARPS
