"""What a run leaves behind: a folder with the verdicts, and for each failure the files that an engineer needs.

report.json              what `--json` prints (spec/report.schema.json)
report.md                the table, and every failure
badge.json               the verdicts in a line, for shields.io
failures/ID.md           one screen that can be put on a tracker as it is
failures/ID.jsonl        the shortest trace, as `schedspec trace` reads it
failures/ID.json         the script, as `schedspec replay-failure` reads it
failures/ID_test.py      the same as a test that can be pasted (not of DET: one run shows no difference)
failures/ID.perfetto.json  the run for https://ui.perfetto.dev

report.html and failures/ID.html are made of the same by whoever has the templates.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import asdict

from schedspec import __version__
from schedspec.spec.catalogue import registry
from schedspec.spec.registry import Rule

from .check import Check, Failure, Findings, exit_status, results
from .driver import Driver
from .files import replace_file
from .folder import SCHEMA, empty_failures, write_case, write_told
from .names import counted
from .page import VOID, Case, Page, as_text, shown_path
from .pasted import as_test, has_test
from .script import to_json
from .shown import Shown, shown
from .voids import void_of

ORDER = ("fail", "void", "unknown", "not exercised", "not observable", "not claimed", "pass")


def as_json(check: Check, *, strict: bool = False) -> dict[str, Any]:
    """One object for the whole run."""
    findings = check.findings
    capabilities = findings.capabilities
    return {
        "schema": SCHEMA,
        "spec": __version__,
        "command": check.command,
        "subject": check.name,
        "version": capabilities.version if capabilities else None,
        "profile": capabilities.profile if capabilities else None,
        "seed": check.seed,
        "seconds": round(check.seconds, 3),
        "mode": check.mode,
        "depth": check.depth.name,
        "exit_status": exit_status(findings, strict=strict),
        "interrupted": findings.interrupted,
        "runs": findings.runs,
        "refused_settings": sorted(findings.refused_settings),
        "faults": sorted({str(fault) for fault in findings.faults}),
        "workloads": {name: asdict(replayed) for name, replayed in findings.workloads.items()},
        "notes": findings.notes,
        "stale": findings.stale,
        "searched": findings.searched,
        "covered": findings.coverage.as_json(bound_exercised(findings), findings.refused_settings),
        "rules": {rule: asdict(result) for rule, result in results(findings).items()},
    }


def write_report(folder: Path, check: Check, *, strict: bool = False) -> None:
    """All files but the pages in HTML; what an earlier run left there about failures is removed."""
    failures = empty_failures(folder)
    write_told(folder, as_json(check, strict=strict))
    replace_file(folder / "report.md", "\n".join(_report(check, folder)) + "\n")
    for failure in check.findings.failures.values():
        _write_failure(failures, check, failure)
    if check.findings.fault_run is not None:
        _write_fault(failures, check, check.findings.fault_run)


def keep_failure(folder: Path, check: Check, failure: Failure) -> None:
    """At once, for a search of hours may be cut off.  What cannot be written now is tried again at the end."""
    try:
        _write_failure(folder / "failures", check, failure)
    except OSError as error:
        check.findings.notes.append(f"{failure.rule} could not be kept when it was found: {error}")


def _write_failure(failures: Path, check: Check, failure: Failure) -> None:
    if failure.run is not None:
        write_case(failures, case_of(check, failure, failures.parent))
    script = json.dumps(failure_json(check, failure), indent=1)
    replace_file(failures / f"{failure.rule}.json", script + "\n")
    if has_test(failure.rule):
        replace_file(failures / f"{failure.rule}_test.py", "\n".join(_test(check, failure)) + "\n")


def _test(check: Check, failure: Failure) -> Iterator[str]:
    return as_test(check.name, failure.rule, failure.script, only=bool(check.only) or failure.alone)


def shown_failures(check: Check, folder: Path) -> list[Shown]:
    """Each failure with all that its page draws, a broken protocol first; `folder` is the report's."""
    return _shown_fault(check, folder) + [
        shown(
            case_of(check, failure, folder),
            test=list(_test(check, failure)) if has_test(failure.rule) else (),
            trace=shown_path(folder / "failures" / f"{failure.rule}.jsonl"),
        )
        for failure in check.findings.told()
        if failure.run is not None
    ]


def _shown_fault(check: Check, folder: Path) -> list[Shown]:
    run = check.findings.fault_run
    if run is None:
        return []
    return [shown(void_page(run, folder), trace=shown_path(folder / "failures" / f"{VOID}.jsonl"))]


def void_page(run: Driver, folder: Path) -> Case:
    """How the protocol was broken, with everything that its page says; `folder` is the report's."""
    stem = shown_path(folder / "failures" / VOID)
    return void_of(run, f"schedspec replay-failure {stem}.json", f"beside it {VOID}.md (this page), {VOID}.jsonl")


def _write_fault(failures: Path, check: Check, run: Driver) -> None:
    case = void_page(run, failures.parent)
    write_case(failures, case)
    script = {
        "subject": check.name,
        "rule": VOID,
        "conjunct": str(run.fault),
        "unanswered": case.unanswered,
        "told": list(case.told),
        "script": to_json(run.script),
    }
    replace_file(failures / f"{VOID}.json", json.dumps(script, indent=1) + "\n")


def failure_json(check: Check, failure: Failure) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "spec": __version__,
        "command": check.command,
        "subject": check.name,
        "mode": check.mode,
        "rule": failure.rule,
        "conjunct": failure.conjunct,
        "message": failure.difference.message if failure.difference is not None else failure.messages,
        "stage": failure.stage,
        "also": failure.also,
        "only": [failure.rule] if failure.alone else sorted(check.only),
        "script": to_json(failure.script),
    }


# --- pages -------------------------------------------------------------------------------------------------


def case_of(check: Check, failure: Failure, folder: Path) -> Case:
    """A failure with everything that its page says; `folder` is the report's."""
    assert failure.run is not None
    return Case(
        rule=failure.rule,
        header=failure.run.header,
        messages=failure.run.messages,
        violation=failure.violation,
        difference=failure.difference,
        mode=check.mode,
        found=_found(failure),
        also=failure.also,
        again=f"schedspec replay-failure {shown_path(folder / 'failures' / failure.rule)}.json",
        files=_files(failure.rule),
    )


def _found(failure: Failure) -> str:
    stays = f"; it stays long: {failure.stays}" if failure.stays else ""
    alone = "; judged alone, since other rules break before it" if failure.alone else ""
    return f"found in {failure.stage}, then shortened to {counted(failure.messages, 'message')}{stays}{alone}"


def _files(rule: str) -> str:
    test = f", {rule}_test.py (a test to paste)" if has_test(rule) else ""
    return f"beside it {rule}.md (this page), {rule}.jsonl (the trace, for schedspec trace){test}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _report(check: Check, folder: Path) -> Iterator[str]:
    plain = as_json(check)
    yield f"# {as_text(check.name)}: {headline(check.findings)}"
    yield ""
    yield f"Seed {check.seed}, depth {check.depth.name}, {plain['runs']} runs in {check.seconds:.1f} s."
    for fault in plain["faults"]:
        yield f"\nVoid: {as_text(fault)}."
    for note in plain["notes"]:
        yield f"\nNote: {as_text(note)}."
    yield ""
    yield "| rule | verdict | level | exercised | runs | shortest trace | statement |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for rule, result in results(check.findings).items():
        messages = "" if result.messages is None else f"{result.messages} messages"
        yield (
            f"| {rule} | {result.verdict} | {result.level} | {result.exercised} | {result.examples} | {messages} "
            f"| {_cell(registry.rules[rule].statement)} |"
        )
    if check.findings.fault_run is not None:
        yield ""
        yield from Page(void_page(check.findings.fault_run, folder)).markdown()
    for failure in check.findings.told():
        yield ""
        yield from Page(case_of(check, failure, folder)).markdown()


def bound_exercised(findings: Findings) -> dict[str, int]:
    """Rule -> how often its precondition held, of the rules that bound the subject."""
    return {rule: findings.exercised[rule] for rule in registry.rules if findings.bound[rule]}


def headline(findings: Findings) -> str:
    """The whole run in a few words."""
    broken = [registry.rules[rule] for rule in findings.broken - findings.recorded.keys()]
    known = len(findings.known.keys() | findings.recorded.keys())
    parts = [_count(broken, "MUST"), _count(broken, "SHOULD")]
    text = " and ".join(part for part in parts if part)
    if findings.faults:
        void = f"void, as the subject broke the protocol in {len(findings.faults)} of {counted(findings.runs, 'run')}"
        return void + (f"; besides {text}" if text else "")
    late = "nothing passes, since time was up before all was looked at"
    text = text or (
        late if findings.is_cut_short else f"every {'other ' if known else ''}rule that was exercised holds"
    )
    text += f", {known} known" if known else ""
    text += f", {len(findings.stale)} stale in the baseline" if findings.stale else ""
    return text + (" (interrupted)" if findings.interrupted else "")


def why_not_judged(findings: Findings, rule: str) -> str:
    """Why there is neither a pass nor a fail, in a few words."""
    verdict = results(findings)[rule].verdict
    if verdict == "void":
        return "the protocol was broken before its precondition held"
    card, shown = registry.rules[rule], findings.capabilities
    if verdict == "not claimed":
        return f"it binds who claims {' and '.join(card.binding.claims)}"
    if verdict == "not exercised":
        return f"in {findings.runs} runs its precondition never held"
    if verdict == "unknown":
        return "time was up before all was looked at" if findings.is_cut_short else "it was interrupted before"
    if verdict != "not observable" or shown is None:
        return ""
    if card.form == "snapshot" and not findings.snapshots:
        return "it compares snapshots, and observe() shows none"
    needs = card.binding.needs + (" and deltas in order" if card.binding.ordered else "")
    return f"it needs {needs}, and the scheduler shows {shown.observes}"


def _count(broken: list[Rule], level: str) -> str:
    number = sum(rule.level == level for rule in broken)
    return f"{number} {level} broken" if number else ""
