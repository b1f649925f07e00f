"""STEP-8: A running request with its blocks in hand is in every step that has budget left, whatever happened to others."""

from schedspec.conformance.script import COMPLETE, STEP, Script, submit
from schedspec.conformance.testing import assert_keeps
from schedspec.spec.vocabulary import Settings


def test_step_8() -> None:
    settings = Settings(blocks=6, block_size=3, seats=4, token_budget=8, chunk_tokens=5, overlap_depth=2, max_model_tokens=12)
    ops = [
        submit("r2", [1], 12, priority=1, client="a"),
        STEP,
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
        STEP,
        COMPLETE,
        STEP,
        COMPLETE,
        STEP,
        COMPLETE,
        STEP,
        COMPLETE,
        STEP,
    ]
    assert_keeps("STEP-8", "vllm-raw", Script(settings, 0, ops))
