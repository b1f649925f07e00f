"""`schedspec trace`: judges a recorded run, line by line, and shortens what it finds."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from attrs import Factory, asdict, define, evolve

from schedspec import __version__
from schedspec.spec.catalogue import registry
from schedspec.spec.errors import ProtocolError
from schedspec.spec.monitor import Monitor
from schedspec.spec.pooled import PooledMonitor, new_monitor
from schedspec.spec.trace import TraceError
from schedspec.spec.verdicts import Violation
from schedspec.spec.vocabulary import Header, Message

from .archives import read_recorded
from .check import Failure, Findings, exit_status, results
from .folder import SCHEMA, empty_failures, write_case, write_told
from .names import counted, is_call
from .page import Case, shown_path
from .project import Shortening, shortened
from .script import Script
from .shown import Shown, neighbourhoods, shown

LONGEST_TO_SHORTEN = 50_000
BY_TIME = Shortening(5.0)

Read = Callable[[Path], tuple[Header, Iterator[Message]]]
MOST_KEPT = 1_000


class Witness(Protocol):
    """Told of the monitor, and of each message when the monitor has seen it."""

    def begin(self, monitor: Any) -> None: ...

    def see(self, message: Message) -> None: ...


@define
class Judged:
    """`first`: the first break of each rule, `first_ns` the time of its message, `breaks` how many there are;
    `shortened`: those of the first broken message that no other explains, with the shortest trace of each; `far`: those
    that come too late in the run to be shortened, with what came just before."""

    path: Path
    header: Header
    findings: Findings = Factory(Findings)
    first: dict[str, Violation] = Factory(dict)
    first_ns: dict[str, int] = Factory(dict)
    breaks: Counter[str] = Factory(Counter)
    shortened: list[tuple[Violation, list[Message]]] = Factory(list)
    far: list[Case] = Factory(list)
    fault: TraceError | None = None
    command: str = ""
    messages: int = 0
    seconds: float = 0.0
    monitor: str = Monitor.kind

    def exit_status(self, *, strict: bool = False) -> int:
        return 2 if self.fault is not None else exit_status(self.findings, strict=strict)


def judge(
    path: Path,
    progress: Callable[[str, float, str], None] = lambda stage, part, note: None,
    make: type[Monitor] = Monitor,
    read: Read = read_recorded,
    shortening: Shortening | None = None,
    witness: Witness | None = None,
) -> Judged:
    """Judge a trace in constant memory.  A line that cannot be read ends it: what came before stays judged."""
    begun = time.monotonic()
    header, messages = read(path)
    monitor = new_monitor(header, make)
    judged = Judged(path, header, monitor=monitor.kind)
    if witness is not None:
        witness.begin(monitor)
    message: Message | None = None
    try:
        for message in _watched(messages, progress):
            judged.messages += 1
            judged.findings.snapshots += message.kind == "observe" and message.answer is not None
            for violation in monitor.feed(message):
                judged.breaks[violation.rule] += 1
                if judged.first.setdefault(violation.rule, violation) is violation:
                    judged.first_ns[violation.rule] = message.now_ns
            if witness is not None:
                witness.see(message)
            if len(monitor.violations) > MOST_KEPT:
                del monitor.violations[MOST_KEPT:]
    except (TraceError, ProtocolError) as fault:
        judged.fault = placed(path, message, judged.messages, fault)
        rule = getattr(fault, "rule", None)
        if rule is not None:
            says, place = registry.rules[rule].statement, judged.messages
            judged.first[rule] = Violation(rule=rule, conjunct=f"{rule}.protocol", says=says, message=place)
            judged.breaks[rule] += 1
        for violation in monitor.violations:
            judged.first.setdefault(violation.rule, violation)
    _count(judged, monitor)
    _shorten(judged, progress, shortening or BY_TIME)
    judged.seconds = time.monotonic() - begun
    return judged


class MessageError(TraceError):
    """Where a file has no lines: `source: message n: sentence`."""

    def __str__(self) -> str:
        return f"{self.source}: message {self.line:,}: {self.problem}"


def placed(path: Path, message: Message | None, number: int, fault: TraceError | ProtocolError) -> TraceError:
    """With the place of the message that the monitor was told last; a reader has said its own."""
    if message is None or isinstance(fault, TraceError):
        assert isinstance(fault, TraceError)
        return fault
    if message.line:
        return TraceError(str(path), message.line, str(fault))
    return MessageError(str(path), number, str(fault))


def _watched(messages: Iterator[Message], progress: Callable[[str, float, str], None]) -> Iterator[Message]:
    for number, message in enumerate(messages):
        if number % 5_000 == 0:
            progress("judging", 0.0, counted(number, "message"))
        yield message
    progress("judging", 1.0, "read to the end")


def _count(judged: Judged, monitor: Monitor | PooledMonitor) -> None:
    findings = judged.findings
    findings.runs = 1
    findings.capabilities = judged.header.capabilities
    for rule, count in monitor.exercised().items():
        why = registry.rules[rule].binding.missing(judged.header.capabilities)
        if registry.rules[rule].form == "run":
            findings.missing[rule] = {"not observable"}  # one recording is no second run
        elif why is None:
            findings.bound[rule] += 1
            findings.exercised[rule] += count
        else:
            findings.missing[rule] = {why}
    script = Script(judged.header.settings, judged.header.seed, ())
    for rule, violation in judged.first.items():
        findings.examples_of[rule] = Failure(
            rule=rule, conjunct=violation.conjunct, stage="recorded", script=script, also=[], messages=violation.message
        )


def _shorten(judged: Judged, progress: Callable[[str, float, str], None], how: Shortening) -> None:
    """What the first broken message broke, and each broken SHOULD."""
    musts = [v for v in judged.first.values() if registry.rules[v.rule].level == "MUST"]
    place = min((v.message for v in musts), default=0)
    together = {v.rule for v in musts if v.message == place}
    todo = [v for v in musts if v.rule in registry.weakest(together)]
    todo += [v for v in judged.first.values() if registry.rules[v.rule].level == "SHOULD"]
    far = [violation for violation in todo if violation.message > LONGEST_TO_SHORTEN]
    if far:
        progress("shortening", 0.0, f"reading again: {', '.join(v.rule for v in far)} broke late")
        judged.far = neighbourhoods(judged.path, far)
    for violation in todo:
        if violation in far:
            continue
        progress("shortening", 0.5, violation.rule)
        messages = list(islice(read_recorded(judged.path)[1], violation.message))
        also = frozenset({violation.rule} | (together if violation in musts else set()))
        found, short = shortened(judged.header, messages, violation, also, how)
        judged.shortened.append((found, short))
        judged.findings.examples_of[violation.rule].messages = sum(map(is_call, short))
    if todo:
        progress("shortening", 1.0, counted(len(todo), "failure"))


def result_json(judged: Judged, *, strict: bool = False) -> dict[str, Any]:
    capabilities = judged.header.capabilities
    return {
        "schema": SCHEMA,
        "spec": __version__,
        "command": judged.command,
        "subject": judged.header.subject,
        "file": judged.path.name,
        "version": capabilities.version,
        "profile": capabilities.profile,
        "seed": judged.header.seed,
        "seconds": round(judged.seconds, 3),
        "mode": "recorded",
        "monitor": judged.monitor,
        "messages": judged.messages,
        "exit_status": judged.exit_status(strict=strict),
        "faults": [] if judged.fault is None else [str(judged.fault)],
        "rules": {rule: asdict(result) for rule, result in results(judged.findings).items()},
    }


def write_recorded(folder: Path, judged: Judged, *, strict: bool = False) -> None:
    """report.json, badge.json, and for each failure that is shown its page, its trace, its export for Perfetto."""
    failures = empty_failures(folder)
    write_told(folder, result_json(judged, strict=strict))
    for case in cases(judged, folder):
        write_case(failures, case)


def cases(judged: Judged, folder: Path) -> list[Case]:
    """What the pages of the failures that are shown say; `folder` is the report's."""
    near = [case_of(judged, violation, messages, folder) for violation, messages in judged.shortened]
    return near + [_far_case(judged, case) for case in judged.far]


def shown_cases(judged: Judged, folder: Path) -> list[Shown]:
    """The same with all that is drawn."""
    return [
        shown(case, trace="" if case.before else shown_path(folder / "failures" / f"{case.rule}.jsonl"))
        for case in cases(judged, folder)
    ]


def _far_case(judged: Judged, case: Case) -> Case:
    found = f"found in message {judged.first[case.rule].message:,} of {judged.path.name}, of which the last are shown"
    return evolve(case, found=found, again=f"schedspec trace {shown_path(judged.path)}")


def case_of(judged: Judged, violation: Violation, messages: list[Message], folder: Path) -> Case:
    """What the page of a broken rule says; `folder` is the report's."""
    return Case(
        rule=violation.rule,
        header=judged.header,
        messages=messages,
        violation=violation,
        mode="recorded",
        found=f"found in message {judged.first[violation.rule].message:,} of {judged.path.name}, then shortened",
        again=f"schedspec trace {shown_path(folder / 'failures' / violation.rule)}.jsonl",
        files=f"beside it {violation.rule}.md (this page)",
    )
