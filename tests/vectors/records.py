"""What a vector of a rule is, and how its trace is made, judged and written.

The script is what is kept (`scripts.jsonl`); the trace beside it is what a subject of this repository answers to it,
so it can be made again at any time, byte for byte.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from attrs import NOTHING, Factory, define, fields, frozen, has

from schedspec.conformance.driver import DOOR, Driver
from schedspec.conformance.script import Script, from_json, to_json
from schedspec.reference import make
from schedspec.reference.faults import FAULTS
from schedspec.spec.catalogue import registry
from schedspec.spec.errors import ProtocolError
from schedspec.spec.monitor import Monitor
from schedspec.spec.pooled import new_monitor
from schedspec.spec.protocol import read_request
from schedspec.spec.trace import line_of
from schedspec.spec.vocabulary import OBJECTS, SCHEMA, Header, Message, SubjectFactory

FOLDER = Path(__file__).parent
RULES = FOLDER / "rules"
SCRIPTS = FOLDER / "scripts.jsonl"

Verdict = Literal["pass", "fail"]
Snapshots = Literal["all", "last", "none"]


@frozen
class Vector:
    """`subject` answers the script.  `ends`: the run goes on until everybody has ended.  `snapshots`: which of those
    that it shows are in the trace, as few as the verdict needs."""

    rule: str
    verdict: Verdict
    subject: str
    script: Script
    ends: bool = False
    snapshots: Snapshots = "all"

    @property
    def id(self) -> str:
        return f"{self.rule}.{self.verdict}"


@frozen
class Trace:
    header: Header
    messages: tuple[Message, ...]


@define
class Judged:
    """`first`: rule -> number of the message, from 1, that breaks it first, and the conjuncts that fail there."""

    first: dict[str, tuple[int, tuple[str, ...]]] = Factory(dict)
    exercised: Mapping[str, int] = Factory(dict)

    def musts(self) -> set[str]:
        return {rule for rule in self.first if registry.rules[rule].level == "MUST"}

    @property
    def is_over(self) -> bool:
        """What follows a broken state says nothing; a wrong answer at the door leaves it sound."""
        return any(registry.rules[rule].family != DOOR for rule in self.musts())


# --- making a trace ------------------------------------------------------------------------------------------


def factory_of(subject: str) -> SubjectFactory:
    factory: SubjectFactory = FAULTS[subject.removeprefix("fault:")] if subject.startswith("fault:") else make
    return factory


def trace_of(vector: Vector) -> Trace:
    """What the subject answers; of a failing vector up to the first message that breaks the rule."""
    driver = Driver.start(factory_of(vector.subject), vector.script.settings, vector.script.seed, name=vector.subject)
    driver.run(vector.script.ops)
    if vector.ends:
        driver.drain()
    messages = tuple(driver.messages)
    if vector.verdict == "fail":
        messages = messages[: driver.breaks_of(vector.rule)[0].message]
    return Trace(driver.header, tuple(_shown(messages, vector.snapshots)))


def _shown(messages: Sequence[Message], snapshots: Snapshots) -> Iterator[Message]:
    for place, message in enumerate(messages, start=1):
        is_wanted = snapshots == "all" or (snapshots == "last" and place == len(messages))
        if message.kind != "observe" or is_wanted:
            yield message


# --- judging it ----------------------------------------------------------------------------------------------


def judge(trace: Trace, make_monitor: type[Monitor] = Monitor) -> Judged:
    """Message by message, until the state is broken."""
    monitor = new_monitor(trace.header, make_monitor)
    judged = Judged()
    for number, message in enumerate(trace.messages, start=1):
        for rule, conjuncts in _broken_by(monitor, message).items():
            judged.first.setdefault(rule, (number, conjuncts))
        if judged.is_over:
            break
    judged.exercised = monitor.exercised()
    return judged


def _broken_by(monitor: Any, message: Message) -> dict[str, tuple[str, ...]]:
    try:
        found = monitor.feed(message)
    except ProtocolError as fault:
        if fault.rule is None:
            raise
        return {fault.rule: (f"{fault.rule}.protocol",)}
    broken: dict[str, set[str]] = {}
    for violation in found:
        broken.setdefault(violation.rule, set()).add(violation.conjunct)
    return {rule: tuple(sorted(conjuncts)) for rule, conjuncts in broken.items()}


# --- writing -------------------------------------------------------------------------------------------------


def lines_of(trace: Trace) -> str:
    """As JSONL, without what stands at its default."""
    items: Iterable[Header | Message] = (trace.header, *trace.messages)
    return "".join(_line({"schema": SCHEMA, **line_of(item)}) for item in items)


def _line(plain: Mapping[str, Any]) -> str:
    return json.dumps(short(plain), ensure_ascii=False, separators=(",", ":")) + "\n"


def short(value: Any) -> Any:
    """Plain data without fields that stand at their default: whoever reads it fills them in."""
    if has(type(value)):
        shown = {f.name: getattr(value, f.name) for f in fields(type(value))}
        kept = {f.name for f in fields(type(value)) if shown[f.name] != _default(f)}
        return {name: dict(item) if name in OBJECTS else short(item) for name, item in shown.items() if name in kept}
    if isinstance(value, Mapping):
        return {str(key): short(item) for key, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(value)
    return [short(item) for item in value] if isinstance(value, tuple | list) else value


def _default(field: Any) -> Any:
    factory = getattr(field.default, "factory", None)
    if factory is not None:
        return factory()
    return object() if field.default is NOTHING else field.default


def written(vectors: Iterable[Vector]) -> str:
    return "".join(_line(_plain(vector)) for vector in vectors)


def _plain(vector: Vector) -> dict[str, Any]:
    script = to_json(vector.script)
    script["settings"] = short(vector.script.settings)
    script["ops"] = [_op(op) for op in script["ops"]]
    how = {"subject": vector.subject, "ends": vector.ends, "snapshots": vector.snapshots}
    return {"id": vector.id, **how, **script}


def _op(op: Mapping[str, Any]) -> dict[str, Any]:
    """A request without what stands at its default, as in a trace."""
    if "request" not in op:
        return dict(op)
    plain = {**op, "request": short(read_request(op["request"]))}
    return {name: item for name, item in plain.items() if (name, item) != ("stop_after", None)}


def read() -> list[Vector]:
    if not SCRIPTS.exists():
        return []
    return [_vector(json.loads(line)) for line in SCRIPTS.read_text(encoding="utf-8").splitlines()]


def _vector(plain: dict[str, Any]) -> Vector:
    rule, _, verdict = plain["id"].rpartition(".")
    if verdict not in ("pass", "fail"):
        raise ValueError(f"scripts.jsonl: {plain['id']!r} is no id: it is a rule, a point, and pass or fail")
    kept: Verdict = "pass" if verdict == "pass" else "fail"
    return Vector(rule, kept, plain["subject"], from_json(plain), plain["ends"], plain["snapshots"])
