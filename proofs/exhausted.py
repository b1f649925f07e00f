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
# exercised: how often the precondition of a rule held on the way through every transition, if they are judged; broken:
# the rules that the subject breaks.
"""
QUESTIONS = {"LIVE-1": "work", "LIVE-2": "progress"}
"""Rule -> the question that is asked of it."""

SHARED = {"PRE-6": ("that a preemption leaves somebody running: ", "; that completed tokens grow: ", "progress")}
"""A rule of which one half is judged on transitions, and the other is part of a question."""

Plain = dict[str, Any]


def read(path: Path = PATH) -> list[Plain]:
    """The cases, as plain data."""
    cases: list[Plain] = tomllib.loads(path.read_text(encoding="utf-8"))["exhausted"]
    return cases


def write(cases: Iterable[Plain], path: Path = PATH) -> None:
    blocks = ("\n".join(["[[exhausted]]", *(f"{k} = {_toml(v)}" for k, v in case.items()), ""]) for case in cases)
    path.write_text("\n".join([_HEAD, *blocks]), encoding="utf-8")


def exhausted_rules() -> dict[str, str]:
    """Rule -> where it is exhausted, for its card: every transition was judged, or every cycle looked for."""
    cases = read()
    told = {rule: _asked(cases, question) for rule, question in QUESTIONS.items()}
    judged: set[str] = set().union(*(case["exercised"] for case in _clean(cases)))
    told |= {rule: _judged(cases, rule) for rule in sorted(judged)}
    for rule, (one, other, question) in SHARED.items():
        told[rule] = one + told[rule] + other + _asked(cases, question)
    return told


def _clean(cases: list[Plain]) -> list[Plain]:
    return [case for case in cases if case["subject"] == "reference"]


def _asked(cases: list[Plain], question: str) -> str:
    where = [case for case in _clean(cases) if case[question] == "exhausted"]
    return _in_words(where, "", [case["name"] for case in cases if case[question] == "refuted"])


def _judged(cases: list[Plain], rule: str) -> str:
    """A SHOULD the reference breaks itself, with settings that ask for it: it is its own twin."""
    where = [case for case in _clean(cases) if rule in case["exercised"] and rule not in case["broken"]]
    times = sum(case["exercised"][rule] for case in where)
    broken = [case for case in cases if rule in case["broken"]]
    twins = [case["name"] for case in _clean(broken) or broken]
    return _in_words(where, f", each transition judged, the rule exercised {times:,} times", twins)


def _in_words(where: list[Plain], how: str, twins: list[str]) -> str:
    states, transitions = (sum(case[count] for case in where) for count in ("states", "transitions"))
    requests, clients = (max(case[count] for case in where) for count in ("requests", "clients"))
    blocks = max(case["settings"]["blocks"] for case in where)
    who = f"at most {requests} requests at a time, {_many(clients, 'client')} and {blocks} blocks"
    size = f"{states:,} states, {transitions:,} transitions{how}"
    return f"every run of the reference in {_many(len(where), 'scope')} of {who} ({size}); refuted: {', '.join(twins)}"


def _many(number: int, thing: str) -> str:
    return f"{number} {thing}" + "s" * (number != 1)


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name} = {_toml(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
