"""The installed vLLM: the versions that are known, the names that the adapter uses, and a scheduler by our settings."""

import functools
import importlib
import json
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from schedspec.spec.vocabulary import Settings

from .installed import installed_version, usable

KNOWN_VERSIONS = ("0.33.0",)
INSTALL = "`make vllm` makes an environment with vLLM 0.33.0, and there type .venv-vllm/bin/schedspec"

MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 1,
    "num_hidden_layers": 1,
    "vocab_size": 32_128,
    "max_position_embeddings": 65_536,
}
NAMES = {
    "vllm": ("SamplingParams",),
    "vllm.config": ("CacheConfig", "DeviceConfig", "ModelConfig", "SchedulerConfig", "VllmConfig"),
    "vllm.utils.hashing": ("sha256",),
    "vllm.utils.torch_utils": ("STR_DTYPE_TO_TORCH_DTYPE",),
    "vllm.v1.core.kv_cache_utils": ("get_request_block_hasher", "init_none_hash"),
    "vllm.v1.core.sched.async_scheduler": ("AsyncScheduler",),
    "vllm.v1.core.sched.scheduler": ("Scheduler",),
    "vllm.v1.kv_cache_interface": ("FullAttentionSpec", "KVCacheConfig", "KVCacheGroupSpec"),
    "vllm.v1.outputs": ("ModelRunnerOutput",),
    "vllm.v1.request": ("Request", "RequestStatus"),
    "vllm.v1.structured_output": ("StructuredOutputManager",),
}


def installed() -> str:
    """The version that is installed, if it is known.  Raises UnknownSubject."""
    return installed_version("vllm", "vLLM", KNOWN_VERSIONS, INSTALL)


@functools.cache
def vllm() -> Any:
    """The names, and `config`, one configuration whose fields are set per scheduler.  Raises UnknownSubject."""
    version = installed()
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    return usable("vLLM", version, _imported, INSTALL)


def _imported(version: str) -> Any:
    v = SimpleNamespace(version=version)
    for module, names in NAMES.items():
        for name in names:
            setattr(v, name, getattr(importlib.import_module(module), name))
    v.init_none_hash(v.sha256)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(MODEL))
        model = v.ModelConfig(model=folder, skip_tokenizer_init=True, dtype="float32", max_model_len=65_536)
    limits = v.SchedulerConfig(max_model_len=65_536, is_encoder_decoder=False, max_num_batched_tokens=8_192)
    v.config = v.VllmConfig(
        model_config=model,
        cache_config=v.CacheConfig(block_size=16),
        scheduler_config=limits,
        device_config=v.DeviceConfig(device="cpu"),
    )
    v.structured_output = v.StructuredOutputManager(v.config)
    return v


def new_scheduler(v: Any, s: Settings, longest: int) -> Any:
    """A scheduler of the release, of the class that runs so many steps ahead, over a KV cache of one layer."""
    cache, plan = v.config.cache_config, v.config.scheduler_config
    v.config.model_config.max_model_len = plan.max_model_len = longest
    cache.block_size, cache.num_gpu_blocks, cache.enable_prefix_caching = s.block_size, s.blocks, s.prefix_caching
    plan.max_num_seqs, plan.max_num_batched_tokens, plan.policy = s.seats, s.token_budget, s.policy
    plan.enable_chunked_prefill, plan.long_prefill_token_threshold = s.chunked_prefill, s.chunk_tokens
    plan.scheduler_reserve_full_isl, plan.async_scheduling = s.reserve == "known", s.overlap_depth > 1
    plan.watermark = (s.watermark_blocks + 0.5) / s.blocks if s.watermark_blocks else 0.0  # a fraction, rounded down
    dtype = v.STR_DTYPE_TO_TORCH_DTYPE["float32"]
    spec = v.FullAttentionSpec(block_size=s.block_size, num_kv_heads=1, head_size=1, dtype=dtype)
    group = v.KVCacheGroupSpec(["layer"], spec)
    kv = v.KVCacheConfig(num_blocks=s.blocks, kv_cache_tensors=[], kv_cache_groups=[group])
    kind = v.AsyncScheduler if s.overlap_depth > 1 else v.Scheduler
    return kind(v.config, kv, v.structured_output, block_size=s.block_size)
