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

    What a request may get instead of a refusal, the first of these that there is, and once: it is held at the door for
    at most `defer_ns`, among `deferred_requests`, and then in or expired; another pool takes it, if it declares at most
    `pool_tokens`; a smaller model does, if at most `model_tokens`; or it is asynchronous, held among
    `asynchronous_requests` until there is room, whether its client is there or not.
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
    defer_ns: int = 0
    deferred_requests: int = 0
    pool_tokens: int = 0
    model_tokens: int = 0
    asynchronous_requests: int = 0

    @property
    def has_alternatives(self) -> bool:
        """Somebody who would be refused may get something else."""
        return any(getattr(self, name) for name in ALTERNATIVES)

    @property
    def has_time_model(self) -> bool:
        return bool(self.step_ns or self.token_ns)

    def takes_ns(self, tokens: int) -> int:
        """The most that a step of so many tokens takes."""
        return self.step_ns + tokens * self.token_ns


ALTERNATIVES = ("defer_ns", "pool_tokens", "model_tokens", "asynchronous_requests")
"""What a door does instead of refusing, in the order in which it is tried."""

CONVERSIONS = ("pool", "model", "asynchronous")
"""What a request may be converted to."""


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
    yield from _of_alternatives(s)


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


HELD_FOR = (
    *("queue_requests", "queue_tokens", "queue_age_ns", "first_token_ns", "client_requests", "client_tokens"),
    *("committed_tokens", "rate_requests", "rate_tokens"),
)
"""Limits that break and hold again while time goes on."""

SMALLEST = 2
"""Tokens that a request declares at least: one of its prompt, one of its output."""


def _of_alternatives(s: "Settings") -> Iterator[str]:
    door = s.door
    if _are_right(door, "defer_ns", "deferred_requests") and bool(door.defer_ns) != bool(door.deferred_requests):
        yield (
            f"door: defer_ns is {door.defer_ns} and deferred_requests {door.deferred_requests}: a deferral is so long"
            " for at most so many, give both or none"
        )
    for name in ("pool_tokens", "model_tokens"):
        if _are_right(door, name) and 0 < getattr(door, name) < SMALLEST:
            yield f"door: {name} is {getattr(door, name)}, but no request declares fewer than {SMALLEST} tokens"
    holds = [name for name in ("defer_ns", "asynchronous_requests") if _are_right(door, name) and getattr(door, name)]
    lanes = s.lanes if isinstance(s.lanes, tuple) else ()
    is_limited = any(getattr(door, name) for name in HELD_FOR) or any(
        getattr(lane, name, 0) for lane in lanes for name in ("queue_requests", "queue_tokens")
    )
    if holds and not is_limited:
        yield (
            f"door: {holds[0]} is {getattr(door, holds[0])}, but nobody is ever held: the door has no limit that breaks"
            " and holds again, give queue_requests or another"
        )
