"""Requests made of arrivals, and what a client that was not served does next."""

import sys
from array import array
from collections.abc import Iterable, Iterator
from hashlib import shake_128
from itertools import chain

from attrs import evolve, frozen

from ..vocabulary import Request
from .arrival import Arrival, Patience

VOCABULARY_TOKENS = 32_000


@frozen(kw_only=True)
class Incoming:
    """A request and what the subject is not told: how many tokens the model will make of it, and its client's mind.

    Whoever runs it cancels it `cancel_after_ns` after it came, if it has not ended.  With `patience` it also cancels it
    `patience.first_token_ns` after it came, if it has no first token; after that, or after a refusal, `again` has what
    the client sends next.
    """

    now_ns: int
    request: Request
    output_tokens: int
    cancel_after_ns: int | None = None
    patience: Patience | None = None


def to_requests(
    arrivals: Iterable[Arrival],
    seed: int,
    *,
    prefix: str = "r",
    max_output_tokens: int | None = None,
    vocabulary_tokens: int = VOCABULARY_TOKENS,
    are_predicted: bool = False,
) -> Iterator[Incoming]:
    """Requests r0, r1, … whose prompt ids follow from the seed: equal hash ids give equal blocks of ids.

    A client declares what is recorded, else `max_output_tokens`, or the true length where that is more; by default the
    true length rounded up to a power of two, since clients ask for round numbers.  With `are_predicted` somebody
    predicts the true length of each.
    """
    for number, arrival in enumerate(arrivals):
        output = arrival.output_tokens
        request = Request(
            id=f"{prefix}{number}",
            prompt_ids=_prompt_ids(arrival, f"{seed}:{prefix}{number}", seed, vocabulary_tokens),
            max_output_tokens=arrival.max_output_tokens or _declared(output, max_output_tokens),
            client=arrival.client,
            lane=arrival.lane,
            priority=arrival.priority,
            predicted_output_tokens=output if are_predicted else None,
        )
        yield Incoming(
            now_ns=arrival.now_ns,
            request=request,
            output_tokens=output,
            cancel_after_ns=arrival.cancel_after_ns,
            patience=arrival.patience,
        )


def again(incoming: Incoming, now_ns: int, retry_after_ns: int | None = None) -> Incoming | None:
    """What a client sends after it has given up, or was refused, at `now_ns`: the same under another name (r5, r5~1,
    r5~2, …) with one retry less, or nothing.  A client that was told when to come back does so."""
    patience = incoming.patience
    if patience is None or patience.retries == 0:
        return None
    first, _, attempt = incoming.request.id.partition("~")
    wait_ns = patience.retry_ns if retry_after_ns is None else retry_after_ns
    return evolve(
        incoming,
        now_ns=now_ns + wait_ns,
        request=evolve(incoming.request, id=f"{first}~{int(attempt or 0) + 1}"),
        patience=evolve(patience, retries=patience.retries - 1),
    )


def _declared(output_tokens: int, max_output_tokens: int | None) -> int:
    return _power_of_two(output_tokens) if max_output_tokens is None else max(output_tokens, max_output_tokens)


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _prompt_ids(arrival: Arrival, own: str, seed: int, vocabulary_tokens: int) -> tuple[int, ...]:
    left = arrival.prompt_tokens
    parts = []
    for hash_id in arrival.hash_ids:
        count = min(left, arrival.hash_tokens)
        parts.append(_ids(f"{seed}#{hash_id}", count, vocabulary_tokens))
        left -= count
    parts.append(_ids(own, left, vocabulary_tokens))
    return tuple(chain.from_iterable(parts))


def _ids(name: str, count: int, vocabulary_tokens: int) -> list[int]:
    """The first `count` ids of the endless sequence that the name stands for: the same everywhere."""
    if not count:
        return []
    words = array("I", shake_128(name.encode()).digest(4 * count))
    if sys.byteorder == "big":
        words.byteswap()
    return [word % vocabulary_tokens for word in words]
