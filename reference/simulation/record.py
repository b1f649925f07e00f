"""What a run leaves behind: a record per request, and how full the KV pool was."""

from array import array
from collections.abc import Collection, Iterable, Sequence

from attrs import Factory, define


def _times() -> "array[int]":
    return array("q")


@define(eq=False)
class Record:
    """One request.  `run_tokens` of it were run, `repeated_tokens` of those at positions that had been run before,
    `cached_tokens` were found in the prefix cache instead, `restored_tokens` came back from the host.  `queue_ns`: how
    long it waited, preemptions included, and while the door held it.  `instead`: what it got instead of a refusal.
    `token_ns` are slices of `delivery_ns`, when anybody got a token: from the first place of each of its `deliveries`
    to before the other one."""

    id: str
    client: str
    lane: str
    arrived_ns: int
    prompt_tokens: int
    output_tokens: int
    refused: str | None = None
    instead: str | None = None
    admitted_ns: int | None = None
    waits_since_ns: int | None = None
    queue_ns: int = 0
    token_ns: "array[int]" = Factory(_times)
    ended_ns: int | None = None
    end: str | None = None
    run_tokens: int = 0
    repeated_tokens: int = 0
    cached_tokens: int = 0
    restored_tokens: int = 0
    preemptions: int = 0
    is_swapped: bool = False
    reached: int = 0
    delivery_ns: Sequence[int] = ()
    deliveries: list[tuple[int, int]] = Factory(list)

    @property
    def last_end(self) -> int:
        """Where the last position that is run ends: its token is the last, and is never run."""
        return self.prompt_tokens + self.output_tokens - 1

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
        if self.is_swapped:
            self.restored_tokens += cached_tokens
        else:
            self.cached_tokens += cached_tokens
        self.is_swapped = False
        self._stops_waiting(now_ns)

    def gets(self, delivery_ns: "array[int]", since: int) -> None:
        """A token at each of these times from the place `since` on."""
        self.token_ns.extend(delivery_ns[since:])
        self.delivery_ns = delivery_ns
        self.deliveries.append((since, len(delivery_ns)))

    def is_preempted(self, now_ns: int, *, is_swapped: bool = False) -> None:
        self.preemptions += 1
        self.is_swapped = is_swapped
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
        place = begin_ns // self.window_ns
        if end_ns <= (place + 1) * self.window_ns and place == len(self.integrals) - 1:  # as a rule
            self.integrals[place] += value * (end_ns - begin_ns)
            if value > self.maxima[place]:
                self.maxima[place] = value
            return
        while begin_ns < end_ns:
            window = begin_ns // self.window_ns
            until = min(end_ns, (window + 1) * self.window_ns)
            self._reach(window)
            self.integrals[window] += value * (until - begin_ns)
            self.maxima[window] = max(self.maxima[window], value)
            begin_ns = until

    def add_steps(self, begin_ns: int, ends: Sequence[int], value: int, more: int, gap_ns: int) -> None:
        """Steps that end then, each begun `gap_ns` after the one before: in each it is `more` than in that one."""
        place = begin_ns // self.window_ns
        until = (place + 1) * self.window_ns
        integral = 0
        if place != len(self.integrals) - 1 or ends[-1] > until:
            for end in ends:
                value += more
                self.add(begin_ns + gap_ns, end, value)
                begin_ns = end
            return
        for end in ends:  # as a rule: all in the last window
            value += more
            integral += value * (end - begin_ns - gap_ns)
            begin_ns = end
        self.integrals[place] += integral
        if value > self.maxima[place]:
            self.maxima[place] = value

    def _reach(self, window: int) -> None:
        missing = window + 1 - len(self.integrals)
        self.integrals += [0] * missing
        self.maxima += [0] * missing


@define(eq=False)
class Log:
    """A run.  `resident`: positions whose KV stands in the pool at each moment while a step runs, counted once for each
    request that holds them.

    Whoever gets a token in each delivery gets a slice of `_times` when that ends, from the place in `_getting`: until
    `close` the `token_ns` of such records are short.
    """

    records: dict[str, Record] = Factory(dict)
    resident: Timeline = Factory(lambda: Timeline(1_000_000_000))
    now_ns: int = 0
    busy_ns: int = 0
    steps: int = 0
    run_tokens: int = 0
    skipped_steps: int = 0
    problem: str | None = None
    _times: "array[int]" = Factory(_times)
    _getting: dict[str, int] = Factory(dict)
    _last: Sequence[str] = ()

    def delivered(self, requests: Sequence[str]) -> None:
        """These get a token now, each one."""
        if requests != self._last:
            self._change(set(requests))
            self._last = requests
        self._times.append(self.now_ns)

    def delivered_to_all(self, running: Collection[str], fresh: Iterable[str]) -> None:
        """These, all who run, get a token now; those who got one last are among them.  `fresh`: who most likely did
        not, and they are looked at first."""
        getting = self._getting
        if len(getting) != len(running):
            place = len(self._times)
            for request in fresh:
                if request in running:
                    getting.setdefault(request, place)
            if len(getting) != len(running):
                for request in running:
                    getting.setdefault(request, place)
            self._last = ()
        self._times.append(self.now_ns)

    def delivered_again(self, times: "array[int]") -> None:
        """Those who got one last, and are still there, get one more at each of these times."""
        self._times.extend(times)

    def leaves(self, request: str) -> None:
        """It gets no more for now."""
        since = self._getting.pop(request, None)
        if since is not None:
            self.records[request].gets(self._times, since)
            self._last = ()

    def close(self) -> None:
        self._change(set())
        self._last = ()

    def counts(self, begin_ns: int, end_ns: int, tokens: int, resident_tokens: int) -> None:
        """A step has run so many tokens."""
        self.steps += 1
        self.run_tokens += tokens
        self.busy_ns += end_ns - begin_ns
        self.resident.add(begin_ns, end_ns, resident_tokens)

    def counts_decodes(self, ends: Sequence[int], decodes: int, resident_tokens: int, host_ns: int) -> None:
        """Steps that end then, one after the other, have run so many tokens each, all of which stay in the pool."""
        self.resident.add_steps(self.now_ns, ends, resident_tokens, decodes, host_ns)
        now = ends[-1]
        self.busy_ns += now - self.now_ns - host_ns * len(ends)
        self.steps += len(ends)
        self.skipped_steps += len(ends)
        self.run_tokens += decodes * len(ends)
        self.now_ns = now

    def _change(self, getting: set[str]) -> None:
        for request in self._getting.keys() - getting:
            self.leaves(request)
        place = len(self._times)
        for request in getting - self._getting.keys():
            self._getting[request] = place
