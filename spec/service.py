"""What service is: the declared cost of prompt and output tokens, prices of clients, shares of lanes.  All integers."""

from collections.abc import Mapping
from math import lcm

from attrs import frozen

from .settings import Lane, Settings
from .vocabulary import Request


@frozen
class Tariff:
    """h(p, q) = request + input·p + output·q + product·p·q + square·q², times the client's price: Sheng et al., OSDI
    2024, section 4 (w_p, w_q, and the general cost function)."""

    request: int
    input: int
    output: int
    product: int
    square: int
    prices: Mapping[str, int]

    @classmethod
    def of(cls, s: Settings) -> "Tariff":
        return cls(s.request_weight, s.input_weight, s.output_weight, s.product_weight, s.square_weight, dict(s.prices))

    def price(self, client: str) -> int:
        return self.prices.get(client, 1)

    def entry(self, client: str) -> int:
        """What a request costs beside its tokens."""
        return self.price(client) * self.request

    def prompt(self, client: str, tokens: int) -> int:
        """So many tokens of a prompt."""
        return self.price(client) * self.input * tokens

    def outputs(self, client: str, prompt_tokens: int, first: int, last: int) -> int:
        """Outputs number `first` + 1 to `last` of a request with such a prompt: h(p, last) - h(p, first)."""
        linear = self.output + self.product * prompt_tokens
        return self.price(client) * (linear * (last - first) + self.square * (last * last - first * first))


def lane_of(settings: Settings, request: Request) -> Lane:
    """The lane that the request names, else the first whose shape it has.  Settings with lanes have one for everybody
    whom the door lets in; who is larger goes to the last."""
    for lane in settings.lanes:
        if lane.name == request.lane:
            return lane
    prompt, output = request.prompt_tokens, request.max_output_tokens
    return next((lane for lane in settings.lanes if lane.admits(prompt, output)), settings.lanes[-1])


def lane_prices(settings: Settings) -> dict[str, int]:
    """Lane -> what a unit of service weighs in its counter: the inverse of its share, times the least common multiple
    of all shares, so that nothing is divided."""
    whole = lcm(*(lane.share_percent for lane in settings.lanes))
    return {lane.name: whole // lane.share_percent for lane in settings.lanes}
