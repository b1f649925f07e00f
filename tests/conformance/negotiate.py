"""Settings that a subject honours, found by asking: it refuses what it does not, by name."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar, get_args

from attrs import evolve, fields_dict

from schedspec.spec.vocabulary import COLOCATED, OPEN, Door, Policy, Pools, Settings, Unsupported

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
            others = _others(settings, no.setting, wanted.door)
            settings = next((other for other in others if other not in tried), settings)
            if settings in tried:
                raise


def named(setting: str, value: object) -> str:
    """A setting with its value; of one that has parts only that it was given."""
    return f"{setting}={value if isinstance(value, bool | int | str) else 'given'}"


def _others(settings: Settings, refused: str, door: Door) -> Iterator[Settings]:
    """The same but for a refused setting, if that makes sense; of the door that was wanted as much as there may be."""
    for value in _parts_of(door) if refused == "door" else INSTEAD.get(refused, ()):
        with suppress(ValueError):
            yield with_setting(settings, refused, value)


def _parts_of(door: Door) -> Iterator[Door]:
    """That door with less and less, what few have first; then each of its limits alone; then an open one."""
    parts = [part for part in PARTS_OF_A_DOOR if any(getattr(door, name) for name in part)]
    for kept in (*(parts[count:] for count in range(1, len(parts))), *([part] for part in parts)):
        yield evolve(OPEN, **{name: getattr(door, name) for part in kept for name in part})
    yield OPEN


PARTS_OF_A_DOOR = (
    ("defer_ns", "deferred_requests", "pool_tokens", "model_tokens", "asynchronous_requests"),
    ("step_ns", "token_ns", "first_token_ns", "inter_token_ns"),
    ("retain_ns",),
    ("rate_window_ns", "rate_requests", "rate_tokens"),
    ("queue_age_ns",),
    ("committed_tokens",),
    ("client_requests", "client_tokens"),
    ("queue_requests", "queue_tokens"),
)
"""What somebody may honour without the rest."""


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
INSTEAD |= {
    name: (one.default,) for name, one in fields_dict(Settings).items() if name not in (*INSTEAD, *POOL, "door")
}
"""What to ask for instead of a refused value."""
