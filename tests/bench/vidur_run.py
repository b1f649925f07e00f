"""Runs Vidur once: `python vidur_run.py ARRIVALS.csv SETTINGS`, with an interpreter that has it and nothing of ours.

Prints a JSON object: steps, tokens, when the last one ended, and the seconds of this process that `Simulator.run` took.
Vidur's own Sarathi scheduler, one replica of one stage; every step takes as long.  Nothing is plotted or traced.
"""

import gc
import json
import logging
import sys
import tempfile
import time
from typing import Any

from vidur import simulator as module
from vidur._native.entities import ExecutionTime
from vidur.config import (
    CacheConfig,
    ClusterConfig,
    MetricsConfig,
    ReplicaConfig,
    SarathiSchedulerConfig,
    SimulationConfig,
    TraceRequestGeneratorConfig,
)
from vidur.execution_time_predictor import BaseExecutionTimePredictor, ExecutionTimePredictorRegistry
from vidur.types import ExecutionTimePredictorType

BATCHES = [0, 0]
"""Steps, and tokens that they ran."""


def constant(step_ns: int) -> type:
    """The predictor that Vidur has no name for: abstract methods are about parts of a step, and are never asked."""

    def get_execution_time(self: Any, batch: Any, pipeline_stage: int) -> Any:
        BATCHES[0] += 1
        BATCHES[1] += batch.total_num_q_tokens
        # Milliseconds of a layer, in the first place that counts.
        return ExecutionTime(
            self._num_layers_per_pipeline_stage, step_ns / 1e6 / self._num_layers_per_pipeline_stage, *[0.0] * 13
        )

    parts = {name: lambda self, batch: 0.0 for name in BaseExecutionTimePredictor.__abstractmethods__}
    return type("Constant", (BaseExecutionTimePredictor,), {**parts, "get_execution_time": get_execution_time})


def config(arrivals: str, folder: str, settings: dict[str, Any]) -> Any:
    return SimulationConfig(
        metrics_config=MetricsConfig(
            write_metrics=settings["write_metrics"],
            enable_chrome_trace=False,
            store_plots=False,
            store_token_completion_metrics=False,
            output_dir=folder,
        ),
        cluster_config=ClusterConfig(
            replica_config=ReplicaConfig(num_pipeline_stages=1, tensor_parallel_size=1),
            replica_scheduler_config=SarathiSchedulerConfig(
                batch_size_cap=settings["seats"], chunk_size=settings["token_budget"]
            ),
            cache_config=CacheConfig(
                block_size=settings["block_size"],
                num_blocks=settings["blocks"],
                watermark_blocks_fraction=0.0,
            ),
        ),
        request_generator_config=TraceRequestGeneratorConfig(
            trace_file=arrivals,
            date="1970-01-01",
            prefill_scale_factor=1,
            decode_scale_factor=1,
            time_scale_factor=1,
            max_tokens=settings["max_tokens"],
        ),
    )


def run(arrivals: str, settings: dict[str, Any]) -> dict[str, float]:
    BATCHES[:] = [0, 0]
    with tempfile.TemporaryDirectory() as folder:
        simulator = module.Simulator(config(arrivals, folder, settings))
        gc.freeze()  # for us there is no garbage collection either while the clock runs
        gc.disable()
        begun = time.process_time()
        simulator.run()
        return {
            "steps": BATCHES[0],
            "tokens": BATCHES[1],
            "end_s": simulator._time,
            "seconds": time.process_time() - begun,
        }


def main() -> None:
    logging.disable(logging.CRITICAL)
    asked_for = ExecutionTimePredictorType.RANDOM_FORREST  # by the configuration, since it is the default
    arrivals, settings = sys.argv[1], json.loads(sys.argv[2])
    ExecutionTimePredictorRegistry.unregister(asked_for)
    ExecutionTimePredictorRegistry.register(asked_for, constant(settings["step_ns"]))
    print(json.dumps(run(arrivals, settings)))


if __name__ == "__main__":
    main()
