"""LIVE-1: With unfinished work and nothing in flight, some token is scheduled in the next step, or within the declared admission period."""

from schedspec.conformance.script import STEP, Script, submit
from schedspec.conformance.testing import assert_keeps
from schedspec.spec.vocabulary import Settings


def test_live_1() -> None:
    settings = Settings(blocks=2, block_size=1, seats=1, token_budget=2)
    ops = [submit("a", [1, 2], 1), STEP]
    assert_keeps("LIVE-1", "vllm-raw", Script(settings, 0, ops))
