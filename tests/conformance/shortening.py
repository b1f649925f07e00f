"""From failures to their shortest traces: how long each may take, what is judged beside it, and why one stays long."""

import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from attrs import define

from schedspec.spec.catalogue import registry

from .driver import Driver, all_but, replay
from .findings import Failure
from .names import counted
from .shrink import Shrinker, Target

if TYPE_CHECKING:
    from .check import Check

LONG = 40
"""More messages than a page shows: the report says why."""

MOST_SHARES = 4
MOST_S_OF_EXPLAINED = 1.0
WORKLOAD_SHARES = 5
"""A run with real arrivals has hundreds of requests, of which most go in the first tries; those take the longest."""


@define(eq=False)
class Shortener:
    """Of one check.  Gauges that are wrong, and are no part of the failure, are gone past: they are no state."""

    check: "Check"

    def all(self) -> None:
        """Each rule that no other explains gets its shortest trace; the others say with whom they fail."""
        own, shrink_s = self.unexplained(), self.check.depth.shrink_s
        share = shrink_s / max(1, min(len(own), MOST_SHARES))
        for number, failure in enumerate(own):
            self.check.progress("shrinking", number / len(own), failure.rule)
            self.shorten(failure, share)
        for failure in self.unseen():
            self.shorten(failure, min(share, MOST_S_OF_EXPLAINED))
        if own:
            self.check.progress("shrinking", 1.0, counted(len(own), "failure"))
        self.shorten_fault()

    def new(self) -> None:
        """What has failed since, at once."""
        check = self.check
        for failure in self.unexplained():
            check.progress("shrinking", 0.0, failure.rule)
            self.shorten(failure, check.depth.shrink_s)
            check.progress("shrinking", 1.0, counted(len(check.findings.failures), "failure"))
            check.keep(failure)

    def unexplained(self) -> list[Failure]:
        """Failures that no other rule explains, and that are not shortened yet."""
        findings = self.check.findings
        todo = sorted(findings.examples_of.values(), key=lambda f: registry.rules[f.rule].order)
        return [f for f in todo if not findings.sizes.get(f.rule, (0, 0))[0] and f.rule not in findings.failures]

    def unseen(self) -> list[Failure]:
        """What breaks on no page: another rule explained it, but the shortest trace of that one does not break it."""
        findings = self.check.findings
        seen = {rule for page in findings.failures.values() for rule in (page.rule, *page.also)}
        return [failure for rule, failure in findings.examples_of.items() if rule not in seen]

    def what_is_left(self) -> None:
        """After an interrupt: nothing is shortened any more, and each failure has its page."""
        with suppress(KeyboardInterrupt):
            for failure in self.unexplained():
                self.explain(failure)

    def shorten(self, failure: Failure, seconds: float) -> None:
        if failure.difference is None:
            self.shrink(failure, seconds)
        self.explain(failure)

    def shrink(self, failure: Failure, seconds: float) -> None:
        """In that time; of a workload, where that is too short for anything, in some times as much."""
        ignored = all_but(self.check.only)
        first = self._replayed(failure, ignored)
        if not first.breaks_of(failure.rule):
            ignored |= all_but([failure.rule])  # where another rule ends it before, it is judged alone
            first = self._replayed(failure, ignored)
        if not first.breaks_of(failure.rule):
            failure.stays = "its run does not repeat, so its trace is not shortened"
            return
        if failure.is_of_workload:
            seconds = max(seconds, self.check.depth.shrink_s) * WORKLOAD_SHARES
        begun = time.monotonic()
        shrinker = Shrinker(
            self.check.factory,
            failure.script,
            Target.of(first, failure.rule),
            seconds,
            ignored,
            past_gauges=True,
        )
        failure.script = shrinker.shrink()
        why = "time was up" if shrinker.is_out_of_time else "nothing shorter that was tried breaks it"
        failure.stays = f"{why}, after {time.monotonic() - begun:.0f} s and {counted(shrinker.tries, 'run')}"

    def _replayed(self, failure: Failure, ignored: frozenset[str]) -> Driver:
        return replay(self.check.factory, failure.script, name=self.check.name, ignored=ignored, past_gauges=True)

    def explain(self, failure: Failure) -> None:
        """Run the script once more, and note the values that the conjunct read.  Where another rule ends that run
        before, the rule is judged alone, and whoever runs it again does the same."""
        explained = partial(replay, self.check.factory, failure.script, name=self.check.name, explain=True)
        run = explained(ignored=all_but(self.check.only))
        failure.alone = failure.difference is None and not run.breaks_of(failure.rule)
        if failure.alone:
            run = explained(ignored=all_but([failure.rule]))
        failure.run = run
        seen = run.breaks_of(failure.rule)
        if seen:
            failure.violation = seen[0]
            failure.conjunct = seen[0].conjunct
            broken = {v.rule for v in run.broken} - {failure.rule}
            failure.also = sorted(broken, key=lambda rule: registry.rules[rule].order)
        failure.messages = run.protocol_messages
        if failure.messages <= LONG:
            failure.stays = ""
        elif failure.stays:
            self.check.findings.notes.append(
                f"{failure.rule}: its trace stays at {counted(failure.messages, 'message')}: {failure.stays}"
            )
        self.check.findings.failures[failure.rule] = failure

    def shorten_fault(self) -> None:
        check = self.check
        run = check.findings.fault_run
        if run is None or run.fault is None or run.fault.is_hang:
            return  # a hang is not shortened: each try would take as long
        target = Target.of_fault(run.fault)
        again = replay(check.factory, run.script)
        if again.fault is None or not target.is_hit_by(again):
            return
        script = Shrinker(check.factory, run.script, target, check.depth.shrink_s).shrink()
        check.findings.fault_run = replay(check.factory, script, name=check.name)
