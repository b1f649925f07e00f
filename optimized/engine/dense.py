"""The same model without pages, batches or tiles, in float64: what the engine's logits are held to."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from .config import ModelConfig
from .weights import EMBEDDING, HEAD, NORM


def dense_logits(config: ModelConfig, tensors: Mapping[str, Tensor], tokens: Sequence[int]) -> Tensor:
    """[tokens, vocabulary]: after each token of one sequence."""
    weights = {name: tensor.double() for name, tensor in tensors.items()}
    hidden = weights[EMBEDDING][list(tokens)]
    for number in range(config.layers):
        layer = {
            name.removeprefix(f"model.layers.{number}.").removesuffix(".weight"): tensor
            for name, tensor in weights.items()
            if name.startswith(f"model.layers.{number}.")
        }
        hidden = hidden + _attention(config, layer, _norm(hidden, layer["input_layernorm"], config))
        x = _norm(hidden, layer["post_attention_layernorm"], config)
        gated = torch.nn.functional.silu(x @ layer["mlp.gate_proj"].T) * (x @ layer["mlp.up_proj"].T)
        hidden = hidden + gated @ layer["mlp.down_proj"].T
    head = weights[EMBEDDING if config.tied else HEAD]
    return _norm(hidden, weights[NORM], config) @ head.T


def _norm(x: Tensor, weight: Tensor, config: ModelConfig) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + config.epsilon) * weight


def _attention(config: ModelConfig, layer: Mapping[str, Tensor], x: Tensor) -> Tensor:
    def heads(name: str, count: int) -> Tensor:
        return (x @ layer[f"self_attn.{name}_proj"].T).view(len(x), count, config.head_dim).transpose(0, 1)

    q = _turned(config, heads("q", config.heads))
    k = _turned(config, heads("k", config.kv_heads))
    group = config.heads // config.kv_heads
    k, v = (part.repeat_interleave(group, 0) for part in (k, heads("v", config.kv_heads)))
    seen = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return seen.transpose(0, 1).reshape(len(x), -1) @ layer["self_attn.o_proj"].T


def _turned(config: ModelConfig, x: Tensor) -> Tensor:
    """Pairs as complex numbers, times a number of size 1."""
    half = config.head_dim // 2
    pair = torch.arange(half, dtype=torch.float64)
    angle = torch.outer(torch.arange(x.shape[1], dtype=torch.float64), config.rope_theta ** (-pair / half))
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([turned.real, turned.imag], dim=-1)
