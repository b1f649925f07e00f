"""A small engine for plans: a decoder-only transformer over paged KV whose output no schedule can change.

It needs torch (extra `kernels`), and triton for the kernels; `operations.plain()` is the same without triton.

>>> model = Model.load("path/to/checkpoint", device="cuda")                       # doctest: +SKIP
>>> engine = Engine(model, blocks=1_024, block_size=16)                           # doctest: +SKIP
>>> engine.submit(request); engine.hear(plan.deltas); engine.execute(plan)        # doctest: +SKIP
"""

import importlib.util

from .config import ModelConfig as ModelConfig
from .errors import CheckpointError as CheckpointError
from .errors import EngineError as EngineError

NEEDS_TORCH = "the engine needs torch and safetensors: pip install 'schedspec[kernels]'"


def require_torch() -> None:
    """Raises RuntimeError with one sentence where torch or safetensors is not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("torch", "safetensors")):
        raise RuntimeError(NEEDS_TORCH)
