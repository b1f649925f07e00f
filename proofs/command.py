"""`schedspec prove`: prove, prove again, leave conjuncts out, change them, check the theorems, and compare with the
manifest.

Importing it needs no solver.  What is not installed is `not run`.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import click
from attrs import asdict, evolve, frozen

from . import manifest, theorems
from .manifest import Manifest, Proof, Theorem
from .wanted import NOT_RUN, Changes, Say, Solved, Wanted, named


@frozen(kw_only=True)
class Found:
    """What a run found.  `statuses`: a proof's name -> tool -> proved, refuted, unknown or not run."""

    manifest: Manifest
    statuses: Mapping[str, Mapping[str, str]]
    examples: Mapping[str, str]
    wrong: tuple[str, ...]


@click.command()
@click.option("--rule", metavar="ID", help="Only this rule, with a step that shows what each of its mutants breaks.")
@click.option("--cvc5/--no-cvc5", "second", default=True, help="Have cvc5 prove everything once more.")
@click.option(
    "--mutants/--no-mutants",
    "mutate",
    default=None,
    help="Leave out each guard and effect in turn (a minute more).  Default: with --rule or --write.",
)
@click.option(
    "--changes",
    type=click.Choice(("none", "sample", "all")),
    help="Change each guard, effect, invariant and transition by one token, in some ways or in all (a quarter of an"
    " hour).  Default: a sample; with --rule none; with --write all, or with none of them the table stays.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="What decides on the sample.")
@click.option("--coq/--no-coq", "in_coq", default=True, help="Check the theorems in Coq, where coqc is found.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--write", is_flag=True, help="Write what is found to the manifest and to proofs/README.md.")
def prove(
    rule: str | None,
    second: bool,
    mutate: bool | None,
    changes: Changes | None,
    seed: int,
    in_coq: bool,
    as_json: bool,
    write: bool,
) -> None:
    """Run the proofs: z3 and cvc5 over the terms of the rules, Coq over the algorithm.

    proved: by this run.  unknown: no proof was found, or time was up.  refuted: there is a counter-example.  not run:
    the tool is not there, or was not asked.  Exit status: 0 what ran is as the manifest says, 1 something is not, 2
    bad arguments, or nothing could run.
    """
    _refuse_unknown(rule)
    missing = _missing(second, in_coq)
    if write and (rule or mutate is False or changes == "sample" or missing):
        why = "; ".join(missing.values()) or "no --rule, all mutants, and all changes or none"
        raise click.UsageError(f"--write needs a whole run: {why}")
    if {"z3", "coq"} <= set(missing):
        raise click.UsageError("nothing can run: " + "; ".join(missing.values()))
    wanted = Wanted(
        rule=rule,
        mutate=bool(rule or write) if mutate is None else mutate,
        changes=changes or ("all" if write else "none" if rule else "sample"),
        seed=seed,
        missing=missing,
    )
    say: Say = (lambda line: None) if as_json else click.echo
    found = _run(wanted, say)
    if write:
        from . import page

        kept = _kept(found.manifest, wanted)
        manifest.write(kept)
        page.rewrite(kept)
    wrong = manifest.differences(_expected(wanted), found.manifest) + manifest.faults(found.manifest)
    wrong += found.wrong
    if as_json:
        click.echo(json.dumps(_document(wanted, found, wrong), indent=1, ensure_ascii=False))
    for line in wrong:
        click.echo(f"not as expected: {line}", err=True)
    sys.exit(1 if wrong else 0)


# --- what is asked -------------------------------------------------------------------------------------------------


def _refuse_unknown(rule: str | None) -> None:
    from schedspec.spec.catalogue import registry

    if rule and rule not in registry.rules:
        raise click.BadParameter(f"there is no rule {rule}: `schedspec rules` lists them", param_hint="--rule")


def _missing(second: bool, in_coq: bool) -> dict[str, str]:
    """Tool -> why it does not run.  cvc5 reads what z3 writes."""
    missing = {}
    if find_spec("z3") is None or find_spec("pebble") is None:
        missing["z3"] = "z3 is not installed (pip install 'schedspec[proofs]')"
    if not second:
        missing["cvc5"] = "--no-cvc5"
    elif find_spec("cvc5") is None:
        missing["cvc5"] = "cvc5 is not installed (pip install 'schedspec[proofs]')"
    elif "z3" in missing:
        missing["cvc5"] = "z3, which writes its questions, is not installed"
    if not in_coq:
        missing["coq"] = "--no-coq"
    elif theorems.coqc() is None:
        missing["coq"] = theorems.MISSING
    return missing


def _expected(wanted: Wanted) -> Manifest:
    """The part of the manifest that this run can be held against."""
    whole = manifest.read()
    part = whole.only(wanted.rule) if wanted.rule else whole
    if not wanted.runs("cvc5"):
        part = evolve(part, proofs=tuple(evolve(proof, tools=("z3",)) for proof in part.proofs))
    if not wanted.runs("z3"):
        part = evolve(part, proofs=(), events=(), possible=(), mutants=())
    if not wanted.runs("coq"):
        part = evolve(part, theorems=(), changes=())
    if wanted.rule or wanted.changes != "all" or not wanted.runs("z3"):
        part = evolve(part, sweeps=())
    if wanted.mutate:
        return part
    return evolve(part, mutants=tuple(m for m in part.mutants if m.expected == "implied"), changes=())


def _kept(found: Manifest, wanted: Wanted) -> Manifest:
    """What is written.  Without changes the table of them stays: it is about the terms as they were then."""
    return found if wanted.changes == "all" else evolve(found, sweeps=manifest.read().sweeps)


# --- running -------------------------------------------------------------------------------------------------------


def _run(wanted: Wanted, say: Say) -> Found:
    with ThreadPoolExecutor(1) as beside:  # coqc is a process of its own
        checking = beside.submit(_check, wanted)
        solved = _solve(wanted, say)
        checked = checking.result()
    _tell(wanted, checked, say)
    whole = evolve(solved.manifest, theorems=checked.theorems, changes=checked.changes)
    return Found(manifest=whole, statuses=solved.statuses, examples=solved.examples, wrong=solved.wrong)


def _solve(wanted: Wanted, say: Say) -> Solved:
    if wanted.runs("z3"):
        from . import solving

        return solving.solve(wanted, say)
    owed = [p for p in manifest.read().proofs if wanted.rule in (None, p.rule)]
    say(f"z3, cvc5: {NOT_RUN}: {wanted.missing['z3']}; {len(owed)} rules are not proved by this run")
    statuses = {named(p.theory, p.rule): {"z3": NOT_RUN, "cvc5": NOT_RUN} for p in owed}
    return Solved(Manifest(), statuses)


# --- Coq -----------------------------------------------------------------------------------------------------------


def _about(rule: str | None, stated: Iterable[Theorem]) -> tuple[Theorem, ...]:
    return tuple(theorem for theorem in stated if rule is None or rule in theorem.rules)


def _check(wanted: Wanted) -> theorems.Found:
    """What is about a rule, if one is asked for: changes are of all theorems together."""
    if not wanted.runs("coq") or not _about(wanted.rule, theorems.stated()):
        return theorems.Found()
    whole = theorems.check(mutate=wanted.mutate and wanted.rule is None)
    return evolve(whole, theorems=_about(wanted.rule, whole.theorems))


def _tell(wanted: Wanted, found: theorems.Found, say: Say) -> None:
    there = len(_about(wanted.rule, theorems.stated()))
    if there and not wanted.runs("coq"):
        say(f"\nCoq: {NOT_RUN}: {wanted.missing['coq']}; {there} theorems are not proved by this run")
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


# --- JSON ----------------------------------------------------------------------------------------------------------


def _document(wanted: Wanted, found: Found, wrong: list[str]) -> dict[str, Any]:
    """The manifest of this run: a proof has a status for each tool, and a theorem that was not checked is `not run`."""
    whole = manifest.read()
    entries = found.manifest.proofs or tuple(p for p in whole.proofs if wanted.rule in (None, p.rule))
    proofs = [_with_status(proof, found.statuses[named(proof.theory, proof.rule)]) for proof in entries]
    unchecked = () if found.manifest.theorems else _about(wanted.rule, theorems.stated())
    checked = [*found.manifest.theorems, *(evolve(theorem, expected=NOT_RUN) for theorem in unchecked)]
    return {
        "tools": {tool: _tool(wanted, tool) for tool in ("z3", "cvc5", "coq")},
        **asdict(found.manifest),
        "proofs": proofs,
        "theorems": [_renamed(asdict(theorem)) for theorem in checked],
        "examples": dict(found.examples),
        "wrong": wrong,
    }


def _with_status(proof: Proof, statuses: Mapping[str, str]) -> dict[str, Any]:
    plain = asdict(proof)
    plain["expected"] = next(
        p.expected for p in manifest.read().proofs if (p.theory, p.rule) == (proof.theory, proof.rule)
    )
    return plain | {"status": dict(statuses)}


def _renamed(theorem: dict[str, Any]) -> dict[str, Any]:
    return {"status" if field == "expected" else field: value for field, value in theorem.items()}


_PACKAGES = {"z3": "z3-solver", "cvc5": "cvc5"}


def _tool(wanted: Wanted, tool: str) -> str:
    if not wanted.runs(tool):
        return f"{NOT_RUN}: {wanted.missing[tool]}"
    return version(_PACKAGES[tool]) if tool in _PACKAGES else "found"
