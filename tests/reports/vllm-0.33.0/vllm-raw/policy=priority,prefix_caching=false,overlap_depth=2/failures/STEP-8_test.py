"""STEP-8: A running request with its blocks in hand is in every step that has budget left, whatever happened to others."""

from schedspec.conformance.script import COMPLETE, STEP, Script, submit
from schedspec.conformance.testing import assert_keeps
from schedspec.spec.vocabulary import Settings


def test_step_8() -> None:
    settings = Settings(blocks=7, block_size=2, seats=1, token_budget=4, policy="priority", victim="lowest_priority", overlap_depth=2, max_model_tokens=12)
    ops = [submit("a", range(1, 9), 5), STEP, COMPLETE, STEP, COMPLETE, STEP, COMPLETE, STEP, STEP, COMPLETE, STEP]
    assert_keeps("STEP-8", "vllm-raw", Script(settings, 0, ops))
