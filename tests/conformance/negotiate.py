"""Settings that a subject honours, found by asking: it refuses what it does not, by name."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar, get_args

from attrs import fields_dict

from schedspec.spec.vocabulary import COLOCATED, Policy, Pools, Settings, Unsupported

from .script import with_setting

T = TypeVar("T")


def negotiated(start: Callable[[Settings], T], wanted: Settings, refused: dict[str, Unsupported]) -> T:
    """What `start` makes of settings as near to the wanted ones as the subject honours; `refused` collects what it
    does not.  Raises Unsupported when a refused setting has no other value left to try."""
    settings = wanted
    tried: set[Settings] = set()
    while True:
        tried.add(settings)
        try:
            return start(settings)
        except Unsupported as no:
            refused[named(no.setting, no.value)] = no
            settings = next((other for other in _others(settings, no.setting) if other not in tried), settings)
            if settings in tried:
                raise


def named(setting: str, value: object) -> str:
    """A setting with its value; of one that has parts only that it was given."""
    return f"{setting}={value if isinstance(value, bool | int | str) else 'given'}"


def _others(settings: Settings, refused: str) -> Iterator[Settings]:
    """The same but for a refused setting, if that makes sense."""
    for value in INSTEAD.get(refused, ()):
        with suppress(ValueError):
            yield with_setting(settings, refused, value)


POOL = ("blocks", "token_budget")
"""Whoever refuses one of these, and not only the smallest of pools, wants it pinned."""

INSTEAD: dict[str, tuple[object, ...]] = {
    "blocks": (2, 4),
    "policy": ("fcfs", "priority", "vtc", *get_args(Policy)),
    "victim": ("newest", "lowest_priority"),
    "at_blocked_head": ("break", "skip"),
    "reserve": ("on_demand", "known", "declared", "peak", "predicted", "power_of_two", "model"),
    "prefix_caching": (False, True),
    "chunked_prefill": (True, False),
    "recover": ("recompute", "swap"),
    "batch_mix": ("hybrid", "exclusive"),
    "phase_first": ("admission", "decode", "prefill", "alternate"),
    "batching": ("iteration", "request"),
    "disjoint_steps": (False, True),
    "overlap_depth": (2, 1),
    "seats": (8, 4, 2, 1),
    "block_size": (4, 8, 16, 2, 1),
    "pools": (COLOCATED, Pools(decode_blocks=64, decode_seats=8, decode_token_budget=64, transfer_ns=1_000)),
}
INSTEAD |= {name: (one.default,) for name, one in fields_dict(Settings).items() if name not in (*INSTEAD, *POOL)}
"""What to ask for instead of a refused value."""
