"""`schedspec replay-failure`: a stored failure, run again on its subject or another one."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attrs import define, frozen

from schedspec.spec.catalogue import registry
from schedspec.spec.errors import ProtocolError
from schedspec.spec.verdicts import Violation
from schedspec.spec.vocabulary import SubjectFactory

from .determinism import Difference, Elsewhere, Pace, differs, rerun_here
from .driver import Driver, all_but, replay
from .foresight import foretold
from .page import Case
from .script import Script, from_json
from .voids import void_of


@frozen
class Stored:
    """`stage`: where it was found; `message`: the one that broke the rule, or the first at which two runs differ.  Of a
    broken protocol: the call that got no answer, and what the subject left beside it."""

    subject: str
    rule: str
    conjunct: str
    script: Script
    mode: str = "shipped"
    only: tuple[str, ...] = ()
    stage: str = ""
    message: int | None = None
    unanswered: str = ""
    told: tuple[str, ...] = ()


def read_json(path: Path) -> Any:
    """Raises ValueError with one sentence."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no file {path}: a report folder has them as failures/ID.json") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        hint = "; a trace is judged by `schedspec trace`" if path.suffix == ".jsonl" else ""
        raise ValueError(f"{path} is not JSON: {error}{hint}") from error


def load_failure(path: Path) -> Stored:
    """Read `failures/ID.json`.  Raises ValueError with one sentence."""
    plain = read_json(path)
    missing = [
        key for key in ("subject", "rule", "conjunct", "script") if not isinstance(plain, dict) or key not in plain
    ]
    if missing:
        raise ValueError(f"{path} lacks {missing[0]!r}: is it a failures/ID.json of a report?")
    try:
        script = from_json(plain["script"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path}: its script cannot be read: {error!r}") from error
    mode, only = plain.get("mode", "shipped"), tuple(plain.get("only", ()))
    stage, message = str(plain.get("stage") or ""), plain.get("message")
    at = message if isinstance(message, int) else None
    unanswered, told = str(plain.get("unanswered") or ""), plain.get("told") or ()
    lines = tuple(map(str, told)) if isinstance(told, list) else ()
    return Stored(plain["subject"], plain["rule"], plain["conjunct"], script, mode, only, stage, at, unanswered, lines)


@define
class Again:
    stored: Stored
    run: Driver
    violation: Violation | None
    fault: ProtocolError | None
    difference: Difference | None = None

    @property
    def still_fails(self) -> bool:
        if self.stored.rule == "void":
            return self.fault is not None
        return self.violation is not None or self.difference is not None

    @property
    def exit_status(self) -> int:
        if self.fault is not None:
            return 2
        return 1 if self.still_fails else 0

    def case(self) -> Case:
        """What its page says: of a rule that holds now only the table."""
        if self.fault is not None and self.violation is None:
            return void_of(self.run)
        return Case(
            rule=self.stored.rule,
            header=self.run.header,
            messages=self.run.messages,
            violation=self.violation,
            difference=self.difference,
            mode=self.stored.mode,
        )

    def sentence(self) -> str:
        if self.fault is not None:
            return f"void: {self.fault}"
        if not self.still_fails:
            return f"{self.stored.rule} holds in this run now"
        same = self.violation is None or self.violation.conjunct == self.stored.conjunct
        return f"{self.stored.rule} still fails" + ("" if same else f", now in {self.violation.conjunct}")  # type: ignore[union-attr]

    def as_json(self) -> dict[str, Any]:
        return {
            "subject": self.stored.subject,
            "rule": self.stored.rule,
            "still_fails": self.still_fails,
            "conjunct": self.violation.conjunct if self.violation else None,
            "fault": str(self.fault) if self.fault else None,
            "messages": self.run.protocol_messages,
            "exit_status": self.exit_status,
        }


def replay_stored(stored: Stored, factory: SubjectFactory, *, rerun: Sequence[str], timeout_s: float = 10.0) -> Again:
    """Run it once more, with the values that the conjunct reads."""
    ignored = all_but(stored.only)
    run = replay(factory, stored.script, name=stored.subject, explain=True, timeout_s=timeout_s, ignored=ignored)
    seen = sorted(run.breaks_of(stored.rule), key=lambda v: v.conjunct != stored.conjunct)
    again = Again(stored, run, seen[0] if seen else None, run.fault)
    if stored.rule in registry.rules and registry.rules[stored.rule].form == "run":
        again.difference = _difference(stored, factory, rerun)
    return again


def _difference(stored: Stored, factory: SubjectFactory, rerun: Sequence[str]) -> Difference | None:
    here = rerun_here(factory, [stored.script])
    if stored.rule == "ADMIT-9":
        return differs(factory, partial(foretold, factory), [stored.script], here, 0.0)
    if stored.rule == "DET-2":
        return differs(factory, lambda some: rerun_here(factory, some), [stored.script], here, 0.0)
    pace: Pace = "another" if stored.rule == "DET-3" else "as it is"
    with Elsewhere(rerun) as elsewhere:
        return differs(factory, lambda some: elsewhere.run(some, pace), [stored.script], here, 0.0)
