"""vLLM's own EngineCore with a model that draws tokens by dice, recorded by `--scheduler-cls`: run as recorded_vllm.py.

recorded_engine.py FILE SYNC_OR_ASYNC
"""

import importlib
import json
import os
import sys
import tempfile
from concurrent.futures import Future
from pathlib import Path
from random import Random
from typing import Any

from attrs import Factory, define

from schedspec.conformance.subjects.vllm_recorder import recording_scheduler
from schedspec.conformance.subjects.vllm_release import MODEL, vllm

BLOCKS, LONGEST = 200, 512
STOPS = list(range(5, 200))


class Executor:
    """No workers: the batch has an order of its own, and who is in the middle of its prompt has no token."""

    supported_tasks = ("generate",)

    def __init__(self, config: Any) -> None:
        self.ahead = config.scheduler_config.async_scheduling
        self.dice = Random(1)
        self.known: dict[str, int] = {}
        v = vllm()
        dtype = v.STR_DTYPE_TO_TORCH_DTYPE["float32"]
        self.spec = v.FullAttentionSpec(block_size=16, num_kv_heads=1, head_size=64, dtype=dtype)

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None

    def get_kv_cache_specs(self) -> list[dict[str, Any]]:
        return [{"layer": self.spec}]

    def get_supported_kv_cache_layouts(self) -> list[list[str]]:
        return [["LBHNC"]]

    def determine_available_memory(self) -> list[int]:
        return [self.spec.page_size_bytes * BLOCKS]

    def collective_rpc(self, *args: Any, **kwargs: Any) -> list[None]:
        return [None]

    def execute_model(self, out: Any, non_block: bool = False) -> Any:
        cached = out.scheduled_cached_reqs
        start = dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        for new in out.scheduled_new_reqs:
            start[new.req_id] = new.num_computed_tokens
            self.known[new.req_id] = len(new.prompt_token_ids)
        ids = list(out.num_scheduled_tokens)
        self.dice.shuffle(ids)
        samples = [start[name] + out.num_scheduled_tokens[name] >= self.known[name] for name in ids]
        sampled = [[self.dice.randrange(5, 30_000)] if yes else [] for yes in samples]
        places = {name: place for place, name in enumerate(ids)}
        self.result = vllm().ModelRunnerOutput(req_ids=ids, req_id_to_index=places, sampled_token_ids=sampled)
        return _done(None if self.ahead and ids else self.result)

    def sample_tokens(self, grammar: Any, non_block: bool = False) -> Any:
        return _done(self.result) if non_block else self.result


def _done(result: Any) -> Any:
    future: Future[Any] = Future()
    future.set_result(result)
    return future


@define
class Crowd:
    """Half of them share a beginning, and some are cancelled by their clients."""

    core: Any
    dice: Random = Factory(lambda: Random(3))
    came: int = 0

    def serve(self, requests: int) -> None:
        shared = [self.dice.randrange(5, 30_000) for _ in range(64)]
        while self.came < requests or self.core.scheduler.has_requests() or self.core.batch_queue:
            while self.came < requests and self.dice.random() < 0.5:
                self.submit(shared if self.dice.random() < 0.5 else [])
            if self.dice.random() < 0.05:
                self.core.aborts_queue.put_nowait([f"r{self.dice.randint(1, self.came + 1)}"])
            self.core.step_fn()

    def submit(self, shared: list[int]) -> None:
        self.came += 1
        rest = [self.dice.randrange(5, 30_000) for _ in range(self.dice.randint(1, 200))]
        request = importlib.import_module("vllm.v1.engine").EngineCoreRequest(
            request_id=f"r{self.came}",
            prompt_token_ids=shared + rest,
            mm_features=None,
            sampling_params=vllm().SamplingParams(max_tokens=self.dice.randint(1, 150), stop_token_ids=STOPS),
            pooling_params=None,
            arrival_time=float(self.came),
            lora_request=None,
            cache_salt=None,
            data_parallel_rank=None,
        )
        self.core.add_request(*self.core.preprocess_add_request(request))


def engine(ahead: bool, folder: str) -> Any:
    v, module = vllm(), importlib.import_module("vllm.v1.engine.core")
    vars(module)["cleanup_dist_env_and_memory"] = lambda: None  # it asks for an accelerator
    (Path(folder) / "config.json").write_text(json.dumps(MODEL))
    plan = v.SchedulerConfig(
        max_model_len=LONGEST,
        is_encoder_decoder=False,
        max_num_batched_tokens=256,
        max_num_seqs=32,
        scheduler_cls=f"{recording_scheduler.__module__}.{recording_scheduler.__name__}",
    )
    config = v.VllmConfig(
        model_config=v.ModelConfig(model=folder, skip_tokenizer_init=True, dtype="float32", max_model_len=LONGEST),
        cache_config=v.CacheConfig(block_size=16),
        scheduler_config=plan,
        device_config=v.DeviceConfig(device="cpu"),
    )
    plan.async_scheduling = ahead  # on a CPU it is never chosen
    return module.EngineCore(config, Executor, log_stats=True)


def main(file: str, ahead: bool) -> None:
    os.environ["SCHEDSPEC_TRACE"] = file
    with tempfile.TemporaryDirectory() as folder:
        core = engine(ahead, folder)
        Crowd(core).serve(120)
        core.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "async")
