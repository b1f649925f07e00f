"""What searches do in a second on the reference: rules of the state machine that Hypothesis invokes, where drawing,
scheduling and judging count, and (request, step) pairs that a soak checks, with all rules.

Of the largest worlds, which have most of a soak's pairs, the same runs are also made in parts: the reference alone on
the calls that it got, and the monitor alone on the messages that it heard.  A soak cannot be faster than both together.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

from attrs import frozen
from hypothesis.stateful import RuleBasedStateMachine, invariant

from schedspec.conformance import machine
from schedspec.conformance.check import Check, soak
from schedspec.conformance.driver import Driver, answered
from schedspec.conformance.negotiate import negotiated
from schedspec.conformance.soak import PERIOD, Soak, kind_of, rare_collections, script_of
from schedspec.reference import make
from schedspec.spec.catalogue import registry
from schedspec.spec.monitor import Monitor
from schedspec.spec.pooled import new_monitor
from schedspec.spec.vocabulary import Header, Message

from .measure import Result, median, seconds

BEGIN = "<!-- printed by tests/bench/run.py --only search --write -->"

ASKED = 1_000.0
ASKED_SOAK = 50_000.0


PARTS = {
    "whole": "its largest worlds",
    "reference": "… the reference alone, on the same calls",
    "monitor": "… the monitor alone, on the same messages",
    "both": "… both, one after the other",
}


@frozen(kw_only=True)
class Size:
    examples: int = 100
    repeats: int = 3
    soaked_runs: int = 4 * PERIOD
    in_parts: Sequence[int] = tuple(PERIOD * place - 1 for place in range(1, 5))


TINY = Size(examples=2, repeats=1, soaked_runs=6, in_parts=(5,))


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
    yield from parts(size)


def soaked(size: Size) -> Iterator[Result]:
    """Whole rounds of a soak, so that each size of world has its share; and of each what it does alone."""
    check = checked()
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


def checked() -> Check:
    return Check(name="reference", factory=make, seed=1, depth=soak(600.0))


@frozen(eq=False)
class Run:
    """A run of a soak, what was heard of it, and how long it took."""

    driver: Driver
    messages: list[Message]
    seconds: float


def recorded(check: Check, number: int) -> Run:
    script = script_of(check.seed, number, check.honoured_policies())
    driver = negotiated(check.start, script.settings, check.findings.refused_settings)
    messages: list[Message] = []
    driver.heard = messages.append
    return Run(driver, messages, seconds(Soak._drive, driver, script, kind_of(number)))


def parts(size: Size) -> Iterator[Result]:
    """Of the same pairs: all of the soak, the reference alone, the monitor alone, and both one after the other."""
    check, pairs = checked(), 0
    took = {"whole": 0.0, "reference": 0.0, "monitor": 0.0}
    with rare_collections():
        for number in size.in_parts:
            run = recorded(check, number)
            pairs += run.driver.ear.pairs
            took["whole"] += run.seconds
            took["reference"] += seconds(asked_again, make(run.driver.settings, run.driver.seed), run.messages)
            took["monitor"] += seconds(judged_again, run.driver.header, run.messages)
    took["both"] = took["reference"] + took["monitor"]
    for name in PARTS:
        more = {"percent": 100 * took[name] / took["whole"]}
        yield Result(name=f"search.large.{name}", figure=pairs / took[name], unit="pairs/s", more=more)


def asked_again(subject: Any, messages: Sequence[Message]) -> None:
    """The calls of a run, without whoever reads the answers."""
    for message in messages:
        answered(subject, message)


def judged_again(header: Header, messages: Sequence[Message]) -> Monitor:
    monitor: Monitor = new_monitor(header)
    for message in messages:
        monitor.feed(message)
    return monitor


def table(figures: Mapping[str, Mapping[str, Any]], about: str) -> str:
    """The figures of a soak and of its parts, as they were printed."""
    rows = [about, "", "| what | pairs a second | of the time |", "| --- | --- | --- |"]
    said_of = {"search.soak": "a soak, all sizes of worlds"} | {f"search.large.{p}": said for p, said in PARTS.items()}
    for name, said in said_of.items():
        value = figures[name]
        share = f"{value['percent']:.0f} %" if "percent" in value else "–"
        rows.append(f"| {said} | {value['figure']:,.0f} | {share} |")
    return "\n".join(rows)
