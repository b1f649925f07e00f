"""Bugs of turns: who waits for ever, or pays for what others got."""

from schedspec.reference import Scheduler
from schedspec.reference.selection.one_queue import Guarded
from schedspec.spec.vocabulary import Settings

from .registry import REFERENCE, bug, reused


@bug(
    "B15",
    rules=("LIVE-3",),
    kind="fairness",
    title="Ordered by the longest cached prefix, cold requests wait while warm ones keep coming",
    url="https://github.com/sgl-project/sglang/pull/33210",
)
class WarmOnesFirst(Scheduler):
    """The cached prefix alone is what the queue is sorted by, however often somebody was passed."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        queue = self.state.queue
        if settings.policy == "lpm" and isinstance(queue, Guarded):
            self.state.queue = queue.order


reused(
    "B16",
    REFERENCE["FAIR-1"],
    rules=("FAIR-1", "FAIR-6"),
    kind="fairness",
    title="Service is compared modulo a window, so heavy users wrap around and look light",
    url="https://github.com/vllm-project/aibrix/pull/1011",
    where="router",
)
reused(
    "B20",
    REFERENCE["LIVE-7"],
    rules=("LIVE-7",),
    kind="head-of-line",
    title="The scan of the queue stops at a request whose adapter does not fit, before others that need none",
    url="https://github.com/vllm-project/vllm/pull/15422",
)
