"""KV: blocks that a step in flight may still write to."""

from typing import TYPE_CHECKING

from ..relation import registry
from .base import TraceRule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..monitor import Monitor
    from ..tracks import Track
    from ..vocabulary import Observation

WRITE = "write"


@registry.monitor("KV-19", needs="tables", claims=("deferred_frees",), bugs=("B04",))
class FreeWhenNobodyWrites(TraceRule):
    """While a step that was planned before a request ended may still write to a block of it nobody takes that block,
    and it is free again when the step has completed.

    Why: blocks of an aborted request went back to the pool while a transfer still wrote to them, into the KV of whoever
    got them next (vLLM, https://github.com/vllm-project/vllm/pull/32255); kept for a signal that never came they were
    lost (https://github.com/vllm-project/vllm/pull/46289).
    """

    def on_take(self, m: "Monitor", track: "Track", blocks: "Sequence[int]") -> None:
        for step, written in m.deferred.items():
            m.count("KV-19")
            taken = written.intersection(blocks)
            if taken:
                says = "nobody takes a block that a step in flight may still write to"
                m.fail("KV-19", "taken", says, request=track.id, block=min(taken), step=step)
                return

    def on_observe(self, m: "Monitor", observation: "Observation") -> None:
        shown = sorted((block, owner) for block, owner, why in observation.obligations if why == WRITE)
        true = sorted((block, str(step)) for step, blocks in m.deferred.items() for block in blocks)
        if true:
            m.count("KV-19")
        if shown != true:
            m.fail("KV-19", "shown", "obligations are shown while they last", shown=shown[:5], true=true[:5])
