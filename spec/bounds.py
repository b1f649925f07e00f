"""What settings of every kind are held to: integers of at least a bound, and one of a few values."""

from collections.abc import Iterator, Mapping
from typing import Any

from .hints import closest


def is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def too_small(of: object, least: Mapping[str, int], prefix: str = "") -> Iterator[str]:
    for name, bound in least.items():
        value = getattr(of, name)
        if not is_int(value) or value < bound:
            yield f"{prefix}{name} is {value!r}, but must be an integer of at least {bound}"


def not_among(of: object, known: Mapping[str, tuple[object, ...]], prefix: str = "") -> Iterator[str]:
    for name, allowed in known.items():
        value = getattr(of, name)
        if not any(type(value) is type(one) and value == one for one in allowed):
            close = closest(value, map(str, allowed)) if isinstance(value, str) else None
            hint = f": did you mean {close!r}?" if close else ""
            yield f"{prefix}{name} is {value!r}, but must be one of {', '.join(map(str, allowed))}{hint}"


def faults_of_parking(s: Any) -> Iterator[str]:
    """What contradicts requests that are parked, in settings whose own values are right."""
    if s.hold_ns > s.park_timeout_ns:
        longest = f"a request is parked at most {s.park_timeout_ns} ns" if s.park_timeout_ns else "nobody is parked"
        yield f"hold_ns is {s.hold_ns}, but {longest}: give a park_timeout_ns of at least {s.hold_ns}"
    if s.hold_ns and not s.prefix_caching:
        yield f"hold_ns is {s.hold_ns}, but what is held is found in the prefix cache: write prefix_caching=True"
    of_door = getattr(s.door, "queue_age_ns", 0) or getattr(s.door, "has_time_model", False)
    lanes = s.lanes if isinstance(s.lanes, tuple) else ()
    if s.park_timeout_ns and (of_door or any(getattr(lane, "objective_steps", 0) for lane in lanes)):
        yield (
            "park_timeout_ns is given, but the door or a lane promises how long somebody waits, and whoever is parked"
            " comes back at any time: give one of the two"
        )


def faults_of_objectives(s: Any) -> Iterator[str]:
    """Lanes that promise less than requests of another lane may last, in settings whose own values are right."""
    for lane in s.lanes:
        longest = _steps_of_others(s, lane) if lane.objective_steps else 0
        if 0 < lane.objective_steps < longest:
            yield (
                f"lane {lane.name!r}: objective_steps is {lane.objective_steps}, but requests of another lane may keep"
                f" every seat for {longest} steps: give at least {longest}, or a smaller max_output_tokens"
            )


def _steps_of_others(s: Any, lane: Any) -> int:
    """So long may requests of one other lane, of a token each in the prompt, keep all seats or the whole budget: each
    step gives each of them a token, and nobody takes what they hold."""
    most_percent = max((other.maximum_percent for other in s.lanes if other is not lane), default=0)
    places = min(s.seats, s.token_budget)
    blocks = (s.blocks - s.watermark_blocks) * most_percent // 100
    positions = blocks // places * s.block_size
    if s.resident_tokens:
        positions = min(positions, s.resident_tokens // places - 1)
    steps: int = min(positions, s.max_output_tokens, s.max_model_tokens - 1)
    return steps - (places if s.prefilling_requests else 0)


def faults_of_drafts(s: Any) -> Iterator[str]:
    """What contradicts drafts, in settings whose own values are right."""
    if s.draft_tokens and s.overlap_depth > 1:
        yield (
            f"draft_tokens is {s.draft_tokens}, but overlap_depth {s.overlap_depth}: where the next step begins is not"
            " known before drafts are verified, give one of the two"
        )
    if s.draft_tokens and getattr(s.pools, "are_two", False):
        yield "draft_tokens is given with two pools, which is defined for one pool only: turn one of them off"
    if s.draft_tokens and getattr(s.door, "has_time_model", False):
        yield "draft_tokens is given with a time model, which counts tokens that are sure: leave one of them out"
