"""A report in a line: for its page, and as a badge (shields.io's endpoint schema, https://shields.io/badges/endpoint-badge).

What is said is counted from the verdicts; whatever was not judged is no pass, and known failures are said.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

LABEL = "schedspec"


def badge(told: Mapping[str, Any]) -> dict[str, Any]:
    """`told`: a report.json.

    >>> rules = {"A": {"verdict": "pass", "level": "MUST"}, "B": {"verdict": "fail", "level": "SHOULD"}}
    >>> badge({"rules": rules})["message"]
    '1 of 2 rules pass, 1 SHOULD fails'
    """
    message, color = _said(told)
    return {"schemaVersion": 1, "label": LABEL, "message": message, "color": color}


def headline(told: Mapping[str, Any]) -> str:
    """The same for people who read on."""
    said = _said(told)[0]
    return f"{said}; until then {_said({**told, 'faults': []})[0]}" if told.get("faults") else said


def _said(told: Mapping[str, Any]) -> tuple[str, str]:
    rules = told["rules"]
    if told.get("faults"):
        return "void: the subject broke the protocol", "critical"
    counts = Counter(result["verdict"] for result in rules.values())
    fails = Counter(result["level"] for result in rules.values() if result["verdict"] == "fail")
    parts = [f"{counts['pass']} of {len(rules)} rules pass"]
    parts += [f"{fails['MUST']} fail{'s' if fails['MUST'] == 1 else ''}"] if fails["MUST"] else []
    parts += [f"{fails['SHOULD']} SHOULD fail{'s' if fails['SHOULD'] == 1 else ''}"] if fails["SHOULD"] else []
    parts += [f"{counts['known']} known"] if counts["known"] else []
    parts += [f"{len(told['stale'])} stale in the baseline"] if told.get("stale") else []
    parts += ["interrupted"] if told.get("interrupted") else []
    return ", ".join(parts), _color(told, counts, fails)


def _color(told: Mapping[str, Any], counts: Counter[str], fails: Counter[str]) -> str:
    if fails["MUST"] or told.get("stale"):
        return "red"
    if not counts["pass"] or told.get("interrupted") or counts["unknown"]:
        return "lightgrey"
    return "yellow" if fails["SHOULD"] or counts["known"] else "green"
