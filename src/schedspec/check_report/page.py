"""The pages: what they show, put together for the templates beside this file."""

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from attrs import frozen
from markupsafe import Markup

from ..conformance.badge import headline
from ..conformance.files import replace_file
from ..conformance.names import Names, bounded, counted, is_call, printable, short_name
from ..conformance.page import VOID, Page, kept_rows
from ..conformance.shown import Shown
from ..conformance.timeline import Timeline
from ..spec.catalogue import registry
from ..spec.fleets.rules import RULES as FLEET
from ..spec.vocabulary import Message
from .drawing import Drawer, Drawing, Spot

TEMPLATES = Path(__file__).parent
ROWS_SHOWN = 24
MOST_ROWS = 1_000
MOST_LETTERS = 2_000
LONGEST_TEST = 40_000
MARKED = re.compile(r"(?P<link>https?://[^\s()`]+[^\s().,;`])|`(?P<code>[^`]+)`")
VERDICTS = ("fail", "void", "known", "unknown", "pass", "not exercised", "not observable", "not claimed")


@frozen
class TableRow:
    number: int
    at: str
    call: str
    answer: str
    is_bad: bool
    is_folded: bool
    folded_before: int = 0


@frozen
class View:
    """A failure as the template has it.  `left_out`: rows of the table that are nowhere on the page; `beside`: what is
    not part of the proof."""

    rule: str
    level: str
    is_broken: bool
    title: str
    proof: Sequence[tuple[str, str]]
    why: str
    beside: Sequence[tuple[str, str]]
    rows: Sequence[TableRow]
    is_timed: bool
    left_out: int
    legend: str
    drawing: Drawing
    again: str
    trace: str
    test: str
    test_name: str
    test_is_long: bool
    told: Sequence[str]
    also: Sequence[str]

    @property
    def folded_rows(self) -> int:
        return sum(row.is_folded for row in self.rows)


def write(folder: Path, told: Mapping[str, Any], failures: Sequence[Shown], timeline: Timeline | None = None) -> None:
    """report.html, and failures/ID.html.  `timeline`: of a run that breaks nothing."""
    views = [view_of(one) for one in failures]
    (folder / "failures").mkdir(exist_ok=True)
    for view in views:
        replace_file(folder / "failures" / f"{view.rule}.html", rendered("failure.html", told, failures=[view]))
    picture = picture_of(timeline) if timeline is not None else None
    replace_file(folder / "report.html", rendered("check.html", told, failures=views, picture=picture))


def about(told: Mapping[str, Any]) -> str:
    """Of whom and how, in a line."""
    parts = [f"version {told['version']}" if told.get("version") else "", f"seed {told.get('seed', 0)}"]
    parts += [f"{name} {told[name]}" for name in ("mode", "depth", "file") if told.get(name)]
    parts += [counted(told[name], name.removesuffix("s")) for name in ("runs", "messages") if told.get(name)]
    parts += [f"{told['seconds']:.1f} s" if told.get("seconds") else "", f"schedspec {told.get('spec', '')}".strip()]
    return ", ".join(printable(part) for part in parts if part)


def rules_of(told: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """Each rule with its result and statement: what fails first, then as the catalogue has them."""
    catalogue = {**registry.rules, **FLEET}
    known = {rule: result for rule, result in told["rules"].items() if rule in catalogue}
    worst = {verdict: place for place, verdict in enumerate(VERDICTS[:4])}

    def rank(rule: str) -> tuple[int, bool, tuple[int, int]]:
        verdict = known[rule]["verdict"]
        return worst.get(verdict, 9), verdict == "fail" and known[rule]["level"] == "SHOULD", catalogue[rule].order

    for rule in sorted(known, key=rank):
        yield rule, known[rule], catalogue[rule].statement


def view_of(one: Shown) -> View:
    case, page = one.case, Page(one.case)
    level = registry.rules[case.rule].level if case.rule in registry.rules else VOID
    clock = clock_of(case.messages)
    drawing = Drawer(one.timeline, _bad_message(one), page.matter, page.names, _numbering(one), clock).drawing()
    rows = list(_rows(page, clock))
    return View(
        rule=case.rule,
        level=level,
        is_broken=case.violation is not None or case.difference is not None,
        title=page.title.removesuffix(f" ({level})"),
        proof=[(word, _cut(text)) for word, text in page.above if word != "Subject"],
        why=dict(page.below).get("Why", ""),
        beside=[(word, _cut(text)) for word, text in (*page.below, *page.above) if word in ("Also", "Subject")],
        rows=rows,
        is_timed=clock is not None,
        left_out=len(page.lines) - len(rows) + case.before,
        legend=" ".join(page.legend()),
        drawing=drawing,
        again=printable(case.again),
        trace=printable(one.trace),
        test="" if len(one.test) > LONGEST_TEST else one.test,
        test_name=one.test_name,
        test_is_long=len(one.test) > LONGEST_TEST,
        told=bounded(case.told),
        also=case.also,
    )


def picture_of(timeline: Timeline) -> Drawing:
    """Of a run that breaks nothing."""
    return Drawer(timeline, None, frozenset(), Names(()), lambda message: message).drawing()


def _bad_message(one: Shown) -> int | None:
    """As the timeline counts."""
    case = one.case
    if case.violation is not None:
        return min(case.violation.message + one.timeline.first - 1, one.timeline.message)
    if case.difference is None:
        return None
    calls = [n for n, message in enumerate(case.messages, start=1) if is_call(message)]
    return calls[min(case.difference.message, len(calls)) - 1] if calls else None


def _numbering(one: Shown) -> Callable[[int], int]:
    """A message as the timeline counts it -> its number in the step table, which leaves snapshots out."""
    numbers, number = [], one.case.before
    for message in one.case.messages:
        number += is_call(message)
        numbers.append(number)
    first = one.timeline.first
    return lambda message: numbers[message - first] if 0 <= message - first < len(numbers) else number


def clock_of(messages: Sequence[Message]) -> Callable[[int], str] | None:
    """How times are written: all in one unit; None where the clock stands still."""
    times = [message.now_ns for message in messages]
    if not times or times[0] == times[-1]:
        return None
    return "{:,} ns".format if times[-1] < 10**7 else lambda ns: f"{ns / 1e6:,.3f} ms"


def _rows(page: Page, clock: Callable[[int], str] | None) -> Iterator[TableRow]:
    lines = page.lines
    calls = [m.now_ns for m in page.case.messages if is_call(m)]
    ones = [1] * len(lines)
    kept = kept_rows(lines, ones, MOST_ROWS, page.matter) if lines else []
    shown = set(kept_rows(lines, ones, ROWS_SHOWN, page.matter)) if lines else set()
    folded = 0
    for place in kept:
        line = lines[place]
        at = min(max(line.number - page.case.before - 1, 0), len(calls) - 1)
        yield TableRow(
            number=line.number,
            at=clock(calls[at]) if clock and calls else "",
            call=_cut(printable(line.call)),
            answer=_cut(printable(line.answer)),
            is_bad=line.bad,
            is_folded=place not in shown,
            folded_before=folded if place in shown else 0,
        )
        folded = 0 if place in shown else folded + 1


def _cut(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}… ({counted(len(text), 'letter')})"


# --- templates ---------------------------------------------------------------------------------------------


def rendered(template: str, told: Mapping[str, Any], *, hidden: Sequence[str] = (), **what: Any) -> str:
    """`hidden`: verdicts whose rules are not shown at first, beside the usual ones."""
    script, digest = script_and_hash()
    counts = Counter(result["verdict"] for result in told["rules"].values())
    verdicts = [(verdict, counts[verdict]) for verdict in VERDICTS if counts[verdict]]
    said = {"faults": (), "notes": (), "command": "", **told, "headline": headline(told), "about": about(told)}
    broken = any(counts[verdict] for verdict in VERDICTS[:2])
    folded = {"not claimed", "not observable", *hidden, *(("pass",) if broken else ())}
    more = {
        "hidden": folded,
        "script": script,
        "script_hash": digest,
        "verdicts": verdicts,
        "rules": list(rules_of(told)),
    }
    return environment().get_template(template).render(told=said, **what, **more) + "\n"


@cache
def script_and_hash() -> tuple[str, str]:
    """The script is the only one that may run: the page names its hash, so that nothing that came with a run would run,
    if it were not escaped."""
    script = (TEMPLATES / "script.html").read_text(encoding="utf-8")
    return script, base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "cells": cells,
        "marked": marked,
        "brief": lambda text: _cut(printable(text)),
        "path": quote,
        "name": short_name,
        "printable": printable,
        "number": "{:,}".format,
        "counted": counted,
    }
    return made


def cells(spots: Sequence[Spot], focused: int) -> Markup:
    """Cells of a row, of which there may be thousands; the keyboard enters at number `focused` (from 1; 0: nowhere)."""
    made = [_cell(spot) for spot in spots]
    if focused:
        made[focused - 1] = made[focused - 1].replace(Markup("<td"), Markup('<td tabindex="0"'), 1)
    return Markup("").join(made)


@lru_cache(maxsize=20_000)
def _cell(spot: Spot) -> Markup:
    named = {"class": spot.classes, "title": spot.says, "style": spot.style}
    attributes = Markup("").join(Markup(' {}="{}"').format(name, value) for name, value in named.items() if value)
    return Markup("<td{}>{}</td>").format(attributes, spot.text)


def marked(text: str) -> list[tuple[str, str]]:
    """Parts of a text of the catalogue, and what each is: "link", "code" (without its backticks), or ""."""
    parts, end = [], 0
    for match in MARKED.finditer(text):
        parts += [(text[end : match.start()], ""), (match[match.lastgroup or 0], match.lastgroup or "")]
        end = match.end()
    return [(part, kind) for part, kind in (*parts, (text[end:], "")) if part]
