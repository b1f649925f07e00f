"""ADMIT-2: Hard limits hold: prompt length, output reservation, context of the model."""

from schedspec.conformance.script import Script, submit
from schedspec.conformance.testing import assert_keeps
from schedspec.spec.vocabulary import Settings


def test_admit_2() -> None:
    settings = Settings(blocks=2, block_size=1, seats=1, token_budget=1, policy="priority", victim="lowest_priority", max_model_tokens=12)
    ops = [submit("a", [1], 12)]
    assert_keeps("ADMIT-2", "vllm-raw", Script(settings, 0, ops))
