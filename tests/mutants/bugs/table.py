"""What was found, for people and for programs."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from statistics import median
from textwrap import shorten

from attrs import asdict

from schedspec import __version__

from .hunt import Catch
from .registry import CATALOGUE

MOST_MESSAGES = 20


def misses(catches: Sequence[Catch]) -> list[Catch]:
    """Not found by a rule that names the bug, or with a trace that is too long."""
    return [one for one in catches if one.messages is None or one.messages > MOST_MESSAGES]


def line(one: Catch) -> str:
    """One search."""
    if one.rule is None:
        why = f"; {one.fault}" if one.fault else ""
        return f"{one.bug} seed {one.seed}: MISSED after {one.runs} runs, {one.seconds} s; broke {_list(one.also)}{why}"
    found = f"{one.bug} seed {one.seed}: {one.conjunct} in {one.stage}, {one.runs} runs, {one.found_s} s"
    return f"{found}; {one.messages} messages after {one.seconds} s; also {_list(one.also)}"


def _list(rules: Iterable[str]) -> str:
    return ", ".join(rules) or "nothing"


COLUMNS = ("bug", "caught by", "found by", "runs", "s", "CPU s", "messages", "what went wrong")
WIDEST_TITLE = 70


def rows(catches: Sequence[Catch]) -> Iterator[tuple[str, ...]]:
    """A row per bug; of several seeds the most runs, seconds and messages."""
    for id, group in groupby(sorted(catches, key=lambda one: _place(one.bug)), key=lambda one: one.bug):
        seeds = list(group)
        yield (
            id,
            _each(one.rule or "MISSED" for one in seeds),
            _each(one.mode or "-" for one in seeds),
            str(max(one.runs for one in seeds)),
            f"{max(one.seconds for one in seeds):.1f}",
            f"{max(one.cpu_s for one in seeds):.1f}",
            _each(str(one.messages or "-") for one in seeds),
            CATALOGUE[id].title,
        )


def _place(id: str) -> tuple[str, int]:
    """B01, B01.1, B01.2, B03."""
    bug, _, number = id.partition(".")
    return bug, int(number or 0)


def _each(words: Iterable[str]) -> str:
    """One word if it is the same for all seeds."""
    return ", ".join(dict.fromkeys(words))


def as_text(catches: Sequence[Catch]) -> str:
    table = [COLUMNS, *((*row[:-1], shorten(row[-1], WIDEST_TITLE, placeholder=" …")) for row in rows(catches))]
    widths = [max(len(row[place]) for row in table) for place in range(len(COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return "\n".join([*lines, "", summary(catches)])


def as_page(catches: Sequence[Catch], command: str, depth: str) -> str:
    """The same in Markdown, with where each bug was reported."""
    seeds = ", ".join(str(seed) for seed in sorted({one.seed for one in catches}))
    lines = [
        "# Public bugs, planted",
        "",
        f"Written by `{command}`: seeds {seeds}, depth {depth}. Of several seeds the most runs and seconds are shown;",
        "*found by* is the kind of run that showed it first, *messages* is the length of its shortest trace.",
        "",
        f"{summary(catches)}.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        f"|{' --- |' * len(COLUMNS)}",
    ]
    for id, *middle, title in rows(catches):
        bug = CATALOGUE[id]
        lines.append(f"| [{id}]({bug.url}) | {' | '.join(middle)} | {title} |")
    return "\n".join(lines) + "\n"


def summary(catches: Sequence[Catch]) -> str:
    bugs = {one.bug for one in catches}
    missed = sorted({one.bug for one in misses(catches)})
    found = f"{len(bugs) - len(missed)} of {len(bugs)} found in every seed"
    if not catches:
        return found
    took = (
        f"median {median(one.seconds for one in catches):.1f} s ({median(one.cpu_s for one in catches):.1f} s of CPU)"
    )
    return f"{found}, {took}; missed: {', '.join(missed) or 'none'}"


def as_json(catches: Sequence[Catch], depth: str) -> str:
    plain = {
        "schedspec": __version__,
        "depth": depth,
        "seeds": sorted({one.seed for one in catches}),
        "bugs": {id: CATALOGUE[id].title for id in dict.fromkeys(one.bug for one in catches)},
        "missed": sorted({one.bug for one in misses(catches)}),
        "median_s": median([one.seconds for one in catches]) if catches else None,
        "median_cpu_s": median([one.cpu_s for one in catches]) if catches else None,
        "searches": [asdict(one) for one in catches],
    }
    return json.dumps(plain, indent=1) + "\n"
