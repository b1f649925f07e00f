"""Directed scenarios of a prefill pool, a decode pool and the link between them; `scenarios.py` has all others."""

from collections.abc import Callable

from attrs import evolve

from schedspec.spec.vocabulary import Pools, Settings

from .script import (
    BEGIN_TRANSFER,
    END_TRANSFER,
    FAIL_TRANSFER,
    REPEAT_TRANSFER,
    TRANSFER,
    Op,
    cancel,
    rounds,
    submit,
)

_Built = tuple[tuple[str, ...], Settings, tuple[Op, ...]]

TWO_POOLS = Settings(
    blocks=8,
    block_size=2,
    seats=4,
    token_budget=8,
    pools=Pools(decode_blocks=8, decode_seats=4, decode_token_budget=4, transfer_ns=100),
)
PREFILLED = (submit("a", 4, 4), submit("b", 3, 3), *rounds(1))


def kv_is_pulled_and_decoded() -> _Built:
    ops = (*PREFILLED, *TRANSFER, *TRANSFER, *rounds(8))
    return ("XFER-1", "XFER-2", "XFER-3", "XFER-4", "XFER-6", "KV-9", "KV-18"), TWO_POOLS, ops


def the_decode_pool_is_full() -> _Built:
    """What is prefilled waits, and the prefill pool fills up behind it."""
    pools = evolve(TWO_POOLS.pools, decode_blocks=4)
    ops = (*(submit(name, 4, 3) for name in "abcdef"), *rounds(3), *TRANSFER, *rounds(6))
    return ("XFER-3", "XFER-4"), evolve(TWO_POOLS, pools=pools), ops


def a_transfer_fails_and_another_is_silent() -> _Built:
    ops = (*PREFILLED, BEGIN_TRANSFER, BEGIN_TRANSFER, FAIL_TRANSFER, Op("tick", ns=50), *rounds(1))
    return ("XFER-5",), TWO_POOLS, (*ops, Op("tick", ns=50), *rounds(2), *TRANSFER, REPEAT_TRANSFER, *rounds(4))


def a_transfer_takes_half_its_time() -> _Built:
    """Nothing else is to be done meanwhile."""
    ops = (submit("a", 4, 4), *rounds(1), BEGIN_TRANSFER, Op("tick", ns=60), *rounds(2), END_TRANSFER, *rounds(4))
    return ("XFER-1", "XFER-2"), TWO_POOLS, ops


def both_sides_abort() -> _Built:
    """The client leaves while its KV is written, and then the link says nothing any more."""
    ops = (*PREFILLED, BEGIN_TRANSFER, cancel("a"), Op("tick", ns=100), *rounds(4))
    return ("XFER-5", "KV-9"), TWO_POOLS, ops


def cancel_at_every_moment_of_a_transfer() -> _Built:
    pools = evolve(TWO_POOLS.pools, decode_blocks=6)
    settings = evolve(TWO_POOLS, blocks=16, token_budget=16, pools=pools)
    ops = (*(submit(name, 4, 3) for name in "abcde"), *rounds(1), BEGIN_TRANSFER, cancel("e"), cancel("d"), cancel("b"))
    ops = (*ops, cancel("a"))
    ops = (*ops, submit("one", 3, 1), *rounds(2), END_TRANSFER, *rounds(1), *TRANSFER, cancel("c"), *rounds(2))
    return ("XFER-4", "KV-9"), settings, (*ops, submit("f", 2, 6), *rounds(2), *TRANSFER, *rounds(2), cancel("f"))


def a_victim_of_the_decode_pool_goes_back() -> _Built:
    pools = evolve(TWO_POOLS.pools, decode_blocks=5)
    ops = (submit("a", 3, 6), submit("b", 3, 6), *rounds(1), *TRANSFER, *TRANSFER, *rounds(8), *TRANSFER, *rounds(4))
    return ("XFER-1", "PRE-1"), evolve(TWO_POOLS, pools=pools), ops


BUILDERS: tuple[Callable[[], _Built], ...] = (
    kv_is_pulled_and_decoded,
    the_decode_pool_is_full,
    a_transfer_fails_and_another_is_silent,
    a_transfer_takes_half_its_time,
    both_sides_abort,
    cancel_at_every_moment_of_a_transfer,
    a_victim_of_the_decode_pool_goes_back,
)
