"""A baseline: failures that are known, each with its counterexample and a reason, so that only news is red.

The file is JSON, an object with the list `known`; people write `reason` and `link`, the suite writes the rest:

    rule, conjunct   what fails; another conjunct of the same rule is news
    subject, mode    of whom; an entry of another mode is left alone
    reason, link     why that is so, and where it is followed up
    script           the counterexample, as in failures/ID.json, or the path of such a file, from this one

It is no TOML file, since `--update-baseline` rewrites it, and would lose the comments that one invites to.

Every entry is run again before anything else.  What a person has to mend (an unknown rule, an empty reason, a script
that cannot be read, another subject) is bad input, and nothing runs.  An entry whose counterexample does not fail any
more, or whose settings are refused, is stale, an error of the baseline as with pytest's `xfail_strict`: what nobody
removes would hide the next failure.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from attrs import evolve, fields_dict, frozen

from schedspec.spec.catalogue import registry
from schedspec.spec.hints import did_you_mean
from schedspec.spec.vocabulary import SubjectFactory, Unsupported

from .check import Check, Failure, Known
from .files import replace_file
from .script import Script, from_json, to_json
from .stored import Stored, read_json, replay_stored

TODO = "TODO: why is this known?"


class BaselineError(ValueError):
    """The file is not a baseline; one sentence says where and why."""


@frozen(kw_only=True)
class Entry:
    """`path`: where the script stands, if not here."""

    rule: str
    conjunct: str = ""
    subject: str = ""
    mode: str = "shipped"
    reason: str
    link: str = ""
    script: Script
    path: str = ""


@frozen(kw_only=True)
class Standing:
    """An entry, and what its counterexample does now.  `moved`: it fails in other conjuncts of the rule."""

    entry: Entry
    state: Literal["known", "moved", "passes", "refused", "other mode"]
    conjuncts: frozenset[str] = frozenset()
    note: str = ""

    def sentence(self) -> str:
        """What is wrong with a stale entry."""
        name = self.entry.conjunct or self.entry.rule
        hint = "remove it, or run with --update-baseline"
        if self.state == "moved":
            return f"{name} fails in {', '.join(sorted(self.conjuncts))} now: correct it, or run with --update-baseline"
        if self.state == "refused":
            return f"{name} cannot be tried any more ({self.note}): {hint}"
        return f"{name} passes now: {hint}"

    @property
    def is_stale(self) -> bool:
        return self.state in ("passes", "refused")

    def known(self) -> Known:
        return Known(self.conjuncts, self.entry.reason, self.entry.link)


@frozen(kw_only=True)
class Baseline:
    """`text` is what the file held when it was read; None if there was none."""

    path: Path
    entries: Sequence[Entry]
    text: str | None


# --- reading -----------------------------------------------------------------------------------------------


def read_baseline(path: Path, subject: str, *, may_be_missing: bool = False) -> Baseline:
    """Raises BaselineError with one sentence."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if may_be_missing:
            return Baseline(path=path, entries=(), text=None)
        raise BaselineError(f"there is no baseline {path}: --update-baseline makes one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BaselineError(f"the baseline {path} cannot be read: {getattr(error, 'strerror', error)}") from error
    try:
        plain = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise BaselineError(f"the baseline {path} is not JSON: {error}") from error
    if not isinstance(plain, dict) or not isinstance(plain.get("known"), list):
        raise BaselineError(f"{path} is no baseline: it must be an object with a list 'known'")
    entries = [_entry(path, f"{path}: known[{place}]", item, subject) for place, item in enumerate(plain["known"])]
    return Baseline(path=path, entries=entries, text=text)


def _entry(path: Path, where: str, plain: Any, subject: str) -> Entry:
    if not isinstance(plain, dict):
        raise BaselineError(f"{where} is {plain!r}, but must be an object")
    known = [name for name in fields_dict(Entry) if name != "path"]
    for name, value in plain.items():
        if name not in known:
            raise BaselineError(f"{where} has a field {name!r}: {did_you_mean(name, known)}")
        if name != "script" and not isinstance(value, str):
            raise BaselineError(f"{where}: {name} is {value!r}, but must be a text")
    for name in ("rule", "reason", "script"):
        if name not in plain:
            raise BaselineError(f"{where} lacks {name!r}")
    rule, other = plain["rule"], plain.get("subject", subject)
    if rule not in registry.rules:
        raise BaselineError(
            f"{where}: there is no rule {rule!r}: {did_you_mean(rule, registry.rules, '`schedspec rules`')}"
        )
    conjunct = plain.get("conjunct", "")
    if conjunct and conjunct.rpartition(".")[0] != rule:
        raise BaselineError(f"{where}: conjunct is {conjunct!r}, but must be one of {rule}")
    if not plain["reason"].strip():
        raise BaselineError(f"{where}: {rule} has an empty reason: say why its failure is known")
    if other != subject:
        raise BaselineError(f"{where} is of {other!r}, but {subject!r} is checked: each subject has its own baseline")
    return Entry(**plain | _script(path, where, plain["script"]))


def _script(path: Path, where: str, plain: Any) -> dict[str, Any]:
    """The script itself, or the path of a file that has it."""
    source = plain if isinstance(plain, str) else ""
    if source:
        try:
            plain = read_json(path.parent / source)
        except ValueError as error:
            raise BaselineError(f"{where}: {error}") from error
        plain = plain.get("script", plain) if isinstance(plain, dict) else plain
    try:
        return {"script": from_json(plain), "path": source}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BaselineError(f"{where}: its script cannot be read: {error!r}") from error


# --- running again -----------------------------------------------------------------------------------------


def stand(
    baseline: Baseline, factory: SubjectFactory, *, mode: str, rerun: Sequence[str], timeout_s: float
) -> Iterator[Standing]:
    """Run each entry's counterexample.  Raises ProtocolError if the subject breaks the protocol in one."""
    for entry in baseline.entries:
        if entry.mode != mode:
            yield Standing(entry=entry, state="other mode")
            continue
        stored = Stored(entry.subject, entry.rule, entry.conjunct, entry.script, entry.mode)
        try:
            again = replay_stored(stored, factory, rerun=rerun, timeout_s=timeout_s)
        except Unsupported as no:
            yield Standing(entry=entry, state="refused", note=str(no))
            continue
        if again.fault is not None and not again.still_fails:
            raise again.fault
        failing = frozenset(v.conjunct for v in again.run.breaks_of(entry.rule))
        if again.difference is not None:
            failing |= {f"{entry.rule}.run"}
        if not failing:
            yield Standing(entry=entry, state="passes")
        elif entry.conjunct and entry.conjunct not in failing:
            yield Standing(entry=entry, state="moved", conjuncts=failing)
        else:
            yield Standing(entry=entry, state="known", conjuncts=failing)


def expect(check: Check, standings: Sequence[Standing], *, update: bool) -> None:
    """Tell a check what is known; what has changed makes it red, unless the file is about to be rewritten."""
    for standing in standings:
        if standing.state == "known" or (standing.state == "moved" and update):
            check.findings.known.setdefault(standing.entry.rule, []).append(standing.known())
        elif standing.state != "other mode" and not update:
            check.findings.stale.append(standing.sentence())


# --- writing -----------------------------------------------------------------------------------------------


def update(baseline: Baseline, check: Check, standings: Sequence[Standing], *, strict: bool) -> str:
    """Write what is known now: entries that still fail keep what people wrote, others go, new failures come (broken
    MUSTs; with strict SHOULDs too).  The answer says in a sentence what was done."""
    findings = check.findings
    if findings.interrupted or findings.faults:
        why = "was interrupted" if findings.interrupted else "is void"
        return f"the run {why}, so the baseline {baseline.path} is left as it is"
    kept = [_kept(standing) for standing in standings if not standing.is_stale]
    new = [failure for failure in findings.failures.values() if _belongs(failure, strict=strict)]
    write_baseline(baseline, kept + [_entry_of(check, failure) for failure in new])
    for failure in new:  # and whatever it explains
        for rule in registry.closure(failure.rule) & findings.broken:
            findings.recorded[rule] = Known(frozenset({failure.conjunct}), TODO)
    gone = ", ".join(f"{s.entry.conjunct or s.entry.rule} ({s.entry.reason})" for s in standings if s.is_stale)
    text = f"baseline {baseline.path}: {len(kept)} kept, {len(new)} added, {len(standings) - len(kept)} removed"
    return text + (f": {gone}" if gone else "") + ("; now write the reasons of those that were added" if new else "")


def _kept(standing: Standing) -> Entry:
    return standing.entry if standing.state != "moved" else evolve(standing.entry, conjunct=min(standing.conjuncts))


def _belongs(failure: Failure, *, strict: bool) -> bool:
    """One that did not repeat would not do so the next time."""
    repeats = failure.violation is not None or failure.difference is not None
    return repeats and (strict or registry.rules[failure.rule].level == "MUST")


def _entry_of(check: Check, failure: Failure) -> Entry:
    return Entry(
        rule=failure.rule,
        conjunct=failure.conjunct,
        subject=check.name,
        mode=check.mode,
        reason=TODO,
        script=failure.script,
    )


def write_baseline(baseline: Baseline, entries: Sequence[Entry]) -> None:
    """The whole file at once; whoever edited it meanwhile is not overwritten."""
    path = baseline.path
    now = path.read_text(encoding="utf-8") if path.exists() else None
    if now != baseline.text:
        raise BaselineError(f"the baseline {path} has changed since it was read, so it is left as it is: run again")
    replace_file(path, as_text(entries))


def as_text(entries: Sequence[Entry]) -> str:
    """JSON with a script on one line: what people edit stays in sight."""
    items = ["  {\n" + ",\n".join(f"   {name}" for name in _fields(entry)) + "\n  }" for entry in entries]
    known = "[\n" + ",\n".join(items) + "\n ]" if items else "[]"
    return f'{{\n "known": {known}\n}}\n'


def _fields(entry: Entry) -> Iterator[str]:
    script: Any = entry.path or to_json(entry.script)
    plain = {name: getattr(entry, name) for name in ("rule", "conjunct", "subject", "mode", "reason", "link")}
    for name, value in (plain | {"script": script}).items():
        yield f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"
