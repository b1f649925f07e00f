"""A step of FCFS on a CUDA device, in a captured graph.

    python -m schedspec.kernels.bench

Each replay decides on the same arrays: `top` and `held` are put back within the graph, which is part of the figure.
"""

import importlib.util
import statistics
import sys
from typing import Any

RUNNING = (16, 256, 1_024, 8_192)
WAITING = 100_000
BLOCK_SIZE = 16
BLOCKS_EACH = 32
REPLAYS = 200


def why_not() -> str | None:
    """One sentence, if nothing can be measured."""
    for name in ("torch", "triton"):
        if importlib.util.find_spec(name) is None:
            return f"{sys.executable} has no {name}, so no GPU figure was measured."
    import torch

    return None if torch.cuda.is_available() else "There is no CUDA device here, so no GPU figure was measured."


def step_us(running: int, waiting: int) -> float:
    """All decode and one in `BLOCK_SIZE` takes a block; if some wait, one of them enters: there is one seat."""
    import torch

    from .step import Outputs, step

    def full(size: int, value: int) -> Any:
        return torch.full((size,), value, dtype=torch.int64, device="cuda")

    def counted(size: int) -> Any:
        return torch.arange(size, dtype=torch.int64, device="cuda")

    queue = max(waiting, 1)
    blocks = (running + 2) * (BLOCKS_EACH + 1)
    wanted, held = full(running, 1), full(running, BLOCKS_EACH - 1)
    issued = (BLOCKS_EACH - 1) * BLOCK_SIZE - counted(running) % BLOCK_SIZE
    count, waits, top = full(1, running), full(1, waiting), full(1, blocks)
    chunk, zeros = full(queue, BLOCK_SIZE), full(queue, 0)
    tables = full((running + 1) * BLOCKS_EACH, 0).reshape(running + 1, BLOCKS_EACH)
    free, rows, entering_rows = counted(blocks), counted(running), full(queue, running)
    out = Outputs.of(running, queue, "cuda")
    held_before, top_before = held.clone(), top.clone()

    def one() -> None:
        held.copy_(held_before)
        top.copy_(top_before)
        step(
            wanted, issued, held, rows, count, chunk, zeros, zeros, waits, entering_rows, tables, free, top, out,
            token_budget=running + 512, seats=running + 1, watermark=0, chunked=True, block_size=BLOCK_SIZE,
        )  # fmt: skip

    one()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        one()
    times: list[float] = []
    for _ in range(REPLAYS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(1_000.0 * begin.elapsed_time(end))
    return statistics.median(times)


def main() -> int:
    reason = why_not()
    if reason is not None:
        print(reason)
        return 0
    import torch

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; medians of {REPLAYS} replays")
    print("| running | waiting | µs per step |")
    print("|---|---|---|")
    for running in RUNNING:
        for waiting in (0, WAITING):
            print(f"| {running:,} | {waiting:,} | {step_us(running, waiting):.1f} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
