"""Random walks: repeatable, varied, and strong enough to find what accounts of blocks cannot see."""

from collections import Counter
from typing import get_args

import pytest

from schedspec.conformance.check import Check, Depth
from schedspec.conformance.driver import Driver
from schedspec.conformance.walks import walk
from schedspec.reference import make
from schedspec.reference.faults import factory
from schedspec.spec.vocabulary import Policy, Reserve


def test_a_seed_is_a_script() -> None:
    assert walk(7) == walk(7)
    assert walk(7) != walk(8)


def test_walks_visit_every_kind_of_world() -> None:
    worlds = [walk(seed).settings for seed in range(1_000)]
    for name, values in {
        "policy": set(get_args(Policy)),
        "reserve": set(get_args(Reserve)),
        "charge_prompt": {"pick", "chunk"},
        "charge_prediction": {True, False},
        "preempt_lower_class": {True, False},
        "adapter_slots": {0, 1, 2},
        "prefix_caching": {True, False},
        "chunked_prefill": {True, False},
        "overlap_depth": {1, 2, 3},
        "at_blocked_head": {"break", "skip"},
    }.items():
        assert {getattr(world, name) for world in worlds} == values


def test_walks_preempt_cancel_and_share() -> None:
    seen: Counter[str] = Counter()
    for seed in range(60):
        script = walk(seed)
        driver = Driver.start(make, script.settings, 0)
        driver.run(script.ops)
        driver.drain()
        assert not driver.broken, f"walk {seed}: {driver.broken[0]}"
        for message in driver.messages:
            deltas = message.answer.deltas if message.kind == "step" else message.answer
            if message.kind in ("step", "cancel", "complete"):
                seen.update(delta[0] for delta in deltas)
    assert {"preempted", "cancelled", "shared", "unindexed", "resumed"} <= set(seen)


@pytest.mark.parametrize("rule", ["KV-12", "KV-14", "PRE-2"])
def test_walks_alone_find_faults(rule: str) -> None:
    depth = Depth(name="walks", search_s=20.0, workload_s=0.0, shrink_s=0.0, examples=0, reruns=False)
    check = Check(name=f"fault:{rule}", factory=factory(rule), seed=0, depth=depth, stop_at=rule)
    for number in range(8):  # rounds; it stops where it finds something
        check._search_by_walks(number, float("inf"))
    assert rule in check.findings.broken


def test_the_last_snapshot_is_taken_even_if_walks_look_now_and_then() -> None:
    script = walk(3)
    driver = Driver.start(make, script.settings, 0)
    driver.observe_every = 10**9
    driver.run(script.ops)
    driver.drain()
    assert driver.messages[-1].kind == "end"
    assert driver.messages[-2].kind == "observe"


def test_an_objective_that_nobody_reckoned_is_not_drawn() -> None:
    """One seat, two steps, and another lane that runs for longer: the reference could not keep it."""
    worlds = [walk(seed).settings for seed in range(400)]
    assert any(world.lanes for world in worlds)
    assert not any(lane.objective_steps for world in worlds for lane in world.lanes)
