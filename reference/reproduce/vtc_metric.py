"""How VTC's evaluation measures fairness (Sheng et al., OSDI 2024, tables of section 5, of runs of 600 seconds).

Service and demand of a client in a window are `prompt + 2 · output` tokens.  The service of a request is spread evenly
from its first token to its last, its demand falls due when it comes.  In a window, clients differ by what they got less
than the client that got most, but by no more than their demand explains; summed over clients, and per second.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean, pvariance

from attrs import frozen

INPUT_WEIGHT, OUTPUT_WEIGHT = 1, 2
WINDOW_S = 60.0
RUN_S = 600.0
WARM_S = 30.0
WINDOWS = 19


@frozen
class Served:
    """A request that was not refused; times in seconds since the run began."""

    client: str
    arrival_s: float
    first_token_s: float
    end_s: float
    prompt_tokens: int
    output_tokens: int

    @property
    def service(self) -> int:
        return INPUT_WEIGHT * self.prompt_tokens + OUTPUT_WEIGHT * self.output_tokens

    def service_between(self, begin_s: float, end_s: float) -> float:
        """All of it at once, if it has one token."""
        lasts_s = self.end_s - self.first_token_s
        if lasts_s <= 0:
            return self.service if begin_s <= self.first_token_s < end_s else 0.0
        shared_s = min(end_s, self.end_s) - max(begin_s, self.first_token_s)
        return self.service * max(0.0, shared_s) / lasts_s


@frozen
class Difference:
    """Of service per second, over all windows."""

    maximum: float
    average: float
    variance: float


def service_difference(served: Sequence[Served], seconds: float = RUN_S) -> Difference:
    """The columns of the paper's tables: windows at even distances between the warm-up and the end."""
    step_s = (seconds - WARM_S) / (WINDOWS + 1)
    middles = [WARM_S + step_s * number for number in range(1, WINDOWS + 1)]
    found = [_in_window(served, middle - WINDOW_S / 2, middle + WINDOW_S / 2) / WINDOW_S for middle in middles]
    return Difference(max(found), fmean(found), pvariance(found))


def _in_window(served: Iterable[Served], begin_s: float, end_s: float) -> float:
    service: dict[str, float] = defaultdict(float)
    demand: dict[str, float] = defaultdict(float)
    for one in served:
        service[one.client] += one.service_between(begin_s, end_s)
        demand[one.client] += one.service if begin_s <= one.arrival_s < end_s else 0
    most = max(service.values(), default=0.0)
    return sum(min(most - got, abs(demand[client] - got)) for client, got in service.items())


def tokens_per_s(served: Sequence[Served]) -> float:
    """Prompts and outputs, until the last of them ends."""
    return sum(one.prompt_tokens + one.output_tokens for one in served) / max(one.end_s for one in served)
