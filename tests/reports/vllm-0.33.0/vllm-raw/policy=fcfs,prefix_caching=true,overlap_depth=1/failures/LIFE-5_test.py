"""LIFE-5: A request ends in the iteration in which it stops, and not before."""

from schedspec.conformance.script import COMPLETE, STEP, Script, submit
from schedspec.conformance.testing import assert_keeps
from schedspec.spec.vocabulary import Settings


def test_life_5() -> None:
    settings = Settings(blocks=7, block_size=2, seats=1, token_budget=4, max_model_tokens=12)
    ops = [submit("a", range(1, 9), 5), STEP, COMPLETE, STEP, COMPLETE, STEP, COMPLETE, STEP, COMPLETE, STEP, COMPLETE]
    assert_keeps("LIFE-5", "vllm-raw", Script(settings, 0, ops))
