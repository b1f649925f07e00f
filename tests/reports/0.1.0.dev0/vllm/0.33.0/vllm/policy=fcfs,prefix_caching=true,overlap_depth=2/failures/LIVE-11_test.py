"""LIVE-11: What fits is not left idle behind what does not."""

from schedspec.conformance.script import STEP, Script, submit
from schedspec.conformance.testing import assert_keeps
from schedspec.spec.vocabulary import Settings


def test_live_11() -> None:
    settings = Settings(blocks=6, block_size=1, seats=2, token_budget=4, watermark_blocks=2)
    ops = [submit("a", [1, 2], 1), submit("b", [3, 4], 1), submit("c", [5], 1), STEP]
    assert_keeps("LIVE-11", "vllm", Script(settings, 0, ops))
