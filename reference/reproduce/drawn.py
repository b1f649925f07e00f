"""Requests that are drawn: lengths by a law, times of a Poisson process; and a cost model that remembers what ran."""

from collections.abc import Callable, Iterator, Sequence
from random import Random

from attrs import define

from ...spec.vocabulary import NS_PER_S, Request
from ...spec.workloads import Incoming, Workload
from ..simulation import Batch, CostModel

Lengths = Callable[[Random], tuple[int, int]]
"""Prompt and output of the next request, in tokens."""


def uniform(prompt: tuple[int, int], output: tuple[int, int]) -> Lengths:
    """Each from the least to the most, both included."""
    return lambda random: (random.randint(*prompt), random.randint(*output))


def geometric(mean_prompt: float, mean_output: float, most_tokens: int) -> Lengths:
    """Of all laws on 1, 2, … with these means the one of most entropy: what is known if only means are.  A pair that is
    longer than `most_tokens` is drawn anew."""

    def draw(random: Random) -> tuple[int, int]:
        while True:
            prompt, output = (_geometric(random, mean) for mean in (mean_prompt, mean_output))
            if prompt + output <= most_tokens:
                return prompt, output

    return draw


def _geometric(random: Random, mean: float) -> int:
    return max(1, round(random.expovariate(1 / mean)))


def by_quantiles(prompt: Sequence[int], output: Sequence[int], most_tokens: int) -> Lengths:
    """Each drawn apart from its quantiles, which stand at even distances from the least to the most, by a line between
    two of them.  An output with which the pair is longer than `most_tokens` is drawn anew: prompts stay as they are."""

    def draw(random: Random) -> tuple[int, int]:
        tokens = _between(random, prompt)
        while tokens + (outputs := _between(random, output)) > most_tokens:
            pass
        return tokens, outputs

    return draw


def of_workload(workload: Workload) -> Lengths:
    """Those of one of its requests each time."""
    pairs = [(one.prompt_tokens, one.output_tokens) for one in workload.arrivals()]
    return lambda random: random.choice(pairs)


def _between(random: Random, quantiles: Sequence[int]) -> int:
    place = random.random() * (len(quantiles) - 1)
    below, above = quantiles[int(place)], quantiles[int(place) + 1]
    return round(below + (above - below) * (place - int(place)))


def poisson(
    lengths: Lengths, per_s: float, seconds: float, seed: int, longest: int | None = None
) -> Iterator[Incoming]:
    """Arrivals for so many seconds.  Clients declare `longest` less their prompt, or what will really come; what will
    come is predicted right."""
    times, sizes = Random(f"{seed} times"), Random(f"{seed} lengths")
    now_s, number = times.expovariate(per_s), 0
    while now_s < seconds:
        yield incoming(f"r{number}", int(now_s * NS_PER_S), *lengths(sizes), longest)
        now_s, number = now_s + times.expovariate(per_s), number + 1


def incoming(id: str, now_ns: int, prompt: int, output: int, longest: int | None = None) -> Incoming:
    declared = output if longest is None else longest - prompt
    request = Request(id=id, prompt_ids=(0,) * prompt, max_output_tokens=declared, predicted_output_tokens=output)
    return Incoming(now_ns=now_ns, request=request, output_tokens=output)


@define(eq=False)
class Watching:
    """A cost model that sums up what it was asked for, but for the first `skip_ns`: requests times nanoseconds."""

    cost: CostModel
    skip_ns: int = 0
    busy_ns: int = 0
    requests_ns: int = 0

    def step_ns(self, batch: Batch) -> int:
        took_ns = self.cost.step_ns(batch)
        self.busy_ns += took_ns
        if self.busy_ns > self.skip_ns:
            self.requests_ns += took_ns * (batch.decodes + len(batch.chunks))
        return took_ns

    @property
    def requests(self) -> float:
        """In a step, averaged over time."""
        return self.requests_ns / max(1, self.busy_ns - self.skip_ns)
