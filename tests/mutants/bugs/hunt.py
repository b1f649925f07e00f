"""The search for one bug: that of `schedspec check`, which ends when a rule that names the bug is broken."""

import time

from attrs import define, evolve, frozen

from schedspec.conformance.check import DEPTHS, Check, Depth, Failure
from schedspec.conformance.shortening import Shortener
from schedspec.spec.catalogue import registry
from schedspec.spec.workloads import parse_workload

from .registry import Bug

WORKLOAD = "fitted:azure-conv"
FIRST_S = 120


@frozen(kw_only=True)
class Catch:
    """What came of one search.  `rule` is None where it was missed.  `found_s` is until the rule broke, `seconds` with
    the shortening of the trace, `cpu_s` what of these the processor worked; `runs` are those until then, `also`
    whatever else broke."""

    bug: str
    seed: int
    rule: str | None
    conjunct: str | None
    mode: str | None
    stage: str | None
    runs: int
    found_s: float
    seconds: float
    cpu_s: float
    messages: int | None
    also: tuple[str, ...]
    fault: str | None


@define(kw_only=True)
class Hunt(Check):
    """A check that looks for some rules, and does not tell anybody."""

    wanted: frozenset[str]
    found_s: float = 0.0

    def is_enough(self, faulty_s: float = 0.0) -> bool:
        return bool(self.wanted & self.findings.broken) or super().is_enough(faulty_s)

    def shorten_all(self) -> None:
        """Of what was looked for."""
        self.found_s = time.monotonic() - self._begun
        caught = self.caught()
        if caught is not None:
            Shortener(self).shorten(caught, self.depth.shrink_s)

    def caught(self) -> Failure | None:
        """What no other rule explains comes first."""
        findings = self.findings
        broken = [findings.examples_of[rule] for rule in self.wanted & findings.broken]
        return min(broken, key=lambda failure: findings.sizes[failure.rule], default=None)


def hunt(bug: Bug, seed: int, depth: Depth = DEPTHS["standard"]) -> Catch:
    """Runs are repeated only where a rule about repeated runs may name the bug."""
    cpu_s = time.process_time()
    check = Hunt(
        name="subject",
        factory=bug.factory,
        seed=seed,
        depth=evolve(depth, reruns=any(registry.rules[rule].form == "run" for rule in bug.rules)),
        workload=parse_workload(WORKLOAD, first_s=str(FIRST_S), seed=seed),
        wanted=frozenset(bug.rules),
    )
    findings = check.run()
    caught = check.caught()
    return Catch(
        bug=bug.id,
        seed=seed,
        rule=caught.rule if caught else None,
        conjunct=caught.conjunct if caught else None,
        mode=mode_of(caught.stage) if caught else None,
        stage=caught.stage if caught else None,
        runs=findings.runs,
        found_s=round(check.found_s, 2),
        seconds=round(check.seconds, 2),
        cpu_s=round(time.process_time() - cpu_s, 2),
        messages=caught.messages if caught else None,
        also=tuple(sorted(findings.broken - {caught.rule if caught else ""})),
        fault=str(findings.faults[0]) if findings.faults else None,
    )


def mode_of(stage: str) -> str:
    """Scenario, walk, search (by Hypothesis) or workload."""
    return stage.partition(":")[0]
