"""What searches do in a second on the reference: rules of the state machine that Hypothesis invokes, where drawing,
scheduling and judging count, and (request, step) pairs that a soak checks, with all rules."""

import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

from attrs import frozen
from hypothesis.stateful import RuleBasedStateMachine, invariant

from schedspec.conformance import machine
from schedspec.conformance.check import Check, soak
from schedspec.conformance.driver import Driver
from schedspec.conformance.soak import PERIOD, Soak, rare_collections
from schedspec.reference import make
from schedspec.spec.catalogue import registry

from .measure import Result, median

ASKED = 1_000.0
ASKED_SOAK = 50_000.0


@frozen(kw_only=True)
class Size:
    examples: int = 100
    repeats: int = 3
    soaked_runs: int = 4 * PERIOD


TINY = Size(examples=2, repeats=1, soaked_runs=6)


class Counted:
    """A search that counts.  Hypothesis asks invariants once before the first rule, and again after each."""

    def __init__(self) -> None:
        self.rule_steps = 0
        self.operations = 0
        self.seconds = 0.0

    def run(self, examples: int, seed: int) -> None:
        with mock.patch.object(machine, "machine_for", self.machine_for):
            begun = time.thread_time()
            machine.search(
                lambda settings: Driver.start(make, settings, 0),
                {},
                self.finished,
                examples=examples,
                seed_value=seed,
            )
            self.seconds += time.thread_time() - begun

    def machine_for(self, *arguments: Any) -> type[RuleBasedStateMachine]:
        counted = self

        class Counting(_MACHINE_FOR(*arguments)):  # type: ignore[misc]
            @invariant()
            def count(self) -> None:
                counted.rule_steps += 1

        return Counting

    def finished(self, driver: Driver) -> None:
        self.rule_steps -= 1
        self.operations += len(driver.ops)
        if driver.fault is not None or any(registry.rules[v.rule].level == "MUST" for v in driver.broken):
            raise AssertionError(f"the reference breaks a rule: {driver.broken} {driver.fault}")


_MACHINE_FOR = machine.machine_for


def bench(size: Size) -> Iterator[Result]:
    """The first search of a process compiles rules; it is not counted."""
    Counted().run(size.examples // 4 + 1, seed=0)
    speeds, operations = [], []
    for repeat in range(size.repeats):
        counted = Counted()
        counted.run(size.examples, seed=repeat + 1)
        speeds.append(counted.rule_steps / counted.seconds)
        operations.append(counted.operations / counted.seconds)
    more = {"best": max(speeds), "operations_per_s": median(operations)}
    yield Result(name="search", figure=median(speeds), unit="rule steps/s", asked=ASKED, more=more)
    yield from soaked(size)


def soaked(size: Size) -> Iterator[Result]:
    """Whole rounds of a soak, so that each size of world has its share; and of each what it does alone."""
    check = Check(name="reference", factory=make, seed=1, depth=soak(600.0))
    there = Soak(check)
    there.policies = check.honoured_policies()
    with rare_collections():
        for number in range(size.soaked_runs):
            there.run_one(number)
    if wrong := {rule for rule in check.findings.broken if registry.rules[rule].level == "MUST"}:
        raise AssertionError(f"the reference breaks {', '.join(sorted(wrong))}")
    more: dict[str, float] = {
        f"{kind}_pairs_per_s": tally.pairs / tally.seconds for kind, tally in there.tallies.items() if tally.seconds
    }
    more |= {f"{kind}_seconds": tally.seconds for kind, tally in there.tallies.items()}
    yield Result(name="search.soak", figure=there.pairs_per_s, unit="pairs/s", asked=ASKED_SOAK, more=more)
