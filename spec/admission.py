"""The door: what a scheduler asks of a request before it may wait, and for how long it may.

All limits are 0 for none.  A fault is found when settings are made, and all of them are told at once.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attrs import fields_dict, frozen

from .bounds import is_int, too_small

if TYPE_CHECKING:
    from .settings import Settings


@frozen(kw_only=True)
class Door:
    """Limits at the door.  Tokens are declared ones: prompt and the most that may come out.

    `queue_requests`, `queue_tokens`: what may wait for its first admission.  Nobody waits for it longer than
    `queue_age_ns`: then it expires.  `step_ns` + `token_ns` per token is the most that a step takes, the declared time
    model: with it whoever would wait too long, or get its first token later than `first_token_ns`, is refused at once,
    and refusals say when to come again.

    `client_requests`, `client_tokens`: what a client may have accepted and not ended, `committed_tokens`: what all may.
    In any `rate_window_ns` a client is accepted with at most `rate_requests`, of at most `rate_tokens`.  A generation
    answers for its idempotency key while it lives, and `retain_ns` after it finished.  By the time model no step takes
    longer than `inter_token_ns`.
    """

    queue_requests: int = 0
    queue_tokens: int = 0
    queue_age_ns: int = 0
    step_ns: int = 0
    token_ns: int = 0
    first_token_ns: int = 0
    inter_token_ns: int = 0
    client_requests: int = 0
    client_tokens: int = 0
    committed_tokens: int = 0
    rate_window_ns: int = 0
    rate_requests: int = 0
    rate_tokens: int = 0
    retain_ns: int = 0

    @property
    def has_time_model(self) -> bool:
        return bool(self.step_ns or self.token_ns)

    def takes_ns(self, tokens: int) -> int:
        """The most that a step of so many tokens takes."""
        return self.step_ns + tokens * self.token_ns


def budget_within(inter_token_ns: int, step_ns: int, token_ns: int) -> int:
    """The most tokens of a step that takes at most `inter_token_ns` by the time model.  Raises ValueError if that is
    none."""
    if token_ns < 1:
        raise ValueError(f"token_ns is {token_ns}, but must be at least 1: else every budget takes the same time")
    budget = (inter_token_ns - step_ns) // token_ns
    if budget < 1:
        needed = step_ns + token_ns
        raise ValueError(f"inter_token_ns is {inter_token_ns}, but must be at least {needed}, what a token alone takes")
    return budget


OPEN = Door()
"""Whoever fits may wait, for ever."""

LIMITS = tuple(fields_dict(Door))


def faults_of_door(s: "Settings") -> Iterator[str]:
    """Values that are right, each by itself, contradict others; what is wrong by itself contradicts nothing."""
    given: object = s.door
    if not isinstance(given, Door):
        yield f"door is {given!r}, but must be a Door"
        return
    yield from too_small(s.door, dict.fromkeys(LIMITS, 0), "door: ")
    yield from _of_tokens(s.door)
    yield from _of_rates(s.door)
    yield from _of_time(s)
    yield from _of_lanes(s)


def _are_right(door: Door, *names: str) -> bool:
    return all(is_int(value := getattr(door, name)) and value >= 0 for name in names)


def _of_tokens(door: Door) -> Iterator[str]:
    if _are_right(door, "client_tokens", "committed_tokens") and 0 < door.committed_tokens < door.client_tokens:
        yield (
            f"door: client_tokens is {door.client_tokens}, but committed_tokens allows all clients together"
            f" {door.committed_tokens}"
        )


def _of_rates(door: Door) -> Iterator[str]:
    if not _are_right(door, "rate_window_ns", "rate_requests", "rate_tokens"):
        return
    if bool(door.rate_window_ns) != bool(door.rate_requests or door.rate_tokens):
        yield (
            f"door: rate_window_ns is {door.rate_window_ns}, rate_requests {door.rate_requests} and rate_tokens"
            f" {door.rate_tokens}: a rate is so much in so long, give a window and one of the others, or none"
        )


def _of_time(s: "Settings") -> Iterator[str]:
    """Whoever comes while the longest step runs has to wait for its end."""
    door = s.door
    if not _are_right(door, "step_ns", "token_ns"):
        return
    for name in ("first_token_ns", "inter_token_ns"):
        if not door.has_time_model and getattr(door, name):
            yield (
                f"door: {name} is {getattr(door, name)}, but there is no time model to keep it by: give step_ns and"
                " token_ns"
            )
    if not (door.has_time_model and is_int(s.token_budget) and is_int(s.overlap_depth)):
        return
    whole = door.takes_ns(max(s.token_budget, 0))
    if _are_right(door, "inter_token_ns") and 0 < door.inter_token_ns < whole:
        most = (door.inter_token_ns - door.step_ns) // max(1, door.token_ns)
        hint = f"write token_budget={most}" if most > 0 else "no token_budget is small enough"
        yield (
            f"door: inter_token_ns is {door.inter_token_ns}, but a step of token_budget {s.token_budget} may take"
            f" {whole}: {hint}"
        )
    longest = max(s.overlap_depth, 1) * door.takes_ns(max(s.token_budget, 0))
    for name in ("queue_age_ns", "first_token_ns"):
        if _are_right(door, name) and 0 < getattr(door, name) < longest:
            yield (
                f"door: {name} is {getattr(door, name)}, but by step_ns and token_ns what is under way may take"
                f" {longest}: who comes at its beginning could never be accepted"
            )


def _of_lanes(s: "Settings") -> Iterator[str]:
    """A lane that may hold more than all lanes together."""
    for lane in s.lanes if isinstance(s.lanes, tuple) else ():
        for name in ("queue_requests", "queue_tokens"):
            own, all_of_them = getattr(lane, name, 0), getattr(s.door, name)
            if is_int(own) and is_int(all_of_them) and 0 < all_of_them < own:
                yield f"lane {lane.name!r}: {name} is {own}, but the door allows all lanes together {all_of_them}"
