"""Cards of rules that are judged on what a subject shows of itself; the comparison is in `spec/snapshots.py`."""

from ..relation import registry
from .base import Elsewhere

monitor = registry.monitor


@monitor("LIFE-1", needs="counters", form="snapshot", bugs=("B26",))
class InExactlyOnePlace(Elsewhere):
    """Every accepted request that has not ended is in exactly one place of the scheduler, and in the one that its
    deltas say.

    Why: a queue that no loop visits keeps requests for ever (vLLM-Ascend,
    https://github.com/vllm-project/vllm-ascend/pull/10699).
    """


@monitor("OBS-3", needs="counters", form="snapshot", bugs=("B51",))
class CountersAreTrue(Elsewhere):
    """Exported counters equal the scheduler's state after every event; they are zero when it is idle.

    Why: gauges that kept their last values after a mass abort sent all new work elsewhere
    (https://github.com/vllm-project/vllm/issues/29928).
    """


@monitor("KV-12", needs="tables", form="shadow", bugs=("B41", "B59"))
class ReadsWhatWasWritten(Elsewhere):
    """A position is read only if its content was written earlier, with the same token prefix and adapter, and the
    write was not undone.

    Why: a prefix hit on a block that was never computed, or computed for another prefix, is silent corruption
    (https://github.com/vllm-project/vllm/pull/29387), and so is one on what another adapter computed
    (https://github.com/vllm-project/vllm/issues/3264).
    """


@monitor("KV-13", needs="tables", form="shadow")
class SharedBlocksAreNotWritten(Elsewhere):
    """A block that others hold, or that the index names, is not written at positions already issued; a writer copies
    first.

    Why: copy-on-write is what makes sharing safe (PagedAttention, SOSP 2023, section 4.4).
    """


@monitor("ADMIT-9", form="run", unless=("clairvoyant",))
class NobodyReadsTheFuture(Elsewhere):
    """No decision reads the true output length: where only the ends of requests to come are swapped, all answers stay
    the same until a result tells.

    Why: a simulator that keeps the length of its trace in the request that the scheduler sees, as Vidur does
    (`num_decode_tokens`, https://github.com/microsoft/vidur), may measure an oracle that no engine can be.
    """


@monitor("DET-1", form="run")
class SameInputsSameDecisions(Elsewhere):
    """The same configuration, submissions and outcomes give the same decisions, in another process and under
    another hash seed.

    Why: what cannot be repeated cannot be debugged; an order that comes from a set of strings changes with each start.
    """


@monitor("DET-2", form="run")
class ARunReplays(Elsewhere):
    """A recorded run replays to the same decisions.

    Why: a failure report is worth its replay (TigerBeetle's simulator: one seed replays a run).
    """


@monitor("DET-3", form="run")
class TheClockIsGiven(Elsewhere):
    """The same `now_ns` at another pace of the wall clock gives the same decisions; the clock may stand still, and
    never goes back.

    Why: a scheduler that reads the wall clock decides otherwise on a slower machine, and cannot be simulated.
    """
