"""What a run says of a rule."""

from collections.abc import Mapping
from typing import Any, Literal

from attrs import Factory, frozen

Verdict = Literal["pass", "fail", "not exercised", "not observable", "not claimed", "unknown", "void"]


@frozen(kw_only=True)
class Violation:
    """A conjunct that failed: `STEP-4.2`, what it says, at which message, with the values that it saw."""

    rule: str
    conjunct: str
    says: str
    message: int
    facts: Mapping[str, Any] = Factory(dict)

    def __str__(self) -> str:
        facts = ", ".join(f"{name} = {value}" for name, value in self.facts.items())
        return f"{self.conjunct} at message {self.message}: {self.says}" + (f"  [{facts}]" if facts else "")
