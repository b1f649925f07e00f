"""LIFE-5: A request ends in the iteration in which it stops, and not before."""

from schedspec.conformance.script import COMPLETE, STEP, Op, Script, submit
from schedspec.conformance.testing import assert_keeps
from schedspec.spec.vocabulary import Settings


def test_life_5() -> None:
    settings = Settings(blocks=14, block_size=2, seats=3, token_budget=6, policy="priority", victim="lowest_priority", prefix_caching=True, overlap_depth=2, max_model_tokens=12)
    ops = [
        submit("r6", [5, 5, 5, 5, 5, 5, 5, 5, 5, 5], 3, stop_after=1, client="a"),
        submit("r7", range(1, 11), 4, stop_after=4, client="b"),
        Op("tick", ns=0),
        STEP,
        STEP,
        COMPLETE,
        STEP,
        COMPLETE,
        STEP,
        COMPLETE,
        STEP,
        COMPLETE,
        COMPLETE,
    ]
    assert_keeps("LIFE-5", "vllm-raw", Script(settings, 0, ops))
