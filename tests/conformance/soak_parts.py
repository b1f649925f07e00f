"""A soak in parts: so many runs each, from their numbers and the seed alone, so it does not matter where they are made.

What a part has seen is plain data; all of it together is what one process sees that makes the same parts.  Nothing is
passed over here, and what fails is shortened when all parts are there, from the smallest script of all.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import define, evolve

from schedspec.spec.protocol import read_capabilities
from schedspec.spec.vocabulary import Unsupported
from schedspec.spec.vocabulary import to_json as plain_of

from .check import Check, Failure
from .coverage import Coverage
from .driver import Driver, all_but, replay
from .findings import Findings
from .script import Script, from_json, to_json
from .soak import Soak, kind_of

PER_PART = 200
LONGEST_SHRINK_S = 600.0
"""Shortening ends when nothing helps: by the clock only if it takes so long, and then the trace depends on it."""
COUNTERS = ("bound", "exercised")
PAIRS = ("calls", "lives")
COUNTS = ("claims", "observes", "preconditions")
NOTE = "what Hypothesis draws, a workload and repeated runs (DET) are left to a check that is not cut into units"


@define(kw_only=True)
class Part(Check):
    """A check that shortens nothing on its way."""

    def shorten_new(self) -> None:
        pass

    def look_behind(self, driver: Driver, script: Script, stage: str) -> None:
        """That ends by the clock, and a part is the same wherever it is made."""


def run_part(part: Part, start: int, end: int, beat: Callable[[], None]) -> dict[str, Any]:
    """Runs `start` to before `end`; with the first one come the scenarios."""
    soak = Soak(part)
    if start == 0:
        part.run_scenarios()
    soak.policies = part.honoured_policies()
    for number in range(start, end):
        if part.is_enough():
            break
        if kind_of(number) == "drawn":
            continue  # what Hypothesis draws depends on which modules a process has loaded
        part.alone = number  # nothing is passed over for what other runs broke
        soak.run_one(number)
        beat()
    return {**_seen(part.findings), "failed": dict(soak.failed), "first": soak.first, "pairs": soak.pairs}


def _seen(findings: Findings) -> dict[str, Any]:
    covered = findings.coverage
    return {
        "runs": findings.runs,
        "snapshots": findings.snapshots,
        "capabilities": None if findings.capabilities is None else plain_of(findings.capabilities),
        "refused": {name: [no.setting, plain_of(no.value)] for name, no in findings.refused_settings.items()},
        "missing": {rule: sorted(why) for rule, why in findings.missing.items()},
        "faults": len(findings.faults),
        "fault_script": None if findings.fault_run is None else to_json(findings.fault_run.script),
        "examples": {
            rule: {
                "size": list(findings.sizes[rule]),
                "conjunct": failure.conjunct,
                "stage": failure.stage,
                "also": failure.also,
                "script": to_json(failure.script),
            }
            for rule, failure in findings.examples_of.items()
        },
        **{name: dict(getattr(findings, name)) for name in COUNTERS},
        "coverage": {
            **{name: [[*pair, times] for pair, times in getattr(covered, name).items()] for name in PAIRS},
            **{name: dict(getattr(covered, name)) for name in COUNTS},
            "settings": {name: dict(values) for name, values in covered.settings.items()},
            "sizes": [covered.runs, covered.pairs, covered.steps],
        },
    }


def merge_parts(check: Check, parts: Iterable[Mapping[str, Any]]) -> None:
    """Into the findings of a check, in the order of the parts; then what failed is shortened."""
    failed: Counter[str] = Counter()
    first: dict[str, int] = {}
    pairs = 0
    for part in parts:
        _add(check, part)
        failed.update(part["failed"])
        pairs += part["pairs"]
        for conjunct, number in part["first"].items():
            first.setdefault(conjunct, number)
    findings = check.findings
    findings.only = check.only
    findings.notes.append(NOTE)
    findings.searched = {
        "kind": "soak in parts",
        "seed": check.seed,
        "runs": findings.runs,
        "pairs": pairs,
        "failed": {c: {"runs": n, "first_run": first.get(c)} for c, n in sorted(failed.items())},
    }
    check.depth = evolve(check.depth, shrink_s=LONGEST_SHRINK_S)
    check.shorten_all()


def _add(check: Check, part: Mapping[str, Any]) -> None:
    findings = check.findings
    findings.runs += part["runs"]
    findings.snapshots += part["snapshots"]
    if part["capabilities"] is not None:
        findings.capabilities = read_capabilities(part["capabilities"], "capabilities")
    for name, (setting, value) in part["refused"].items():
        findings.refused_settings.setdefault(name, Unsupported(setting, value))
    for rule, why in part["missing"].items():
        findings.missing.setdefault(rule, set()).update(why)
    for name in COUNTERS:
        getattr(findings, name).update(part[name])
    for rule, told in part["examples"].items():
        failure = Failure(
            rule=rule,
            conjunct=told["conjunct"],
            stage=told["stage"],
            script=from_json(told["script"]),
            also=list(told["also"]),
        )
        findings.keep(failure, tuple(told["size"]))
    if part["fault_script"] is not None:
        _see_fault_again(check, part)
    _cover(findings.coverage, part["coverage"])


def _see_fault_again(check: Check, part: Mapping[str, Any]) -> None:
    """The protocol was broken there: its run is made once more, to be shown."""
    run = replay(check.factory, from_json(part["fault_script"]), name=check.name, ignored=all_but(check.only))
    if run.fault is None:
        raise ValueError(f"{check.name} broke the protocol in a part and does not here: its runs do not repeat")
    check.findings.faults += [run.fault] * part["faults"]
    check.findings.fault_run = check.findings.fault_run or run


def _cover(covered: Coverage, told: Mapping[str, Any]) -> None:
    for name in PAIRS:
        for before, after, times in told[name]:
            getattr(covered, name)[before, after] += times
    for name in COUNTS:
        getattr(covered, name).update(told[name])
    for name, values in told["settings"].items():
        covered.settings.setdefault(name, Counter()).update(values)
    runs, pairs, steps = told["sizes"]
    covered.runs, covered.pairs, covered.steps = covered.runs + runs, covered.pairs + pairs, covered.steps + steps
