"""Small scopes as a depth of a check: every run in each of them, and the report that any check writes.

A subject that says what of its state matters (`canonical`) is looked at whole, by copies or by replaying the calls that
led somewhere; of any other all runs of so many calls are made, each on a fresh subject.  First, in half of the time,
the nearest states of every case are looked at: most breaks are a few calls away, in one of the last cases as in one of
the first.  Whatever breaks is made again
as a script, so that it is shortened and explained as if a walk had found it.  Who runs out of time knows nothing: then
no rule passes.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from attrs import Factory, define, evolve

from schedspec.spec.protocol import read_settings
from schedspec.spec.verdicts import Violation
from schedspec.spec.vocabulary import Unsupported

from ..driver import Driver
from ..findings import Failure
from ..names import counted
from ..negotiate import negotiated
from ..script import COMPLETE, STEP, Contradiction, Op, Script, answer, cancel
from ..subjects.guard import guarded
from .breaks import Way, is_must
from .cases import Case
from .graph import Limits
from .judge import Judge
from .questions import RULES
from .runs import Plain, look_at_runs
from .scope import Event, Scope
from .search import CannotSay, DoesNotRepeat, search
from .seen import Seen
from .world import World

if TYPE_CHECKING:
    from ..check import Check

ROUNDS_OF_A_LOOP = 12
ONE_POOL = "a small scope has one pool and no link, but the subject wants two (setting pools)"
NEAREST_STATES = 400


@define(eq=False)
class SmallScope:
    """`calls`: of a run, for a subject that does not say what of its state matters; `seconds` for all cases."""

    check: "Check"
    cases: Sequence[Case]
    seconds: float
    calls: int = 5
    looked: list[dict[str, Any]] = Factory(list)
    reached: int = 0
    _seen: set[Any] = Factory(set)

    def run(self) -> None:
        deadline = monotonic() + self.seconds
        try:
            for case in self.cases:
                if not self.check.is_enough():
                    self._look_around(case, self.seconds / (4 * len(self.cases)))
            for number, case in enumerate(self.cases):
                self.check.progress("small scope", number / len(self.cases), case.name)
                left = max(0.0, deadline - monotonic())
                is_last = number == len(self.cases) - 1
                if self.check.is_enough():
                    break
                self.reached = number + 1
                self._look_at(case, left if is_last else left / 2)  # those that take least come first
        finally:
            self._tell()
        if self.looked and all(case["outcome"] == "refused" for case in self.looked):
            why = self.looked[0]["why"]
            raise ValueError(f"{self.check.name} refuses every small scope, so nothing was looked at: {why}")
        self.check.progress(
            "small scope", 1.0, f"{counted(len(self.looked), 'case')}, {counted(self._sum('states'), 'state')}"
        )

    def _start(self, case: Case) -> Driver:
        """By settings that the subject honours."""
        return negotiated(self.check.start, read_settings(case.settings), self.check.findings.refused_settings)

    def _look_around(self, case: Case, seconds: float) -> None:
        """For so long, and as long again with the rules.  Only what breaks is told."""
        limits = Limits(states=NEAREST_STATES, seconds=seconds)
        with suppress(Unsupported, Contradiction, CannotSay, DoesNotRepeat):
            scope = evolve(case.scope, settings=self._start(case).settings)
            factory = guarded(self.check.factory, self.check.timeout_s)
            found = search(factory, scope, limits, judged=True, deadline=monotonic() + 2 * seconds)
            assert found.walked is not None
            self._show(World, scope, {**found.walked.broken, **found.breaks}, case)

    def _look_at(self, case: Case, seconds: float) -> None:
        check = self.check
        try:
            there = self._start(case)
        except (Unsupported, Contradiction) as no:
            self._note(case, {}, outcome="refused", why=str(no))
            return
        if there.settings.pools.are_two:
            self._note(case, {}, outcome="refused", why=ONE_POOL)
            return
        scope = evolve(case.scope, settings=there.settings)
        if scope in self._seen:
            return
        self._seen.add(scope)
        factory = guarded(check.factory, check.timeout_s)
        deadline = monotonic() + seconds
        try:
            found = search(factory, scope, Limits(seconds=seconds / 2), judged=True, deadline=deadline)
        except CannotSay:
            self._all_runs(case, scope, deadline)
            return
        except DoesNotRepeat as why:
            self._note(case, {}, outcome="unknown", why=str(why))
            return
        assert found.walked is not None
        broken = {rule: [*way] for rule, way in {**found.walked.broken, **found.breaks}.items()}
        for question, reply in found.answers.items():
            lost = reply.counterexample
            if lost is not None and question in RULES:
                broken.setdefault(RULES[question], [*lost.stem, *lost.loop * ROUNDS_OF_A_LOOP])
        self._count(there, found.walked.seen, found.walked.calls)
        self._show(World, scope, broken, case)
        sizes = {"states": found.states, "transitions": found.transitions, "calls": found.walked.calls}
        over = "a MUST is broken" if any(map(is_must, broken)) else "exhausted"
        self._note(case, sizes, outcome="unknown" if found.doubt else over, why=found.doubt)

    def _all_runs(self, case: Case, scope: Scope, deadline: float) -> None:
        factory = guarded(self.check.factory, self.check.timeout_s)
        runs = look_at_runs(factory, scope, self.calls, deadline)
        self._count(self.check.start(scope.settings), runs.seen, runs.runs)
        self._show(Plain, scope, runs.broken, case)
        why = f"time was up before all runs of {runs.calls} calls were made" if runs.is_cut_off else ""
        sizes = {"runs": runs.runs, "calls_a_run": runs.calls}
        self._note(case, sizes, outcome="unknown" if why else f"all runs of {runs.calls} calls", why=why)

    # --- into the findings -------------------------------------------------------------------------------

    def _count(self, there: Driver, seen: Seen, times: int) -> None:
        findings, shown = self.check.findings, there.header.capabilities
        findings.count(shown, seen.exercised, times)
        findings.coverage.add(seen.ear, there.settings, shown, seen.held.items())

    def _show(self, kind: type[World], scope: Scope, broken: Mapping[str, Way], case: Case) -> None:
        """Each break once more, by a driver that plays the engine as always."""
        findings = self.check.findings
        for rule, way in broken.items():
            if rule in findings.broken or (self.check.only and rule not in self.check.only):
                continue
            judge = Judge(kind.new(guarded(self.check.factory, self.check.timeout_s), scope), explain=True)
            script, violation = as_script(judge, rule, way)
            self.check.run_script(script, f"small scope: {case.name}")
            if rule not in findings.broken and violation is not None:
                self._keep_as_it_is(judge, script, violation, case)

    def _keep_as_it_is(self, judge: Judge, script: Script, violation: Violation, case: Case) -> None:
        """The same calls with other tokens break nothing: in a small scope all outputs are equal."""
        findings, rule, world = self.check.findings, violation.rule, judge.world
        run = Driver(world.subject, world.scope.settings, world.scope.seed, judge.monitor, judge.header)
        run.messages, run.broken = judge.heard, [violation]
        failure = Failure(rule=rule, conjunct=violation.conjunct, stage=case.name, script=script, also=[], run=run)
        failure.violation, failure.messages = violation, run.protocol_messages
        findings.examples_of[rule] = findings.failures[rule] = failure
        findings.notes.append(
            f"{rule} breaks in the small scope {case.name!r}, where all output tokens are equal, and not with those of "
            "the suite's engine: its trace is that of the scope, and its script shows nothing"
        )

    def _note(self, case: Case, sizes: Mapping[str, int], *, outcome: str, why: str) -> None:
        self.looked.append({"case": case.name, "says": case.says, **sizes, "outcome": outcome, "why": why})

    def _sum(self, name: str) -> int:
        return sum(case.get(name, 0) for case in self.looked)

    def _tell(self) -> None:
        """What was not reached is as unknown as what was cut off."""
        is_whole = not any(case["outcome"] == "unknown" for case in self.looked) and self.reached == len(self.cases)
        self.check.findings.is_cut_short = not is_whole
        self.check.findings.searched = {
            "kind": "small scope",
            "whole": is_whole,
            "cases": self.looked,
            **{name: self._sum(name) for name in ("states", "transitions", "calls", "runs")},
        }


def as_script(judge: Judge, rule: str, way: Way) -> tuple[Script, Violation | None]:
    """The operations that make those calls, and what breaks the rule at their end."""
    world = judge.world
    ops: list[Op] = []
    stops: dict[str, int] = {}
    violation: Violation | None = None
    for event in way:
        there = list(world.live.values())
        stops |= {there[number].id: there[number].outputs + 1 for number in event.stops}
        _, broken = judge.do(event)
        violation = next((one for one in broken if one.rule == rule), violation)
        ops.append(_operation(judge, event))
    ops = [evolve(op, stop_after=stops.get(op.request.id)) if op.request is not None else op for op in ops]
    return Script(world.scope.settings, world.scope.seed, ops), violation


def _operation(judge: Judge, event: Event) -> Op:
    """What was just done."""
    given = judge.heard[-1].given
    if event.what == "submit":
        return Op("submit", given, pauses=judge.world.scope.kinds[event.kind].pauses)
    if event.what == "cancel":
        return cancel(given)
    if event.what == "answer":
        return answer(given["request"], given["dependency"], is_there=event.is_there)
    return STEP if event.what == "step" else COMPLETE
