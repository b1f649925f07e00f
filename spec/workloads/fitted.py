"""Workloads without a file: drawn from statistics of the public traces (`fits.py`), an hour of each.

Prompt and output are drawn apart: in the files the correlation of their logarithms is from 0.05 to 0.29, but for
arXiv's -0.48, part of which is a limit on their sum, and that is kept here.  Times are a renewal process: no hour has a
rush, as real ones have.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import Random

from ..vocabulary import NS_PER_S
from .arrival import BLOCK_TOKENS, Arrival, Draws
from .fits import FITS, Fit
from .gaps import times_ns
from .mooncake import application

HOUR_NS = 3_600 * NS_PER_S


def draw_lengths(random: Random, fit: Fit) -> tuple[int, int]:
    """Prompt and output: a prompt that is too long beside its output is drawn anew."""
    output = fit.output.draw(random)
    while True:
        prompt = fit.prompt.draw(random)
        if prompt + output <= fit.most_tokens:
            return prompt, output


def read(name: str, draws: Draws) -> Iterator[Arrival]:
    """Times, lengths, prefixes and clients are drawn apart: another `cv` changes the times alone."""
    fit = FITS[name]
    lengths, clients = _random(draws, name, "lengths"), _random(draws, name, "clients")
    prefixes = _Prefixes(_random(draws, name, "prefixes"), fit.again_permille)
    for now_ns in _times(name, fit, draws):
        prompt, output = draw_lengths(lengths, fit)
        hash_ids = prefixes.draw(prompt) if fit.again_permille else ()
        yield Arrival(
            now_ns=now_ns,
            prompt_tokens=prompt,
            output_tokens=output,
            client=_client(fit, clients, hash_ids),
            hash_ids=hash_ids,
        )


def _random(draws: Draws, name: str, what: str) -> Random:
    return Random(f"{draws.seed} {name} {what}")


def _times(name: str, fit: Fit, draws: Draws) -> Iterator[int]:
    cv = fit.cv if draws.cv is None else draws.cv
    tick_ns = 1 if fit.tick_s is None or draws.cv is not None else fit.tick_s * NS_PER_S
    for now_ns in times_ns(_random(draws, name, "times"), fit.per_s, cv):
        if now_ns >= HOUR_NS:
            return
        yield now_ns // tick_ns * tick_ns


def _client(fit: Fit, random: Random, hash_ids: tuple[int, ...]) -> str:
    if hash_ids:
        return application(hash_ids)
    if not fit.shares:
        return fit.client
    return str(random.choices(range(len(fit.shares)), fit.shares)[0])


class _Prefixes:
    """Names of a prompt's blocks.  The first is everybody's; whoever goes on with an earlier request has its blocks but
    for the last one, which has grown."""

    REMEMBERED = 1_000
    TRIES = 32

    def __init__(self, random: Random, again_permille: int) -> None:
        self.random = random
        self.again_permille = again_permille
        self.past: deque[tuple[int, ...]] = deque(maxlen=self.REMEMBERED)
        self.next = 1

    def draw(self, prompt_tokens: int) -> tuple[int, ...]:
        blocks = -(-prompt_tokens // BLOCK_TOKENS)
        goes_on = self.random.randrange(1_000) < self.again_permille
        shared = self._earlier(blocks) if goes_on else (0,)
        new = blocks - len(shared)
        hash_ids = (*shared, *range(self.next, self.next + new))
        self.next += new
        self.past.append(hash_ids)
        return hash_ids

    def _earlier(self, blocks: int) -> tuple[int, ...]:
        """The longest of some whose prompt is no longer than this one."""
        tried = (self.random.choice(self.past) for _ in range(self.TRIES if self.past else 0))
        return max((past[:-1] for past in tried if 1 < len(past) <= blocks), key=len, default=(0,))


SOURCES: Mapping[str, Callable[[Draws], Iterator[Arrival]]] = {name: partial(read, name) for name in FITS}
