"""One subject, or its shipped and its raw form, under many settings: a check for each combination, and one table.

Each check is a process of its own, with its own report folder: what one leaves behind touches no other.
"""

import itertools
import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from attrs import frozen

from .files import file_name
from .names import counted

RAW = "-raw"
EXIT_STATUSES = (2, 1, 130, 3, 0)
"""The worst first: void, a MUST broken, interrupted, strict, good."""


@frozen
class Cell:
    """A combination: `settings` are NAME=VALUE as on the command line."""

    subject: str
    settings: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return Path(file_name(self.subject)) / (",".join(self.settings) or "as-it-is")


@frozen
class Outcome:
    """What the check of a cell printed; `problem` where it printed nothing."""

    cell: Cell
    status: int
    report: dict[str, Any]
    problem: str = ""

    def broken(self, level: str) -> list[str]:
        """Rules of that level that failed, with the length of the shortest trace."""
        rules = self.report.get("rules", {}).items()
        return [
            f"{rule} ({result['messages']})" if result["messages"] else rule
            for rule, result in rules
            if result["verdict"] == "fail" and result["level"] == level
        ]

    @property
    def fails(self) -> set[str]:
        return {rule for rule, result in self.report.get("rules", {}).items() if result["verdict"] == "fail"}


def read_over(text: str) -> tuple[str, list[str]]:
    """`NAME=V1,V2`.  Raises ValueError with one sentence; the values are read by the checks."""
    name, equals, values = text.partition("=")
    if not equals or not name or not all(values.split(",")):
        raise ValueError(f"{text!r} is no range of a setting: write NAME=VALUE,VALUE")
    return name, values.split(",")


def cells(subjects: Sequence[str], over: Sequence[tuple[str, list[str]]]) -> list[Cell]:
    """Every subject under every combination."""
    axes = [[f"{name}={value}" for value in values] for name, values in over]
    return [Cell(subject, settings) for subject in subjects for settings in itertools.product(*axes)]


def run_matrix(
    todo: Sequence[Cell],
    check: Sequence[str],
    folder: Path,
    *,
    jobs: int,
    options: Sequence[str] = (),
    done: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """`check` is the command of a check, `done` hears of each outcome as it comes; the answer is in the order of
    `todo`."""
    with ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(_run, cell, check, folder, options): place for place, cell in enumerate(todo)}
        outcomes: dict[int, Outcome] = {}
        for future in as_completed(running):
            outcomes[running[future]] = future.result()
            done(future.result())
    return [outcomes[place] for place in range(len(todo))]


def _run(cell: Cell, check: Sequence[str], folder: Path, options: Sequence[str]) -> Outcome:
    settings = [word for text in cell.settings for word in ("--setting", text)]
    command = [*check, cell.subject, "--json", "--report", str(folder / cell.folder), *settings, *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return Outcome(cell, ended.returncode, json.loads(ended.stdout.strip().splitlines()[-1]))
    except (ValueError, IndexError):
        words = ended.stderr.strip().splitlines() or ["no answer"]
        return Outcome(cell, ended.returncode or 2, {}, words[-1].removeprefix("error: "))


def exit_status(outcomes: Sequence[Outcome]) -> int:
    statuses = {outcome.status for outcome in outcomes}
    return next((status for status in EXIT_STATUSES if status in statuses), max(statuses, default=0))


def only_raw(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, list[str]]]:
    """Raw subjects, and the rules that fail there and in no cell of the shipped form."""
    subjects = list(dict.fromkeys(outcome.cell.subject for outcome in outcomes))
    for subject in subjects:
        shipped = subject.removesuffix(RAW)
        if subject != shipped and shipped in subjects:
            there, here = (_fails_of(outcomes, name) for name in (subject, shipped))
            yield subject, sorted(there - here)


def _fails_of(outcomes: Sequence[Outcome], subject: str) -> set[str]:
    return {rule for outcome in outcomes if outcome.cell.subject == subject for rule in outcome.fails}


# --- the table ---------------------------------------------------------------------------------------------


def header(outcomes: Sequence[Outcome]) -> list[str]:
    names = [text.partition("=")[0] for text in outcomes[0].cell.settings]
    return ["subject", *names, "MUST broken", "SHOULD broken", "runs", "seconds"]


def row(outcome: Outcome) -> list[str]:
    values = [text.partition("=")[2] for text in outcome.cell.settings]
    if outcome.problem:
        return [outcome.cell.subject, *values, outcome.problem, "", "", ""]
    faults = [f"void: {fault}" for fault in outcome.report["faults"]]
    must = ", ".join(faults + outcome.broken("MUST")) or "–"
    should = ", ".join(outcome.broken("SHOULD")) or "–"
    return [
        outcome.cell.subject,
        *values,
        must,
        should,
        f"{outcome.report['runs']:,}",
        f"{outcome.report['seconds']:.0f}",
    ]


def write_matrix(folder: Path, outcomes: Sequence[Outcome], seconds: float, command: str = "") -> None:
    """`matrix.md` and `matrix.json`, beside the reports of the cells."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = [
        {"subject": o.cell.subject, "settings": list(o.cell.settings), "exit_status": o.status, "problem": o.problem}
        | {"must": o.broken("MUST"), "should": o.broken("SHOULD"), "folder": str(o.cell.folder)}
        for o in outcomes
    ]
    (folder / "matrix.json").write_text(
        json.dumps({"command": command, "seconds": round(seconds, 1), "cells": plain}, indent=1) + "\n"
    )
    (folder / "matrix.md").write_text("\n".join(_as_markdown(outcomes, seconds)) + "\n")


def _as_markdown(outcomes: Sequence[Outcome], seconds: float) -> Iterator[str]:
    yield "| " + " | ".join(header(outcomes)) + " |"
    yield "| " + " | ".join("---" for _ in header(outcomes)) + " |"
    for outcome in outcomes:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row(outcome)) + " |"
    yield ""
    yield f"In brackets: messages of the shortest trace.  {counted(len(outcomes), 'check')} in {seconds:.0f} s."
    for subject, rules in only_raw(outcomes):
        yield f"\nOnly {subject}: {', '.join(rules) or 'nothing'}."
