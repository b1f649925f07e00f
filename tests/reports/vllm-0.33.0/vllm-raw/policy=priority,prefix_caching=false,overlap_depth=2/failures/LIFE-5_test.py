"""LIFE-5: A request ends in the iteration in which it stops, and not before."""

from schedspec.conformance.script import COMPLETE, STEP, Script, submit
from schedspec.conformance.testing import assert_keeps
from schedspec.spec.vocabulary import Settings


def test_life_5() -> None:
    settings = Settings(blocks=4, block_size=4, seats=1, token_budget=2, policy="priority", victim="lowest_priority", max_model_tokens=12)
    ops = [
        submit("a", [1, 2, 3, 4, 5, 5, 5, 5, 5, 5], 3),
        STEP,
        COMPLETE,
        STEP,
        COMPLETE,
        STEP,
        COMPLETE,
        STEP,
        COMPLETE,
        STEP,
        COMPLETE,
        STEP,
        COMPLETE,
    ]
    assert_keeps("LIFE-5", "vllm-raw", Script(settings, 0, ops))
