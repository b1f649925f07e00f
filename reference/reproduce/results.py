"""The file of results: what each reproduction came to when it was last run to its end, misses included.

A section for each, written by `schedspec reproduce NAME --write FILE`; those of others stay as they are.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise

from .framework import Report, Row

PREAMBLE = """# What the papers measured, and what comes out here

Written by `schedspec reproduce --write reference/reproduce/RESULTS.md`, each section by the command in it. Constants
and their sources: `schedspec reproduce --list`. A row is *directional* where sources allow a direction and no number; a
numeric target that is missed stays missed, and the notes below its table say what was measured about the reason.
"""
HEADING = re.compile(r"^## (\S+):", re.MULTILINE)


def sections(text: str) -> dict[str, str]:
    """Name -> its section, heading included."""
    found = list(HEADING.finditer(text))
    edges = [*(one.start() for one in found), len(text)]
    return {one.group(1): text[start:end].strip() for one, (start, end) in zip(found, pairwise(edges), strict=True)}


def merged(text: str, reports: Iterable[Report], order: Iterable[str]) -> str:
    """The file with these sections new; sections of names that are not in `order` are left out."""
    kept: Mapping[str, str] = sections(text) | {one.reproduction.name: section(one) for one in reports}
    return "\n\n".join([PREAMBLE.strip(), *(kept[name] for name in order if name in kept)]) + "\n"


def section(report: Report) -> str:
    of = report.reproduction
    lines = [f"## {of.name}: {of.title}", "", f"{of.source}. `schedspec reproduce {of.name} --seed {report.seed}`", ""]
    lines += [
        "| target | published | ours | ratio | tolerance | verdict | source |",
        "| --- | --: | --: | --: | --- | --- | --- |",
    ]
    lines += [_line(row) for row in report.rows]
    if report.notes:
        lines += ["", *(f"* {note}" for note in report.notes)]
    return "\n".join(lines)


def _line(row: Row) -> str:
    verdict = f"**{row.verdict}**" if row.verdict == "missed" else row.verdict
    cells = (row.target.name, *row.texts(), verdict, row.target.source)
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
