"""What becomes of the KV of a victim: computed again, or saved in host blocks and brought back; and what that costs.

The cost is declared, not measured: `swap_block_ns` per block and direction, `recompute_token_ns` per position that had
been computed.  Which of the two is less depends on the block size, since copies are made block by block (Kwon et al.,
SOSP 2023, section 7.3, https://arxiv.org/abs/2309.06180).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from .bounds import is_int

if TYPE_CHECKING:
    from .settings import Settings

Recover = Literal["recompute", "swap", "cheaper"]

LEAST_OF_RECOVERY = {"host_blocks": 0, "swap_block_ns": 0, "recompute_token_ns": 0, "decode_step_ns": 0}
ALLOWED_OF_RECOVERY: dict[str, tuple[object, ...]] = {"recover": ("recompute", "swap", "cheaper")}


def blocks_to_save(s: "Settings", computed_tokens: int) -> int:
    """Host blocks for the positions that have been computed."""
    return -(-computed_tokens // s.block_size)


def swap_ns(s: "Settings", computed_tokens: int) -> int:
    """Out and back in, by the declared time, in nanoseconds."""
    return 2 * blocks_to_save(s, computed_tokens) * s.swap_block_ns


def recompute_ns(s: "Settings", computed_tokens: int) -> int:
    """All of it once more, by the declared time, in nanoseconds; what a prefix cache may still have does not count."""
    return computed_tokens * s.recompute_token_ns


def avoided_ns(s: "Settings", outputs_left: int) -> int:
    """What somebody would wait for the place of one that has so many declared outputs to come, a step each."""
    return outputs_left * s.decode_step_ns


def faults_of_recovery(s: "Settings") -> Iterator[str]:
    """Values that are right, each by itself, contradict others; what is wrong by itself contradicts nothing."""
    if not all(is_int(value := getattr(s, name)) and value >= 0 for name in LEAST_OF_RECOVERY):
        return
    if s.recover in ("swap", "cheaper") and not s.host_blocks:
        yield f"recover is {s.recover!r}, but host_blocks is 0: there is nowhere to swap to, give host_blocks"
    if s.recover == "recompute" and s.host_blocks:
        yield f"host_blocks is {s.host_blocks}, but recover is 'recompute': write recover='swap' or 'cheaper'"
    if s.recover == "cheaper" and not (s.swap_block_ns and s.recompute_token_ns):
        yield (
            f"recover is 'cheaper', but swap_block_ns is {s.swap_block_ns} and recompute_token_ns"
            f" {s.recompute_token_ns}: what is cheaper is known by both, give them"
        )
    if s.decode_step_ns and not s.preempt_lower_class:
        yield (
            f"decode_step_ns is {s.decode_step_ns}, but nobody takes the place of a lower class: it says what that"
            " saves, write preempt_lower_class=True"
        )
    if s.decode_step_ns and not s.recompute_token_ns:
        yield (
            f"decode_step_ns is {s.decode_step_ns}, but recompute_token_ns is 0: a victim would cost nothing, give what"
            " it costs"
        )
