"""A failure with all that its page draws: the case, the run as a picture, the test to paste; live, or from a folder.

A folder of a report has `report.json` and `failures/`; of each failure the trace is judged again, so that what is shown
is what the rules of today say of it.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from schedspec.spec.catalogue import registry
from schedspec.spec.errors import ProtocolError
from schedspec.spec.monitor import Monitor, StepView
from schedspec.spec.pooled import new_monitor
from schedspec.spec.rules.base import TraceRule
from schedspec.spec.verdicts import Violation
from schedspec.spec.vocabulary import Header, Message
from schedspec.spec.waiting import LIMITS, Reason, reason_of

from .archives import read_recorded
from .determinism import Difference
from .names import bounded, is_call
from .page import VOID, Case, shown_path
from .pasted import as_test, has_test
from .stored import Stored, load_failure, read_json
from .timeline import Decision, Timeline
from .voids import void_case

NEIGHBOURHOOD = 2_000
"""Of a long run so many messages before a break are kept."""
SHORT = 120


@frozen(kw_only=True)
class Shown:
    """`test`: the pasted test, "" where there is none; `trace`: the file that has the run, as a person types it."""

    case: Case
    timeline: Timeline
    test: str = ""
    test_name: str = ""
    trace: str = ""


class Reasons(TraceRule):
    """Why whoever waits waits, computed from the trace where the scheduler does not say it."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.last: dict[str, str] = {}

    def on_step(self, m: Monitor, view: StepView) -> None:
        if not self.timeline.columns:
            return
        waiting = {track.id: track for track in m.tracks.values() if track.waits and not track.ended}
        self.last = {request: limit for request, limit in self.last.items() if request in waiting}
        for request, track in waiting.items():
            if request not in m.parking.parked:
                self.tell(request, reason_of(m, view, track), view.plan.step)

    def tell(self, request: str, reason: Reason, step: int) -> None:
        numbers = "" if reason.needed is None else f" ({reason.needed:,} needed, {reason.left:,} left)"
        says = f"{request} waits for {reason.limit}: {LIMITS[reason.limit]}{numbers}"
        cell = self.timeline.columns[-1].cells.get(request)
        if cell is not None:
            cell.why = f"{reason.limit}{numbers}"
        if self.last.get(request) != reason.limit:
            self.last[request] = reason.limit
            self.timeline.decisions.append(Decision(self.timeline.message, step, request, "waits", says, computed=True))


def watched(header: Header, messages: Iterable[Message], *, apart: bool = False) -> tuple[Timeline, list[Violation]]:
    """The picture of a run, and the first break of each rule."""
    timeline = Timeline(header, apart=apart)
    monitor = new_monitor(header, explain=True)
    if hasattr(monitor, "listen") and "wait_log" not in header.capabilities.claims:
        monitor.listen(Reasons(timeline))
    broken: dict[str, Violation] = {}
    judges = True
    for message in messages:
        timeline.feed(message)
        if judges:
            try:
                for violation in monitor.feed(message):
                    broken.setdefault(violation.rule, violation)
            except ProtocolError as fault:
                judges = False  # a run that makes no sense from here on is still drawn
                if fault.rule is not None and fault.rule in registry.rules:
                    broken.setdefault(fault.rule, by_protocol(fault, fault.rule, timeline.message))
    return timeline, list(broken.values())


def by_protocol(fault: ProtocolError, rule: str, message: int) -> Violation:
    """A rule that an answer breaks so plainly that the answer is none."""
    says, facts = registry.rules[rule].statement, {"fault": str(fault)}
    return Violation(rule=rule, conjunct=f"{rule}.protocol", says=says, message=message, facts=facts)


def shown(case: Case, *, test: Sequence[str] = (), trace: str = "") -> Shown:
    """A failure whose run is at hand."""
    timeline = case.timeline or watched(case.header, case.messages, apart=is_short(case.messages))[0]
    name = f"test_{case.rule.lower().replace('-', '_')}.py"
    return Shown(case=case, timeline=timeline, test="\n".join(test), test_name=name, trace=trace)


def is_short(messages: Sequence[Message]) -> bool:
    """Each call of it may have a column of its own."""
    return len(messages) <= SHORT


# --- from a folder -----------------------------------------------------------------------------------------


def read_report(folder: Path) -> tuple[dict[str, Any], list[Shown]]:
    """What `report.json` says, and each failure that has a trace.  Raises ValueError with one sentence."""
    told = read_json(folder / "report.json")
    if not isinstance(told, dict) or not isinstance(told.get("rules"), dict):
        raise ValueError(f"{folder / 'report.json'} has no rules: it is no report of schedspec")
    for rule, result in told["rules"].items():
        if not isinstance(result, dict) or not {"verdict", "level"} <= result.keys():
            raise ValueError(f"{folder / 'report.json'}: {rule} has no verdict and level: it is no report of schedspec")
    traces = {path.stem: path for path in (folder / "failures").glob("*.jsonl")}
    rules = sorted(traces.keys() & registry.rules.keys(), key=lambda rule: registry.rules[rule].order)
    void = [_stored_void(traces[VOID])] if VOID in traces else []
    return told, void + [stored_failure(traces[rule], told) for rule in rules]


def _stored_void(trace: Path) -> Shown:
    stored = load_failure(trace.with_suffix(".json"))
    header, messages = read_recorded(trace)
    case = void_case(
        header, list(messages), stored.conjunct, again(trace, stored), stored.unanswered, bounded(stored.told)
    )
    return shown(case, trace=shown_path(trace))


def stored_failure(trace: Path, told: Mapping[str, Any]) -> Shown:
    """A failure of its trace and, where it is there, its script."""
    rule, script = trace.stem, trace.with_suffix(".json")
    stored = load_failure(script) if script.exists() else None
    header, messages = read_recorded(trace)
    run = list(messages)
    timeline, broken = watched(header, run, apart=is_short(run))
    violation = next((v for v in broken if v.rule == rule), None)
    case = Case(
        rule=rule,
        header=header,
        messages=run,
        violation=violation,
        difference=_difference(stored),
        mode=str(told.get("mode", "")),
        found=f"found in {stored.stage}, then shortened" if stored and stored.stage else "",
        also=[
            v.rule for v in broken if violation is not None and v is not violation and v.message == violation.message
        ],
        again=again(trace, stored),
        timeline=timeline,
    )
    test = as_test(stored.subject, rule, stored.script, only=bool(stored.only)) if stored and has_test(rule) else ()
    return shown(case, test=list(test), trace=shown_path(trace))


def again(trace: Path, stored: Stored | None) -> str:
    """The command that shows it once more."""
    if stored is None:
        return f"schedspec trace {shown_path(trace)}"
    return f"schedspec replay-failure {shown_path(trace.with_suffix('.json'))}"


def _difference(stored: Stored | None) -> Difference | None:
    """Two runs that differ: at which message, the file says."""
    if stored is None or stored.message is None or has_test(stored.rule):
        return None
    return Difference(stored.script, stored.message)


# --- a long run --------------------------------------------------------------------------------------------


def neighbourhoods(trace: Path, violations: Sequence[Violation], around: int = NEIGHBOURHOOD) -> list[Case]:
    """Breaks late in a run of any length, each with the messages before it.  The run is read once more; memory is that
    of these messages, and of what lives."""
    header, messages = read_recorded(trace)
    monitor = new_monitor(header, explain=True)
    drawn = {violation.conjunct: Timeline(header, max(1, violation.message - around + 1)) for violation in violations}
    kept: deque[Message] = deque(maxlen=around)
    before, last = 0, max(violation.message for violation in violations)
    cases: dict[str, Case] = {}
    for number, message in enumerate(islice(messages, last), start=1):
        before += len(kept) == around and is_call(kept[0])
        kept.append(message)
        broken = _broken_by(monitor, message)
        for violation in violations:
            if number <= violation.message:
                drawn[violation.conjunct].feed(message)
            if number == violation.message:
                found = next((v for v in broken if v.conjunct == violation.conjunct), violation)
                found = evolve(found, message=len(kept))
                timeline = drawn[violation.conjunct]
                cases[violation.conjunct] = Case(
                    rule=violation.rule,
                    header=header,
                    messages=list(kept),
                    violation=found,
                    mode="recorded",
                    before=before,
                    timeline=timeline,
                )
    return [cases[violation.conjunct] for violation in violations if violation.conjunct in cases]


def _broken_by(monitor: Any, message: Message) -> list[Violation]:
    try:
        broken: list[Violation] = monitor.feed(message)
    except ProtocolError:
        return []  # the run ends here: it was judged before
    return broken


def beginning(trace: Path, most: int) -> Timeline:
    """Of a run that breaks nothing; `most`: so many messages of it can be read."""
    header, messages = read_recorded(trace)
    return watched(header, islice(messages, min(most, NEIGHBOURHOOD)))[0]
