"""What a check has seen: runs, counts, failures; and the verdict of each rule that follows."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from attrs import Factory, define, evolve, frozen

from schedspec.spec.catalogue import registry
from schedspec.spec.errors import ProtocolError
from schedspec.spec.programs import missing_for
from schedspec.spec.registry import Rule
from schedspec.spec.verdicts import Verdict, Violation
from schedspec.spec.vocabulary import Capabilities, Unsupported

from .coverage import Coverage, held_in
from .determinism import Difference
from .driver import DOOR, Driver
from .replaying import Replayed
from .script import Script
from .shrink import script_size

INTERRUPTED = 130


@define(kw_only=True)
class Failure:
    """How a rule fails: where it was seen, the shortest script, and the run of it that is explained.  `alone`: another
    rule ends that run before, so this one is judged alone; `stays`: why its trace is long, if it is."""

    rule: str
    conjunct: str
    stage: str
    script: Script
    also: list[str]
    run: Driver | None = None
    violation: Violation | None = None
    difference: Difference | None = None
    messages: int = 0
    alone: bool = False
    stays: str = ""

    @property
    def is_of_workload(self) -> bool:
        return self.stage.startswith("workload")


LATE = ("LIVE",)
"""Families that tell what came of it, some time after."""


def telling(failure: Failure) -> tuple[bool, int, int, tuple[int, int]]:
    """The key of the order in which failures are shown: the most telling first.

    A MUST before a SHOULD, which is advice.  Then what a call did wrong, before what came of that (who waits for ever),
    what a snapshot or a log shows of it, and what two runs do not have in common: these are the same fault seen from
    afar.  Among equals the shortest trace.
    """
    rule = registry.rules[failure.rule]
    tier = 1 if rule.family in LATE else 2 if rule.form == "snapshot" or rule.family == "OBS" else 0
    tier = 3 if rule.form == "run" else tier
    return rule.level == "SHOULD", tier, failure.messages, rule.order


@frozen
class Known:
    """A failure that is expected: the conjuncts of its rule that fail with it, and what a person says of it."""

    conjuncts: frozenset[str]
    reason: str
    link: str = ""


@define
class Findings:
    """What has been seen so far.  `known`: expected failures that still fail, by rule; `covered`: rules that broke only
    where a known one explains it; `recorded`: new failures that are known from now on; `stale`: what is wrong with the
    list of the expected; `only`: the rules that are judged, if not all are; `searched`: what a soak or a search in
    small scopes says of itself; `is_cut_short`: not all that was to be looked at was, so that nothing passes."""

    refused_settings: dict[str, Unsupported] = Factory(dict)
    capabilities: Capabilities | None = None
    bound: Counter[str] = Factory(Counter)
    missing: dict[str, set[str]] = Factory(dict)
    exercised: Counter[str] = Factory(Counter)
    runs: int = 0
    snapshots: int = 0
    faults: list[ProtocolError] = Factory(list)
    fault_run: Driver | None = None
    examples_of: dict[str, Failure] = Factory(dict)
    sizes: dict[str, tuple[int, int]] = Factory(dict)
    failures: dict[str, Failure] = Factory(dict)
    workloads: dict[str, Replayed] = Factory(dict)
    interrupted: bool = False
    notes: list[str] = Factory(list)
    known: dict[str, list[Known]] = Factory(dict)
    covered: dict[str, Known] = Factory(dict)
    recorded: dict[str, Known] = Factory(dict)
    stale: list[str] = Factory(list)
    only: frozenset[str] = frozenset()
    coverage: Coverage = Factory(Coverage)
    searched: Mapping[str, Any] = Factory(dict)
    is_cut_short: bool = False

    def add(self, driver: Driver, stage: str) -> None:
        """Count a run, and keep the smallest script that breaks each rule."""
        self.runs += 1
        capabilities = self.capabilities = driver.header.capabilities
        self._judged(capabilities, driver.monitor.exercised(), 1)
        self.coverage.add(driver.ear, driver.settings, capabilities, held_in(driver.monitor))
        self.snapshots += driver.snapshots
        if driver.fault is not None:
            self.faults.append(driver.fault)
            self.fault_run = self.fault_run or driver
        before: set[str] = set()
        for together, ops in breaks_of(driver):
            new = self._unknown(together)
            broken = {violation.rule for violation in new}
            script = driver.script if ops is None else evolve(driver.script, ops=driver.script.ops[:ops])
            for violation in new:
                self._keep(violation, script, broken, before, stage)
            ending = [violation for violation in together if ends_a_run(violation)]
            before |= {violation.rule for violation in ending}
            if any(self.known_by(violation.conjunct) for violation in ending):
                break

    def count(self, capabilities: Capabilities, exercised: Mapping[str, int], runs: int) -> None:
        """Runs that broke nothing, or whose breaks are added by themselves."""
        self.runs += runs
        self.capabilities = capabilities
        self._judged(capabilities, exercised, runs)

    def _judged(self, capabilities: Capabilities, exercised: Mapping[str, int], runs: int) -> None:
        missing = missing_for(capabilities)
        for rule in registry.rules:
            if rule in missing:
                self.missing.setdefault(rule, set()).add(missing[rule])
            else:
                self.bound[rule] += runs
                self.exercised[rule] += exercised.get(rule, 0)

    def known_by(self, conjunct: str) -> Known | None:
        """Another conjunct of a known rule is news."""
        rule = conjunct.rpartition(".")[0]
        return next((known for known in self.known.get(rule, ()) if conjunct in known.conjuncts), None)

    def _unknown(self, broken: Sequence[Violation]) -> list[Violation]:
        """What neither is known nor explained by something known that broke with it.

        A run ends at a known MUST as at any other, quietly: only the other runs go on.  To go past it would be
        sound for no MUST: after a wrong account of blocks the state says nothing, and who was let in though it never
        fits, or is left out for ever, breaks LIVE rules later, which would look new.
        """
        if not self.known:
            return list(broken)
        reasons = {v.rule: known for v in broken if (known := self.known_by(v.conjunct))}
        new = []
        for violation in broken:
            causes = [rule for rule in reasons if violation.rule in registry.closure(rule) - {rule}]
            if self.known_by(violation.conjunct):
                continue
            if causes and violation.rule not in self.known:
                self.covered[violation.rule] = reasons[causes[0]]
            else:
                new.append(violation)
        return new

    def _keep(self, violation: Violation, script: Script, broken: set[str], before: set[str], stage: str) -> None:
        """`broken`: what broke with it, `before`: gauges that were wrong before."""
        rule = violation.rule
        explained = rule not in registry.weakest(broken | before)
        also = sorted(broken - {rule}, key=lambda other: registry.rules[other].order)
        failure = Failure(rule=rule, conjunct=violation.conjunct, stage=stage, script=script, also=also)
        self.keep(failure, (int(explained), script_size(script)))

    def keep(self, failure: Failure, size: tuple[int, int]) -> None:
        """Of each rule the smallest; `size`: 1 where another rule explains it, then how large the script is."""
        if failure.rule not in self.sizes or size < self.sizes[failure.rule]:
            self.sizes[failure.rule] = size
            self.examples_of[failure.rule] = failure

    @property
    def broken(self) -> set[str]:
        return set(self.examples_of)

    def told(self) -> list[Failure]:
        """The failures that have a trace of their own, the most telling first."""
        return sorted(self.failures.values(), key=telling)


@frozen(kw_only=True)
class RuleResult:
    """`reason` and `link` of a known failure."""

    verdict: Verdict | Literal["known"]
    level: str
    needs: str
    examples: int
    exercised: int
    messages: int | None
    reason: str | None = None
    link: str | None = None


def ends_a_run(violation: Violation) -> bool:
    """Neither advice nor an answer at the door."""
    rule = registry.rules[violation.rule]
    return rule.level == "MUST" and rule.family != DOOR


def breaks_of(driver: Driver) -> Iterator[tuple[list[Violation], int | None]]:
    """What broke together, with the number of operations until then (None: all of them): advice and the door, each by
    itself; then in the order of the run gauges that a snapshot showed, and what ended it."""
    together: dict[int, list[Violation]] = {}
    for violation, ops in driver.advice.values():
        if ends_a_run(violation):
            together.setdefault(ops, []).append(violation)
        else:
            yield [violation], ops
    for ops, some in sorted(together.items()):
        yield some, ops
    if driver.broken:
        yield driver.broken, None


def results(findings: Findings) -> dict[str, RuleResult]:
    """The verdict of each rule that is judged, in catalogue order."""
    only = findings.only or registry.rules
    return {rule.id: _result(findings, rule) for rule in registry.sorted_rules() if rule.id in only}


def _result(findings: Findings, rule: Rule) -> RuleResult:
    failure = findings.failures.get(rule.id) or findings.examples_of.get(rule.id)
    expected = next(iter(findings.known.get(rule.id, ())), findings.covered.get(rule.id))
    known = findings.recorded.get(rule.id) or (expected if failure is None else None)
    return RuleResult(
        verdict="known" if known is not None else _verdict(findings, rule),
        level=rule.level,
        needs=rule.binding.needs,
        examples=findings.bound[rule.id],
        exercised=findings.exercised[rule.id],
        messages=_messages(findings, failure) if failure is not None else None,
        reason=known.reason if known is not None else None,
        link=known.link if known is not None else None,
    )


def _messages(findings: Findings, failure: Failure) -> int:
    """A rule that another explains fails in that one's trace."""
    if failure.messages:
        return failure.messages
    shared = [f.messages for f in findings.failures.values() if failure.rule in f.also]
    return min(shared, default=sum(op.kind != "tick" for op in failure.script.ops))


def _verdict(findings: Findings, rule: Rule) -> Verdict:
    if rule.id in findings.broken:
        return "fail"
    if findings.bound[rule.id]:
        if findings.is_cut_short and not findings.faults:
            return "unknown"
        if findings.exercised[rule.id]:
            return "pass"
        if rule.form == "snapshot" and not findings.snapshots:
            return "not observable"
        if findings.faults:
            return "void"
        return "unknown" if findings.interrupted else "not exercised"
    if rule.id not in findings.missing and (findings.faults or findings.interrupted):
        return "void" if findings.faults else "unknown"
    if rule.form == "run" and rule.id not in findings.missing:
        return "not exercised"
    missing = findings.missing.get(rule.id, {"not claimed"})
    return "not observable" if "not observable" in missing else "not claimed"


def exit_status(findings: Findings, *, strict: bool = False) -> int:
    """2 void, 1 a MUST is broken or the baseline is stale, 130 interrupted, 3 (strict) a SHOULD is broken or a rule not
    exercised, or (always) small scopes were not looked at whole, else 0.  What is known does not count."""
    if findings.faults:
        return 2
    broken = findings.broken - findings.recorded.keys()
    if findings.stale or any(registry.rules[rule].level == "MUST" for rule in broken):
        return 1
    if findings.interrupted:
        return INTERRUPTED
    if findings.is_cut_short:
        return 3
    open_verdicts = {result.verdict for result in results(findings).values()} & {"not exercised", "unknown"}
    return 3 if strict and (broken or open_verdicts) else 0
