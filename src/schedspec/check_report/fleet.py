"""The page of a fleet: which rules are broken at which engines, first when, and how often; and the failures of each."""

from collections.abc import Iterator, Mapping, Sequence
from os.path import relpath
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from ..conformance.files import replace_file
from ..conformance.fleet_page import Told, engine_failure, engine_folder, has_failure
from ..conformance.names import counted
from ..spec.catalogue import registry
from .page import View, rendered, view_of

NS_PER_S = 1_000_000_000
MOST_NAMED = 6
MOST_ENGINES = 1_000
ENGINES_SHOWN = 40
MOST_PAGES = 500
"""Failures of engines that get a page of their own; of the others there is the page for a tracker."""


@frozen
class Cell:
    """A rule that an engine breaks."""

    breaks: int
    first: str
    message: int
    href: str


@frozen
class Engine:
    name: str
    files: Sequence[str]
    messages: int
    faults: Sequence[str]
    cells: Mapping[str, Cell]
    is_folded: bool = False


def write_fleet(folder: Path, told: Mapping[str, Any]) -> None:
    """report.html, and the page of each failure of an engine."""
    pages = {_written(folder, engine, rule) for engine, rule in _failures(folder, told)}
    begin_ns = min((one["begin_ns"] for one in told["engines"] if one["begin_ns"] is not None), default=0)
    engines = list(_engines(folder, told, pages, begin_ns))
    broken = sorted({rule for one in engines for rule in one.cells}, key=lambda rule: registry.rules[rule].order)
    rules = {
        rule: {**one, "first": _after(begin_ns, one.get("first_ns"))}
        for rule, one in {**told["rules"], **told["fleet"]}.items()
    }
    shown = [evolve(one, is_folded=not one.cells and not one.faults) for one in engines[:MOST_ENGINES]]
    shown = [evolve(one, is_folded=one.is_folded or n >= ENGINES_SHOWN) for n, one in enumerate(shown)]
    text = rendered(
        "fleet.html",
        {"rules": rules, "faults": told["faults"], "subject": "a fleet"},
        hidden=("not exercised",) if broken or told["stories"] else (),
        counts=f"{counted(len(engines), 'engine')}, {counted(told['messages'], 'message')}",
        says=_says(rules, engines),
        statements={rule: registry.rules[rule].statement for rule in broken},
        stories=[Told(**story) for story in told["stories"]],
        engines=shown,
        left_out=len(engines) - len(shown),
        broken=broken,
    )
    replace_file(folder / "report.html", text)


def _failures(folder: Path, told: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], str]]:
    """Those that have a trace, the first of each rule before the others; of an engine each rule once."""
    found: dict[tuple[str, str], tuple[Mapping[str, Any], str]] = {}
    for engine in told["engines"]:
        for rule in engine["broken"]:
            if has_failure(folder, engine["engine"], rule):
                found.setdefault((engine["engine"], rule), (engine, rule))
    first = {rule: told["rules"][rule]["first_engine"] for _, rule in found}
    ordered = sorted(found, key=lambda one: one[0] != first[one[1]])
    return [found[one] for one in ordered[:MOST_PAGES]]


def _written(folder: Path, engine: Mapping[str, Any], rule: str) -> Path:
    """Where the page of a failure is.  It names files as they lie in the folder: it is the same wherever that is."""
    shown, trace = engine_failure(folder, engine, rule), engine_folder(engine["engine"]) / "failures" / f"{rule}.jsonl"
    view: View = view_of(evolve(shown, case=evolve(shown.case, again=f"schedspec trace {trace}"), trace=str(trace)))
    path = trace.with_suffix(".html")
    back = relpath(folder / "report.html", (folder / path).parent)
    text = rendered("failure.html", {"rules": {}}, failures=[view], back=back, engine=engine["engine"])
    replace_file(folder / path, text)
    return path


def _engines(folder: Path, told: Mapping[str, Any], pages: set[Path], begin_ns: int) -> Iterator[Engine]:
    """Whoever is void or breaks most first, then by name; several files of one engine are one."""
    parts: dict[str, list[Mapping[str, Any]]] = {}
    for result in told["engines"]:
        parts.setdefault(result["engine"], []).append(result)

    def rank(name: str) -> tuple[bool, int, str]:
        return (
            not any(one["faults"] for one in parts[name]),
            -len({r for one in parts[name] for r in one["broken"]}),
            name,
        )

    for name in sorted(parts, key=rank):
        results = parts[name]
        rules = dict.fromkeys(rule for one in results for rule in one["broken"])
        yield Engine(
            name=name,
            files=[one["file"] for one in results],
            messages=sum(one["messages"] for one in results),
            faults=[fault for one in results for fault in one["faults"]],
            cells={rule: _cell(folder, name, rule, results, pages, begin_ns) for rule in rules},
        )


def _cell(
    folder: Path,
    name: str,
    rule: str,
    results: Sequence[Mapping[str, Any]],
    pages: set[Path],
    begin_ns: int,
) -> Cell:
    breaks = [one["broken"][rule] for one in results if rule in one["broken"]]
    first = min(breaks, key=lambda one: one["first_ns"])
    page = engine_folder(name) / "failures" / f"{rule}.html"
    href = page if page in pages else page.with_suffix(".md") if (folder / page.with_suffix(".md")).exists() else ""
    when = _after(begin_ns, first["first_ns"])
    return Cell(sum(one["breaks"] for one in breaks), when, first["first_message"], str(href))


def _after(begin_ns: int, now_ns: int | None) -> str:
    """Since the first message of all."""
    if now_ns is None:
        return ""
    return f"{(now_ns - begin_ns) / NS_PER_S:,.3f} s"


def _says(rules: Mapping[str, Mapping[str, Any]], engines: Sequence[Engine]) -> str:
    """In a line what there is."""
    bad = {rule: one for rule, one in rules.items() if one["verdict"] == "fail" and one["level"] == "MUST"}
    where = [
        f"{rule} at {counted(len(one['engines']), 'engine')}" if "engines" in one else rule for rule, one in bad.items()
    ]
    more = f" and {len(where) - MOST_NAMED} more" if len(where) > MOST_NAMED else ""
    parts = [f"{counted(len(bad), 'MUST')} broken: {', '.join(where[:MOST_NAMED])}{more}"] if bad else []
    advice = sum(one["verdict"] == "fail" and one["level"] == "SHOULD" for one in rules.values())
    parts += [f"{advice} SHOULD broken"] if advice else []
    void = sum(bool(one.faults) for one in engines)
    parts += [f"{counted(void, 'engine')} void"] if void else []
    return ", ".join(parts) or "no rule is broken"
