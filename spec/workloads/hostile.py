"""Workloads that nobody wants: an hour of each, four requests a second unless it says otherwise.

`rate` of the workload goes past any saturation, and `sweep` goes there by itself.  An ordinary request has the lengths
of `fitted:azure-conv`.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import takewhile
from random import Random

from attrs import evolve

from ..vocabulary import NS_PER_S
from .arrival import Arrival, Draws, Patience
from .fits import FITS
from .fitted import HOUR_NS, draw_lengths
from .gaps import times_ns

NS_PER_MS = 1_000_000
PER_S = 4
CLIENTS = 10

BURST_S = 30
SPIKE_S, SPIKE = 10, 60
IMPATIENT = Patience(first_token_ns=2 * NS_PER_S, retries=5, retry_ns=200 * NS_PER_MS)
NOISY_PER_S = 8
SWEEP_S = 15
SWEEP_PER_S = (1, 2, 4, 8, 16, 8, 4, 2)

Kind = Callable[[Random], Iterator[Arrival]]


def prompt_mix(random: Random) -> Iterator[Arrival]:
    """Nine prompts in ten are a line, the tenth is a book."""
    for now_ns in times_ns(random, PER_S):
        is_long = random.randrange(10) == 0
        prompt = random.randint(4_096, 16_384) if is_long else random.randint(1, 64)
        yield _arrival(random, now_ns, prompt, random.randint(1, 256))


def output_mix(random: Random) -> Iterator[Arrival]:
    """Four outputs in five are a word, the fifth is a story; nobody can tell from the prompt."""
    for now_ns in times_ns(random, PER_S):
        is_long = random.randrange(5) == 0
        yield _arrival(
            random, now_ns, random.randint(32, 512), random.randint(1_000, 4_000) if is_long else random.randint(1, 8)
        )


def cancels(random: Random) -> Iterator[Arrival]:
    """Six clients in ten leave: at once, while it waits, or while it runs."""
    for now_ns in times_ns(random, PER_S):
        leaves = random.randrange(10) < 6
        after_ns = int(random.expovariate(1.0) * 3 * NS_PER_S) if random.randrange(3) else 0
        yield evolve(_ordinary(random, now_ns), cancel_after_ns=after_ns if leaves else None)


def bursts(random: Random) -> Iterator[Arrival]:
    """Nobody for half a minute, then everybody in the same nanosecond."""
    now_ns = 0
    while True:
        for _ in range(PER_S * BURST_S):
            yield _ordinary(random, now_ns)
        now_ns += BURST_S * NS_PER_S


def noisy_tenant(random: Random) -> Iterator[Arrival]:
    """Ten tenants ask now and then; every other half minute one more asks four times as much as all of them."""
    quiet = (_ordinary(random, now_ns) for now_ns in times_ns(random, 2.0))
    loud = (
        evolve(_ordinary(random, now_ns), client="noisy")
        for now_ns in times_ns(random, NOISY_PER_S)
        if now_ns // (BURST_S * NS_PER_S) % 2
    )
    return _merged([quiet, loud])


def retry_storm(random: Random) -> Iterator[Arrival]:
    """Clients of little patience, and a spike that ends it: what they ask again is more than what was asked."""
    spike = (evolve(_ordinary(random, SPIKE_S * NS_PER_S), patience=IMPATIENT) for _ in range(SPIKE))
    usual = (evolve(_ordinary(random, now_ns), patience=IMPATIENT) for now_ns in times_ns(random, PER_S))
    return _merged([usual, spike])


def sweep(random: Random) -> Iterator[Arrival]:
    """1 to 16 requests a second and back, each rate for a while: into overload and, maybe, out of it."""
    begin_ns = 0
    while True:
        for per_s in SWEEP_PER_S:
            end_ns = begin_ns + SWEEP_S * NS_PER_S
            for after_ns in times_ns(random, per_s):
                if begin_ns + after_ns >= end_ns:
                    break
                yield _ordinary(random, begin_ns + after_ns)
            begin_ns = end_ns


def _ordinary(random: Random, now_ns: int) -> Arrival:
    return _arrival(random, now_ns, *draw_lengths(random, FITS["azure-conv"]))


def _arrival(random: Random, now_ns: int, prompt_tokens: int, output_tokens: int) -> Arrival:
    client = f"tenant-{random.randrange(CLIENTS)}"
    return Arrival(now_ns=now_ns, prompt_tokens=prompt_tokens, output_tokens=output_tokens, client=client)


def _merged(parts: list[Iterator[Arrival]]) -> Iterator[Arrival]:
    return heapq.merge(*parts, key=lambda arrival: arrival.now_ns)


# --- by name ------------------------------------------------------------------------------------------------

_ONE: Mapping[str, Kind] = {
    "prompt-mix": prompt_mix,
    "output-mix": output_mix,
    "cancels": cancels,
    "bursts": bursts,
    "noisy-tenant": noisy_tenant,
    "retry-storm": retry_storm,
    "sweep": sweep,
}


def read(name: str, draws: Draws) -> Iterator[Arrival]:
    arrivals = _ONE[name](Random(f"{draws.seed} {name}"))
    return takewhile(lambda arrival: arrival.now_ns < HOUR_NS, arrivals)


def everything(draws: Draws) -> Iterator[Arrival]:
    """All of them at the same time, each with tenants of its own."""
    return _merged([_renamed(name, read(name, draws)) for name in _ONE])


def _renamed(name: str, arrivals: Iterator[Arrival]) -> Iterator[Arrival]:
    return (evolve(arrival, client=f"{name}/{arrival.client}") for arrival in arrivals)


SOURCES: Mapping[str, Callable[[Draws], Iterator[Arrival]]] = {
    **{name: partial(read, name) for name in _ONE},
    "everything": everything,
}
