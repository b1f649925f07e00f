"""Time models of two numbers, a fixed time and a time per token, from a cost model: nobody need type them."""

from collections.abc import Iterator, Mapping

from ...spec.settings import Settings
from .costs import Batch, CostModel

SPARE_PERCENT = 2


def light_time(cost: CostModel, token_budget: int) -> tuple[int, int]:
    """(step_ns, token_ns) of steps in which little is read: the line through a lone first decode and a prompt that
    fills the budget."""
    first, whole = cost.step_ns(Batch(1, 1)), cost.step_ns(Batch(chunks=((0, token_budget),)))
    token_ns = max(0, whole - first) // max(1, token_budget - 1)
    return max(0, first - token_ns), token_ns


def most_time(cost: CostModel, settings: Settings) -> tuple[int, int]:
    """(step_ns, token_ns) that no step exceeds, as a door declares it: the pool is full, and is read by whoever makes
    that slowest.  It is the line above the slowest steps that are tried, and `SPARE_PERCENT` more, since a mixture of
    chunks may take a little longer than any of those.

    It is loose where a long past costs much: `max_model_tokens` and `prefilling_requests` make it tighter.  Prefixes
    that are shared count once, so with `prefix_caching` it holds only as far as the positions that are read fit.
    """
    most = {
        tokens: max(map(cost.step_ns, _slow(settings, tokens))) * (100 + SPARE_PERCENT) // 100
        for tokens in range(1, settings.token_budget + 1)
    }
    return _line_above(most)


def _line_above(points: Mapping[int, int]) -> tuple[int, int]:
    """The line above all of them that is lowest in their middle: at zero, and its slope, neither of them negative."""

    def highest(slope: int) -> int:
        """Where the line of this slope touches them."""
        return max(points, key=lambda at: points[at] - slope * at)

    middle, low, high = (len(points) + 1) // 2, 0, max(points.values())
    while low < high:
        slope = (low + high) // 2
        if highest(slope) > middle:
            low = slope + 1
        else:
            high = slope
    return max(0, points[touched := highest(low)] - low * touched), low


def _slow(settings: Settings, tokens: int) -> Iterator[Batch]:
    """Of the steps of so many tokens those that may be the slowest: with as many decodes or as few as can be, or as
    read all of the pool; with one chunk or as many as can be; and the pool read by the decodes or by the chunks."""
    s, pool = settings, settings.blocks * settings.block_size
    longest = min(s.max_model_tokens, pool)
    most, filling = min(tokens, s.seats), pool // longest
    for decodes in {
        0,
        min(1, most),
        most // 2,
        min(most, s.seats - 1),
        most,
        min(most, filling),
        min(most, filling + 1),
    }:
        chunk_tokens, seats = tokens - decodes, s.seats - decodes
        prompts = min(chunk_tokens, seats, s.prefilling_requests or seats)
        if chunk_tokens and not prompts:
            continue
        room = pool - chunk_tokens
        for count in {min(1, prompts), prompts}:
            by_chunks = max(0, min(room - decodes, count * longest - chunk_tokens))
            by_decodes = min(room, decodes * longest)
            for context, past in (
                (by_decodes, min(by_chunks, room - by_decodes)),
                (min(by_decodes, room - by_chunks), by_chunks),
            ):
                yield Batch(decodes, max(decodes, context), _chunks(count, chunk_tokens, max(0, past)))


def _chunks(count: int, tokens: int, past: int) -> tuple[tuple[int, int], ...]:
    """So many, of about the same size."""
    return tuple(
        (past * (place + 1) // count - past * place // count, tokens * (place + 1) // count - tokens * place // count)
        for place in range(count)
    )
