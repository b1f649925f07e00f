"""Who decodes step after step: counted by one clock, so that a step costs what changes and not what runs."""

from collections.abc import Collection, Iterable, Sequence
from heapq import heappop, heappush

from attrs import define, field

from ...spec.vocabulary import Plan
from .costs import Batch
from .record import Record

Entry = tuple[str, int, int, int]
"""Of a step: request, start, tokens, whether it samples."""


@define(eq=False)
class Decoding:
    """What runs, and how far.  `resident_tokens`: positions whose KV stands in the pool.

    A request that sampled is expected to run its next position in each step to come.  As long as it does, only `ticks`
    counts it: it had reached `_reached` when `ticks` was `_since`, and `_ends` is the tick of its last position.
    `_line` has these ticks, the least first, and some of who decodes no longer.
    """

    records: dict[str, Record]
    resident_tokens: int = 0
    ticks: int = 0
    context_tokens: int = 0
    _reached: dict[str, int] = field(init=False, factory=dict)
    _since: dict[str, int] = field(init=False, factory=dict)
    _ends: dict[str, int] = field(init=False, factory=dict)
    _line: list[tuple[int, str]] = field(init=False, factory=list)

    @property
    def is_steady(self) -> bool:
        """Whether all that runs decodes, and something does."""
        return bool(self._since) and len(self._since) == len(self._reached)

    @property
    def batch(self) -> Batch:
        """The next step, if it is steady."""
        return Batch(len(self._since), self.context_tokens + len(self._since))

    @property
    def steps_to_an_end(self) -> int:
        """In so many steps the next model stops."""
        return self._next_end - self.ticks

    def enters(self, request: str, cached_tokens: int) -> None:
        self._stops(request)
        self._reach(request, cached_tokens)

    def leaves(self, request: str) -> None:
        self._stops(request)
        self.resident_tokens -= self._reached.pop(request, 0)

    @property
    def count(self) -> int:
        """How many decode."""
        return len(self._since)

    @property
    def requests(self) -> Collection[str]:
        """Who decodes."""
        return self._since.keys()

    def runs(self, plan: Plan) -> Batch:
        """A planned step: what it runs."""
        fresh = self._out_of_line(plan)
        entries = [(plan.request[place], plan.start[place], plan.tokens[place], plan.samples[place]) for place in fresh]
        return self._run(entries)

    def runs_calm(self, entries: Sequence[Entry]) -> Batch:
        """A step in which all who run decode, but for these entries."""
        if len(self._since) + len(entries) < len(self._reached):
            late = self._reached.keys() - self._since.keys() - {entry[0] for entry in entries}
            entries = [*entries, *((request, self._reached[request], 1, 1) for request in late)]
        return self._run(entries)

    def at_their_end(self, steps: int = 0) -> list[str]:
        """Those who decode and have run their last position, or will have after so many steps."""
        if not self._since or self._next_end > self.ticks + steps:
            return []
        return [request for request, end in self._ends.items() if end <= self.ticks + steps]

    def _run(self, entries: Iterable[Entry]) -> Batch:
        """What the clock counts, and these entries."""
        decodes, context = len(self._since), self.context_tokens + len(self._since)
        self.skips(1)
        chunks = []
        for request, start, tokens, samples in entries:
            record, end = self.records[request], start + tokens
            record.runs(start, tokens)
            self._reach(request, end)
            if tokens == 1 and start >= record.prompt_tokens:
                decodes, context = decodes + 1, context + end
            else:
                chunks.append((start, tokens))
            if samples:
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

    @property
    def _next_end(self) -> int:
        """The least tick at which somebody who decodes runs its last position."""
        line = self._line
        while self._ends.get(line[0][1]) != line[0][0]:
            heappop(line)
        return line[0][0]

    def _begins(self, request: str, reached: int) -> None:
        record = self.records[request]
        self._since[request] = self.ticks
        end = self._ends[request] = self.ticks + record.last_end - reached
        heappush(self._line, (end, request))
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
