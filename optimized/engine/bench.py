"""What batch invariance costs on a CPU: a step with the plain twins beside the same step with torch's own products,
norms and attention, whose bits depend on the batch.

python -m schedspec.optimized.engine.bench
"""

import statistics
import time
from typing import Any

import torch

from ...kernels.attention import Batch
from ...spec.vocabulary import Plan, Request
from .config import ModelConfig
from .engine import Engine
from .model import Model
from .operations import Operations, plain
from .weights import random_tensors

CONFIG = ModelConfig(vocabulary=512, hidden=128, layers=2, heads=8, kv_heads=2, mlp=256, positions=1_024)
BLOCK_SIZE = 16
ROUNDS = 5
SHAPES = {"16 decodes at 64": (16, 64, 1), "1 decode at 256": (1, 256, 1), "a chunk of 64 at 128": (1, 128, 64)}
"""Requests, positions before the step, tokens of each in the step."""


def library() -> Operations:
    """Torch's own; keys and values are written as the twin writes them."""

    def attention(q: Any, pool: Any, batch: Batch) -> Any:
        rows, size = [], pool.shape[3]
        for one, start, table in zip(q.split(list(batch.counts)), batch.starts, batch.tables, strict=True):
            keys = torch.arange(start + len(one))
            k, v = (side[table[keys // size], :, keys % size].transpose(0, 1) for side in pool)
            mask = keys[None] <= start + torch.arange(len(one))[:, None]
            seen = torch.nn.functional.scaled_dot_product_attention(
                one.transpose(0, 1)[None], k[None], v[None], attn_mask=mask, enable_gqa=True
            )
            rows.append(seen[0].transpose(0, 1))
        return torch.cat(rows).contiguous()

    def swiglu(x: Any) -> Any:
        gate, up = x.chunk(2, 1)
        return torch.nn.functional.silu(gate) * up

    twin = plain()
    return Operations(
        "library",
        lambda x, w: x @ w.T,
        lambda x, w, epsilon: torch.nn.functional.rms_norm(x, w.shape, w, epsilon),
        swiglu,
        twin.kv_write,
        attention,
        twin.block_copy,
    )


def engine_of(operations: Operations, requests: int, before: int, tokens: int) -> tuple[Engine, Plan]:
    """Everybody's prompt but the last tokens has run; the plan runs those."""
    each = -(-(before + tokens) // BLOCK_SIZE)
    engine = Engine(Model.of(CONFIG, random_tensors(CONFIG, 0), operations), each * requests, BLOCK_SIZE)
    names = [f"r{number}" for number in range(requests)]
    for number, name in enumerate(names):
        ids = [(7 * number + 11 * place) % CONFIG.vocabulary for place in range(before + tokens)]
        engine.submit(Request(id=name, prompt_ids=ids, max_output_tokens=1))
        engine.hear([("took", name, range(number * each, (number + 1) * each))])
        engine.execute(Plan(step=1, request=[name], start=[0], tokens=[before], samples=[0]))
    count = len(names)
    return engine, Plan(step=2, request=names, start=[before] * count, tokens=[tokens] * count, samples=[1] * count)


def step_ms(operations: Operations, shape: tuple[int, int, int]) -> float:
    engine, plan = engine_of(operations, *shape)
    times = []
    for _ in range(ROUNDS):
        begun = time.thread_time()
        engine.execute(plan)
        times.append(1_000 * (time.thread_time() - begun))
    return statistics.median(times)


def unlike_alone(operations: Operations) -> int:
    """Of 16 decodes in a batch, how many have other logits than alone."""
    requests, before, tokens = SHAPES["16 decodes at 64"]
    engine, plan = engine_of(operations, requests, before, tokens)
    together = engine.execute(plan).logits
    count = 0
    for row, name in enumerate(plan.request):
        alone = Plan(step=3, request=[name], start=[before], tokens=[tokens], samples=[1])
        count += not torch.equal(engine.execute(alone).logits[0], together[row])
    return count


def main() -> int:
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread of a CPU, float32; medians of {ROUNDS}\n")
    print("| step | twins, ms | torch's own, ms | times as long |\n| --- | --- | --- | --- |")
    for name, shape in SHAPES.items():
        ours, own = step_ms(plain(), shape), step_ms(library(), shape)
        print(f"| {name} | {ours:.1f} | {own:.1f} | {ours / own:.1f} |", flush=True)
    ours, own = unlike_alone(plain()), unlike_alone(library())
    print(f"\nOf 16 decodes in a batch, {ours} have other logits than alone with the twins, {own} with torch's own.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
