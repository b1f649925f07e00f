"""What a router recorded: JSONL, one object a line, each with `schema` and `type`; the first line is the header.

    {"schema":"schedspec-router/1","type":"header","engines":["e0","e1"],"claims":["fleet_share"]}
    {"schema":"schedspec-router/1","type":"arrived","now_ns":0,"request":"a","client":"c","verdict":"accepted"}
    {"schema":"schedspec-router/1","type":"sent","now_ns":1,"request":"a","engine":"e0"}
    {"schema":"schedspec-router/1","type":"back","now_ns":5,"request":"a","engine":"e0","why":"refused"}
    {"schema":"schedspec-router/1","type":"ended","now_ns":9,"request":"a","how":"finished"}
    {"schema":"schedspec-router/1","type":"end","now_ns":9}

`arrived`: somebody asks for a generation; `sent`: an engine is given it; `back`: that engine has it no more, and it is
the router's again; `ended`: whoever asked is told so.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from attrs import Factory, define, frozen

from ..errors import shown
from ..hints import did_you_mean
from ..strict_json import Ambiguous, loads
from ..trace import TraceError

SCHEMA = "schedspec-router/1"
CLAIMS: Mapping[str, str] = {
    "fleet_share": "clients that wait anywhere in the fleet get the same service over all engines, up to a constant",
}
VERDICTS = ("accepted", "refused", "duplicate")
WHYS = ("refused", "failed", "cancelled", "lost")
HOWS = ("finished", "failed", "cancelled", "refused", "expired")
_FIELDS: Mapping[str, Mapping[str, tuple[str, ...] | None]] = {
    "arrived": {"request": None, "client": None, "verdict": VERDICTS},
    "sent": {"request": None, "engine": None},
    "back": {"request": None, "engine": None, "why": WHYS},
    "ended": {"request": None, "how": HOWS},
    "end": {},
}
"""Type of a line -> its fields, all texts, and which texts there are of one where not any will do."""


@frozen
class RouterEvent:
    """A line.  `detail`: the verdict, why or how; `engine`: of those that name one."""

    kind: Literal["arrived", "sent", "back", "ended", "end"]
    now_ns: int
    request: str = ""
    client: str = ""
    engine: str = ""
    detail: str = ""


@define
class RouterLog:
    """All of it.  `engines`: those that it may send to, by their names; `claims`: what the fleet promises."""

    engines: tuple[str, ...] = ()
    claims: frozenset[str] = frozenset()
    events: list[RouterEvent] = Factory(list)

    @property
    def has_end(self) -> bool:
        return bool(self.events) and self.events[-1].kind == "end"


def is_router_log(first_line: bytes) -> bool:
    try:
        found = loads(first_line)
    except ValueError:
        return False
    return isinstance(found, dict) and str(found.get("schema", "")).startswith("schedspec-router/")


def read_router_log(name: str, lines: Iterable[bytes]) -> RouterLog:
    """Raises TraceError at the first line that is wrong."""
    log: RouterLog | None = None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found = _object(line)
            if log is None:
                log = _header(found)
            else:
                log.events.append(_event(found, log.events[-1:]))
        except ValueError as error:
            raise TraceError(name, number, str(error)) from None
    if log is None:
        raise TraceError(name, 1, "the log of the router is empty: its first line must be the header")
    return log


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = loads(line)
    except Ambiguous as error:
        raise ValueError(f"the line has {error}") from None
    except ValueError as error:
        if not line.endswith(b"\n"):
            raise ValueError("the last line is cut off: delete it") from None
        raise ValueError(f"the line is not JSON: {error}") from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise ValueError(f"the line is no object with schema {SCHEMA!r}: is it of a router?")
    return found


def _header(found: Mapping[str, Any]) -> RouterLog:
    if found.get("type") != "header":
        raise ValueError(f"type is {shown(found.get('type'))}, but the first line must be the header")
    _known(found, ("engines", "claims"))
    engines, claims = (_texts(name, found.get(name, [])) for name in ("engines", "claims"))
    for claim in claims:
        if claim not in CLAIMS:
            raise ValueError(f"claims names {claim!r}, which no fleet can claim: {did_you_mean(claim, CLAIMS)}")
    return RouterLog(engines, frozenset(claims))


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{name} is {shown(value)}, but must be an array of names")
    return tuple(value)


def _event(found: Mapping[str, Any], before: list[RouterEvent]) -> RouterEvent:
    kind, now_ns = found.get("type"), found.get("now_ns")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise ValueError(f"type is {shown(kind)}, but there is no such type: {did_you_mean(kind, tuple(_FIELDS))}")
    if type(now_ns) is not int or now_ns < 0:
        raise ValueError(f"now_ns is {shown(now_ns)}, but must be an integer from 0 on")
    if before and before[0].kind == "end":
        raise ValueError("this line stands after the end")
    if before and now_ns < before[0].now_ns:
        raise ValueError(f"now_ns is {now_ns}, but the line before had {before[0].now_ns}: time never goes back")
    _known(found, ("now_ns", *_FIELDS[kind]))
    told = dict(_fields(kind, found))
    detail = next((told.pop(name) for name in ("verdict", "why", "how") if name in told), "")
    return RouterEvent(kind, now_ns, detail=detail, **told)  # type: ignore[arg-type]


def _fields(kind: str, found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, allowed in _FIELDS[kind].items():
        value = found.get(name, "default" if name == "client" else None)
        if not isinstance(value, str) or not value:
            raise ValueError(f"{name} is {shown(value)}, but a line of type {kind} has a text there")
        if allowed is not None and value not in allowed:
            raise ValueError(f"{name} is {value!r}, but must be one of {', '.join(allowed)}")
        yield name, value


def _known(found: Mapping[str, Any], fields: Iterable[str]) -> None:
    for name in found:
        if name not in ("schema", "type", *fields):
            raise ValueError(f"there is no field {name!r} here: {did_you_mean(name, tuple(fields) or ('now_ns',))}")
