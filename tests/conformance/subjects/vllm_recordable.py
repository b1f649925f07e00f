"""Which vLLM can be recorded: what a trace has no words for, and the settings of a scheduler that serves."""

from collections.abc import Callable, Mapping
from typing import Any

from schedspec.spec.vocabulary import Settings

Unsaid = Mapping[str, Callable[[Any], Any]]

CONFIGURED: Unsaid = {
    "what came before: record a fresh scheduler": lambda s: s.current_step or s.requests,
    "LoRA": lambda s: s.lora_config,
    "speculative decoding": lambda s: s.num_spec_tokens,
    "pooling and diffusion models": lambda s: s.num_sampled_tokens_per_step != 1,
    "encoder-decoder models": lambda s: s.is_encoder_decoder,
    "KV and encoder connectors": lambda s: s.connector or s.ec_connector,
    "more or less than one KV cache group": lambda s: len(s.kv_cache_config.kv_cache_groups) != 1,
    "other than full attention": lambda s: type(_blocks(s)).__name__ != "FullAttentionManager",
    "context parallelism": lambda s: _blocks(s).block_size != s.block_size,
    "pipeline parallelism": lambda s: s.use_pp,
    "prefill_schedule_interval": lambda s: s.scheduler_config.prefill_schedule_interval > 1,
}
ASKED: Unsaid = {
    "multimodal input": lambda r: r.mm_features,
    "prompt embeddings": lambda r: r.prompt_token_ids is None or r.prompt_embeds is not None,
    "structured output": lambda r: r.structured_output_request,
    "streaming input": lambda r: r.resumable,
    "a cache salt": lambda r: r.cache_salt,
}


class Unrecordable(ValueError):
    """One sentence."""


def refuse(it: Any, unsaid: Unsaid) -> None:
    for name, has in unsaid.items():
        if has(it):
            raise Unrecordable(f"a trace has no words for {name}")


def settings_of(s: Any) -> Settings:
    """The settings that a scheduler lives by, after everything that vLLM derives at its start."""
    plan, policy = s.scheduler_config, s.policy.value
    return Settings(
        blocks=s.cache_config.num_gpu_blocks,
        block_size=s.block_size,
        seats=s.max_num_active_reqs,
        token_budget=min(s.max_num_scheduled_tokens, plan.max_num_batched_tokens),
        watermark_blocks=s.kv_cache_manager.watermark_blocks,
        policy=policy,
        victim="newest" if policy == "fcfs" else "lowest_priority",
        reserve="known" if s.scheduler_reserve_full_isl else "on_demand",
        prefix_caching=bool(s.cache_config.enable_prefix_caching),
        chunked_prefill=bool(plan.enable_chunked_prefill),
        chunk_tokens=plan.long_prefill_token_threshold,
        overlap_depth=2 if plan.async_scheduling else 1,
        max_model_tokens=s.max_model_len,
    )


def most_output_tokens(scheduler: Any, request: Any) -> int:
    """vLLM ends a request at the model's context, too, whatever it has asked for."""
    most: int = min(request.max_tokens, scheduler.max_model_len - request.num_prompt_tokens)
    return max(1, most)


def _blocks(scheduler: Any) -> Any:
    return scheduler.kv_cache_manager.coordinator.single_type_managers[0]
