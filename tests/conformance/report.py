"""What a run leaves behind: a folder with the verdicts, and for each failure the files that an engineer needs.

report.json         what `--json` prints
report.md           the table, and every failure
failures/ID.md      the sentence, the proof in words, the step table
failures/ID.jsonl   the shortest trace, as `schedspec trace` reads it
failures/ID.json    the script, as `schedspec replay-failure` reads it
failures/ID_test.py the same as a test that can be pasted
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import asdict, fields

from schedspec.spec.catalogue import registry
from schedspec.spec.registry import Rule
from schedspec.spec.trace import TraceWriter
from schedspec.spec.vocabulary import Settings

from .check import Check, Failure, Findings, exit_status, results
from .driver import Driver
from .narrate import Line, proof, step_table
from .script import Op, to_json

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
        "rules": {rule: asdict(result) for rule, result in results(findings).items()},
    }


def write_report(folder: Path, check: Check, *, strict: bool = False) -> None:
    """All files; what an earlier run left there about failures is removed."""
    failures = folder / "failures"
    failures.mkdir(parents=True, exist_ok=True)
    for old in failures.iterdir():
        if old.suffix in (".md", ".jsonl", ".json", ".py"):
            old.unlink()
    (folder / "report.json").write_text(json.dumps(as_json(check, strict=strict), indent=1) + "\n")
    (folder / "report.md").write_text("\n".join(_report(check)) + "\n")
    for failure in check.findings.failures.values():
        _write_failure(failures, check, failure)
    if check.findings.fault_run is not None:
        _write_fault(failures, check, check.findings.fault_run)


def _write_failure(folder: Path, check: Check, failure: Failure) -> None:
    stem = folder / failure.rule
    stem.with_suffix(".md").write_text("\n".join(failure_page(check.name, failure)) + "\n")
    stem.with_suffix(".json").write_text(json.dumps(failure_json(check.name, failure), indent=1) + "\n")
    Path(f"{stem}_test.py").write_text("\n".join(as_test(check.name, failure)) + "\n")
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


def failure_json(subject: str, failure: Failure) -> dict[str, Any]:
    return {
        "subject": subject,
        "rule": failure.rule,
        "conjunct": failure.conjunct,
        "stage": failure.stage,
        "also": failure.also,
        "script": to_json(failure.script),
    }


# --- pages -------------------------------------------------------------------------------------------------


def failure_page(subject: str, failure: Failure) -> Iterator[str]:
    """One failure, in the order in which an engineer asks."""
    rule = registry.rules[failure.rule]
    yield f"# {rule.id}: {rule.statement}"
    yield ""
    yield from (f"- **{word}** {text}." for word, text in failure_proof(failure))
    yield ""
    if failure.run is not None:
        yield from table_as_markdown(failure_table(failure))
        yield ""
    yield f"Why the rule exists: {rule.why}"
    yield ""
    if failure.also:
        yield f"Also broken by this trace: {', '.join(failure.also)}."
        yield ""
    yield f"Found in {failure.stage}; {failure.messages} protocol messages after shortening. Again:"
    yield ""
    yield f"    schedspec replay-failure failures/{failure.rule}.json"


def failure_proof(failure: Failure) -> Iterator[tuple[str, str]]:
    run = failure.run
    if failure.difference is not None:
        yield "Let", f"the same {len(failure.script.ops)} operations be done twice"
        yield "Then", f"the answers to message {failure.difference.message} differ"
        yield "However", registry.rules[failure.rule].statement.rstrip(".")
    elif run is not None and failure.violation is not None:
        yield from proof(run.header, run.messages, failure.violation)


def failure_table(failure: Failure) -> list[Line]:
    run = failure.run
    if run is None:
        return []
    if failure.difference is not None:
        lines = step_table(run.messages, None)
        return [Line(line.number, line.call, line.answer, line.number == failure.difference.message) for line in lines]
    return step_table(run.messages, failure.violation.message if failure.violation else None)


def table_as_markdown(lines: list[Line]) -> Iterator[str]:
    yield "| # | call | answer |"
    yield "| --- | --- | --- |"
    for line in lines:
        mark = " ✗" if line.bad else ""
        yield f"| {line.number}{mark} | {_cell(line.call)} | {_cell(line.answer)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _report(check: Check) -> Iterator[str]:
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
        yield from failure_page(check.name, failure)


def headline(findings: Findings) -> str:
    """The whole run in a few words."""
    if findings.faults:
        return f"void, as the subject broke the protocol in {len(findings.faults)} of {findings.runs} runs"
    broken = [registry.rules[rule] for rule in findings.broken]
    parts = [_count(broken, "MUST"), _count(broken, "SHOULD")]
    text = " and ".join(part for part in parts if part) or "every rule that was exercised holds"
    return text + (" (interrupted)" if findings.interrupted else "")


def _count(broken: list[Rule], level: str) -> str:
    number = sum(rule.level == level for rule in broken)
    return f"{number} {level} broken" if number else ""


# --- a test that can be pasted -----------------------------------------------------------------------------


def as_test(subject: str, failure: Failure) -> Iterator[str]:
    """The failure as a pytest function."""
    rule = failure.rule
    yield f'"""{rule}: {registry.rules[rule].statement}"""'
    yield ""
    yield "from schedspec.conformance.script import COMPLETE, STEP, Op, Script, cancel, submit"
    yield "from schedspec.conformance.testing import assert_keeps"
    yield "from schedspec.spec.vocabulary import Settings"
    yield ""
    yield ""
    yield f"def test_{rule.lower().replace('-', '_')}() -> None:"
    yield f"    settings = Settings({_settings(failure.script.settings)})"
    yield "    ops = ["
    for op in failure.script.ops:
        yield f"        {_op(op)},"
    yield "    ]"
    yield f"    assert_keeps({rule!r}, {subject!r}, Script(settings, {failure.script.seed}, ops))"


def _settings(settings: Settings) -> str:
    plain = Settings()
    return ", ".join(
        f"{field.name}={getattr(settings, field.name)!r}"
        for field in fields(Settings)
        if getattr(settings, field.name) != getattr(plain, field.name)
    )


def _op(op: Op) -> str:
    if op.kind in ("step", "complete"):
        return op.kind.upper()
    if op.kind == "cancel":
        return f"cancel({op.id!r})"
    if op.kind == "repeat":
        return f'Op("repeat", back={op.back})'
    if op.kind == "tick":
        return f'Op("tick", ns={op.ns})'
    assert op.request is not None
    request = op.request
    rest = f", stop_after={op.stop_after}" if op.stop_after is not None else ""
    rest += f", priority={request.priority}" if request.priority else ""
    rest += f", client={request.client!r}" if request.client != "default" else ""
    return f"submit({request.id!r}, {list(request.prompt_ids)!r}, {request.max_output_tokens}{rest})"
