"""One control at a time: which settings a tuning tries beside those that it starts from.

A control is a setting, `door.LIMIT` of the door, or `share.LANE`, a lane's share of service.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import evolve, fields_dict, frozen

from ...spec.admission import LIMITS
from ...spec.hints import closest
from ...spec.settings import Lane, Settings

ALL_PERCENT = 100
DOOR, SHARE = "door.", "share."
FACTORS = ((1, 4), (1, 2), (1, 1), (2, 1))


@frozen
class Control:
    """`start`: its value in the settings from which the tuning starts, one of the `values`."""

    name: str
    start: Any
    values: tuple[Any, ...]


def default_controls(settings: Settings) -> list[Control]:
    """Those that most people have: budget, chunk, seats, watermark, order or shares, reserve, queue cap."""
    s, budget = settings, settings.token_budget
    of_lanes: dict[str, Iterable[Any]] = {f"{SHARE}{s.lanes[0].name}": (20, 40, 60, 80)} if len(s.lanes) > 1 else {}
    usual: dict[str, Iterable[Any]] = {
        "token_budget": [*_around(budget), 4 * budget],
        "chunk_tokens": [0, *(budget // part for part in (16, 8, 4, 2) if budget >= part)],
        "seats": _around(s.seats),
        "watermark_blocks": [0, s.blocks // 100, s.blocks // 20, s.blocks // 10],
        "reserve": ["on_demand", "peak", "declared"],
        "door.queue_requests": [0, s.seats // 4, s.seats, 4 * s.seats],
        "policy": ["fcfs", "sjf", "vtc", "lanes"],
    }
    return [control(settings, name, values) for name, values in (usual | of_lanes).items()]


def control(settings: Settings, name: str, values: Iterable[Any]) -> Control:
    """With the value that it starts from among them: numbers ascending, others as they are given.  Raises ValueError
    if there is no such control."""
    start = value_of(settings, name)
    given = list(dict.fromkeys([start, *values]))
    return Control(name, start, tuple(sorted(given) if all(isinstance(value, int) for value in given) else given))


def value_of(settings: Settings, name: str) -> Any:
    """Raises ValueError if there is no such control."""
    if name.startswith(DOOR) and name.removeprefix(DOOR) in LIMITS:
        return getattr(settings.door, name.removeprefix(DOOR))
    lanes = {lane.name: lane for lane in settings.lanes}
    if name.startswith(SHARE) and name.removeprefix(SHARE) in lanes:
        return lanes[name.removeprefix(SHARE)].share_percent
    if name in fields_dict(Settings) and name not in ("door", "lanes", "prices"):
        return getattr(settings, name)
    known = [f"share.{lane}" for lane in lanes] or ["share.LANE where --setting policy=lanes"]
    every = [*fields_dict(Settings), *(f"{DOOR}{limit}" for limit in LIMITS), *(f"{SHARE}{lane}" for lane in lanes)]
    if (close := closest(name, every)) is not None:
        raise ValueError(f"{name} is no control: did you mean {close!r}?")
    raise ValueError(f"{name} is no control: write a setting, door.LIMIT ({', '.join(LIMITS)}), or {', '.join(known)}")


def applied(settings: Settings, name: str, value: Any) -> Settings:
    """With one control changed.  Raises ValueError if that contradicts the rest."""
    if name.startswith(DOOR):
        return evolve(settings, door=evolve(settings.door, **{name.removeprefix(DOOR): value}))
    if name.startswith(SHARE):
        return evolve(settings, lanes=shared(settings.lanes, name.removeprefix(SHARE), value))
    if name == "policy" and value != "lanes":
        return evolve(settings, policy=value, lanes=())
    return evolve(settings, **{name: value})


def shared(lanes: Iterable[Lane], name: str, percent: int) -> list[Lane]:
    """The lane's share is so much, and the others share the rest in the proportions that they had."""
    others = {lane.name: lane.share_percent for lane in lanes if lane.name != name}
    rest = ALL_PERCENT - percent
    shares: Mapping[str, int] = {other: share * rest // sum(others.values()) for other, share in others.items()}
    over = rest - sum(shares.values())
    changed = []
    for lane in lanes:
        share = percent if lane.name == name else shares[lane.name]
        if lane.name != name and over:
            share, over = share + over, 0
        changed.append(evolve(lane, share_percent=share))
    return changed


def _around(value: int) -> list[int]:
    return [max(1, value * up // down) for down, up in ((down, up) for up, down in FACTORS)]
