"""The engine's kernels on a CUDA device: paged decode attention beside the copy rate, chunked prefill attention beside
the rate of a bfloat16 matrix product, both measured in the same run and both beside torch's own; and what a product
costs whose bits do not depend on the batch.

python -m schedspec.kernels.bench_engine
"""

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from .bench import bytes_per_us, times_us, why_not

HEADS, KV_HEADS, HEAD_DIM, BLOCK_SIZE = 32, 8, 128, 16
"""Of Llama 3 8B."""
HIDDEN, MLP = 4_096, 14_336
REPEATS = 20


class Case(NamedTuple):
    """`requests` of `context` keys, each with `queries` in this step, which are the last of those."""

    name: str
    requests: int
    context: int
    queries: int
    asked_percent: int


CASES = (
    Case("decode", 64, 4_096, 1, 80),
    Case("decode", 256, 1_024, 1, 80),
    Case("decode", 1, 32_768, 1, 80),
    Case("chunked prefill", 1, 8_192, 2_048, 50),
    Case("chunked prefill", 4, 4_096, 512, 50),
)


def state(case: Case, device: str) -> tuple[Any, Any, Any]:
    """Queries, a pool, and the batch; blocks lie in no order."""
    import torch

    from .attention import Batch

    each = -(-case.context // BLOCK_SIZE)
    dice = torch.Generator().manual_seed(case.context)
    blocks = torch.randperm(each * case.requests, generator=dice).view(case.requests, each).to(device)
    shape = (2, each * case.requests, KV_HEADS, BLOCK_SIZE, HEAD_DIM)
    pool = torch.randn(shape, device=device, dtype=torch.bfloat16)
    q = torch.randn((case.requests * case.queries, HEADS, HEAD_DIM), device=device, dtype=torch.bfloat16)
    starts = [case.context - case.queries] * case.requests
    return q, pool, Batch(starts, [case.queries] * case.requests, blocks)


def dense(case: Case, q: Any, pool: Any, batch: Any) -> Callable[[], Any]:
    """Torch's own attention, on keys and values that lie in one piece."""
    import torch

    table = batch.tables.flatten()
    k, v = (
        side[table]
        .view(case.requests, -1, KV_HEADS, BLOCK_SIZE, HEAD_DIM)
        .transpose(1, 2)
        .reshape(case.requests, KV_HEADS, -1, HEAD_DIM)[:, :, : case.context]
        .repeat_interleave(HEADS // KV_HEADS if case.queries > 1 else 1, 1)
        for side in pool
    )
    rows = q.view(case.requests, case.queries, HEADS, HEAD_DIM).transpose(1, 2)
    attend, mask = torch.nn.functional.scaled_dot_product_attention, None
    if case.queries > 1:
        from torch.nn.attention.bias import causal_lower_right

        mask = causal_lower_right(case.queries, case.context)
    return lambda: attend(rows, k, v, attn_mask=mask, enable_gqa=case.queries == 1)


def kv_bytes(case: Case) -> int:
    """Keys and values, read once."""
    return 2 * 2 * case.requests * case.context * KV_HEADS * HEAD_DIM


def operations(case: Case) -> int:
    """Products and sums of two matrix products, over the keys that each query sees."""
    seen = sum(range(case.context - case.queries + 1, case.context + 1))
    return 4 * case.requests * seen * HEADS * HEAD_DIM


def product_per_us() -> float:
    """Operations of torch's bfloat16 matrix product."""
    import torch

    size = 8_192
    x, w = (torch.randn((size, size), device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 2.0 * size**3 / min(times_us(lambda: x @ w, REPEATS))


def attention_rows() -> Iterator[tuple[object, ...]]:
    from .attention import attention

    copied, multiplied = bytes_per_us(), product_per_us()
    yield "attention", "requests", "keys", "queries", "µs", "share of the floor's rate", "asked", "torch's own, µs"
    yield ("---",) * 8
    for case in CASES:
        q, pool, batch = state(case, "cuda")
        own = statistics.median(times_us(dense(case, q, pool, batch), REPEATS))
        ours = statistics.median(times_us(partial(attention, q, pool, batch), REPEATS))
        floor = kv_bytes(case) / copied if case.queries == 1 else operations(case) / multiplied
        yield (
            case.name, case.requests, f"{case.context:,}", f"{case.queries:,}", f"{ours:.1f}", f"{floor / ours:.0%}",
            f"{case.asked_percent}%", f"{own:.1f}",
        )  # fmt: skip


def product_rows() -> Iterator[tuple[object, ...]]:
    """What batch invariance costs: the same tiles for a row as for thousands."""
    import torch

    from .matmul import matmul

    yield "product", "rows", "ours, µs", "torch's own, µs", "times as long"
    yield ("---",) * 5
    w = torch.randn((MLP, HIDDEN), device="cuda", dtype=torch.bfloat16)
    for rows in (1, 16, 256, 2_048):
        x = torch.randn((rows, HIDDEN), device="cuda", dtype=torch.bfloat16)
        ours = statistics.median(times_us(partial(matmul, x, w), REPEATS))
        own = statistics.median(times_us(partial(torch.nn.functional.linear, x, w), REPEATS))
        yield f"{HIDDEN:,} to {MLP:,}", f"{rows:,}", f"{ours:.1f}", f"{own:.1f}", f"{ours / own:.2f}"


def main() -> int:
    reason = why_not()
    if reason is not None:
        print(reason)
        return 0
    import torch
    import triton

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}; bfloat16\n")
    for rows in (attention_rows, product_rows):
        for row in rows():
            print(f"| {' | '.join(map(str, row))} |", flush=True)
        print()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
