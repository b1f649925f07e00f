"""How long a step takes on the device: published models, each with its constants beside their source.

All arithmetic is on integers: coefficients are picoseconds, a step is nanoseconds, rounded up.  So a run is the same on
every machine.
"""

from collections.abc import Iterable
from itertools import repeat
from typing import NamedTuple, Protocol, cast

from attrs import frozen

PS_PER_NS = 1_000
PS_PER_S = 1_000_000_000_000


class Batch(NamedTuple):
    """What a step runs.  `decodes` entries of one token each, which read `context_tokens` positions in all, their own
    included; `chunks` of prompts, each (positions before it, its tokens)."""

    decodes: int = 0
    context_tokens: int = 0
    chunks: tuple[tuple[int, int], ...] = ()

    @property
    def prefill_tokens(self) -> int:
        return sum(tokens for _, tokens in self.chunks)

    @property
    def past_tokens(self) -> int:
        """Positions before the chunks, which their attention reads."""
        return sum(past for past, _ in self.chunks)

    @property
    def tokens(self) -> int:
        return self.decodes + self.prefill_tokens


class CostModel(Protocol):
    def step_ns(self, batch: Batch) -> int:
        """Time of a step that runs at least one token."""
        ...


class CountsDecodes(Protocol):
    """An optional ability of a cost model: steps in which the same requests decode, told in one go."""

    def decodes_ns(self, decodes: int, context_tokens: int, steps: int) -> Iterable[int]:
        """`step_ns` of each of so many steps; `context_tokens` are read in the first, and `decodes` more in each."""
        ...


def decodes_ns(cost: CostModel, decodes: int, context_tokens: int, steps: int) -> Iterable[int]:
    """What that would be of any cost model."""
    if hasattr(cost, "decodes_ns"):
        told: Iterable[int] = cast(CountsDecodes, cost).decodes_ns(decodes, context_tokens, steps)
        return told
    contexts = range(context_tokens, context_tokens + steps * decodes, decodes)
    return (cost.step_ns(Batch(decodes, context)) for context in contexts)


@frozen
class EqualSteps:
    """Each step takes as long as any other."""

    ns: int

    def step_ns(self, batch: Batch) -> int:
        return self.ns

    def decodes_ns(self, decodes: int, context_tokens: int, steps: int) -> Iterable[int]:
        return repeat(self.ns, steps)


def _ns(ps: int) -> int:
    return -(-ps // PS_PER_NS)


# --- roofline -----------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Device:
    """Peak rates of the data sheet, in the number format of the weights, without sparsity."""

    flop_per_s: int
    bytes_per_s: int


@frozen(kw_only=True)
class Transformer:
    """A dense decoder with a gated feed-forward network.  `kv_width`: numbers in the keys of one token and layer."""

    layers: int
    hidden: int
    kv_width: int
    intermediate: int
    weight_bytes: int = 2

    @property
    def linear_weights(self) -> int:
        """Weights that each token meets: projections of attention, and the feed-forward network."""
        attention = 2 * self.hidden * (self.hidden + self.kv_width)
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def kv_bytes(self) -> int:
        """Keys and values of a token."""
        return 2 * self.layers * self.kv_width * self.weight_bytes


@frozen(kw_only=True)
class Roofline:
    """A step is linear layers and then attention, each bound by arithmetic or by memory, whichever takes longer.

    `flop_percent` and `bytes_percent` of the peak rates are reached.  `fixed_ns` comes on top; there is no
    communication, since one device holds the model.
    """

    device: Device
    model: Transformer
    flop_percent: int
    bytes_percent: int
    fixed_ns: int = 0

    def step_ns(self, batch: Batch) -> int:
        return self.fixed_ns + _ns(self.linear_ps(batch.tokens) + self.attention_ps(batch))

    def decodes_ns(self, decodes: int, context_tokens: int, steps: int) -> Iterable[int]:
        linear, fixed, width = self.linear_ps(decodes), self.fixed_ns, self.model.kv_bytes
        contexts = range(context_tokens, context_tokens + steps * decodes, decodes)
        return (fixed + _ns(linear + self._memory_ps(width * context)) for context in contexts)

    def linear_ps(self, tokens: int) -> int:
        weights = self.model.linear_weights
        return max(self._compute_ps(2 * weights * tokens), self._memory_ps(weights * self.model.weight_bytes))

    def attention_ps(self, batch: Batch) -> int:
        """A chunk of c tokens after p reads p + c / 2 positions for each of its tokens, on average."""
        model = self.model
        pairs = sum(tokens * (2 * past + tokens) for past, tokens in batch.chunks)
        flop = 2 * model.layers * model.hidden * pairs
        return max(self._compute_ps(flop), self._memory_ps(model.kv_bytes * (batch.context_tokens + batch.past_tokens)))

    @property
    def knee_tokens(self) -> int:
        """So many tokens in a step cost no more than one: until then the weights are what is waited for."""
        memory = self.model.weight_bytes * self.device.flop_per_s * self.flop_percent
        return memory // (2 * self.device.bytes_per_s * self.bytes_percent)

    def _compute_ps(self, flop: int) -> int:
        return flop * 100 * PS_PER_S // (self.device.flop_per_s * self.flop_percent)

    def _memory_ps(self, data: int) -> int:
        return data * 100 * PS_PER_S // (self.device.bytes_per_s * self.bytes_percent)


# --- fits ---------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class MixedTerms:
    """Coefficients of a step that mixes prefill and decode, in picoseconds: a fixed time, and per token of the step,
    token of prefill, decode, position that decodes read, position before a chunk."""

    fixed: int
    token: int
    prefill: int
    decode: int
    context: int
    past: int

    def ps(self, batch: Batch) -> int:
        tokens = self.token * batch.tokens + self.prefill * batch.prefill_tokens + self.decode * batch.decodes
        return self.fixed + tokens + self.context * batch.context_tokens + self.past * batch.past_tokens


@frozen(kw_only=True)
class MixedBatch:
    """Linear in what a mixed step runs, with other coefficients beyond `small_tokens` tokens.

    Never less than the fixed time of a small step: a fit may give a decode a negative cost beyond its data, and many
    short decodes would take less than nothing.
    """

    small: MixedTerms
    large: MixedTerms
    small_tokens: int

    def step_ns(self, batch: Batch) -> int:
        terms = self.small if batch.tokens <= self.small_tokens else self.large
        return _ns(max(terms.ps(batch), self.small.fixed))

    def decodes_ns(self, decodes: int, context_tokens: int, steps: int) -> Iterable[int]:
        terms = self.small if decodes <= self.small_tokens else self.large
        first, slope, least = terms.ps(Batch(decodes, context_tokens)), terms.context * decodes, self.small.fixed
        return (_ns(max(first + step * slope, least)) for step in range(steps))


@frozen(kw_only=True)
class PrefillTerms:
    """A prefill, in picoseconds: a fixed time, and per token and per token squared.  The square of a chunk is that of
    the prompt up to its end less that of the prompt before it: those of all chunks add up to that of the prompt."""

    fixed: int
    token: int
    square: int = 0

    def ps(self, chunks: tuple[tuple[int, int], ...]) -> int:
        squares = sum((past + tokens) ** 2 - past**2 for past, tokens in chunks)
        return self.fixed + self.token * sum(tokens for _, tokens in chunks) + self.square * squares


@frozen(kw_only=True)
class DecodeTerms:
    """A decode step, in picoseconds: a fixed time, per request, and per position that is read."""

    fixed: int
    request: int
    context: int

    def ps(self, batch: Batch) -> int:
        return self.fixed + self.request * batch.decodes + self.context * batch.context_tokens


@frozen(kw_only=True)
class TwoPhases:
    """Prefill and decode fitted apart: a step that has both pays for both, one after the other.  From `many` decodes on
    `decode_many` holds, if there is such a regime."""

    prefill: PrefillTerms
    decode: DecodeTerms
    many: int = 0
    decode_many: DecodeTerms | None = None

    def step_ns(self, batch: Batch) -> int:
        ps = self.prefill.ps(batch.chunks) if batch.chunks else 0
        if batch.decodes:
            ps += self._decode(batch.decodes).ps(batch)
        return _ns(ps)

    def decodes_ns(self, decodes: int, context_tokens: int, steps: int) -> Iterable[int]:
        terms = self._decode(decodes)
        first, slope = terms.ps(Batch(decodes, context_tokens)), terms.context * decodes
        return (_ns(first + step * slope) for step in range(steps))

    def _decode(self, decodes: int) -> DecodeTerms:
        return self.decode_many if self.decode_many is not None and decodes >= self.many else self.decode
