"""STEP-8: A running request with its blocks in hand is in every step that has budget left, whatever happened to others."""

from schedspec.conformance.script import COMPLETE, STEP, Script, submit
from schedspec.conformance.testing import assert_keeps
from schedspec.spec.vocabulary import Settings


def test_step_8() -> None:
    settings = Settings(blocks=7, block_size=3, seats=2, token_budget=4, watermark_blocks=2, chunk_tokens=2, overlap_depth=2, max_model_tokens=12)
    ops = [
        submit("r1", [5, 5, 5], 2, stop_after=4, priority=2, client="b"),
        STEP,
        submit("r6", [1, 2, 3, 4, 9, 9, 9, 9, 9], 6, priority=1, client="b"),
        STEP,
        COMPLETE,
        COMPLETE,
        STEP,
        STEP,
        COMPLETE,
        STEP,
        COMPLETE,
        STEP,
        COMPLETE,
        STEP,
    ]
    assert_keeps("STEP-8", "vllm-raw", Script(settings, 0, ops))
