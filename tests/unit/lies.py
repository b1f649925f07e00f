"""Recorded runs that lie: small changes of good ones, and what each monitor says of them."""

import io
import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

from schedspec.conformance.driver import Driver
from schedspec.conformance.project import Shortening
from schedspec.conformance.recorded import Judged, judge
from schedspec.conformance.walks import walk
from schedspec.optimized.monitor import BulkMonitor
from schedspec.optimized.reading import ColumnLoads
from schedspec.reference import make
from schedspec.spec.monitor import Monitor
from schedspec.spec.trace import TraceWriter, read_trace
from schedspec.spec.vocabulary import CLAIMS, CONSTANTS, LEVELS, Header, Message

Line = dict[str, Any]
Lines = list[Line]
Lie = Callable[[Random, Lines], None]


def recorded(seed: int) -> Lines:
    """A good run of the reference: one pool or two, with prefix caching, drafts and whatever else a walk draws."""
    script = walk(seed)
    driver = Driver.start(make, script.settings, script.seed)
    driver.observe_every = 4
    driver.run(script.ops)
    driver.drain()
    return as_lines(driver.header, driver.messages)


def as_lines(header: Header, messages: list[Message]) -> Lines:
    file = io.StringIO()
    writer = TraceWriter(file, header)
    for message in messages:
        writer.write(message)
    return [json.loads(line) for line in file.getvalue().splitlines()]


# --- one change ------------------------------------------------------------------------------------------------


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of everything in it, how it is reached."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(value[key], (*path, key))


def a_place(dice: Random, line: Line) -> tuple[Any, Any]:
    """What holds it, and its key there.  What every line has is seldom chosen: each would be refused the same."""
    found = [path for path in places(line) if path[0] not in ("schema", "type") or dice.random() < 0.1]
    *way, key = dice.choice(found)
    holder = line
    for step in way:
        holder = holder[step]
    return holder, key


def another_value(dice: Random, lines: Lines) -> None:
    holder, key = a_place(dice, dice.choice(lines))
    holder[key] = instead(dice, holder[key], lines)


def instead(dice: Random, value: Any, lines: Lines) -> Any:
    if dice.random() < 0.2:
        return dice.choice([None, True, False, 2.0, -1, 0, 1 << 63, 10**40, "", "nobody", "\ud800", [], {}, [[]]])
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return dice.choice([value + 1, value - 1, value + dice.randint(1, 99), 0, -value, 1 << 32])
    if isinstance(value, str):
        asked = (line.get("request") for line in lines)
        ids = [request["id"] for request in asked if isinstance(request, dict) and "id" in request]
        return dice.choice([*NAMES, *ids])
    if isinstance(value, list):
        return dice.choice([value[:-1], value[::-1], value + value[:1], value[1:] + value[:1]])
    return value


NAMES = ["r1", "default", "stop", "length", "accepted", "refused", "running", "waiting", "took", "gave", "admitted"]
NAMES += ["finished", "preempted", "recompute", "swap", "prefill", "decode", "kv_blocks", *LEVELS]


def without_a_part(dice: Random, lines: Lines) -> None:
    holder, key = a_place(dice, dice.choice(lines))
    del holder[key]


def a_part_twice(dice: Random, lines: Lines) -> None:
    line = dice.choice(lines)
    lists = [path for path in places(line) if isinstance(path[-1], int)]
    if lists:
        *way, place = dice.choice(lists)
        holder: Any = line
        for step in way:
            holder = holder[step]
        holder.insert(dice.randint(0, len(holder)), deepcopy(holder[place]))


def without_a_line(dice: Random, lines: Lines) -> None:
    del lines[dice.randrange(1, len(lines))]


def a_line_twice(dice: Random, lines: Lines) -> None:
    place = dice.randrange(1, len(lines))
    lines.insert(dice.randint(place, len(lines)), deepcopy(lines[place]))


def two_lines_swapped(dice: Random, lines: Lines) -> None:
    one, other = dice.randrange(1, len(lines)), dice.randrange(1, len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    for place in (one, other):  # when they happened is no longer told apart
        lines[place]["now_ns"] = lines[place - 1].get("now_ns", 0)


def an_early_end(dice: Random, lines: Lines) -> None:
    del lines[dice.randrange(1, len(lines)) :]
    lines.append({"schema": lines[0]["schema"], "type": "end", "now_ns": lines[-1].get("now_ns", 0)})


def another_setting(dice: Random, lines: Lines) -> None:
    settings = lines[0]["settings"]
    name = dice.choice(sorted(settings))
    settings[name] = instead(dice, settings[name], lines)


def another_claim(dice: Random, lines: Lines) -> None:
    capabilities = lines[0]["capabilities"]
    claims = capabilities["claims"]
    if claims and dice.random() < 0.3:
        claims.remove(dice.choice(claims))
    else:
        claims.append(dice.choice(sorted(CLAIMS)))
        capabilities["constants"] |= {name: dice.randint(0, 40) for name in CONSTANTS}


LIES: tuple[Lie, ...] = (
    *4 * (another_value,),
    without_a_part,
    a_part_twice,
    without_a_line,
    a_line_twice,
    two_lines_swapped,
    an_early_end,
    another_setting,
    another_claim,
)


def lied(dice: Random, lines: Lines) -> Lines:
    changed = deepcopy(lines)
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        if len(changed) > 2:
            dice.choice(LIES)(dice, changed)
    return changed


# --- what is said of it ------------------------------------------------------------------------------------------


def write(path: Path, lines: Lines) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def said(judged: Judged) -> dict[str, Any]:
    return {
        "status": judged.exit_status(),
        "fault": str(judged.fault),
        "first": {rule: (v.message, v.conjunct) for rule, v in judged.first.items()},
        "breaks": dict(judged.breaks),
        "exercised": dict(judged.findings.exercised),
    }


class FromOne(BulkMonitor):
    """Judges columns of any length together."""

    def __init__(self, header: Header, **options: Any) -> None:
        super().__init__(header, fewest=1, **options)


def in_columns(path: Path) -> tuple[Header, Iterator[Message]]:
    return read_trace(path, ColumnLoads(), arrays=True)


def by_each(path: Path) -> dict[str, dict[str, Any]]:
    """What the plain monitor says, and the bulk one: as it is, and of short columns too."""
    ways: dict[str, Any] = {
        "plain": (Monitor, read_trace),
        "bulk": (BulkMonitor, in_columns),
        "bulk from one": (FromOne, in_columns),
    }
    return {name: _said_by(path, monitor, read) for name, (monitor, read) in ways.items()}


def _said_by(path: Path, monitor: type[Monitor], read: Any) -> dict[str, Any]:
    try:
        return said(judge(path, make=monitor, read=read, shortening=Shortening(0.0)))
    except ValueError as error:  # of the header: nothing is judged
        return {"status": 2, "fault": str(error)}
