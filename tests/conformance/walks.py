"""Random walks: scripts drawn by plain dice, many a second, each with a mood of its own.

The state machine of `machine.py` draws operations one by one and knows nothing of what they lead to.  A walk draws a
small world first, then who comes: equal prefixes or none, long prompts or short ones, in bursts or one by one, with
priorities, cancels and early stops or without.  Memory is short in all of them: that is where schedulers differ.
"""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from attrs import asdict, evolve, frozen

from schedspec.spec.vocabulary import OPEN, Door, Policy, Settings, blocks_for

from .features import (
    at_the_door,
    of_feature,
    on_the_clock,
    too_large,
    with_alternatives,
    with_depth,
    with_door,
    with_drafts,
    with_features,
    with_host,
    with_victims,
)
from .parked import of_parking, with_parking
from .script import COMPLETE, STEP, Op, Script, cancel, submit, with_deadline
from .transfers import on_the_link, with_pools

POLICIES: tuple[Policy, ...] = ("vtc", "vtc", "lcf", "round_robin", "edf", "sjf", "aging")


@frozen
class Mood:
    """Chances in percent, and the longest prompt and output.  `urgent`: who comes later is served first; `pauses`:
    how many steps there may be between two arrivals."""

    shared_prefix: int
    priorities: int
    urgent: bool
    cancels: int
    stops: int
    ahead: int
    longest_prompt: int
    longest_output: int
    requests: int
    clients: str = "ab"
    pauses: tuple[int, ...] = (0, 0, 1, 1, 2, 4)


def walk(seed: int, policies: Sequence[Policy] = ()) -> Script:
    """The same script for the same seed, and the same policies that may be drawn."""
    dice = Random(seed)
    mood = _crowded(Random(f"crowd {seed}"), _mood(dice))
    world = _of_some_policy(Random(f"policy {seed}"), _world(dice, mood))
    return walk_in(dice, mood, world, seed, policies)


@frozen
class Scale:
    """How many times as large limits are as in a tiny world: those that count requests, and those that count tokens."""

    requests: int
    tokens: int


def walk_in(
    dice: Random, mood: Mood, world: Settings, seed: int, policies: Sequence[Policy], scale: Scale | None = None
) -> Script:
    """Who comes into a world that was drawn, and what else is drawn for it.  Two pools are tiny ones, or none."""
    settings = with_features(Random(f"features {seed}"), world, policies)
    settings = with_door(Random(f"door {seed}"), settings)
    settings = with_alternatives(Random(f"alternatives {seed}"), settings)
    settings = with_host(Random(f"host {seed}"), settings)
    settings = with_parking(Random(f"parking {seed}"), settings)
    if scale is not None:
        settings = scaled(settings, scale)
    elif not policies or "fcfs" in policies:
        settings = with_pools(Random(f"pools {seed}"), settings)
    settings = with_drafts(Random(f"drafts {seed}"), settings)
    settings = with_victims(Random(f"victims {seed}"), settings)
    settings = with_depth(Random(f"depth {seed}"), settings)
    ops: Iterable[Op] = too_large(Random(f"too large {seed}"), _operations(dice, mood), settings)
    if settings != world:
        asked = Random(f"requests {seed}")
        ops = [of_feature(asked, op, settings) for op in ops]
    if settings.door != OPEN or settings.cancel_on_disconnect:
        coming = Random(f"comers {seed}")
        ops = [one for op in ops for one in at_the_door(coming, op, settings)]
    ops = map(with_deadline, ops) if settings.policy == "edf" else ops
    if settings.park_timeout_ns:
        news = Random(f"news {seed}")
        ops = [one for op in ops for one in of_parking(news, op, settings)]
    ops = on_the_clock(Random(f"clock {seed}"), list(ops), settings)
    if settings.pools.are_two:
        link = Random(f"link {seed}")
        ops = [one for op in ops for one in on_the_link(link, op, settings)]
    return Script(settings, seed, ops)


OF_REQUESTS = ("client_seats", "prefilling_requests", "adapter_slots")
OF_TOKENS = ("resident_tokens", "client_resident_tokens", "quantum")
"""Limits that are drawn for tiny worlds; those of the door are beside them."""


def scaled(settings: Settings, scale: Scale) -> Settings:
    """The same with limits in proportion; nobody is asked for the peak of hundreds of requests at each admission."""
    if settings.reserve == "peak":
        settings = evolve(settings, reserve="known")
    limits: dict[str, Any] = {name: getattr(settings, name) * scale.requests for name in OF_REQUESTS}
    limits |= {name: getattr(settings, name) * scale.tokens for name in OF_TOKENS}
    limits["client_seats"] = min(limits["client_seats"], settings.seats)
    limits["client_committed_cost"] = 0  # looked up for all who wait
    lanes = tuple(
        evolve(lane, queue_requests=lane.queue_requests * scale.requests, burst=lane.burst * scale.tokens)
        for lane in settings.lanes
    )
    return evolve(settings, **limits, door=_scaled_door(settings.door, scale), lanes=lanes)


def _scaled_door(door: Door, scale: Scale) -> Door:
    times = {"tokens": scale.tokens, "requests": scale.requests}
    limits = asdict(door).items()
    return evolve(door, **{name: value * times.get(name.rpartition("_")[2], 1) for name, value in limits})


def plain_walk(seed: int) -> Script:
    """The same walk without features: for whoever chooses policies and the like by itself."""
    dice = Random(seed)
    mood = _mood(dice)
    return Script(_world(dice, mood), seed, _operations(dice, mood))


def _mood(dice: Random) -> Mood:
    return Mood(
        shared_prefix=dice.choice((0, 60, 90)),
        priorities=dice.choice((0, 50, 80)),
        urgent=dice.random() < 0.4,
        cancels=dice.choice((0, 0, 4, 12)),
        stops=dice.choice((0, 25, 60)),
        ahead=dice.choice((0, 0, 60, 95)),
        longest_prompt=dice.choice((4, 9, 14, 20, 26)),
        longest_output=dice.choice((3, 6, 10)),
        requests=dice.choice((2, 3, 5, 8, 12, 12)),
    )


def _crowded(dice: Random, mood: Mood) -> Mood:
    """Now and then many come, of several clients: bounds on service are not reached by few."""
    if dice.random() < 0.9:
        return mood
    return evolve(mood, requests=dice.choice((20, 30, 40)), clients="abcde"[: dice.randint(2, 5)])


def _world(dice: Random, mood: Mood) -> Settings:
    """A pool that holds the longest request and little more."""
    block_size = dice.choice((1, 1, 2, 2, 3, 4))
    longest = blocks_for(mood.longest_prompt + mood.longest_output, block_size)
    chunked = dice.random() < 0.85
    policy: Policy = dice.choice(("fcfs", "priority"))
    blocks = longest + dice.choice((0, 1, 1, 2, 3, 5))
    return Settings(
        blocks=blocks,
        block_size=block_size,
        seats=dice.choice((1, 2, 3, 4, 4, 6)),
        token_budget=dice.choice((2, 3, 4, 6, 8, 16)) if chunked else mood.longest_prompt + mood.longest_output,
        watermark_blocks=dice.choice((0, 0, 0, min(1, blocks - 1))),
        policy=policy,
        victim="newest" if policy == "fcfs" else dice.choice(("newest", "lowest_priority")),
        at_blocked_head=dice.choice(("break", "break", "skip")),
        reserve=dice.choice(("on_demand", "on_demand", "known", "declared")),
        prefix_caching=mood.shared_prefix > 0 or dice.random() < 0.3,
        chunked_prefill=chunked,
        chunk_tokens=dice.choice((0, 0, 2, block_size + 1, block_size + 2, 2 * block_size + 1)) if chunked else 0,
        overlap_depth=2 if mood.ahead else 1,
    )


def _of_some_policy(dice: Random, settings: Settings) -> Settings:
    """The policy that was drawn with the rest, or another one, so that all else stays what it was."""
    return evolve(settings, policy=dice.choice(POLICIES)) if dice.random() < 0.4 else settings


def _operations(dice: Random, mood: Mood) -> tuple[Op, ...]:
    ops: list[Op] = []
    families = [tuple(dice.randrange(1, 4) for _ in range(mood.longest_prompt)) for _ in range(2)]
    for number in range(1, mood.requests + 1):
        ops.append(_arrival(dice, mood, families, number))
        ops += _pause(dice, mood, number)
    for _ in range(dice.randrange(0, 12)):
        ops += _pause(dice, mood, mood.requests)
    return tuple(ops)


def _arrival(dice: Random, mood: Mood, families: list[tuple[int, ...]], number: int) -> Op:
    length = max(dice.randint(1, mood.longest_prompt) for _ in range(dice.choice((1, 1, 2, 4))))
    prompt: int | tuple[int, ...] = length
    if dice.randrange(100) < mood.shared_prefix:
        prompt = dice.choice(families)[:length]
    output = dice.randint(1, mood.longest_output)
    stop = dice.randint(1, output) if dice.randrange(100) < mood.stops else None
    priority = dice.randrange(3) if dice.randrange(100) < mood.priorities else 0
    if mood.urgent:
        priority = mood.requests - number
    return submit(f"r{number}", prompt, output, stop_after=stop, priority=priority, client=dice.choice(mood.clients))


def _pause(dice: Random, mood: Mood, latest: int) -> list[Op]:
    """Steps until the next arrival, some ahead of their results; or nothing, and a burst comes."""
    ops: list[Op] = []
    for _ in range(dice.choice(mood.pauses)):
        ops.append(STEP)
        if dice.randrange(100) < mood.ahead:
            ops.append(STEP)
        if dice.randrange(100) < mood.cancels:
            ops.append(cancel(f"r{dice.randint(1, latest)}"))
        ops.append(COMPLETE)
        if dice.randrange(100) < 3:
            ops.append(Op("repeat", back=dice.randint(1, 2)))
    return ops
