"""The optimized scheduler beside the reference, in one process: from the results of a step in to the next plan out.

What is on the clock, and the states, stand in `rounds.py`.
"""

from collections.abc import Iterator
from functools import partial

from attrs import frozen

from schedspec.optimized.scheduler import Scheduler as Optimized
from schedspec.spec.vocabulary import Policy, Settings

from .measure import Result, median, quiet
from .rounds import (
    Arrivals,
    OfArrays,
    OfColumns,
    Runs,
    all_at_the_edge,
    decoding,
    fill,
    measured,
    replacing,
    short_of_blocks,
)

ASKED_OF_WAITING = 1.3
"""With a hundred times as many who wait, a step takes at most so many times as long."""


@frozen(kw_only=True)
class Size:
    decoding: tuple[int, ...] = (16, 256, 1_024, 8_192)
    mixed: int = 1_024
    clients: int = 1_000
    few: int = 1_000
    many: int = 100_000
    preempted: tuple[int, int] = (60, 1_024)
    rounds: int = 160
    repeats: int = 5


TINY = Size(decoding=(2, 4), mixed=4, clients=3, few=4, many=12, preempted=(2, 8), rounds=12, repeats=2)

POLICIES: tuple[Policy, ...] = ("fcfs", "vtc")


def bench(size: Size) -> Iterator[Result]:
    for policy in POLICIES:
        for running in size.decoding:
            yield decode(size, running, policy)
    yield behind_messages(size)
    for policy in POLICIES:
        yield mixed(size, policy)
    yield waiting(size)
    yield preempting(size)


def both(settings: Settings) -> tuple[Runs, Runs]:
    return OfArrays.of(settings), OfColumns.of(settings)


def beside(name: str, fast: list[float], slow: list[float]) -> Result:
    """Medians of seconds, and how many times as long the reference takes."""
    ours, theirs = median(fast) * 1e6, median(slow) * 1e6
    unit = f"µs/step, the reference {theirs:,.0f} µs: {theirs / ours:.1f} times"
    more = {"best_us": min(fast) * 1e6, "reference_us": theirs, "times": theirs / ours}
    return Result(name=f"optimized.{name}", figure=ours, unit=unit, best="least", more=more)


def decode(size: Size, running: int, policy: Policy) -> Result:
    """All run, nobody waits, and nobody ends."""
    fast, slow = both(decoding(running, size.rounds, policy))
    for runs in (fast, slow):
        fill(runs, running, size.rounds, size.clients)
    return beside(f"decode.{policy}.{running}", measured(fast, size.rounds), measured(slow, max(4, size.rounds // 10)))


def behind_messages(size: Size) -> Result:
    """The same behind the door of the protocol: columns of Python objects, and deltas."""
    settings = decoding(size.mixed, size.rounds)
    fast, slow = OfColumns(Optimized(settings)), OfColumns.of(settings)
    for runs in (fast, slow):
        fill(runs, size.mixed, size.rounds, size.clients)
    samples = measured(fast, size.rounds), measured(slow, max(4, size.rounds // 10))
    return beside(f"messages.decode.fcfs.{size.mixed}", *samples)


def mixed(size: Size, policy: Policy) -> Result:
    samples = []
    for runs in both(replacing(size.mixed, policy)):
        keep = partial(Arrivals(size.clients).keep, size.mixed)
        for _ in range(3 * size.rounds // 4):
            keep(runs)
            runs.round()
        samples.append(measured(runs, size.rounds, keep))
    return beside(f"mixed.{policy}.{size.mixed}", *samples)


def waiting(size: Size) -> Result:
    """A round with few who wait, a round with many, and so on: admissions in most of them."""
    settings = replacing(size.mixed, "vtc")
    pair = [(OfArrays.of(settings), Arrivals(size.clients), depth) for depth in (size.few, size.many)]
    samples: list[list[float]] = [[], []]
    for _ in range(3 * size.rounds // 4 + size.rounds):
        for (runs, arrivals, depth), seen in zip(pair, samples, strict=True):
            arrivals.keep(depth, runs)
            with quiet():
                seen.append(runs.round())
    few, many = (median(seen[-size.rounds :]) * 1e6 for seen in samples)
    return Result(
        name="optimized.waiting.vtc",
        figure=many / few,
        unit=f"times as long with {size.many:,} waiting ({many:,.0f} µs) as with {size.few:,} ({few:,.0f} µs)",
        asked=ASKED_OF_WAITING,
        best="least",
        more={"few_us": few, "many_us": many},
    )


def preempting(size: Size) -> Result:
    """All are at the edge of their first block, and some have to leave."""
    victims, running = size.preempted
    samples: list[list[float]] = [[], []]
    for _ in range(size.repeats):
        for runs, seen in zip(both(short_of_blocks(victims, running)), samples, strict=True):
            all_at_the_edge(runs, running)
            with quiet():
                seen.append(runs.round())
            if runs.waiting != victims:
                raise RuntimeError(f"{runs.waiting} were preempted, but {victims} should have been")
    return beside(f"preempting.{victims}_of_{running}", *samples)
