"""The installed transformers: which versions are known, and one manager of continuous batching by our settings."""

import functools
import gc
import importlib
import logging
from types import SimpleNamespace
from typing import Any
from unittest import mock

from schedspec.spec.vocabulary import Settings, Unsupported

from .installed import hold_to, installed_version, usable

KNOWN_VERSIONS = ("5.20.2",)
INSTALL = f"pip install 'transformers=={KNOWN_VERSIONS[-1]}' torch psutil"
MODEL = {"num_hidden_layers": 1, "num_attention_heads": 1, "hidden_size": 32, "vocab_size": 64}
"""One layer of one head, so that a block has a multiple of 128 bytes: then it is a sector of its own (cache.py)."""

POOL = ("blocks", "block_size", "seats", "token_budget")
HONOURED = {
    **{"policy": "fcfs", "victim": "newest", "at_blocked_head": "skip", "reserve": "on_demand"},
    **{"watermark_blocks": 0, "chunked_prefill": True, "chunk_tokens": 0, "overlap_depth": 1},
    **{name: getattr(Settings(), name) for name in ("max_prompt_tokens", "max_output_tokens", "max_model_tokens")},
}


@functools.cache
def transformers() -> Any:
    """The modules that are used, or one sentence that says why there are none."""
    version = installed_version("transformers", "transformers", KNOWN_VERSIONS, INSTALL)
    return usable("transformers", version, _imported, INSTALL)


def _imported(version: str) -> Any:
    top = importlib.import_module("transformers")
    batching = "transformers.generation.continuous_batching"
    api = importlib.import_module(f"{batching}.continuous_api")
    bounds = importlib.import_module(f"{batching}.initialization").BOUNDS
    logging.getLogger("ContinuousBatchingLogger").setLevel(logging.CRITICAL)
    gc.freeze()  # a batch processor that goes away collects all garbage: not what the imports made
    return SimpleNamespace(version=version, top=top, api=api, torch=api.torch, bounds=bounds)


class _NoModel:
    """What the manager asks of a model before it runs one."""

    _supports_flash_attn = False

    def __init__(self, lib: Any) -> None:
        self.config = lib.top.LlamaConfig(**MODEL, attn_implementation="flash_attention_2")  # needs no attention masks
        self.device, self.dtype = lib.torch.device("cpu"), lib.torch.float16
        self._processors = lib.top.LogitsProcessorList

    def eval(self) -> "_NoModel":
        return self

    def _get_logits_processor(self, generation_config: Any) -> Any:
        return self._processors()


def new_manager(settings: Settings, seed: int, scheduler_type: str, *, any_page: bool) -> Any:
    """A manager with its batch processor, as `_run_generation_loop` makes it.

    `any_page` lifts the least page size of 4 (initialization.py, `BOUNDS`); without it a smaller one is refused.
    """
    hold_to(settings, HONOURED, (*POOL, "prefix_caching"))
    lib = transformers()
    config = lib.top.ContinuousBatchingConfig(
        page_size=settings.block_size,
        num_blocks=settings.blocks,
        max_batch_tokens=settings.token_budget,
        max_requests_per_batch=settings.seats,
        allow_block_sharing=settings.prefix_caching,
        scheduler_type=scheduler_type,
        safety_margin=0.0,
        seed=seed,
    )
    bounds = {"page_size": (1, 2**32)} if any_page else {}
    if settings.block_size < {**lib.bounds, **bounds}["page_size"][0]:
        raise Unsupported("block_size", settings.block_size)
    with mock.patch.dict(lib.bounds, bounds):
        manager = lib.api.ContinuousBatchingManager(_NoModel(lib), lib.top.GenerationConfig(eos_token_id=-1), config)
    manager.batch_processor = manager._create_batch_processor()
    return manager
