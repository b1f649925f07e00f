"""What a run leaves behind: a record per request, and how full the KV pool was."""

from array import array
from collections.abc import Sequence

from attrs import Factory, define


def _times() -> "array[int]":
    return array("q")


@define(eq=False)
class Record:
    """One request.  `run_tokens` of it were run, `repeated_tokens` of those at positions that had been run before,
    `cached_tokens` were found in the prefix cache instead.  `queue_ns`: how long it waited, preemptions included."""

    id: str
    client: str
    lane: str
    arrived_ns: int
    prompt_tokens: int
    output_tokens: int
    refused: str | None = None
    admitted_ns: int | None = None
    waits_since_ns: int | None = None
    queue_ns: int = 0
    token_ns: "array[int]" = Factory(_times)
    ended_ns: int | None = None
    end: str | None = None
    run_tokens: int = 0
    repeated_tokens: int = 0
    cached_tokens: int = 0
    preemptions: int = 0
    reached: int = 0

    @property
    def has_finished(self) -> bool:
        return self.end == "finished"

    def runs(self, start: int, tokens: int) -> None:
        """It runs positions [start, start + tokens)."""
        end = start + tokens
        self.run_tokens += tokens
        self.repeated_tokens += max(0, min(self.reached, end) - start)
        self.reached = max(self.reached, end)

    def enters(self, now_ns: int, cached_tokens: int) -> None:
        if self.admitted_ns is None:
            self.admitted_ns = now_ns
        self.cached_tokens += cached_tokens
        self._stops_waiting(now_ns)

    def is_preempted(self, now_ns: int) -> None:
        self.preemptions += 1
        self.waits_since_ns = now_ns

    def ends(self, now_ns: int, how: str) -> None:
        self._stops_waiting(now_ns)
        self.ended_ns, self.end = now_ns, how

    def _stops_waiting(self, now_ns: int) -> None:
        if self.waits_since_ns is not None:
            self.queue_ns += now_ns - self.waits_since_ns
        self.waits_since_ns = None


@define(eq=False)
class Timeline:
    """A quantity over time, in windows: its integral over each, and its maximum.  Windows are numbered from 0."""

    window_ns: int
    integrals: list[int] = Factory(list)
    maxima: list[int] = Factory(list)

    def add(self, begin_ns: int, end_ns: int, value: int) -> None:
        """It had this value from `begin_ns` to `end_ns`."""
        while begin_ns < end_ns:
            window = begin_ns // self.window_ns
            until = min(end_ns, (window + 1) * self.window_ns)
            self._reach(window)
            self.integrals[window] += value * (until - begin_ns)
            self.maxima[window] = max(self.maxima[window], value)
            begin_ns = until

    def _reach(self, window: int) -> None:
        missing = window + 1 - len(self.integrals)
        self.integrals += [0] * missing
        self.maxima += [0] * missing


@define(eq=False)
class Log:
    """A run.  `resident`: positions whose KV stands in the pool at each moment while a step runs, counted once for each
    request that holds them."""

    records: dict[str, Record] = Factory(dict)
    resident: Timeline = Factory(lambda: Timeline(1_000_000_000))
    now_ns: int = 0
    busy_ns: int = 0
    steps: int = 0
    run_tokens: int = 0
    skipped_steps: int = 0
    problem: str | None = None

    def delivered(self, requests: Sequence[str], now_ns: int) -> None:
        for request in requests:
            self.records[request].token_ns.append(now_ns)
