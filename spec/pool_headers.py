"""What each part of the monitor of two pools is told that it judges."""

from attrs import evolve

from .pools import PREFILL, decode_settings, prefill_settings
from .vocabulary import Capabilities, Header, Level

CLAIM = "two_pools"
_MANY_SEATS = 1 << 20


def has_two_pools(header: Header) -> bool:
    return header.settings.pools.are_two and CLAIM in header.capabilities.claims


def of_pool(header: Header, pool: str) -> Header:
    """One pool as a subject of its own; blocks of the other one are set aside for good."""
    settings, mine = header.settings, header.capabilities
    first = settings.blocks
    claims = mine.claims - {CLAIM, "strict_split", "overlap"}
    if pool == PREFILL:
        own, others = prefill_settings(settings), frozenset(range(first, first + settings.pools.decode_blocks))
        reserved: tuple[int, ...] = tuple(block for block in mine.reserved_blocks if block not in others)
    else:
        own = evolve(decode_settings(settings), blocks=first + settings.pools.decode_blocks)
        reserved = (*range(first), *(block for block in mine.reserved_blocks if block >= first))
    null = tuple(block for block in mine.null_blocks if (block < first) == (pool == PREFILL))
    return evolve(
        header,
        settings=own,
        capabilities=evolve(mine, claims=claims, reserved_blocks=reserved, null_blocks=null),
    )


def of_all(header: Header) -> Header:
    """All of it, as who looks at decisions sees it.  A request has to fit into each of the pools."""
    settings = header.settings
    whole = evolve(
        prefill_settings(settings),
        blocks=min(settings.blocks, settings.pools.decode_blocks),
        watermark_blocks=0,
        seats=_MANY_SEATS,
        overlap_depth=2,
    )
    observes: Level = "counters" if header.capabilities.observes != "decisions" else "decisions"
    claims = header.capabilities.claims & {"disconnects"}
    return evolve(header, settings=whole, capabilities=Capabilities(observes=observes, ordered=True, claims=claims))
