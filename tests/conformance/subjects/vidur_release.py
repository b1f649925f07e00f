"""The installed Vidur: which versions are known, and one replica scheduler by our settings."""

import functools
import importlib
from types import SimpleNamespace
from typing import Any
from unittest import mock

from schedspec.spec.vocabulary import Settings

from .installed import hold_to, installed_version, usable

KNOWN_VERSIONS = ("0.0.26",)
INSTALL = "`make vidur` in a checkout of schedspec has it and what it needs"

POOL = ("blocks", "block_size", "seats", "token_budget", "watermark_blocks")
COMMON = {
    **{"policy": "fcfs", "victim": "newest", "at_blocked_head": "break", "reserve": "known", "overlap_depth": 1},
    **{name: getattr(Settings(), name) for name in ("max_prompt_tokens", "max_output_tokens", "max_model_tokens")},
}
HONOURED = {
    "sarathi": {**COMMON, "batch_mix": "hybrid", "phase_first": "decode", "chunked_prefill": True},
    "vllm": {**COMMON, "batch_mix": "exclusive", "phase_first": "prefill", "chunked_prefill": False},
}


@functools.cache
def vidur() -> Any:
    """The modules that are used, or one sentence that says why there are none."""
    version = installed_version("vidur", "Vidur", KNOWN_VERSIONS, INSTALL)
    return usable("Vidur", version, _imported, INSTALL)


def _imported(version: str) -> Any:
    config = importlib.import_module("vidur.config")
    replicas = "vidur.scheduler.replica_scheduler"
    base = importlib.import_module(f"{replicas}.base_replica_scheduler")
    classes = {
        "sarathi": importlib.import_module(f"{replicas}.sarathi_replica_scheduler").SarathiReplicaScheduler,
        "vllm": importlib.import_module(f"{replicas}.vllm_replica_scheduler").VLLMReplicaScheduler,
    }
    request = importlib.import_module("vidur.entities").Request
    return SimpleNamespace(
        version=version,
        config=config,
        base=base,
        classes=classes,
        Request=request,
        Mended=type("Mended", (request,), {"restart": functools.partialmethod(_restarted, request)}),
        NO_TIME=SimpleNamespace(total_time=0, model_time=0),
    )


def _restarted(job: Any, request: Any) -> None:
    request.restart(job)
    job._num_stage_processed_tokens, job._is_prefill_stage_complete = 0, False


def new_scheduler(kind: str, settings: Settings) -> Any:
    """A replica scheduler of one stage.  Its planner of memory is asked how large the pool is: that is given here."""
    hold_to(settings, HONOURED[kind], POOL)
    lib = vidur()
    cache = lib.config.CacheConfig(
        block_size=settings.block_size,
        num_blocks=settings.blocks,
        # of which Vidur takes the whole part
        watermark_blocks_fraction=(settings.watermark_blocks + 0.5) / settings.blocks,
    )
    size = {"sarathi": "chunk_size", "vllm": "max_tokens_in_batch"}[kind]
    config = {"sarathi": lib.config.SarathiSchedulerConfig, "vllm": lib.config.VllmSchedulerConfig}[kind]
    pool_tokens = settings.blocks * settings.block_size
    with mock.patch.object(lib.base, "MemoryPlanner") as planner:
        planner.return_value.get_max_kv_cache_size_in_tokens.return_value = pool_tokens
        return lib.classes[kind](
            replica_config=SimpleNamespace(enable_sequence_pipeline_parallel=False),
            replica_scheduler_config=config(batch_size_cap=settings.seats, **{size: settings.token_budget}),
            cache_config=cache,
            request_generator_config=SimpleNamespace(max_tokens=pool_tokens),
            replica=SimpleNamespace(id=0),
            num_stages=1,
            execution_time_predictor=None,
        )
