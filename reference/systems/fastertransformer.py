"""FasterTransformer behind a dynamic batcher: request-level batching.

A batch is formed when the machine is empty and runs until the last of its requests has ended; each has memory for the
longest request that the model allows from the beginning.  This is the baseline of Orca (Yu et al., OSDI 2022, sections
2 and 6) and of PagedAttention (Kwon et al., SOSP 2023, section 6.1).

What is not in here: who has ended stays in the batch as padding until it ends, and is answered with it.  That changes
times and no decision, so it is in the cost (`reference/reproduce/orca.py`).
"""

from .published import System

FASTERTRANSFORMER = System(
    name="fastertransformer",
    source="Orca, OSDI 2022, section 2; PagedAttention, SOSP 2023, section 6.1",
    fixed={"batching": "request", "reserve": "model", "chunked_prefill": False},
    promises=frozenset({"fcfs", "break", "model_reserve", "no_preemption"}),
)
