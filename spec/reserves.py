"""What an admission reserves: positions that it takes blocks for at once, however long its first chunk is.

The last output token is never written, so a length of P + O takes P + O - 1 positions.
"""

from collections.abc import Callable, Mapping

from attrs import frozen

from .settings import Reserve


@frozen
class Lengths:
    """Of a request, in tokens: `known` are its prompt and its outputs so far, `expected` the outputs that were
    predicted, `declared` the most that it may have, `model` the longest that any request may be."""

    prompt: int
    declared: int
    expected: int
    known: int
    model: int


def power_of_two(tokens: int) -> int:
    """The least one that is not smaller; 1 or more."""
    return 1 << (tokens - 1).bit_length()


RESERVED: Mapping[Reserve, Callable[[Lengths], int]] = {
    "on_demand": lambda of: 0,
    "peak": lambda of: 0,
    "known": lambda of: of.known,
    "declared": lambda of: of.prompt + of.declared - 1,
    "predicted": lambda of: max(of.known, of.prompt + of.expected - 1),
    "power_of_two": lambda of: max(of.known, of.prompt + min(of.declared, power_of_two(of.expected)) - 1),
    "model": lambda of: of.model - 1,
}
"""Positions.  `predicted` with predictions that are true, `power_of_two` of these and `model` are the baselines Oracle,
Pow2 and Max of PagedAttention (SOSP 2023, section 6.1); what was predicted too short grows on demand."""

CLAIMED: Mapping[str, Reserve] = {
    "full_reserve": "known",
    "declared_reserve": "declared",
    "predicted_reserve": "predicted",
    "power_of_two_reserve": "power_of_two",
    "model_reserve": "model",
}
"""Claim -> what it says is reserved, whatever was asked for."""
