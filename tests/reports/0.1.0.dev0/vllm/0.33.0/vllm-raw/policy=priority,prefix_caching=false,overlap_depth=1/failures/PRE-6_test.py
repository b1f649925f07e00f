"""PRE-6: A preemption leaves somebody running, and completed tokens grow within a bounded number of steps."""

from schedspec.conformance.script import COMPLETE, STEP, Script, submit
from schedspec.conformance.testing import assert_keeps
from schedspec.spec.vocabulary import Settings


def test_pre_6() -> None:
    settings = Settings(blocks=4, block_size=2, seats=1, token_budget=6, policy="priority", victim="lowest_priority")
    ops = [submit("a", [1, 1, 1, 1, 1, 1], 2), STEP, COMPLETE, STEP]
    assert_keeps("PRE-6", "vllm-raw", Script(settings, 0, ops))
