"""Recorded runs of many engines: what is said of each is plain data, and merged in the order of the engines' names.

Nothing here has a clock: the same files give the same report, byte for byte, wherever they were judged.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

from attrs import Factory, define, frozen

from schedspec.spec.catalogue import registry
from schedspec.spec.fleets.judge import Fleet, FleetVerdict, judge_fleet
from schedspec.spec.fleets.router_log import RouterLog, is_router_log, read_router_log
from schedspec.spec.fleets.rules import RULES
from schedspec.spec.fleets.stays import NS_PER_WINDOW, Witness
from schedspec.spec.trace import TraceError, TraceWriter

from .archives import plain_name, unpacked
from .check import results
from .files import replace_file
from .fleet_page import Told, engine_folder, first_of_each, told_of
from .folder import remove_ours, write_badge
from .names import counted, short_name
from .page import Page, as_text
from .project import Shortening
from .recorded import Judged, case_of

SHORTENING = Shortening(most_messages=40_000)
TRACE_SUFFIXES = (".jsonl", ".columns", ".json")
RANK = {"pass": 0, "not claimed": 1, "not observable": 2, "not exercised": 3, "void": 4, "fail": 5}
"""Of one rule at several engines the last of these is told, but for those that say nothing where another one does."""


@define
class FleetFiles:
    """Name of an engine -> its files, in order; and the log of the router, if there is one."""

    engines: dict[str, list[Path]] = Factory(dict)
    router: Path | None = None


def find_files(paths: Sequence[Path], root: Path) -> FleetFiles:
    """Whose log each file is.  Raises ValueError if there is nothing, or are two routers."""
    found = FleetFiles()
    for path in sorted(paths):
        if is_router_log(_first_line(path)):
            if found.router is not None:
                raise ValueError(f"{found.router} and {path} are both logs of a router: a fleet has one")
            found.router = path
        else:
            found.engines.setdefault(engine_name(path, root), []).append(path)
    if not found.engines:
        raise ValueError(f"there is no trace of an engine in {root}")
    return found


def _first_line(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return unpacked(path, file).readline(1 << 16)
    except (TraceError, OSError):
        return b""  # whoever judges it says what is wrong with it


def engine_name(path: Path, root: Path) -> str:
    """The place of the file, without what says how it is written."""
    name = plain_name(path)
    for suffix in TRACE_SUFFIXES:
        name = name.removesuffix(suffix)
    return (path.parent / name).relative_to(root).as_posix()


# --- one engine ----------------------------------------------------------------------------------------------


def engine_result(place: str, judged: Judged, witness: Witness) -> dict[str, Any]:
    """What is told of one file: verdicts, breaks, pages, and what the rules of the fleet need.  An engine that has no
    name in its header is called by the `place` of its file."""
    engine = judged.header.engine or place
    musts = [rule for rule in judged.first if registry.rules[rule].level == "MUST"]
    return {
        **witness.plain,
        "engine": engine,
        "file": judged.path.name,
        "path": str(judged.path),
        "subject": judged.header.subject,
        "messages": judged.messages,
        "faults": [] if judged.fault is None else [str(judged.fault)],
        "has_broken_must": bool(musts),
        "rules": {
            rule: {"verdict": result.verdict, "exercised": result.exercised}
            for rule, result in results(judged.findings).items()
        },
        "broken": {
            rule: {
                "conjunct": violation.conjunct,
                "breaks": judged.breaks[rule],
                "first_message": violation.message,
                "first_ns": judged.first_ns.get(rule, witness.end_ns),
            }
            for rule, violation in judged.first.items()
        },
        "failures": {
            violation.rule: {"page": _page(engine, judged, violation, messages), "trace": _lines(judged, messages)}
            for violation, messages in judged.shortened
        },
    }


def unread_result(engine: str, path: Path, fault: str) -> dict[str, Any]:
    """Of a file of which not even the header could be read."""
    told = {"engine": engine, "file": path.name, "path": str(path), "subject": None, "messages": 0, "faults": [fault]}
    return {**Witness().plain, **told, "has_broken_must": False, "rules": {}, "broken": {}, "failures": {}}


def _page(engine: str, judged: Judged, violation: Any, messages: Any) -> str:
    """Paths in it are those inside of the report's folder."""
    return "\n".join(Page(case_of(judged, violation, messages, engine_folder(engine))).markdown()) + "\n"


def _lines(judged: Judged, messages: Any) -> str:
    text = StringIO()
    writer = TraceWriter(text, judged.header)
    for message in messages:
        writer.write(message)
    return text.getvalue()


# --- all of them ---------------------------------------------------------------------------------------------


@frozen(slots=False)
class FleetReport:
    """`engines`: results of files, in the order of engines and time; `fleet`: what rules of fleets say; `faults`: what
    is wrong with files beside what is wrong in them."""

    engines: Sequence[Mapping[str, Any]]
    fleet: FleetVerdict
    faults: Sequence[str]
    router: RouterLog | None = None

    @cached_property
    def plain(self) -> dict[str, Any]:
        return {
            "schema": "schedspec-fleet/1",
            "exit_status": self.exit_status(),
            "engines": [_kept(result) for result in self.engines],
            "messages": sum(result["messages"] for result in self.engines),
            "faults": list(self.faults) + [fault for result in self.engines for fault in result["faults"]],
            "rules": self.rules,
            "fleet": {
                rule: {
                    "level": RULES[rule].level,
                    "verdict": self.fleet.verdicts[rule],
                    "exercised": self.fleet.exercised[rule],
                    "breaks": self.fleet.breaks.get(rule, 0),
                }
                for rule in RULES
            },
            "stories": [told.plain for told in self.told],
            "failures": [
                {"rule": one.rule, "conjunct": one.conjunct, "now_ns": one.now_ns, "facts": one.facts}
                for one in self.fleet.broken
            ],
        }

    @cached_property
    def rules(self) -> dict[str, dict[str, Any]]:
        """Rule -> verdict over all engines; where it is broken who broke it, when first, how often."""
        told: dict[str, dict[str, Any]] = {}
        for rule in registry.sorted_rules():
            ones = [result["rules"][rule.id] for result in self.engines if rule.id in result["rules"]]
            if not ones:
                continue
            verdict = _verdict([one["verdict"] for one in ones])
            exercised = sum(one["exercised"] for one in ones)
            told[rule.id] = {"level": rule.level, "verdict": verdict, "exercised": exercised}
            broken = [
                (result["engine"], result["broken"][rule.id]) for result in self.engines if rule.id in result["broken"]
            ]
            if broken:
                first_ns, first_engine = min((one["first_ns"], engine) for engine, one in broken)
                told[rule.id] |= {
                    "engines": sorted({engine for engine, _ in broken}),
                    "breaks": sum(one["breaks"] for _, one in broken),
                    "first_ns": first_ns,
                    "first_engine": first_engine,
                }
        return told

    @cached_property
    def told(self) -> list[Told]:
        """The first break of each rule of the fleet."""
        return [told_of(one, self.engines, self.router) for one in first_of_each(self.fleet.broken).values()]

    def exit_status(self, *, strict: bool = False) -> int:
        """As for a single trace."""
        if self.faults or any(result["faults"] for result in self.engines):
            return 2
        if self.fleet.broken or any(result["has_broken_must"] for result in self.engines):
            return 1
        verdicts = {one["verdict"] for one in self.rules.values()} | set(self.fleet.verdicts.values())
        return 3 if strict and verdicts & {"fail", "not exercised", "unknown"} else 0


def _verdict(verdicts: Sequence[str]) -> str:
    """Broken anywhere is broken; held anywhere where it was exercised, and nowhere broken, is a pass."""
    if "fail" in verdicts or "pass" not in verdicts:
        return max(verdicts, key=lambda verdict: RANK.get(verdict, 0))
    return "pass"


def _kept(result: Mapping[str, Any]) -> dict[str, Any]:
    names = ("engine", "file", "subject", "messages", "begin_ns", "end_ns", "has_end", "faults", "broken")
    return {name: result[name] for name in names}


def merged(
    found: Sequence[Mapping[str, Any]],
    router: Path | None,
    *,
    skew_ns: int = 0,
    window_ns: int = NS_PER_WINDOW,
) -> FleetReport:
    """Merge in the order of the engines' names, and judge what only all of them show."""
    ordered = sorted(found, key=lambda result: (result["engine"], result["begin_ns"] or 0, result["file"]))
    faults = list(_claimed_twice(ordered))
    log: RouterLog | None = None
    if router is not None:
        try:
            with router.open("rb") as file:
                log = read_router_log(str(router), unpacked(router, file))
        except TraceError as fault:
            faults.append(str(fault))
    engines: dict[str, list[Mapping[str, Any]]] = {}
    for result in ordered:
        engines.setdefault(result["engine"], []).append(result)
    fleet = Fleet(engines, log, skew_ns, window_ns)
    return FleetReport(ordered, judge_fleet(fleet), faults, log)


def _claimed_twice(ordered: Sequence[Mapping[str, Any]]) -> Any:
    """Two files may be of one engine, one after the other, but not of one time."""
    for before, after in pairwise(ordered):
        if before["engine"] != after["engine"] or before["begin_ns"] is None or after["begin_ns"] is None:
            continue
        if after["begin_ns"] <= before["end_ns"]:
            yield (
                f"{before['path']} and {after['path']} both claim engine {short_name(after['engine'])} at now_ns "
                f"{after['begin_ns']}: leave one of them out if it is a copy, or give each engine a name of its own"
            )


# --- what is left behind -------------------------------------------------------------------------------------


def write_fleet(folder: Path, report: FleetReport) -> None:
    """report.json, report.md, and for each failure its page and its shortest trace: of an engine the first one, where
    several of its files break a rule."""
    for parts in ("engines", "fleet"):
        _empty(folder / parts)
    for result in report.engines:
        at = folder / engine_folder(result["engine"]) / "failures"
        for rule, failure in result["failures"].items():
            at.mkdir(parents=True, exist_ok=True)
            if not (at / f"{rule}.jsonl").exists():
                replace_file(at / f"{rule}.md", failure["page"])
                replace_file(at / f"{rule}.jsonl", failure["trace"])
    for told in report.told:
        (folder / "fleet").mkdir(parents=True, exist_ok=True)
        replace_file(folder / "fleet" / f"{told.rule}.md", "\n".join(told.markdown()) + "\n")
    replace_file(folder / "report.json", json.dumps(report.plain, indent=1) + "\n")
    write_badge(folder / "badge.json", all_rules(report.plain))
    replace_file(folder / "report.md", "\n".join(_report(report)) + "\n")


def all_rules(told: Mapping[str, Any]) -> dict[str, Any]:
    """Of a fleet's report what a badge counts: the rules of engines and those of the fleet."""
    return {"rules": {**told["rules"], **told["fleet"]}, "faults": told["faults"]}


def as_cell(name: str) -> str:
    """A name in a table of Markdown."""
    return as_text(short_name(name)).replace("|", "\\|")


def _empty(folder: Path) -> None:
    """Without what an earlier run left there."""
    remove_ours(old for old in folder.rglob("*") if old.parent.name in ("failures", "fleet"))


def _report(report: FleetReport) -> Any:
    plain = report.plain
    names = {result["engine"] for result in report.engines}
    yield f"# {counted(len(names), 'engine')}, {counted(plain['messages'], 'message')}"
    for fault in plain["faults"]:
        yield f"\nVoid: {as_text(fault)}."
    yield "\n| rule | verdict | engines that break it | breaks | first (now_ns) | at | exercised |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for rule, one in report.rules.items():
        many, breaks = len(one.get("engines", ())) or "", one.get("breaks", "")
        first = f"{one['first_ns']:,} | {as_cell(one['first_engine'])}" if many else " | "
        yield f"| {rule} | {one['verdict']} | {many} | {breaks} | {first} | {one['exercised']:,} |"
    for rule, one in plain["fleet"].items():
        yield f"| {rule} | {one['verdict']} | | {one['breaks'] or ''} | | | {one['exercised']:,} |"
    for told in report.told:
        yield ""
        yield from told.markdown()
    for result in report.engines:
        page = f"{engine_folder(result['engine']).as_posix()}/failures"
        for rule in result["failures"]:
            yield f"\n{as_cell(result['engine'])}: [{rule}]({page}/{rule}.md)"
