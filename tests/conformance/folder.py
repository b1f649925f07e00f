"""The files that the folder of any report has, whatever was judged."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from schedspec.spec.trace import TraceWriter
from schedspec.spec.vocabulary import Header, Message

from .badge import badge
from .files import open_new, replace_file
from .page import Case, Page
from .perfetto import clock_of, write_perfetto

SCHEMA = "schedspec-report/1"
OURS = (".md", ".jsonl", ".json", ".py", ".html")


def empty_failures(folder: Path) -> Path:
    """The folder of failures, without what an earlier run left there."""
    failures = folder / "failures"
    failures.mkdir(parents=True, exist_ok=True)
    remove_ours(failures.iterdir())
    return failures


def remove_ours(files: Iterable[Path]) -> None:
    """Those that a report writes; nothing else is touched."""
    for old in files:
        if old.suffix in OURS and old.is_file():
            old.unlink()


def write_told(folder: Path, told: Mapping[str, Any]) -> None:
    """report.json and badge.json."""
    replace_file(folder / "report.json", json.dumps(told, indent=1) + "\n")
    write_badge(folder / "badge.json", told)


def write_badge(path: Path, told: Mapping[str, Any]) -> None:
    replace_file(path, json.dumps(badge(told)) + "\n")


def write_case(failures: Path, case: Case) -> None:
    """The page for a tracker, and unless it begins in the middle of a run the trace and its export for Perfetto."""
    replace_file(failures / f"{case.rule}.md", "\n".join(Page(case).markdown()) + "\n")
    if case.before:
        return
    write_trace(failures / f"{case.rule}.jsonl", case.header, case.messages)
    write_perfetto_of(failures, case)


def write_perfetto_of(failures: Path, case: Case) -> None:
    broken = {case.violation.message: case.rule} if case.violation is not None else {}
    perfetto = failures / f"{case.rule}.perfetto.json"
    write_perfetto(perfetto, case.header, case.messages, clock_of(case.messages), broken)


def write_trace(path: Path, header: Header, messages: Iterable[Message]) -> None:
    with open_new(path) as file:
        writer = TraceWriter(file, header)
        for message in messages:
            writer.write(message)
