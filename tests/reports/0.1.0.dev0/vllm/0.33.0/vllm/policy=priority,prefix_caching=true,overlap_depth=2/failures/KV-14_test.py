"""KV-14: An index entry names a block whose content is, or by an issued write will be, that prefix; rewriting the block removes the entry first."""

from schedspec.conformance.script import COMPLETE, STEP, Script, submit
from schedspec.conformance.testing import assert_keeps
from schedspec.spec.vocabulary import Settings


def test_kv_14() -> None:
    settings = Settings(blocks=10, block_size=2, seats=2, token_budget=7, policy="priority", victim="lowest_priority", prefix_caching=True, chunk_tokens=4)
    ops = [
        submit("a", range(1, 16), 1, priority=1),
        STEP,
        COMPLETE,
        submit("b", [16, 17], 2),
        STEP,
        COMPLETE,
        STEP,
        COMPLETE,
    ]
    assert_keeps("KV-14", "vllm", Script(settings, 0, ops))
