"""The shape of a model of the Llama architecture, as `config.json` of a checkpoint has it."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from .errors import CheckpointError

ARCHITECTURE = "LlamaForCausalLM"
CONFIG = "config.json"
SIZES = {
    "vocabulary": "vocab_size",
    "hidden": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "mlp": "intermediate_size",
    "positions": "max_position_embeddings",
}
"""Field -> its name in the file."""
ONLY = {
    "attention_bias": False,
    "mlp_bias": False,
    "hidden_act": "silu",
    "partial_rotary_factor": 1.0,
}
"""What the engine computes, and nothing else."""
UNQUANTIZED = "but quantized weights are not read: take a checkpoint in float32, bfloat16 or float16"


@frozen(kw_only=True)
class ModelConfig:
    """RMSNorm, rotary positions, grouped queries and SwiGLU (Touvron et al., "LLaMA", 2023, section 2.2; grouped
    queries: Ainslie et al., EMNLP 2023)."""

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    mlp: int
    positions: int = 2_048
    head_dim: int = 0
    rope_theta: float = 10_000.0
    epsilon: float = 1e-5
    tied: bool = False

    def __attrs_post_init__(self) -> None:
        if not self.head_dim:
            object.__setattr__(self, "head_dim", self.hidden // self.heads)
        for name in (*SIZES, "head_dim"):
            if getattr(self, name) < 1:
                raise CheckpointError(f"the model's {name} is {getattr(self, name)}, but must be at least 1")
        if self.heads % self.kv_heads:
            raise CheckpointError(
                f"{self.heads} heads cannot share {self.kv_heads} key heads evenly: {SIZES['heads']} must be a multiple"
                f" of {SIZES['kv_heads']}"
            )
        if self.head_dim % 2:
            raise CheckpointError(f"head_dim is {self.head_dim}, but rotary positions turn pairs: it must be even")

    @property
    def qkv_width(self) -> int:
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    def kv_bytes(self, item_bytes: int) -> int:
        """Bytes of keys and values of one position, in all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * item_bytes


def read_config(folder: Path) -> ModelConfig:
    """Raises CheckpointError where it is not there, or of another architecture."""
    file = folder / CONFIG
    if not file.is_file():
        raise CheckpointError(f"{folder} has no {CONFIG}: give the folder of a checkpoint, as transformers saves it")
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} is not JSON: {error}") from error
    if not isinstance(told, dict):
        raise CheckpointError(f"{file} is not a JSON object, but {type(told).__name__}")
    return config_of(told, str(file))


def config_of(told: Mapping[str, Any], where: str) -> ModelConfig:
    """Raises CheckpointError for what the engine does not compute, and for what no model can have."""
    _require_architecture(told, where)
    rope = told.get("rope_parameters") or told.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default")) if isinstance(rope, dict) else rope
    if kind != "default":
        raise CheckpointError(
            f"{where} scales positions by {kind!r}, but this engine knows plain rotary positions only"
        )
    told = {"num_key_value_heads": told.get("num_attention_heads"), **told}
    tied = told.get("tie_word_embeddings", False)
    if not isinstance(tied, bool):
        raise CheckpointError(f"{where}: tie_word_embeddings is {tied!r}, but must be true or false")
    return ModelConfig(
        **{name: _size(told, key, where) for name, key in SIZES.items()},
        head_dim=0 if told.get("head_dim") is None else _size(told, "head_dim", where),
        rope_theta=_above_zero({"rope_theta": 10_000.0, **told, **rope}, "rope_theta", where),
        epsilon=_above_zero({"rms_norm_eps": 1e-6, **told}, "rms_norm_eps", where),
        tied=tied,
    )


def _require_architecture(told: Mapping[str, Any], where: str) -> None:
    named = told.get("architectures") or told.get("model_type", "none")
    architectures = [named] if isinstance(named, str) else list(named) if isinstance(named, list) else [named]
    if ARCHITECTURE not in architectures and architectures != ["llama"]:
        raise CheckpointError(
            f"{where} is of architecture {architectures[0]}, but this engine runs {ARCHITECTURE} only: choose a"
            " checkpoint of that family"
        )
    if told.get("quantization_config"):
        raise CheckpointError(f"{where} has a quantization_config, {UNQUANTIZED}")
    for name, value in ONLY.items():
        if told.get(name, value) != value:
            raise CheckpointError(f"{where} has {name} {told[name]!r}, but this engine computes {value!r} only")


def _size(told: Mapping[str, Any], key: str, where: str) -> int:
    value = told.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CheckpointError(f"{where}: {key} is {value!r}, but must be a whole number, at least 1")
    return value


def _above_zero(told: Mapping[str, Any], key: str, where: str) -> float:
    value = told[key]
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
        raise CheckpointError(f"{where}: {key} is {value!r}, but must be a number above 0")
    return float(value)


def config_json(config: ModelConfig) -> dict[str, Any]:
    """What `read_config` reads."""
    return {
        "architectures": [ARCHITECTURE],
        "model_type": "llama",
        **{key: getattr(config, name) for name, key in SIZES.items()},
        "head_dim": config.head_dim,
        "rope_theta": config.rope_theta,
        "rms_norm_eps": config.epsilon,
        "tie_word_embeddings": config.tied,
        **ONLY,
    }
