"""How far clients were apart in a run: what the bounds of FAIR-7 and FAIR-8 speak of, measured and not judged."""

from attrs import Factory, define

from schedspec.conformance.driver import Driver
from schedspec.spec.monitor import Monitor
from schedspec.spec.rules.base import TraceRule
from schedspec.spec.tracks import Track
from schedspec.spec.vocabulary import Header


@define(eq=False)
class Gap(TraceRule):
    """Of `served` before `waits`: the most that its counter was ahead, and the most service that it got more in an
    interval in which both waited (or, if not `both`, only the one who fell behind)."""

    waits: str
    served: str
    both: bool = True
    counter: int = 0
    service: int = 0
    got: int = 0
    least: int = 0
    since: tuple[int, ...] = Factory(tuple)

    def on_charge(self, m: Monitor, track: Track, amount: int) -> None:
        waiting = (self.waits, self.served) if self.both else (self.waits,)
        since = tuple(m.ledger.since.get(client, -1) for client in waiting)
        if -1 in since:
            self.since = ()
            return
        if since != self.since:  # another interval
            self.since, self.got, self.least = since, 0, 0
        self.got += amount * ((track.client == self.served) - (track.client == self.waits))
        self.least = min(self.least, self.got)
        self.service = max(self.service, self.got - self.least)
        counters = m.ledger.counters
        self.counter = max(self.counter, counters[self.served] - counters[self.waits])


def gap(driver: Driver, *, waits: str, served: str, both: bool = True) -> Gap:
    """The messages of a run once more, with somebody who measures."""
    monitor = Monitor(Header(settings=driver.monitor.settings, capabilities=driver.monitor.capabilities))
    measured = Gap(waits, served, both)
    monitor._listeners["on_charge"].append(measured.on_charge)
    monitor.keeps_ledger = True
    for message in driver.messages:
        monitor.feed(message)
    return measured
