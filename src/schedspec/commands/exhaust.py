"""`schedspec exhaust`: every run in small scopes."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click
from attrs import asdict, evolve

from ..campaigns import Unit
from ..conformance import terminal
from .campaign import UNITS, folder_of, in_units, is_campaign, run_units
from .parts import DEFAULT_TIMEOUT_S, one_sentence, subject_of


@click.command()
@click.argument("names", metavar="[CASE]...", nargs=-1)
@click.option(
    "--subject", help="This one in place of the reference, in the cases that are exhausted for the reference."
)
@click.option("--deep", is_flag=True, help="Those that take minutes, too.")
@click.option(
    "--calls",
    default=5,
    show_default=True,
    type=click.IntRange(min=1),
    help="Of a subject without `canonical`: all runs of so many calls.",
)
@click.option("--jobs", type=click.IntRange(min=1), help="Cases at a time.  Default: one per core.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@in_units
@click.option("--write", is_flag=True, help="Write what is found to exhausted.toml and README.md of proofs.")
@click.pass_context
def exhaust(ctx: click.Context, /, names: tuple[str, ...], **options: Any) -> None:
    """Look at every run in small scopes, up to symmetry, for somebody who gets nowhere and for a rule that is broken.

    Without CASE all cases of proofs/exhausted.toml, and a table; with some of them also the story of each
    counterexample.  Exit status 1: something is not as expected there, or another subject breaks a MUST.
    """
    with one_sentence(ctx):
        from ..proofs import exhausted, manifest, page

        if options["write"] and options["subject"]:
            raise ValueError("--write is about the cases as they are: leave --subject out")
        cases = _cases(names, options["subject"], deep=options["deep"])
        found = _looked_at(cases, options)
        if all(one.refused for one in found):
            raise ValueError(f"{options['subject']} refuses every case, so nothing was looked at: {found[0].refused}")
        if options["write"]:
            there = {case.case.name: case.case.plain for case in found}
            exhausted.write(there.get(case["name"], case) for case in exhausted.read())
            page.rewrite(manifest.read())
        wrong = [] if options["write"] else list(_wrong(cases, found, options))
        if options["as_json"]:
            plain = [
                {**f.case.plain, "why": dict(f.why), "stories": dict(f.stories), "refused": f.refused} for f in found
            ]
            click.echo(json.dumps({"cases": plain, "wrong": wrong}))
        else:
            terminal.print_cases(found, stories=bool(names or options["subject"]))
        for line in wrong:
            terminal.print_error(line)
    sys.exit(1 if wrong else 0)


def _looked_at(cases: Sequence[Any], options: Mapping[str, Any]) -> list[Any]:
    """Each case as it turned out."""
    from ..conformance.small_scope.cases import TRUSTED, Manner, found_again, run_cases

    factories = {subject: subject_of(subject, DEFAULT_TIMEOUT_S) for subject in {case.subject for case in cases}}
    manner = Manner(DEFAULT_TIMEOUT_S, options["calls"]) if options["subject"] else TRUSTED
    if not is_campaign(options):
        with terminal.counted_progress("cases", len(cases)) as done:
            return run_cases(cases, factories, options["jobs"] or os.cpu_count() or 1, done, manner)
    units = [Unit(case.name, f"{UNITS}:exhaust_case", {"case": case.plain, "manner": asdict(manner)}) for case in cases]
    results = run_units(units, folder_of(options, "exhaust"), options, failures=_broken)
    return [found_again(result) for result in results]


def _wrong(cases: Sequence[Any], found: Sequence[Any], options: Mapping[str, Any]) -> Iterator[str]:
    """What another subject breaks, or what is not as expected."""
    from ..conformance.small_scope.cases import differences, faults

    for case, one in zip(cases, found, strict=True):
        yield from faults(one) if options["subject"] else differences(case, one.case)


def _broken(result: Mapping[str, Any]) -> int:
    return int(bool(result["stories"]))


def _cases(names: Iterable[str], subject: str | None, *, deep: bool) -> list[Any]:
    """Those that were named, or all; another subject is asked what the reference answers well."""
    from ..conformance.small_scope.cases import Case
    from ..proofs import exhausted
    from ..spec.hints import did_you_mean

    cases = {plain["name"]: Case(**plain) for plain in exhausted.read()}
    for name in names:
        if name not in cases:
            hint = did_you_mean(name, cases, "proofs/exhausted.toml")
            raise ValueError(f"there is no case {name!r}: {hint}")
    chosen = [cases[name] for name in names] or [case for case in cases.values() if deep or not case.deep]
    return chosen if subject is None else [evolve(case, subject=subject, judged=True) for case in _clean(chosen)]


def _clean(cases: Iterable[Any]) -> list[Any]:
    """What the reference answers well: another subject can be asked the same."""
    clean = [case for case in cases if "refuted" not in (case.work, case.progress, case.starvation)]
    return [case for case in clean if case.subject == "reference"]


def clean_cases() -> list[Any]:
    """The same for a check, what takes the least time first."""
    from ..conformance.small_scope.cases import Case
    from ..proofs import exhausted

    cases = _clean(Case(**plain) for plain in exhausted.read())
    return sorted((case for case in cases if not case.deep), key=lambda case: case.states)
