"""Who decodes step after step: counted by one clock, so that a step costs what changes and not what runs."""

from collections.abc import Sequence

from attrs import define, field

from ...spec.vocabulary import Plan
from .costs import Batch
from .record import Record


@define(eq=False)
class Decoding:
    """What runs, and how far.  `resident_tokens`: positions whose KV stands in the pool.

    A request that sampled is expected to run its next position in each step to come.  As long as it does, only `ticks`
    counts it: it had reached `_reached` when `ticks` was `_since`, and `_ends` is the tick of its last position.
    """

    records: dict[str, Record]
    resident_tokens: int = 0
    ticks: int = 0
    context_tokens: int = 0
    _reached: dict[str, int] = field(init=False, factory=dict)
    _since: dict[str, int] = field(init=False, factory=dict)
    _ends: dict[str, int] = field(init=False, factory=dict)

    @property
    def is_steady(self) -> bool:
        """Whether all that runs decodes, and something does."""
        return bool(self._since) and len(self._since) == len(self._reached)

    @property
    def batch(self) -> Batch:
        """The next step, if it is steady."""
        return Batch(len(self._since), self.context_tokens + len(self._since))

    @property
    def steps_before_an_end(self) -> int:
        """So many steps may come before the one in which a model stops."""
        return min(self._ends.values()) - self.ticks - 1

    def enters(self, request: str, cached_tokens: int) -> None:
        self._stops(request)
        self._reach(request, cached_tokens)

    def leaves(self, request: str) -> None:
        self._stops(request)
        self.resident_tokens -= self._reached.pop(request, 0)

    def runs(self, plan: Plan) -> Batch:
        """A planned step: what it runs."""
        fresh = self._out_of_line(plan)
        decodes, context = len(self._since), self.context_tokens + len(self._since)
        self.skips(1)
        chunks = []
        for place in fresh:
            request, start, tokens = plan.request[place], plan.start[place], plan.tokens[place]
            record, end = self.records[request], start + tokens
            record.runs(start, tokens)
            self._reach(request, end)
            if tokens == 1 and start >= record.prompt_tokens:
                decodes, context = decodes + 1, context + end
            else:
                chunks.append((start, tokens))
            if plan.samples[place]:
                self._begins(request, end)
        return Batch(decodes, context, tuple(chunks))

    def skips(self, steps: int) -> None:
        """So many steps in which everybody who decodes does."""
        self.ticks += steps
        self.context_tokens += steps * len(self._since)
        self.resident_tokens += steps * len(self._since)

    def close(self) -> None:
        """Writes down what only the clock knows."""
        for request in list(self._since):
            self._stops(request)

    # --- within ------------------------------------------------------------------------------------------

    def _out_of_line(self, plan: Plan) -> Sequence[int]:
        """Places of the entries that the clock does not count; who decodes no longer is out of its count by then."""
        since = self._since
        fresh = [place for place, request in enumerate(plan.request) if request not in since]
        if len(plan.request) - len(fresh) < len(since):
            for request in since.keys() - set(plan.request):
                self._stops(request)
        tokens = sum(plan.tokens) - sum([plan.tokens[place] for place in fresh])
        starts = sum(plan.start) - sum([plan.start[place] for place in fresh])
        if tokens == len(since) and starts == self.context_tokens and sum(plan.samples) >= len(since):
            return fresh
        self.close()
        return range(len(plan.request))

    def _begins(self, request: str, reached: int) -> None:
        record = self.records[request]
        self._since[request] = self.ticks
        self._ends[request] = self.ticks + record.last_end - reached
        self.context_tokens += reached

    def _stops(self, request: str) -> None:
        since = self._since.pop(request, None)
        if since is None:
            return
        del self._ends[request]
        reached, steps = self._reached[request], self.ticks - since
        self.context_tokens -= reached + steps
        self._reached[request] = reached + steps
        if steps:
            self.records[request].runs(reached, steps)

    def _reach(self, request: str, end: int) -> None:
        self.resident_tokens += end - self._reached.get(request, 0)
        self._reached[request] = end
