"""Weights: from a checkpoint in safetensors, or drawn from a seed."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from attrs import frozen
from torch import Tensor

from .config import CONFIG, UNQUANTIZED, ModelConfig, config_json
from .errors import CheckpointError, EngineError

ONE_FILE = "model.safetensors"
INDEX = "model.safetensors.index.json"
EMBEDDING, NORM, HEAD = "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"
IGNORED = ("rotary_emb.inv_freq",)
"""Ends of names of tensors that old checkpoints have, and that follow from the config."""


@frozen
class Layer:
    """Matrices are [out, in]; those that read the same input stand in one."""

    attention_norm: Tensor
    qkv: Tensor
    out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


@frozen
class Weights:
    embedding: Tensor
    layers: tuple[Layer, ...]
    norm: Tensor
    head: Tensor


def shapes_of(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor that a checkpoint must have, by the name that transformers gives it."""
    heads, kv = config.heads * config.head_dim, config.kv_heads * config.head_dim
    hidden, mlp = config.hidden, config.mlp
    shapes: dict[str, tuple[int, ...]] = {EMBEDDING: (config.vocabulary, hidden), NORM: (hidden,)}
    if not config.tied:
        shapes[HEAD] = (config.vocabulary, hidden)
    for layer in range(config.layers):
        shapes |= {
            f"model.layers.{layer}.{name}.weight": shape
            for name, shape in {
                "input_layernorm": (hidden,),
                "self_attn.q_proj": (heads, hidden),
                "self_attn.k_proj": (kv, hidden),
                "self_attn.v_proj": (kv, hidden),
                "self_attn.o_proj": (hidden, heads),
                "post_attention_layernorm": (hidden,),
                "mlp.gate_proj": (mlp, hidden),
                "mlp.up_proj": (mlp, hidden),
                "mlp.down_proj": (hidden, mlp),
            }.items()
        }
    return shapes


def weights_of(config: ModelConfig, tensors: Mapping[str, Tensor], dtype: Any, device: Any) -> Weights:
    """Raises CheckpointError where a tensor is missing, of another shape, or not of this model, and EngineError where
    the device has no room."""
    _require(config, tensors)

    def get(*names: str) -> Tensor:
        whole = torch.cat([tensors[f"{name}.weight"] for name in names])
        try:
            return whole.to(device=device, dtype=dtype).contiguous()
        except torch.OutOfMemoryError as error:
            size = sum(tensor.numel() for tensor in tensors.values()) * dtype.itemsize / (1 << 30)
            raise EngineError(f"{device} has no room for {size:.1f} GiB of weights: take a smaller model") from error

    layers = []
    for number in range(config.layers):
        at = f"model.layers.{number}"
        layers.append(
            Layer(
                attention_norm=get(f"{at}.input_layernorm"),
                qkv=get(*(f"{at}.self_attn.{name}_proj" for name in "qkv")),
                out=get(f"{at}.self_attn.o_proj"),
                mlp_norm=get(f"{at}.post_attention_layernorm"),
                gate_up=get(f"{at}.mlp.gate_proj", f"{at}.mlp.up_proj"),
                down=get(f"{at}.mlp.down_proj"),
            )
        )
    embedding = get(EMBEDDING.removesuffix(".weight"))
    head = embedding if config.tied else get(HEAD.removesuffix(".weight"))
    return Weights(embedding, tuple(layers), get(NORM.removesuffix(".weight")), head)


def _require(config: ModelConfig, tensors: Mapping[str, Tensor]) -> None:
    if config.layers > len(tensors):
        raise CheckpointError(
            f"the checkpoint has {len(tensors)} tensors in all, but {CONFIG} asks for {config.layers} layers"
        )
    shapes = shapes_of(config)
    missing = sorted(shapes.keys() - tensors.keys())
    if missing:
        raise CheckpointError(
            f"the checkpoint lacks {_some(missing)}: {CONFIG} asks for {config.layers} layers"
            f"{'' if config.tied else ' and a head of its own'}"
        )
    extra = sorted(name for name in tensors.keys() - shapes.keys() if not name.endswith(IGNORED))
    if config.tied:
        extra = [name for name in extra if name != HEAD]  # some write it though it is the embedding
    if extra:
        raise CheckpointError(
            f"the checkpoint has {_some(extra)}, which a model of this {CONFIG} has no place for: it is of another"
            " architecture, or of more layers"
        )
    for name, shape in shapes.items():
        has = tuple(tensors[name].shape)
        if has != shape:
            is_vocabulary = name in (EMBEDDING, HEAD) and has[:1] != shape[:1]
            what = "the vocabulary does not fit" if is_vocabulary else "it does not fit"
            raise CheckpointError(f"{name} has shape {has}, but {CONFIG} asks for {shape}: {what}")
        if not tensors[name].is_floating_point():
            raise CheckpointError(f"{name} is of {tensors[name].dtype}, {UNQUANTIZED}")
        if not bool(torch.isfinite(tensors[name]).all()):
            raise CheckpointError(f"{name} has numbers that are not finite: was the file written whole?")
    if config.tied and HEAD in tensors and not torch.equal(tensors[HEAD], tensors[EMBEDDING]):
        raise CheckpointError(f"{HEAD} is not {EMBEDDING}, but {CONFIG} says tie_word_embeddings: one of them is wrong")


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more tensors"


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of a checkpoint, of one file or of those that its index names."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    tensors: dict[str, Tensor] = {}
    for file in _files(folder):
        try:
            tensors |= load_file(file)
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{file} cannot be read as safetensors: {error}") from error
    return tensors


def _files(folder: Path) -> list[Path]:
    index = folder / INDEX
    if not index.is_file():
        if not (folder / ONE_FILE).is_file():
            raise CheckpointError(f"{folder} has neither {ONE_FILE} nor {INDEX}: other formats are not read")
        return [folder / ONE_FILE]
    try:
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{index} is no index of files: it needs an object weight_map") from error
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise CheckpointError(f"{index} names {name!r}, but must name files beside it")
    return [folder / name for name in sorted(names)]


def random_tensors(config: ModelConfig, seed: int) -> dict[str, Tensor]:
    """Drawn so that tokens differ: matrices keep the size of what they are given, norms are near 1."""
    dice = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in shapes_of(config).items():
        drawn = torch.randn(shape, generator=dice)
        if len(shape) == 1:
            tensors[name] = 1.0 + 0.1 * drawn
        else:
            tensors[name] = drawn if name == EMBEDDING else drawn / shape[1] ** 0.5
    return tensors


def save_checkpoint(folder: Path, config: ModelConfig, tensors: Mapping[str, Tensor]) -> None:
    """As transformers would."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).write_text(json.dumps(config_json(config), indent=2) + "\n", encoding="utf-8")
    save_file(dict(tensors), folder / ONE_FILE)
