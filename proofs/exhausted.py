"""What is exhausted in a bound: `exhausted.toml`, the second half of the manifest.  Reading it needs no solver.

The cases are written by hand, what comes out of them by `schedspec exhaust --write`; every other run is held against
it.  Those that must be refuted are cases like any other.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("exhausted.toml")
_HEAD = """\
# Cases of the search in small scopes.  Verdicts and counts are written by `schedspec exhaust --write`; each run is held
# against them.  work: LIVE-1; progress: LIVE-2; starvation: nobody waits for ever while others come without end.
"""
RULES = {"work": ("LIVE-1", ""), "progress": ("LIVE-2", "")}
PARTS = {"progress": ("PRE-6", "that completed tokens grow: ")}
"""Question -> the rule that it answers, or a part of which."""

Plain = dict[str, Any]


def read(path: Path = PATH) -> list[Plain]:
    """The cases, as plain data."""
    cases: list[Plain] = tomllib.loads(path.read_text(encoding="utf-8"))["exhausted"]
    return cases


def write(cases: Iterable[Plain], path: Path = PATH) -> None:
    blocks = ("\n".join(["[[exhausted]]", *(f"{k} = {_toml(v)}" for k, v in case.items()), ""]) for case in cases)
    path.write_text("\n".join([_HEAD, *blocks]), encoding="utf-8")


def exhausted_rules() -> dict[str, str]:
    """Rule -> where it is exhausted, for its card."""
    return _told(RULES)


def exhausted_parts() -> dict[str, str]:
    """Rule -> where a part of it is."""
    return _told(PARTS)


def _told(questions: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    cases = read()
    return {rule: what + _in_words(cases, question) for question, (rule, what) in questions.items()}


def _in_words(cases: list[Plain], question: str) -> str:
    clean = [case for case in cases if case["subject"] == "reference" and case[question] == "exhausted"]
    twins = [case["name"] for case in cases if case[question] == "refuted"]
    states, transitions = (sum(case[count] for case in clean) for count in ("states", "transitions"))
    requests, clients = (max(case[count] for case in clean) for count in ("requests", "clients"))
    blocks = max(case["settings"]["blocks"] for case in clean)
    return (
        f"every run of the reference in {len(clean)} scopes of at most {requests} requests at a time, {clients} clients"
        f" and {blocks} blocks ({states:,} states, {transitions:,} transitions); refuted: {', '.join(twins)}"
    )


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name} = {_toml(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
