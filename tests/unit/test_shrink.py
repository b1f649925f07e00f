"""Shortening: a live failure on fresh subjects, a recorded one by leaving out."""

import random

import pytest

from schedspec.conformance.driver import Driver, replay
from schedspec.conformance.project import Shortening, shortened
from schedspec.conformance.script import COMPLETE, STEP, Op, Script, cancel, from_json, submit, to_json
from schedspec.conformance.shrink import Shrinker, Target
from schedspec.reference import make
from schedspec.reference.faults import factory
from schedspec.spec.vocabulary import Settings

SETTINGS = Settings(blocks=8, block_size=2, seats=3, token_budget=8, prefix_caching=True)


def long_run(rule: str) -> Driver:
    """Random operations until the fault shows."""
    for seed in range(200):
        rng = random.Random(seed)
        driver = Driver.start(factory(rule), SETTINGS, seed)
        for number in range(300):
            kind = rng.choice(("submit", "step", "step", "complete", "complete", "cancel"))
            if kind == "submit":
                driver.do(submit(f"r{number}", rng.randint(1, 6), rng.randint(1, 6)))
            elif kind == "cancel":
                driver.do(cancel(f"r{rng.randint(0, 50)}"))
            else:
                driver.do(STEP if kind == "step" else COMPLETE)
        if driver.broken and len(driver.ops) > 40:
            return driver
    raise AssertionError(f"{rule} did not show")


@pytest.mark.parametrize("rule", ["KV-14", "PRE-7", "LIFE-4"])
def test_a_live_failure_becomes_short(rule: str) -> None:
    driver = long_run(rule)
    target = Target.of(driver, rule)
    script = Shrinker(factory(rule), driver.script, target, 10.0).shrink()
    again = replay(factory(rule), script)
    assert target.is_hit_by(again)
    assert again.protocol_messages <= 20


@pytest.mark.parametrize("rule", ["KV-14", "PRE-7", "LIFE-4"])
def test_a_recorded_failure_becomes_shorter(rule: str) -> None:
    driver = long_run(rule)
    violation = next(v for v in driver.broken if v.rule == rule)
    also = frozenset(v.rule for v in driver.broken)
    found, messages = shortened(driver.header, driver.messages, violation, also, Shortening(10.0))
    assert found.conjunct == violation.conjunct
    assert found.message == len(messages)
    assert len(messages) < len(driver.messages) / 2


def test_a_script_survives_json() -> None:
    ops = [
        submit("a", 3, 2, stop_after=1, priority=2),
        STEP,
        COMPLETE,
        Op("repeat", back=2),
        Op("tick", ns=5),
        cancel("a"),
    ]
    script = Script(SETTINGS, 3, ops)
    assert from_json(to_json(script)) == script


def test_the_same_script_gives_the_same_messages() -> None:
    script = Script(SETTINGS, 0, [submit("a", 5, 4), submit("b", 5, 4), *((STEP, COMPLETE) * 8)])
    assert replay(make, script).messages == replay(make, script).messages
