"""Behind a broken rule: what else breaks in a run that ended there.

What follows a broken state may be its consequence, so nothing counts that was only seen there.  The run is made once
more, past the rules that ended it and whatever they explain; what breaks then is shortened, and counts if the short run
breaks it with nothing before it but wrong gauges, which are no state.
"""

import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from attrs import Factory, define

from schedspec.spec.catalogue import registry
from schedspec.spec.errors import ProtocolError
from schedspec.spec.verdicts import Violation
from schedspec.spec.vocabulary import Unsupported

from .driver import Driver, all_but, replay
from .script import Script
from .shrink import Shrinker, Target

if TYPE_CHECKING:
    from .check import Check

MOST_TRIES = 3
"""How often it is tried whether a rule breaks by itself."""

DEEPEST = 4
"""How many broken rules a run goes past, one after the other."""

LEAST_S = 0.3
OBSERVES_EVERY = 8
MOST_ROUNDS = 400


def explained_by(rules: Iterable[str]) -> frozenset[str]:
    """These, and what breaks with them by the catalogue."""
    return frozenset(also for rule in rules for also in registry.closure(rule))


def by_itself(
    check: "Check", script: Script, violation: Violation, rules: frozenset[str], past: frozenset[str], seconds: float
) -> Driver | None:
    """A short run that breaks the conjunct first; None if none was found in that time.  `rules`: those that broke in
    the same message, `past` those that the long run went past."""
    target = Target(violation.conjunct, rules)
    ignored = all_but(check.only) | past
    short = Shrinker(check.factory, script, target, seconds, ignored, past_gauges=True).shrink()
    again = replay(check.factory, short, ignored=all_but(check.only), past_gauges=True)
    return again if any(v.conjunct == violation.conjunct for v in again.broken) else None


def go_on(driver: Driver, script: Script, most_rounds: int | None = None) -> None:
    """After a broken state the monitor may stumble, which says nothing."""
    try:
        driver.run(script.ops)
        driver.drain(most_rounds)
    except (LookupError, ValueError, TypeError, AttributeError, AssertionError):
        if not driver.went_past:
            raise
        driver.broken.clear()


@define(eq=False)
class Behind:
    """Of one check: how often each rule was tried, and how long all of it took."""

    check: "Check"
    seconds: float
    tried: Counter[str] = Factory(Counter)
    spent_s: float = 0.0

    def look(self, ended: Driver, script: Script, stage: str) -> None:
        """At what breaks behind the end of a run of that script, while there is time for it."""
        if not ended.broken or ended.fault is not None or self.check.only or self.spent_s >= self.seconds:
            return
        begun = time.monotonic()
        past = explained_by(violation.rule for violation in ended.broken)
        for _ in range(DEEPEST):
            found = self._found_past(script, past)
            if not found:
                break
            self._try(script, found, past, stage)
            past |= explained_by(violation.rule for violation in found)
        self.spent_s += time.monotonic() - begun

    def _found_past(self, script: Script, past: frozenset[str]) -> list[Violation]:
        check = self.check
        ignored = all_but(check.only) | past
        try:
            driver = Driver.start(
                check.factory,
                script.settings,
                script.seed,
                ignored=ignored,
                timeout_s=check.timeout_s,
                past_gauges=True,
            )
        except (Unsupported, ProtocolError):
            return []
        driver.observe_every = OBSERVES_EVERY
        go_on(driver, script, MOST_ROUNDS)
        return [] if driver.fault is not None else driver.broken

    def _try(self, script: Script, found: list[Violation], past: frozenset[str], stage: str) -> None:
        findings, rules = self.check.findings, frozenset(violation.rule for violation in found)
        for violation in found:
            rule = violation.rule
            if rule in findings.broken or self.tried[rule] >= MOST_TRIES:
                continue
            self.tried[rule] += 1
            seconds = max(LEAST_S, self.seconds / 4)
            alone = by_itself(self.check, script, violation, rules, past, seconds)
            if alone is not None:
                findings.add(alone, f"{stage}, behind {self._names(past)}")

    def _names(self, past: frozenset[str]) -> str:
        broken = sorted(past & self.check.findings.broken, key=lambda rule: registry.rules[rule].order)
        return ", ".join(broken) or "what ended that run"
