"""Writes `tests/reports/README.md` from what is there: `python -m tests.reports_index`.

tests/reports/<version of schedspec>/<subject>/<version of it>/    made.json: the commands; README.md: what it means
                                              …/report.json        as the suite wrote it
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "reports"
INTRODUCTION = """# What the suite found

One folder per version of schedspec, subject and version of the subject, as the suite wrote it; nothing is edited but
the README files, the reasons in `known.json`, and paths that were moved. `schedspec report FOLDER` makes the pages
(`report.html`, and one per failure) of any folder with a `report.json`. This page is written by
`python -m tests.reports_index`. In brackets: in how many of the reports a rule is broken.
"""
HEAD = "| schedspec | subject | version | reports | MUST broken | SHOULD broken |"


def page(folder: Path = FOLDER) -> str:
    """The text of the index."""
    versions = sorted(path.parent for path in folder.glob("*/*/*/made.json"))
    lines = [INTRODUCTION, HEAD, "| --- | --- | --- | --- | --- | --- |"]
    lines += [row for version in versions for row in rows(folder, version)]
    for version in versions:
        commands = json.loads((version / "made.json").read_text(encoding="utf-8"))["commands"]
        place = version.relative_to(folder)
        lines += ["", f"[{place}]({place}/README.md) was made by", "", *(f"    {command}" for command in commands)]
    return "\n".join(lines) + "\n"


def rows(folder: Path, version: Path) -> Iterator[str]:
    spec, _, release = version.relative_to(folder).parts
    reports: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(version.rglob("report.json")):
        told = json.loads(file.read_text(encoding="utf-8"))
        reports.setdefault(told["subject"].removeprefix("schedspec.conformance.subjects."), []).append(told)
    for subject, some in sorted(reports.items()):
        must, should = (broken(some, level) or "–" for level in ("MUST", "SHOULD"))
        yield f"| {spec} | {subject} | {release} | {len(some)} | {must} | {should} |"


def broken(reports: list[dict[str, Any]], level: str) -> str:
    counts = Counter(
        rule
        for told in reports
        for rule, result in told["rules"].items()
        if result["verdict"] == "fail" and result["level"] == level
    )
    return ", ".join(f"{rule} ({count})" if len(reports) > 1 else rule for rule, count in sorted(counts.items()))


def lost(folder: Path = FOLDER) -> list[Path]:
    """Reports that stand where the index does not look for them."""
    return [
        file
        for file in folder.rglob("report.json")
        if len(file.relative_to(folder).parts) < 4
        or not folder.joinpath(*file.relative_to(folder).parts[:3], "made.json").exists()
    ]


if __name__ == "__main__":
    (FOLDER / "README.md").write_text(page(), encoding="utf-8")
