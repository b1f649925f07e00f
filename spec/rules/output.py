"""Cards of rules about what an engine computed.  They are judged where there is one: `schedspec serve-sim` runs
requests alone as well, and compares bits (`optimized/engine/alone.py`, `optimized/engine/served.py`)."""

from ..relation import registry
from .base import Elsewhere

monitor = registry.monitor


@monitor("OUT-1", claims=("engine",), bugs=("B58",))
class NoScheduleChangesTheTokens(Elsewhere):
    """The tokens of a request do not depend on its schedule: alone, batched, chunked, preempted, swapped, or with a
    prefix that others computed.

    Why: a block that the worker was never told of gave wrong tokens, only for prompts that ended with a block and only
    in company (https://github.com/RBLN-SW/vllm-rbln/pull/662).
    """


@monitor("OUT-2", claims=("engine",))
class ABatchIsOneRequestAtATime(Elsewhere):
    """Selective batching equals one request at a time: logits, and the keys and values that are read, are the same bit
    for bit.

    Why: where the order of a sum follows the batch, the same request has other logits in company, and in time another
    token (He et al., "Defeating Nondeterminism in LLM Inference", Thinking Machines Lab, 2025).
    """


@monitor("KV-17", needs="tables", claims=("engine",), bugs=("B58",))
class TheWorkerKnowsTheTables(Elsewhere):
    """The block tables that the worker has been told equal the scheduler's in every step that is executed.

    Why: a block that was granted to a request which was then pushed out of the step was never told to the worker, which
    wrote to block 0 instead (https://github.com/RBLN-SW/vllm-rbln/pull/662).
    """
