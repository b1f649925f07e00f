"""What a run leaves behind: a folder with the verdicts, and for each failure the files that an engineer needs.

report.json         what `--json` prints
report.md           the table, and every failure
failures/ID.md      one screen that can be put on a tracker as it is
failures/ID.jsonl   the shortest trace, as `schedspec trace` reads it
failures/ID.json    the script, as `schedspec replay-failure` reads it
failures/ID_test.py the same as a test that can be pasted (not of DET: one run shows no difference)
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, fields_dict

from schedspec.spec.catalogue import registry
from schedspec.spec.registry import Rule
from schedspec.spec.trace import TraceWriter
from schedspec.spec.vocabulary import OPEN, Request

from .check import Check, Failure, Findings, exit_status, results
from .driver import Driver
from .narrate import Line, as_code, counted, settings_as_code, step_table
from .page import WIDTH, Case, Page, shown_path
from .script import Op, Script, to_json

ORDER = ("fail", "void", "unknown", "not exercised", "not observable", "not claimed", "pass")


def as_json(check: Check, *, strict: bool = False) -> dict[str, Any]:
    """One object for the whole run."""
    findings = check.findings
    capabilities = findings.capabilities
    return {
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
    """All files; what an earlier run left there about failures is removed."""
    failures = without_failures(folder)
    (folder / "report.json").write_text(json.dumps(as_json(check, strict=strict), indent=1) + "\n")
    (folder / "report.md").write_text("\n".join(_report(check, folder)) + "\n")
    for failure in check.findings.failures.values():
        _write_failure(failures, check, failure)
    if check.findings.fault_run is not None:
        _write_fault(failures, check, check.findings.fault_run)


def without_failures(folder: Path) -> Path:
    """The place of failures, without those of an earlier run."""
    failures = folder / "failures"
    failures.mkdir(parents=True, exist_ok=True)
    for old in failures.iterdir():
        if old.suffix in (".md", ".jsonl", ".json", ".py"):
            old.unlink()
    return failures


def keep_failure(folder: Path, check: Check, failure: Failure) -> None:
    """At once, for a search of hours may be cut off.  What cannot be written now is tried again at the end."""
    try:
        _write_failure(folder / "failures", check, failure)
    except OSError as error:
        check.findings.notes.append(f"{failure.rule} could not be kept when it was found: {error}")


def _write_failure(folder: Path, check: Check, failure: Failure) -> None:
    stem = folder / failure.rule
    stem.with_suffix(".md").write_text("\n".join(Page(case_of(check, failure, folder.parent)).markdown()) + "\n")
    stem.with_suffix(".json").write_text(json.dumps(failure_json(check, failure), indent=1) + "\n")
    if _has_test(failure.rule):
        Path(f"{stem}_test.py").write_text("\n".join(as_test(check.name, failure, only=bool(check.only))) + "\n")
    if failure.run is not None:
        _write_trace(stem.with_suffix(".jsonl"), failure.run)


def _write_fault(folder: Path, check: Check, run: Driver) -> None:
    lines = [f"# void: {run.fault}", "", *table_as_markdown(step_table(run.messages, None))]
    (folder / "void.md").write_text("\n".join(lines) + "\n")
    script = {"subject": check.name, "rule": "void", "conjunct": str(run.fault), "script": to_json(run.script)}
    (folder / "void.json").write_text(json.dumps(script, indent=1) + "\n")
    _write_trace(folder / "void.jsonl", run)


def _write_trace(path: Path, run: Driver) -> None:
    with path.open("w") as file:
        writer = TraceWriter(file, run.header)
        for message in run.messages:
            writer.write(message)


def failure_json(check: Check, failure: Failure) -> dict[str, Any]:
    return {
        "subject": check.name,
        "mode": check.mode,
        "rule": failure.rule,
        "conjunct": failure.conjunct,
        "stage": failure.stage,
        "also": failure.also,
        "only": sorted(check.only),
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
        found=f"found in {failure.stage}, then shortened to {counted(failure.messages, 'message')}",
        also=failure.also,
        again=f"schedspec replay-failure {shown_path(folder / 'failures' / failure.rule)}.json",
        files=_files(failure.rule),
    )


def _files(rule: str) -> str:
    test = f", {rule}_test.py (a test to paste)" if _has_test(rule) else ""
    return f"beside it {rule}.md (this page), {rule}.jsonl (the trace, for schedspec trace){test}"


def _has_test(rule: str) -> bool:
    return registry.rules[rule].form != "run"


def table_as_markdown(lines: list[Line]) -> Iterator[str]:
    yield "| # | call | answer |"
    yield "| --- | --- | --- |"
    for line in lines:
        mark = " ✗" if line.bad else ""
        yield f"| {line.number}{mark} | {_cell(line.call)} | {_cell(line.answer)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _report(check: Check, folder: Path) -> Iterator[str]:
    plain = as_json(check)
    yield f"# {check.name}: {headline(check.findings)}"
    yield ""
    yield f"Seed {check.seed}, depth {check.depth.name}, {plain['runs']} runs in {check.seconds:.1f} s."
    for fault in plain["faults"]:
        yield f"\nVoid: {fault}."
    for note in plain["notes"]:
        yield f"\nNote: {note}."
    yield ""
    yield "| rule | verdict | level | exercised | runs | shortest trace | statement |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for rule, result in results(check.findings).items():
        messages = "" if result.messages is None else f"{result.messages} messages"
        yield (
            f"| {rule} | {result.verdict} | {result.level} | {result.exercised} | {result.examples} | {messages} "
            f"| {_cell(registry.rules[rule].statement)} |"
        )
    for failure in check.findings.failures.values():
        yield ""
        yield from Page(case_of(check, failure, folder)).markdown()


def bound_exercised(findings: Findings) -> dict[str, int]:
    """Rule -> how often its precondition held, of the rules that bound the subject."""
    return {rule: findings.exercised[rule] for rule in registry.rules if findings.bound[rule]}


def headline(findings: Findings) -> str:
    """The whole run in a few words."""
    if findings.faults:
        return f"void, as the subject broke the protocol in {len(findings.faults)} of {findings.runs} runs"
    broken = [registry.rules[rule] for rule in findings.broken - findings.recorded.keys()]
    known = len(findings.known.keys() | findings.recorded.keys())
    parts = [_count(broken, "MUST"), _count(broken, "SHOULD")]
    text = " and ".join(part for part in parts if part)
    text = text or f"every {'other ' if known else ''}rule that was exercised holds"
    text += f", {known} known" if known else ""
    text += f", {len(findings.stale)} stale in the baseline" if findings.stale else ""
    return text + (" (interrupted)" if findings.interrupted else "")


def why_not_judged(findings: Findings, rule: str) -> str:
    """Why there is neither a pass nor a fail, in a few words."""
    verdict = results(findings)[rule].verdict
    card, shown = registry.rules[rule], findings.capabilities
    if verdict == "not claimed":
        return f"it binds who claims {' and '.join(card.binding.claims)}"
    if verdict == "not exercised":
        return f"in {findings.runs} runs its precondition never held"
    if verdict == "unknown":
        return "it was interrupted before"
    if verdict != "not observable" or shown is None:
        return ""
    if card.form == "snapshot" and not findings.snapshots:
        return "it compares snapshots, and observe() shows none"
    needs = card.binding.needs + (" and deltas in order" if card.binding.ordered else "")
    return f"it needs {needs}, and the scheduler shows {shown.observes}"


def _count(broken: list[Rule], level: str) -> str:
    number = sum(rule.level == level for rule in broken)
    return f"{number} {level} broken" if number else ""


# --- a test that can be pasted -----------------------------------------------------------------------------


def as_test(subject: str, failure: Failure, *, only: bool = False) -> Iterator[str]:
    """The failure as a pytest function."""
    rule = failure.rule
    ops = [_op(op) for op in failure.script.ops]
    yield f'"""{rule}: {registry.rules[rule].statement}"""'
    yield ""
    yield f"from schedspec.conformance.script import {', '.join(_imports(failure.script))}"
    yield "from schedspec.conformance.testing import assert_keeps"
    named = ["Door"] * (failure.script.settings.door != OPEN) + ["Lane"] * bool(failure.script.settings.lanes)
    named += ["Pools"] * failure.script.settings.pools.are_two
    yield f"from schedspec.spec.vocabulary import {', '.join([*named, 'Settings'])}"
    yield ""
    yield ""
    yield f"def test_{rule.lower().replace('-', '_')}() -> None:"
    settings, lanes = failure.script.settings, [as_code(lane) for lane in failure.script.settings.lanes]
    arguments = [
        _fitting("lanes=", lanes, "[]", 8) if a.startswith("lanes=") else a for a in settings_as_code(settings)
    ]
    yield "    " + _fitting("settings = Settings", arguments, "()", 4)
    yield "    " + _fitting("ops = ", ops, "[]", 4)
    script = f"Script(settings, {failure.script.seed}, ops)" + (", only=True" if only else "")
    yield f"    assert_keeps({as_code(rule)}, {as_code(subject)}, {script})"


def _imports(script: Script) -> list[str]:
    """What the operations use, in the order in which linters want it."""
    names = {"step": "STEP", "complete": "COMPLETE", "repeat": "Op", "tick": "Op", "retry": "RETRY"}
    used = {names.get(op.kind, op.kind) for op in script.ops} | {"Script"}
    return sorted(used, key=lambda name: (not name.isupper(), name[0].islower(), name))


def _fitting(begin: str, items: Sequence[str], brackets: str, indent: int) -> str:
    """On one line; or if that is too long, or has lines in it, on a line for each."""
    one_line = f"{begin}{brackets[0]}{', '.join(items)}{brackets[1]}"
    if indent + len(one_line) < WIDTH and "\n" not in one_line:
        return one_line
    inner = "".join(f"\n{' ' * (indent + 4)}{item}," for item in items)
    return f"{begin}{brackets[0]}{inner}\n{' ' * indent}{brackets[1]}"


def _op(op: Op) -> str:
    if op.kind in ("step", "complete", "retry"):
        return op.kind.upper()
    if op.kind in ("cancel", "leave"):
        return f"{op.kind}({as_code(op.id)})"
    if op.kind == "answer":
        return f"answer({as_code(op.id)}, {as_code(op.dependency)}{'' if op.is_there else ', is_there=False'})"
    if op.kind == "repeat":
        return f'Op("repeat", back={op.back})'
    if op.kind == "tick":
        return f'Op("tick", ns={op.ns})'
    assert op.request is not None
    request = op.request
    rest = f", stop_after={op.stop_after}" if op.stop_after is not None else ""
    rest += f", pauses={list(op.pauses)}" if op.pauses else ""
    for name, one in fields_dict(Request).items():
        if name not in ("id", "prompt_ids", "max_output_tokens") and getattr(request, name) != one.default:
            rest += f", {name}={as_code(getattr(request, name))}"
    return f"submit({as_code(request.id)}, {_prompt(request.prompt_ids)}, {request.max_output_tokens}{rest})"


def _prompt(ids: Sequence[int]) -> str:
    """A long run of numbers as a range."""
    run = range(ids[0], ids[0] + len(ids)) if ids else range(0)
    return f"range({run.start}, {run.stop})" if len(ids) > 4 and list(ids) == list(run) else repr(list(ids))
