"""ADMIT-1: Every accepted request is feasible alone on an empty system; an infeasible one is refused at once, with the limit that it breaks."""

from schedspec.conformance.script import Script, submit
from schedspec.conformance.testing import assert_keeps
from schedspec.spec.vocabulary import Settings


def test_admit_1() -> None:
    settings = Settings(blocks=2, block_size=2, seats=1, token_budget=1, policy="priority", victim="lowest_priority", chunked_prefill=False)
    ops = [submit("a", [1, 2], 1)]
    assert_keeps("ADMIT-1", "vllm-raw", Script(settings, 0, ops))
