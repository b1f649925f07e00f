"""Walks through larger worlds: dozens or hundreds of requests in a step, as an engine has them.

Tiny worlds find most faults, and with the shortest runs; sums over many, queues that are long, and pools of thousands
of blocks are not in them.  All that a walk draws is drawn here as well, with limits in proportion.
"""

from collections.abc import Sequence
from random import Random
from typing import Literal

from attrs import evolve, frozen

from schedspec.spec.vocabulary import Policy, Settings, blocks_for

from .script import Script
from .walks import POLICIES, Mood, Scale, walk_in


@frozen(kw_only=True)
class Size:
    """What worlds of a size are drawn from.  Where hundreds wait, nobody looks at all of them in every step."""

    name: str
    seats: tuple[int, ...]
    longest_prompt: tuple[int, ...]
    longest_output: tuple[int, ...]
    block_size: tuple[int, ...]
    scale: Scale
    pauses: tuple[int, ...]
    at_blocked_head: tuple[Literal["break", "skip"], ...] = ("break",)


MEDIUM = Size(
    name="medium",
    seats=(12, 24, 48),
    longest_prompt=(16, 48),
    longest_output=(16, 64),
    block_size=(2, 4, 8),
    scale=Scale(requests=8, tokens=40),
    pauses=(0, 0, 1, 1, 2),
    at_blocked_head=("break", "break", "skip"),
)
LARGE = Size(
    name="large",
    seats=(512, 768, 1024),
    longest_prompt=(64, 256),
    longest_output=(384, 512),
    block_size=(16, 16, 32),
    scale=Scale(requests=200, tokens=6_000),
    pauses=(0, 0, 0, 0, 1),
)


def crowd(seed: int, size: Size, policies: Sequence[Policy] = ()) -> Script:
    """The same script for the same seed, size, and policies that may be drawn."""
    dice = Random(f"{size.name} {seed}")
    seats = dice.choice(size.seats)
    mood = Mood(
        shared_prefix=dice.choice((0, 0, 60)),
        priorities=dice.choice((0, 50)),
        urgent=dice.random() < 0.1,
        cancels=dice.choice((0, 0, 2, 8)),
        stops=dice.choice((0, 25, 60)),
        ahead=dice.choice((0, 0, 60, 95)),
        longest_prompt=dice.choice(size.longest_prompt),
        longest_output=dice.choice(size.longest_output),
        requests=seats * dice.choice((2, 3)),
        clients="abcde"[: dice.randint(1, 5)],
        pauses=size.pauses,
    )
    return walk_in(dice, mood, _world(dice, size, mood, seats), seed, policies, size.scale)


def _world(dice: Random, size: Size, mood: Mood, seats: int) -> Settings:
    """A pool in which all who have a seat fit at their mean length, or nearly."""
    block_size = dice.choice(size.block_size)
    mean = blocks_for((mood.longest_prompt * 3 + mood.longest_output * 2) // 4, block_size)
    longest = blocks_for(mood.longest_prompt + mood.longest_output, block_size)
    settings = Settings(
        blocks=longest + seats * mean * dice.choice((60, 90, 120)) // 100,
        block_size=block_size,
        seats=seats,
        token_budget=max(mood.longest_prompt, seats * dice.choice((1, 2, 4))),
        watermark_blocks=dice.choice((0, 0, seats // 16)),
        at_blocked_head=dice.choice(size.at_blocked_head),
        reserve=dice.choice(("on_demand", "on_demand", "known", "declared")),
        prefix_caching=mood.shared_prefix > 0 or dice.random() < 0.3,
        chunk_tokens=dice.choice((0, 0, 2 * block_size + 1)),
        overlap_depth=2 if mood.ahead else 1,
    )
    policy: Policy = dice.choice(("fcfs", "fcfs", "priority", *POLICIES[:3]))
    return evolve(settings, policy=policy)
