"""vLLM as it was published: paged memory on demand, prompts before decodes (Kwon et al., "Efficient Memory Management
for Large Language Model Serving with PagedAttention", SOSP 2023, section 4; scheduler of vLLM 0.1 and 0.2).

A step is of prompts, if any fits, whole, and leaves the watermark (1 % of the pool); meanwhile all decodes stand still.
Else it is of decodes, each with a new block when its last is full; if there is none the newest request loses all its
blocks and computes them again (`recompute`).  As `vllm-2023-swap` its blocks go to host memory instead (section 4.5),
all together; while anybody is swapped no prompt runs, and who comes back decodes in that step.  As many host blocks as
the pool has blocks are always enough.  First come, first served; a victim stands first in the queue.

Where this differs from the release: it preempted when no block at all was free, even if nobody needed one; here, and in
the paper, memory must be missing (PRE-1).

Its promises: memory is taken when it is needed, so that less than a block per request is wasted (KV-5: no claim to
reserve), the newest is the victim (`newest_first`) and loses all at once (KV-7), whoever came first is served first
(`fcfs`, `break`, `resume_order`).
"""

from .published import System

VLLM_2023 = System(
    name="vllm-2023",
    source="PagedAttention, SOSP 2023, section 4",
    fixed={"batch_mix": "exclusive", "phase_first": "prefill", "chunked_prefill": False},
    promises=frozenset({"fcfs", "break", "resume_order", "newest_first", "watermark"}),
)

VLLM_2023_SWAP = System(
    name="vllm-2023-swap",
    source="PagedAttention, SOSP 2023, section 4.5",
    fixed={**VLLM_2023.fixed, "recover": "swap"},
    promises=VLLM_2023.promises | {"swap"},
    numbers=("host_blocks", "swap_block_ns"),
)
