"""The page of a failure: what an engineer of the project under test needs of a bug report, on one screen.

A `Case` is a broken rule in a run.  `Page` says it in words, and gives them as lines of text (a terminal, a test's
message) or as Markdown; both are at most `MOST_LINES` lines of `WIDTH` columns: a long table is folded in the middle.
"""

import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from attrs import evolve, frozen

from schedspec.spec.catalogue import registry
from schedspec.spec.verdicts import Violation
from schedspec.spec.vocabulary import Header, Message

from .determinism import Difference
from .names import Names, bounded, counted, is_call, printable, short_name
from .narrate import Line, Teller, let, proof, step_table, version_in_words, who_matters
from .timeline import Timeline

WIDTH = 120
MOST_LINES = 40
LEAST_ROWS = 6
MOST_TOLD = 16
"""A page that has a lot to say is rather too long than without its table."""

VOID = "void"
"""What stands for a rule where the protocol was broken."""
ANSWERS = {
    "submit": "a receipt",
    "cancel": "deltas, and [] for who is unknown or has ended",
    "notify": "deltas, and [] for news that say nothing to it",
    "step": "a plan, and one that runs nobody where nothing can run",
    "complete": "deltas, and [] for a result that came before, or of who is gone",
    "observe": "a snapshot, or None",
}
"""What is an answer, whatever was asked."""
TAG = re.compile(r"<(?=[A-Za-z/!?])")
LONG_NAME = re.compile(r"[^\s\[(]{60,}")
SECOND_TIMES = {
    "ADMIT-9": "with other ends of requests, of which no result has told anything yet,",
    "DET-1": "in another process, under another hash seed",
    "DET-2": "in the same process, after other runs",
    "DET-3": "in another process, whose wall clock runs faster",
}

Kind = Literal["title", "text", "bad"]


@frozen(kw_only=True)
class Case:
    """A broken rule in a run, or `VOID`.  `mode` and `found`: how it was looked for; `again`: the command that shows it
    once more; `files`: where the rest is.  `before`: calls of a long run that came before these messages; then
    `timeline` knows how they ended.  Of a broken protocol `unanswered` is the call that got no answer ("": the last
    message is the bad one), and `told` what the subject left beside it: a traceback, or the end of its stderr."""

    rule: str
    header: Header
    messages: Sequence[Message]
    violation: Violation | None = None
    difference: Difference | None = None
    mode: str = ""
    found: str = ""
    also: Sequence[str] = ()
    again: str = ""
    files: str = ""
    before: int = 0
    timeline: Timeline | None = None
    unanswered: str = ""
    told: Sequence[str] = ()


@frozen
class Row:
    """A line of the page, and whether it is the one that breaks the rule."""

    kind: Kind
    text: str


class Page:
    def __init__(self, case: Case) -> None:
        self.case = case
        self.names = names = Names(case.messages)
        self.title = printable(_title(case))
        self.lines = [evolve(n, call=names.short(n.call), answer=names.short(n.answer)) for n in case_table(case)]
        told = (("Subject", _subject(case)), *case_proof(case))
        self.above = [(word, _shorter(names.short(text))) for word, text in told]
        self.told = list(bounded(case.told, MOST_TOLD))
        self.below = [(word, printable(text)) for word, text in _notes(case)]
        self.matter = frozenset() if case.violation is None else who_matters(case.messages, case.violation)

    def text(self, width: int = WIDTH) -> list[Row]:
        """For a terminal: words in a column of their own."""
        width = min(width, WIDTH)
        head = [Row("title", line) for line in wrapped(self.title, width, "", "  ")]
        above = [Row("text", line) for pair in self.above for line in paragraph(*pair, width)]
        below = [Row("text", line) for pair in self.below for line in paragraph(*pair, width)]
        legend = [Row("text", f"     {line}") for line in self.legend(width - 5)]
        told = [Row("text", f"     {line}") for line in self.told]
        room = MOST_LINES - len(head) - len(above) - len(below) - len(legend) - len(told)
        return [*head, *above, *self._table(width, room), *legend, *told, *below]

    def markdown(self) -> list[str]:
        """For a tracker: a title, the proof as a list, the table as it is."""
        head = [*wrapped(as_text(self.title), WIDTH, "", ""), "=" * 3, ""]
        above = [line for pair in self.above for line in item(*pair)]
        below = [line for pair in self.below for line in item(*pair)]
        legend = self.legend(WIDTH)
        room = MOST_LINES - len(head) - len(above) - len(legend) - len(below) - len(self.told) - 4
        rows = [row.text for row in self._table(WIDTH, room)]
        table = ["", "```text", *rows, *legend, "```", ""] if rows else [""]
        told = [*fenced(self.told), ""] if self.told else []
        return [*head, *above, *table, *told, *below]

    def legend(self, width: int = WIDTH) -> list[str]:
        """How entries are written, by an example."""
        plans = [m.answer for m in self.case.messages if m.kind == "step" and m.answer.request]
        if not plans:
            return []
        name = _shorter(self.names.short(plans[-1].request[0]))
        start, tokens = plans[-1].start[0], plans[-1].tokens[0]
        which = f"position {start}" if tokens == 1 else f"positions {start} to {start + tokens - 1}"
        star = "; *: it samples a token" if any(any(plan.samples) for plan in plans) else ""
        text = f"{name}[{start},{start + tokens}): {which} of {name}, counted from 0{star}"
        return wrapped(text, width, "", "")

    def _table(self, width: int, room: int) -> list[Row]:
        """The head, and as many messages as there is room for: the bad one, who matters, and what came last."""
        if not self.lines:
            return []
        call = min(max(len(line.call) for line in self.lines), (width - 12) * 2 // 5)
        cells = [_row(line, call, width) for line in self.lines]
        kept = kept_rows(self.lines, [len(rows) for rows in cells], max(room, LEAST_ROWS) - 1, self.matter)
        rows = [Row("text", f"     #  {'call':{call}}  answer")]
        previous = -1
        for place in kept:
            if place > previous + 1:
                rows.append(Row("text", f"     …  {counted(place - previous - 1, 'message')} left out here"))
            rows += [Row("bad" if self.lines[place].bad else "text", text) for text in cells[place]]
            previous = place
        return rows


def case_table(case: Case) -> list[Line]:
    """All rows, the bad one marked."""
    matter = frozenset() if case.violation is None else who_matters(case.messages, case.violation)
    bad = case.violation.message if case.violation is not None else None
    lines = step_table(case.messages, bad, matter, caching=case.header.settings.prefix_caching, before=case.before)
    if case.difference is not None:
        return [evolve(n, bad=n.number == case.difference.message) for n in lines]
    fault = case.violation.facts.get("fault") if case.violation is not None else None
    if fault is not None and case.violation is not None and case.violation.message > len(case.messages):
        call = case.unanswered or "the next call"
        lines.append(Line(lines[-1].number + 1 if lines else 1, call, str(fault), True))
    elif fault is not None:
        lines = [evolve(line, answer=f"{line.answer} – {fault}") if line.bad else line for line in lines]
    return lines


def case_proof(case: Case) -> Iterator[tuple[str, str]]:
    if case.rule == VOID and case.violation is not None:
        yield "Let", let(case.header.settings, case.messages, Teller())
        fault = str(case.violation.facts.get("fault"))
        yield "Then", f"it is asked: {case.unanswered}" if case.unanswered else _last_call(case)
        yield "However", f"{fault}; of what this run would have shown from here on nothing is known"
        method = fault.split(":")[0].split(" ")[0]
        if method in ANSWERS:
            yield "Instead", f"{method} answers {ANSWERS[method]} (spec/PROTOCOL.md)"
    elif case.difference is not None:
        yield from _difference(case, case.difference)
    elif case.violation is not None:
        yield from proof(case.header, case.messages, case.violation)


def _difference(case: Case, difference: Difference) -> Iterator[tuple[str, str]]:
    settings = case.header.settings
    yield "Let", let(settings, case.messages, Teller(caching=settings.prefix_caching))
    calls = [m for m in case.messages if is_call(m)]
    again = SECOND_TIMES.get(case.rule, "once more")
    if difference.message <= len(calls):
        call, answer = Teller().told(calls[difference.message - 1])
        yield "Then", f"the first time {call} answers: {answer}"
    yield "However", f"the same calls {again} get another answer to message {difference.message}"
    yield "Instead", "both answers are the same"


def _last_call(case: Case) -> str:
    lines = [line for line in case_table(case) if line.bad]
    return f"{lines[-1].call} was answered" if lines else "the next answer cannot be read"


def _subject(case: Case) -> str:
    version = short_name(version_in_words(case.header.capabilities))
    parts = [f"{short_name(case.header.subject)} ({version})"]
    parts += [f"mode {case.mode}"] if case.mode else []
    parts.append(f"seed {case.header.seed}")
    return ", ".join(parts) + (f"; {case.found}" if case.found else "")


def _title(case: Case) -> str:
    rule = registry.rules.get(case.rule)
    if rule is None:
        return f"{VOID}: the subject broke the protocol, so this run is judged no further"
    return f"{rule.id}: {rule.statement} ({rule.level})"


def _notes(case: Case) -> Iterator[tuple[str, str]]:
    if case.also:
        yield "Also", f"broken by this trace: {', '.join(case.also)}"
    if case.rule in registry.rules:
        yield "Why", registry.rules[case.rule].why
    if case.again:
        yield "Again", case.again
    if case.files:
        yield "Files", case.files


# --- layout --------------------------------------------------------------------------------------------------


def kept_rows(lines: Sequence[Line], heights: Sequence[int], room: int, matter: frozenset[str]) -> list[int]:
    """Places of the rows to show: the bad one, submissions of who matters, and from the bad one backwards."""
    bad = next((n for n, line in enumerate(lines) if line.bad), len(lines) - 1)
    submits = [n for n, line in enumerate(lines) if line.submits in matter and line.submits]
    wanted = [bad, *submits[: max(1, room // 3)], *range(bad - 1, -1, -1), *range(bad + 1, len(lines))]
    kept: list[int] = []
    for place in dict.fromkeys(wanted):
        trial = sorted([*kept, place])
        gaps = sum(b > a + 1 for a, b in zip([-1, *trial], trial, strict=False))
        if kept and sum(heights[n] for n in trial) + gaps > room:
            if place in submits:
                continue
            break
        kept = trial
    return kept


def _row(line: Line, call: int, width: int) -> list[str]:
    """Cells are wrapped, never cut."""
    answer = width - 10 - call
    left = wrapped(_shorter(line.call), call, "", "  ") or [""]
    right = wrapped(_shorter(line.answer), answer, "", "") or [""]
    rows = []
    for place in range(max(len(left), len(right))):
        mark = f"{'✗' if line.bad else ' '} {line.number:4}" if place == 0 else ""
        one = left[place] if place < len(left) else ""
        other = right[place] if place < len(right) else ""
        rows.append(f"{mark:6}  {one:{call}}  {other}".rstrip())
    return rows


def fenced(lines: Sequence[str]) -> list[str]:
    """As code in Markdown, whatever stands in it."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *lines, fence]


def wrapped(text: str, width: int, first: str, rest: str) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def paragraph(word: str, text: str, width: int) -> list[str]:
    if word == "Again":  # to be copied as it is
        return [f"  {word:8}{text}"]
    return wrapped(text, width, f"  {word:8}", " " * 10)


def item(word: str, text: str) -> list[str]:
    if word == "Again":
        return [f"- **{word}** `{text}`"]
    return wrapped(as_text(text), WIDTH, f"- **{word}** ", "  ")


def as_text(text: str) -> str:
    """In Markdown no tag, whatever stands in it, and nothing that moves the cursor."""
    return TAG.sub(r"\\<", printable(text))


def _shorter(text: str) -> str:
    """A name that fills half a line says enough by its ends."""
    return LONG_NAME.sub(lambda match: f"{match[0][:24]}…{match[0][-24:]}", printable(text))


def shown_path(path: Path) -> str:
    """As a person would type it from here."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_absolute() and path.is_relative_to(here) else str(path)
