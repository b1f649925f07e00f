"""Sarathi-Serve: stall-free batches of chunked prefills (Agrawal et al., "Taming Throughput-Latency Tradeoff in LLM
Inference with Sarathi-Serve", OSDI 2024, section 4, algorithm 3).

Every decode is in every step; what they leave of the token budget goes to the prompt that is under way, and then to new
ones, whose memory is there for the whole prompt (and the watermark).  The newest is preempted, and computes again.

Its promises: prefill stays within what decodes leave of the budget (S1: STEP-1), no decode is left out (S2:
`stall_free`, `mixes_prefill`), chunks are in order and add up (S3: STEP-11, of everybody), the first token comes with
the last chunk (S4: STEP-6), a step has at most `token_budget` tokens whatever the prompts are, so its time is bounded
(S5: `hard_budget`), and a prompt is cut only where the budget ends, so it needs few chunks (S6: `full_chunks`).
"""

from .published import System

SARATHI = System(
    name="sarathi",
    source="Sarathi-Serve, OSDI 2024, section 4, algorithm 3",
    fixed={"reserve": "known", "phase_first": "decode"},
    promises=frozenset(
        {"fcfs", "break", "resume_order", "newest_first", "watermark", "full_reserve", "hard_budget", "hybrid"}
        | {"stall_free", "mixes_prefill", "full_chunks"}
    ),
)
