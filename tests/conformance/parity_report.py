"""A parity run for people and programs: the first difference as a table, and one object as JSON."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from schedspec.spec.vocabulary import Settings

from .names import counted
from .narrate import settings_as_code, step_table
from .parity import Difference, Parity
from .script import Script, to_json

CALLS_SHOWN = 12


def as_json(parity: Parity, subject: str, model: str) -> dict[str, Any]:
    found = parity.difference
    return {
        "subject": subject,
        "model": model,
        "seed": parity.seed,
        "compared": compared(parity),
        "workloads": parity.workloads,
        "steps": parity.steps,
        "seconds": round(parity.seconds, 3),
        "refused": parity.refused,
        "equal": found is None,
        "difference": None if found is None else _difference_json(found, parity.script),
    }


def _difference_json(found: Difference, script: Script | None) -> dict[str, Any]:
    return {
        "calls": [{"call": line.call, "answer": line.answer} for line in step_table(found.messages[:-1], None)],
        "call": step_table(found.messages, None)[-1].call,
        "fields": [{"field": a, "subject": b, "model": c, "differs": d} for a, b, c, d in rows(found)],
        "script": to_json(script) if script is not None else None,
    }


def printed(parity: Parity, subject: str, model: str) -> Iterator[RenderableType]:
    """What the command prints, part by part."""
    if parity.difference is not None and parity.script is not None:
        yield _table(parity.difference, parity.script.settings, subject, model)
    for name, why in parity.refused.items():
        yield Text(f"not compared: {name}: {why}")
    if not parity.compares_tables:
        yield Text("decisions only were compared: one of the two shows no block tables")
    yield Text(headline(parity, subject, model), style="bold green" if parity.difference is None else "bold red")


def headline(parity: Parity, subject: str, model: str) -> str:
    count = sum(parity.workloads.values())
    found = "no difference" if parity.difference is None else "a difference in " + ", ".join(parity.difference.fields)
    return (
        f"{subject} and {model}: {found}; {counted(count, 'workload')} in "
        f"{counted(len(parity.workloads), 'configuration')}, {counted(parity.steps, 'step')}, "
        f"{parity.seconds:.1f} s, seed {parity.seed}"
    )


def compared(parity: Parity) -> str:
    return "tables" if parity.compares_tables else "decisions"


def _table(found: Difference, settings: Settings, subject: str, model: str) -> RenderableType:
    """The calls before, which were answered alike; then the one that was not, side by side."""
    lines = step_table(found.messages, None)
    before = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in ("#", "call", "both answered"):
        before.add_column(column, justify="right" if column == "#" else "left")
    if len(lines) - 1 > CALLS_SHOWN:
        before.add_row("…", f"{len(lines) - 1 - CALLS_SHOWN} earlier calls", "")
    for line in lines[:-1][-CALLS_SHOWN:]:
        before.add_row(str(line.number), Text(line.call), Text(line.answer))
    sides = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("", "", subject, model):
        sides.add_column(Text(column))
    for name, theirs, ours, differs in rows(found):
        sides.add_row("  ✗" if differs else "", name, Text(theirs), Text(ours), style="bold red" if differs else "")
    parts: list[RenderableType] = [Text(f"settings: {_settings(settings)}"), *([before] if lines[1:] else [])]
    parts += [Text(f"\n{lines[-1].number}  {lines[-1].call}"), sides]
    return Group(*parts)


def _settings(settings: Settings) -> str:
    """The pool, and whatever differs from the plain settings."""
    return ", ".join(settings_as_code(settings, ("blocks", "block_size", "seats", "token_budget")))


def rows(found: Difference) -> Iterator[tuple[str, str, str, bool]]:
    """Field, the subject's answer, the model's answer, whether they differ; fields in which both are silent are out."""
    for name, theirs in found.theirs.items():
        ours = found.ours[name]
        if theirs != ours or theirs not in (None, []):
            yield name, in_words(name, theirs), in_words(name, ours), theirs != ours


def in_words(name: str, value: Any) -> str:
    """A field's value; `a[0,3)*`: a runs positions 0, 1, 2 and a token is sampled."""
    if isinstance(value, Mapping):
        return "; ".join(f"{request}: {' '.join(map(str, blocks))}" for request, blocks in value.items()) or "–"
    if name == "runs":
        runs = (f"{request}[{start},{start + tokens}){'*' * samples}" for request, start, tokens, samples in value)
        return " ".join(runs) or "nobody"
    if name in ("admitted", "resumed"):
        return ", ".join(f"{request} with {cached} cached" if cached else request for request, cached in value) or "–"
    if name == "delivered":
        return ", ".join(f"{request} token {token}" for request, token in value) or "–"
    if isinstance(value, list):
        return ", ".join(" ".join(map(str, row)) for row in value) or "–"
    return "–" if value is None else str(value)
