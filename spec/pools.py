"""Prefill and decode in two pools: how large the second one is, and how long a transfer between them may take.

The other settings describe the prefill pool.  Blocks of the decode pool have the ids after those of the prefill pool.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attrs import evolve, fields_dict, frozen

from .bounds import too_small

if TYPE_CHECKING:
    from .settings import Settings

PREFILL, DECODE = "prefill", "decode"
POOLS = (PREFILL, DECODE)


@frozen(kw_only=True)
class Pools:
    """`decode_blocks`, `decode_seats`, `decode_token_budget`: the decode pool, in KV blocks, requests, tokens of a
    step; all 0: there is none, and prefill and decode share a pool.  `transfer_ns` after KV was asked for its transfer
    has failed, whatever became of it: the link writes nothing any more.  `landing_blocks`: most blocks of the decode
    pool that those may hold who do not run there yet, beyond the first of them; 0: no such limit (DistServe's
    `waiting_block_prop_threshold` as a number of blocks)."""

    decode_blocks: int = 0
    decode_seats: int = 0
    decode_token_budget: int = 0
    transfer_ns: int = 0
    landing_blocks: int = 0

    @property
    def are_two(self) -> bool:
        return self != COLOCATED


COLOCATED = Pools()
"""One pool."""

_NEEDED = ("decode_blocks", "decode_seats", "decode_token_budget", "transfer_ns")


def faults_of_pools(s: "Settings") -> Iterator[str]:
    """A pool has all that a pool needs; what the loop does not do for two is refused."""
    given: object = s.pools
    if not isinstance(given, Pools):
        yield f"pools is {given!r}, but must be a Pools"
        return
    yield from too_small(s.pools, dict.fromkeys(fields_dict(Pools), 0), "pools: ")
    missing = [name for name in _NEEDED if getattr(s.pools, name) == 0]
    if s.pools.are_two and missing:
        yield f"pools: {missing[0]} is 0, but a decode pool needs at least 1: give {', '.join(_NEEDED)}, or none"
    if s.pools.are_two and s.prefix_caching:
        yield "pools are given with prefix_caching, which is defined for one pool only: turn one of them off"


def prefill_settings(s: "Settings") -> "Settings":
    """The prefill pool as one of its own, which plans a step at a time."""
    return evolve(s, pools=COLOCATED, overlap_depth=1)


def decode_settings(s: "Settings") -> "Settings":
    """The decode pool as one of its own.  Blocks below `s.blocks` are the other pool's.  Nothing of a prompt is run
    here, so no prompt is split, and no watermark guards the growth of those who run from prompts."""
    return evolve(
        s,
        pools=COLOCATED,
        overlap_depth=1,
        blocks=s.pools.decode_blocks,
        seats=s.pools.decode_seats,
        token_budget=s.pools.decode_token_budget,
        watermark_blocks=0,
        chunked_prefill=True,
        chunk_tokens=0,
    )
