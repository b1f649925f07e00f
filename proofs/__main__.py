"""`python -m schedspec.proofs`: prove, prove again, leave conjuncts out, check the theorems, and compare with the
manifest."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import click
from attrs import asdict, evolve

from . import manifest, theorems
from .manifest import Firing, Manifest, Proof, Theorem
from .mutants import Trial
from .obligations import Outcome
from .run import by_rule, entry, firings, proof, prove_rule, trials, worst
from .theory import ENGINE

Say = Callable[[str], None]


@click.command()
@click.option("--rule", metavar="ID", help="Only this rule, with a step that shows what each of its mutants breaks.")
@click.option("--cvc5/--no-cvc5", "second", default=True, help="Have cvc5 prove everything once more.")
@click.option("--mutants/--no-mutants", "mutate", default=True, help="Leave out each guard and effect in turn.")
@click.option("--coq/--no-coq", "in_coq", default=True, help="Check the theorems in Coq, where coqc is found.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--write", is_flag=True, help="Write what is found to the manifest.")
def main(rule: str | None, second: bool, mutate: bool, in_coq: bool, as_json: bool, write: bool) -> None:
    """Run the proofs.  Exit status 1: something is not as the manifest says.  A timeout is no proof, and what is
    skipped is not proved."""
    if rule and rule not in ENGINE.registry.rules:
        raise click.BadParameter(f"there is no rule {rule}", param_hint="--rule")
    skipped = "" if in_coq and theorems.coqc() else theorems.MISSING if in_coq else "--no-coq"
    if write and (rule or not second or not mutate or skipped):
        raise click.UsageError("--write needs a whole run" + (f": {skipped}" if skipped else ""))
    say: Say = (lambda line: None) if as_json else click.echo
    expected = _expected(rule, second, mutate, bool(skipped))
    with ThreadPoolExecutor(1) as beside:  # coqc is a process of its own
        checking = beside.submit(_check, rule, mutate, skipped)
        proofs = _proofs(rule, second, say)
        events = () if rule else _events(say)
        tried = _trials(rule, say) if mutate else ()
        checked = checking.result()
    _tell(rule, checked, skipped, say)
    found = Manifest(proofs, events, tuple(map(entry, tried)), checked.theorems, checked.changes)
    if write:
        manifest.write(found)
    wrong = manifest.differences(manifest.read() if write else expected, found) + manifest.faults(found)
    if as_json:
        examples = {trial.dropped.name: trial.example for trial in tried if trial.example}
        document = {
            **asdict(found),
            "examples": examples,
            "skipped": {"coq": skipped} if skipped else {},
            "wrong": wrong,
        }
        click.echo(json.dumps(document, indent=1, ensure_ascii=False))
    for line in wrong:
        click.echo(f"not as expected: {line}", err=True)
    sys.exit(1 if wrong else 0)


def _expected(rule: str | None, second: bool, mutate: bool, without_coq: bool) -> Manifest:
    """The part of the manifest that this run can be held against."""
    whole = manifest.read()
    part = whole.only(rule) if rule else whole
    if not second:
        part = evolve(part, proofs=tuple(evolve(proof, tools=("z3",)) for proof in part.proofs))
    if without_coq:
        part = evolve(part, theorems=(), changes=())
    return part if mutate else evolve(part, mutants=(), changes=())


def _proofs(rule: str | None, second: bool, say: Say) -> tuple[Proof, ...]:
    entries, seconds = [], Counter[str]()
    say(f"{'rule':<10}obligations  " + "".join(f"{tool:<18}" for tool in ("z3", "cvc5")[: 1 + second]))
    for name, owed in by_rule(ENGINE, rule).items():
        outcomes = prove_rule(ENGINE, owed, second)
        entries.append(proof(name, outcomes))
        seconds.update({tool: sum(o.seconds for o in results) for tool, results in outcomes.items()})
        say(f"{name:<10}{len(owed):>11}  " + "".join(map(_cell, outcomes.values())))
        for tool, results in outcomes.items():
            for outcome in results:
                if outcome.verdict != "proved":
                    say(f"    {tool}: {outcome.obligation.name}: {outcome.verdict}")
    total = ", ".join(f"{tool} {spent:.1f} s" for tool, spent in seconds.items())
    say(f"{sum(entry.obligations for entry in entries)} obligations of {len(entries)} rules: {total}\n")
    return tuple(entries)


def _cell(results: list[Outcome]) -> str:
    return f"{worst(results):<9}{sum(outcome.seconds for outcome in results):>5.2f} s  "


def _events(say: Say) -> tuple[Firing, ...]:
    found = tuple(firings(ENGINE))
    say(f"{sum(firing.expected == 'fires' for firing in found)} of {len(found)} events can fire\n")
    return found


def _trials(rule: str | None, say: Say) -> tuple[Trial, ...]:
    tried = []
    say(f"{'without':<11}{'on':<16}{'fate':<10}{'seconds':>7}  what breaks")
    for trial in trials(ENGINE, rule):
        tried.append(trial)
        dropped = trial.dropped
        head = f"{dropped.name:<11}{dropped.event:<16}{trial.fate:<10}{trial.seconds:>7.2f}"
        say(f"{head}  {', '.join(trial.breaks)}".rstrip())
        if rule and trial.example:
            say(trial.example + "\n")
    fates = Counter(trial.fate for trial in tried)
    counts = ", ".join(f"{number} {fate}" for fate, number in fates.items())
    say(f"{len(tried)} mutants in {sum(trial.seconds for trial in tried):.1f} s: {counts}")
    return tuple(tried)


def _about(rule: str | None, stated: Iterable[Theorem]) -> tuple[Theorem, ...]:
    return tuple(theorem for theorem in stated if rule is None or rule in theorem.rules)


def _check(rule: str | None, mutate: bool, skipped: str) -> theorems.Found:
    """What is about a rule, if one is asked for: changes are of all theorems together."""
    if skipped or not _about(rule, theorems.stated()):
        return theorems.Found()
    whole = theorems.check(mutate=mutate and rule is None)
    return evolve(whole, theorems=_about(rule, whole.theorems))


def _tell(rule: str | None, found: theorems.Found, skipped: str, say: Say) -> None:
    there = len(_about(rule, theorems.stated()))
    if there and skipped:
        say(f"\nCoq: SKIPPED, {skipped}; {there} theorems are not proved by this run")
    if not found.theorems:
        return
    say(f"\n{'verdict':<10}{'file':<10}theorem in Coq")
    for theorem in found.theorems:
        say(f"{theorem.expected:<10}{theorem.file:<10}{theorem.name}: {', '.join(theorem.rules)}")
    if found.complaint:
        say(found.complaint)
    good = sum(theorem.expected == "proved" for theorem in found.theorems)
    refused = sum(change.expected == "refused" for change in found.changes)
    say(f"{good} of {there} theorems proved, closed under the global context, in {found.seconds:.1f} s")
    if found.changes:
        say(f"{refused} of {len(found.changes)} changes refused")


if __name__ == "__main__":
    main()
