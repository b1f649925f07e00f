"""What z3 and cvc5 answer in a run of `schedspec prove`, told as it comes."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from attrs import evolve

from . import run
from .manifest import Firing, Manifest, Possible, Proof, read
from .mutants import Trial
from .obligations import Outcome
from .theory import Theory
from .wanted import NOT_RUN, Say, Solved, Wanted, named


def solve(wanted: Wanted, say: Say) -> Solved:
    proofs, statuses = _proofs(wanted, say)
    found = Manifest(proofs)
    if not wanted.rule:
        found = evolve(found, events=_events(say), possible=_possible(say))
    tried = _trials(wanted, say)
    changed = _changes(wanted, say)
    return Solved(
        evolve(found, mutants=tuple(run.entry(*trial) for trial in tried), sweeps=_sweeps(wanted, changed, say)),
        statuses,
        {trial.dropped.name: trial.example for _, trial in tried if trial.example},
        _unseen(changed),
    )


# --- proofs ------------------------------------------------------------------------------------------------------


def _proofs(wanted: Wanted, say: Say) -> tuple[tuple[Proof, ...], dict[str, dict[str, str]]]:
    entries, statuses, seconds = [], {}, Counter[str]()
    say(f"{'rule':<19}obligations  {'z3':<18}cvc5")
    for theory, rule, outcomes in run.proved(wanted.rule, wanted.runs("cvc5")):
        entry = run.proof(theory, rule, outcomes)
        entries.append(entry)
        own = named(theory.name, rule)
        statuses[own] = {
            tool: str(run.worst(outcomes[tool])) if tool in outcomes else NOT_RUN for tool in ("z3", "cvc5")
        }
        seconds.update({tool: sum(o.seconds for o in results) for tool, results in outcomes.items()})
        cells = (_cell(statuses[own][tool], outcomes.get(tool, ())) for tool in ("z3", "cvc5"))
        say(f"{own:<19}{entry.obligations:>11}  " + "".join(cells).rstrip())
        for tool, results in outcomes.items():
            for outcome in results:
                if outcome.verdict != "proved":
                    say(f"    {tool}: {outcome.obligation.name}: {outcome.verdict}")
    total = ", ".join(f"{tool} {spent:.1f} s" for tool, spent in seconds.items())
    say(f"{sum(entry.obligations for entry in entries)} obligations of {len(entries)} rules: {total}\n")
    return tuple(entries), statuses


def _cell(status: str, results: Iterable[Outcome]) -> str:
    spent = sum(outcome.seconds for outcome in results)
    return f"{status:<9}{spent:>5.2f} s  " if status != NOT_RUN else f"{status:<18}"


# --- steps -------------------------------------------------------------------------------------------------------


def _events(say: Say) -> tuple[Firing, ...]:
    found = tuple(run.firings())
    say(f"{sum(firing.expected == 'fires' for firing in found)} of {len(found)} events can fire")
    return found


def _possible(say: Say) -> tuple[Possible, ...]:
    found = tuple(run.possible())
    for step in found:
        if step.expected != "possible":
            say(f"    {step.expected}: {step.event}: {step.sentence}")
    say(f"{sum(step.expected == 'possible' for step in found)} of {len(found)} steps that must be possible are\n")
    return found


# --- mutants -----------------------------------------------------------------------------------------------------


def _trials(wanted: Wanted, say: Say) -> list[tuple[Theory, Trial]]:
    """All of what is asked for; else those that the manifest says are implied, to see that they still are."""
    implied = {(mutant.theory, mutant.conjunct) for mutant in read().mutants if mutant.expected == "implied"}
    tried = []
    say(f"{'without':<20}{'on':<16}{'fate':<10}{'seconds':>7}  what breaks")
    for theory, trial in run.trials(wanted.rule, None if wanted.mutate else implied):
        tried.append((theory, trial))
        dropped = trial.dropped
        head = f"{named(theory.name, dropped.name):<20}{dropped.event:<16}{trial.fate:<10}{trial.seconds:>7.2f}"
        say(f"{head}  {', '.join(trial.breaks)}".rstrip())
        if wanted.rule and trial.example:
            say(trial.example + "\n")
    counts = ", ".join(f"{number} {fate}" for fate, number in Counter(trial.fate for _, trial in tried).items())
    say(f"{len(tried)} mutants in {sum(trial.seconds for _, trial in tried):.1f} s: {counts}\n")
    return tried


# --- changes of one token ----------------------------------------------------------------------------------------


def _changes(wanted: Wanted, say: Say) -> list[run.Change]:
    if wanted.changes == "none":
        return []
    among = run.places(wanted.rule) if wanted.changes == "all" else run.sample(wanted.seed, wanted.rule)
    of = f"a sample (--seed {wanted.seed}) of " if wanted.changes == "sample" else ""
    say(f"changed by one token: {of}{len(run.places(wanted.rule))}")
    found = []
    for change in run.changes(among):
        found.append(change)
        if wanted.rule or change.fate in ("survives", "unknown"):
            name = named(change.theory.name, change.variant.conjunct.name)
            say(f"{name:<20}{change.fate:<19}{change.by}\n    {change.text}")
    return found


def _sweeps(wanted: Wanted, changed: list[run.Change], say: Say) -> tuple[Any, ...]:
    """Told of any changes; entries of the manifest are those of all."""
    rows = tuple(run.swept(changed))
    for row in rows:
        told = [f"{row.tried} tried", f"{row.breaks} break a proof", f"{row.forbids} forbid what must be possible"]
        told += [f"{row.implied_no_more} implied no more", f"{row.equal} equal", f"{row.true_too} true too"]
        told += [f"{row.equal_in_the_scope} equal in the scope", f"{row.survives} survive", f"{row.unknown} unknown"]
        say(f"{named(row.theory, row.kind)}: " + ", ".join(text for text in told if not text.startswith("0 ")))
    if changed:
        say(f"{len(changed)} changes in {sum(change.seconds for change in changed):.1f} s")
    return rows if wanted.changes == "all" and not wanted.rule else ()


def _unseen(changed: list[run.Change]) -> tuple[str, ...]:
    known = {(sweep.theory, name) for sweep in read().sweeps for name in sweep.surviving}
    bad = [change for change in changed if change.fate in ("survives", "unknown")]
    names = [(change, f"{change.variant.conjunct.name}: {change.text}") for change in bad]
    return tuple(f"the change {name}: {c.fate}" for c, name in names if (c.theory.name, name) not in known)
