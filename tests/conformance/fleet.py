"""Recorded runs of many engines: what is said of each is plain data, and merged in the order of the engines' names.

Nothing here has a clock: the same files give the same report, byte for byte, wherever they were judged.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

from attrs import Factory, define, frozen

from schedspec.spec.catalogue import registry
from schedspec.spec.fleets.judge import Fleet, FleetVerdict, judge_fleet
from schedspec.spec.fleets.router_log import RouterLog, is_router_log, read_router_log
from schedspec.spec.fleets.rules import RULES, Broken
from schedspec.spec.fleets.stays import NS_PER_WINDOW, Witness
from schedspec.spec.registry import Rule
from schedspec.spec.trace import TraceError, TraceWriter

from .archives import plain_name, unpacked
from .check import results
from .files import file_name, replace_file
from .names import counted
from .page import Page
from .project import Shortening
from .recorded import Judged, case_of

SHORTENING = Shortening(most_messages=40_000)
MOST_STORY_LINES = 12
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


def engine_folder(engine: str) -> Path:
    """Inside of the report's folder, and no two engines have the same: whatever of a name is no name of a folder is
    told by a digest."""
    name = "/".join(file_name(part) or "_" for part in engine.split("/"))
    digest = "" if name == engine else "-" + sha256(engine.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return Path("engines") / (name + digest)


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
                    "verdict": self.fleet.verdicts[rule],
                    "exercised": self.fleet.exercised[rule],
                    "breaks": self.fleet.breaks.get(rule, 0),
                }
                for rule in RULES
            },
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
            told[rule.id] = {"verdict": verdict, "exercised": sum(one["exercised"] for one in ones)}
            broken = {
                result["engine"]: result["broken"][rule.id] for result in self.engines if rule.id in result["broken"]
            }
            if broken:
                told[rule.id] |= {
                    "engines": sorted(broken),
                    "breaks": sum(one["breaks"] for one in broken.values()),
                    "first_ns": min(one["first_ns"] for one in broken.values()),
                    "first_engine": min(broken, key=lambda engine: (broken[engine]["first_ns"], engine)),
                }
        return told

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
                f"{before['path']} and {after['path']} both claim engine {after['engine']} at now_ns "
                f"{after['begin_ns']}: leave one of them out if it is a copy, or give each engine a name of its own"
            )


# --- what is left behind -------------------------------------------------------------------------------------


def write_fleet(folder: Path, report: FleetReport) -> None:
    """report.json, report.md, and for each failure its page and its shortest trace."""
    for result in report.engines:
        for rule, failure in result["failures"].items():
            at = folder / engine_folder(result["engine"]) / "failures"
            at.mkdir(parents=True, exist_ok=True)
            (at / f"{rule}.md").write_text(failure["page"])
            (at / f"{rule}.jsonl").write_text(failure["trace"])
    for rule, one in first_of_each(report.fleet.broken).items():
        at = folder / "fleet"
        at.mkdir(parents=True, exist_ok=True)
        (at / f"{rule}.md").write_text("\n".join(fleet_page(one, report)) + "\n")
    replace_file(folder / "report.json", json.dumps(report.plain, indent=1) + "\n")
    replace_file(folder / "report.md", "\n".join(_report(report)) + "\n")


def first_of_each(broken: Sequence[Broken]) -> dict[str, Broken]:
    first: dict[str, Broken] = {}
    for one in broken:
        first.setdefault(one.rule, one)
    return first


def fleet_page(one: Broken, report: FleetReport) -> list[str]:
    """A broken rule of the fleet: what it asks, what was seen, and the story of the request over all engines."""
    rule: Rule = RULES[one.rule]
    facts = ", ".join(f"{name} = {value}" for name, value in one.facts.items())
    lines = [f"{rule.id}: {rule.statement} ({rule.level})", "===", ""]
    lines += [f"* **However** {one.conjunct} asks that {one.says}; here {facts}, at now_ns {one.now_ns:,}."]
    story = _story(one.request, report)
    if story:
        left_out = len(story) - MOST_STORY_LINES
        shown = story[:MOST_STORY_LINES] + ([f"… {left_out} more"] if left_out > 0 else [])
        lines += ["", "```text", *shown, "```"]
    return [*lines, "", f"* **Why** {rule.why}"]


def _story(request: str, report: FleetReport) -> list[str]:
    """What engines and router recorded of it, in order of time."""
    told: list[tuple[int, str]] = []
    for result in report.engines:
        for row in result["stays"]:
            if row[0] == request and request:
                told.append((row[3], f"{row[3]:>16,}  {result['engine']}: takes it in"))
                told += [(row[4], f"{row[4]:>16,}  {result['engine']}: {row[5]}")] if row[4] is not None else []
    for event in report.router.events if report.router is not None else ():
        if request and event.request == request:
            told.append(
                (event.now_ns, f"{event.now_ns:>16,}  router: {event.kind} {event.detail} {event.engine}".rstrip())
            )
    return [line for _, line in sorted(told)]


def _report(report: FleetReport) -> Any:
    plain = report.plain
    names = {result["engine"] for result in report.engines}
    yield f"# {counted(len(names), 'engine')}, {counted(plain['messages'], 'message')}"
    for fault in plain["faults"]:
        yield f"\nVoid: {fault}."
    yield "\n| rule | verdict | engines that break it | breaks | first (now_ns) | at | exercised |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for rule, one in report.rules.items():
        many, breaks = len(one.get("engines", ())) or "", one.get("breaks", "")
        first = f"{one['first_ns']:,} | {one['first_engine']}" if many else " | "
        yield f"| {rule} | {one['verdict']} | {many} | {breaks} | {first} | {one['exercised']:,} |"
    for rule, one in plain["fleet"].items():
        yield f"| {rule} | {one['verdict']} | | {one['breaks'] or ''} | | | {one['exercised']:,} |"
    for broken in first_of_each(report.fleet.broken).values():
        yield ""
        yield from fleet_page(broken, report)
    for result in report.engines:
        for rule in result["failures"]:
            yield f"\n{result['engine']}: [{rule}]({engine_folder(result['engine']).as_posix()}/failures/{rule}.md)"
