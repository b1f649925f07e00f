"""Caps that are just reached, lanes that come back: the optimized scheduler and the reference in lock step, where drawn
workloads seldom are."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from attrs import evolve

from schedspec.conformance.script import COMPLETE, STEP, Op, Script, cancel, submit
from schedspec.spec.vocabulary import Lane, Settings

from .lock_step import compare

PLAIN = Settings(blocks=60, block_size=2, seats=8, token_budget=64, policy="vtc")
PROMPT, OUTPUT = 4, 6
"""Of every request but a few: ten tokens, five blocks, a cost of 4 + 2 · 6."""

LANES = (
    Lane(name="fast", share_percent=60, max_prompt_tokens=PROMPT, burst=9),
    Lane(name="slow", share_percent=25, max_prompt_tokens=PROMPT + 3, burst=2),
    Lane(name="rest", share_percent=15, burst=1),
)
CAPPED = (
    Lane(name="fast", share_percent=20, maximum_percent=25, max_prompt_tokens=PROMPT),
    Lane(name="slow", share_percent=30, order="vtc", maximum_percent=50),
)

LIMITS: dict[str, dict[str, Any]] = {
    "one seat of a client": {"client_seats": 1},
    "two seats of a client": {"client_seats": 2},
    "tokens of a client": {"client_resident_tokens": 20},
    "cost of a client": {"client_committed_cost": 32},
    "cost of a client, chunk by chunk": {"client_committed_cost": 32, "charge_prompt": "chunk", "chunk_tokens": 3},
    "cost of a client, foreseen": {"client_committed_cost": 32, "charge_prediction": True},
    "tokens of all": {"resident_tokens": 30},
    "prompts in prefill": {"prefilling_requests": 2, "token_budget": 9, "chunk_tokens": 2},
    "seats, and nobody behind is kept": {"client_seats": 1, "at_blocked_head": "skip"},
    "blocks of a lane": {"policy": "lanes", "lanes": CAPPED},
    "blocks and seats": {"policy": "lanes", "lanes": CAPPED, "client_seats": 2},
    "lanes that come back": {"policy": "lanes", "lanes": LANES},
    "lanes that come back, aged": {"policy": "lanes", "lanes": LANES, "aging_picks": 2, "aging_credit": 30},
    "lanes where an output costs more than 2³¹": {"policy": "lanes", "lanes": LANES, "output_weight": 1 << 30},
    "turns": {"policy": "drr", "quantum": 7},
    "turns, foreseen": {"policy": "drr", "quantum": 16, "charge_prediction": True},
    "aged": {"aging_picks": 3, "aging_credit": 24},
    "whole prompts": {"chunked_prefill": False, "token_budget": 14},
    "a watermark": {"watermark_blocks": 5, "blocks": 25},
    "a watermark that only who is alone gets below": {"watermark_blocks": 24, "blocks": 25},
}


def crowd(dice: Random) -> Iterator[Op]:
    """Few clients, many of the same size; now and then nobody comes for a while."""
    number = 0
    for _ in range(8):
        for _ in range(dice.choice((0, 1, 3, 6))):
            number += 1
            longer = dice.choice((0, 0, 0, 3, 5))
            asked: dict[str, Any] = {
                "stop_after": dice.choice((None, None, None, 2)),
                "client": f"c{dice.randrange(3)}",
            }
            predicted = dice.choice((None, OUTPUT, 2, OUTPUT + 3))
            if predicted is not None:
                asked["predicted_output_tokens"] = predicted
            yield submit(f"r{number}", PROMPT + longer, OUTPUT, **asked)
        for _ in range(dice.choice((1, 3, 12))):
            yield STEP
            yield COMPLETE
        if number and dice.random() < 0.2:
            yield cancel(f"r{dice.randint(1, number)}")


@pytest.mark.parametrize("limit", LIMITS)
def test_limits_are_reached_alike(limit: str) -> None:
    for seed in range(5):
        compare(Script(evolve(PLAIN, **LIMITS[limit]), seed, tuple(crowd(Random(seed)))))


def test_more_outputs_than_two_bytes_count() -> None:
    """Nobody waits until they are through: one is cancelled, and the model of the other stops."""
    settings = evolve(PLAIN, blocks=200, block_size=1 << 10)
    longer, other = submit("r1", PROMPT, (1 << 16) + 1), submit("r2", PROMPT, 1 << 16, stop_after=2)
    compare(Script(settings, 0, (longer, other, *(STEP, COMPLETE) * 4, cancel("r1"))))
