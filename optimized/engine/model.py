"""The forward pass over the flattened tokens of a step: everything but attention row by row (selective batching: Orca,
OSDI 2022, section 3.2)."""

from pathlib import Path
from typing import Any

import torch
from attrs import frozen
from torch import Tensor

from .config import ModelConfig, read_config
from .errors import EngineError
from .operations import Operations, plain
from .pool import GIB, free_bytes
from .weights import Weights, read_tensors, weights_of


@frozen(kw_only=True)
class Rows:
    """A step, row by row: `token` and `position`, `slot` where keys and values go; `batch` of the attention; `sampled`:
    rows of whose logits a token is made."""

    token: Tensor
    position: Tensor
    slot: Tensor
    batch: Any
    sampled: Tensor


@frozen(eq=False)
class Model:
    config: ModelConfig
    weights: Weights
    cos: Tensor
    sin: Tensor
    operations: Operations

    @classmethod
    def of(
        cls, config: ModelConfig, tensors: Any, operations: Operations | None = None, *,
        dtype: Any = torch.float32, device: Any = "cpu",
    ) -> "Model":  # fmt: skip
        """Tensors by the names of a checkpoint.  Without operations, the plain ones.  Raises CheckpointError and
        EngineError."""
        weights = weights_of(config, tensors, dtype, device)
        turn = angles(config)
        cos, sin = (part.to(torch.float32).to(device) for part in (turn.cos(), turn.sin()))
        return cls(config, weights, cos, sin, operations or plain())

    @classmethod
    def load(cls, folder: Path, operations: Operations | None = None, **options: Any) -> "Model":
        """A checkpoint: config.json and safetensors.  Raises CheckpointError with one sentence."""
        return cls.of(read_config(folder), read_tensors(folder), operations, **options)

    @property
    def dtype(self) -> Any:
        return self.weights.embedding.dtype

    @property
    def device(self) -> Any:
        return self.weights.embedding.device

    def forward(self, rows: Rows, kv: Tensor) -> Tensor:
        """Logits [sampled, vocabulary].  The keys and values of all rows are written first, then read, layer by layer;
        kv [layers, 2, blocks, kv_heads, block_size, head_dim]."""
        run, epsilon = self.operations, self.config.epsilon
        hidden = self.weights.embedding[rows.token]
        for layer, pool in zip(self.weights.layers, kv, strict=True):
            qkv = run.matmul(run.rms_norm(hidden, layer.attention_norm, epsilon), layer.qkv)
            q = run.kv_write(qkv, self.cos, self.sin, rows.position, rows.slot, pool)
            seen = run.attention(q, pool, rows.batch)
            hidden = hidden + run.matmul(seen.view(len(seen), -1), layer.out)
            mixed = run.matmul(run.rms_norm(hidden, layer.mlp_norm, epsilon), layer.gate_up)
            hidden = hidden + run.matmul(run.swiglu(mixed), layer.down)
        last = run.rms_norm(hidden[rows.sampled], self.weights.norm, epsilon)
        logits: Tensor = run.matmul(last, self.weights.head)
        return logits


def angles(config: ModelConfig) -> Tensor:
    """[positions, head_dim / 2] in float64: how far each pair is turned at each position.  Raises EngineError where
    there is no room for them, their cosines and sines."""
    size, free = 3 * 8 * config.positions * (config.head_dim // 2), free_bytes(torch.device("cpu"))
    if free is not None and size > free:
        raise EngineError(
            f"angles of {config.positions} positions take {size / GIB:.1f} GiB, but {free / GIB:.1f} GiB are free:"
            " lower max_position_embeddings in the config"
        )
    pair = torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim
    return torch.arange(config.positions, dtype=torch.float64)[:, None] * config.rope_theta**-pair
