"""`schedspec reproduce`: numbers of the literature beside ours."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import asdict
from rich.markup import escape
from rich.table import Table

from ..campaigns import Unit
from ..conformance import terminal
from .campaign import UNITS, folder_of, in_units, is_campaign, run_units
from .parts import one_sentence

if TYPE_CHECKING:
    from ..reference.reproduce import Report, Reproduction, Row

COLOURS = {"met": "green", "missed": "bold red", "not measured": "yellow"}


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--list", "listed", is_flag=True, help="Only say what there is, with all constants.")
@click.option("--sample", is_flag=True, help="A short part of each run: a quick look, with targets missed by chance.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--write",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Put what was run into this file of results, in place of what it had of the same name.",
)
@click.option(
    "--runs",
    type=click.Path(path_type=Path),
    help="In place of a NAME: runs of VTC's artefact that you measured, a folder of them or one file, as targets.",
)
@click.option(
    "--lengths",
    metavar="WORKLOAD",
    help="Of vllm and sarathi: what requests of these lengths come to; the paper's numbers are no targets then.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@in_units
@click.pass_context
def reproduce(ctx: click.Context, /, names: tuple[str, ...], **options: Any) -> None:
    """Hold what published systems come to here against the numbers of their papers; all of them, or those of a NAME.

    Constants stand in the code with their source and are not tuned.  A directional row says which way, not how much.
    Exit status: 0 no numeric target is missed, 1 one is, 2 bad input.
    """
    if options["file"] is not None and options["sample"]:
        raise click.UsageError("a sample is no result: --write wants whole runs, so leave --sample out")
    with one_sentence(ctx):
        chosen = _chosen(names) if options["runs"] is None else [_of_runs(names, options)]
        if options["listed"]:
            _show_list(chosen, as_json=options["as_json"])
            return
        _ensure_takes_lengths(chosen, options)
        reports: list[Report] = []
        for report in _elsewhere(chosen, options) if is_campaign(options) else _here(chosen, options):
            reports.append(report)
            if options["file"] is not None:
                _write(options["file"], report)
            if not options["as_json"]:
                _show(report)
        if options["as_json"]:
            click.echo(json.dumps({"schema": "schedspec-reproduce/1", "runs": [r.as_json() for r in reports]}))
    is_missed = any(report.has_missed for report in reports) and not options["lengths"]
    sys.exit(1 if is_missed else 0)


def _ensure_takes_lengths(chosen: list["Reproduction"], options: Mapping[str, Any]) -> None:
    if not options["lengths"]:
        return
    other = next((one.name for one in chosen if not one.takes_lengths), None)
    if other is not None:
        raise click.UsageError(f"{other} has requests of its own: --lengths is for vllm and sarathi, so name these")
    if options["file"] is not None or is_campaign(options):
        raise click.UsageError("--lengths is for a look, here: leave --write, --on and --resume out")


def _of_runs(names: tuple[str, ...], options: Mapping[str, Any]) -> "Reproduction":
    from ..reference.reproduce.vtc_runs import of_runs

    others = {"a NAME": names, "--write": options["file"], "--sample": options["sample"]}
    others["--on and --resume"] = is_campaign(options)
    asked = next((other for other, is_asked in others.items() if is_asked), None)
    if asked is not None:
        raise click.UsageError(f"--runs compares whole runs of yours, here: leave {asked} out")
    return of_runs(options["runs"])


def _write(file: Path, report: "Report") -> None:
    """After each that was run, so that an interrupt keeps those before it."""
    from ..reference.reproduce import REPRODUCTIONS, results

    before = file.read_text(encoding="utf-8") if file.exists() else ""
    file.write_text(results.merged(before, [report], REPRODUCTIONS), encoding="utf-8")


def _here(chosen: list["Reproduction"], options: Mapping[str, Any]) -> Iterator["Report"]:
    from ..reference.reproduce import Run
    from ..reference.reproduce import reproduce as run_one

    for reproduction in chosen:
        with terminal.progress(quiet=options["as_json"]) as progress:
            run = Run(options["sample"], options["seed"], progress, lengths=options["lengths"] or "")
            report = run_one(reproduction, run)
        yield report


def _elsewhere(chosen: list["Reproduction"], options: Mapping[str, Any]) -> list["Report"]:
    """One unit each."""
    from ..reference.reproduce import report_of

    sample, seed = options["sample"], options["seed"]
    units = [
        Unit(one.name, f"{UNITS}:reproduce_one", {"name": one.name, "sample": sample, "seed": seed}) for one in chosen
    ]
    results = run_units(units, folder_of(options, "reproduce"), options)
    return [
        report_of(one, result["ours"], result["notes"], seed, sample=sample)
        for one, result in zip(chosen, results, strict=True)
    ]


def _chosen(names: tuple[str, ...]) -> list["Reproduction"]:
    from ..reference.reproduce import REPRODUCTIONS
    from ..spec.hints import did_you_mean

    for name in names:
        if name not in REPRODUCTIONS:
            raise click.UsageError(f"there is no reproduction {name!r}: {did_you_mean(name, REPRODUCTIONS)}")
    return [REPRODUCTIONS[name] for name in dict.fromkeys(names or REPRODUCTIONS)]


def _show_list(chosen: list["Reproduction"], *, as_json: bool) -> None:
    if as_json:
        told = [
            {
                "name": one.name,
                "title": one.title,
                "source": one.source,
                "constants": [asdict(constant) for constant in one.constants],
                "targets": [target.name for target in one.targets],
            }
            for one in chosen
        ]
        click.echo(json.dumps({"schema": "schedspec-reproduce/1", "reproductions": told}))
        return
    for one in chosen:
        with _titled(one):
            for constant in one.constants:
                line = f"  {constant.name} = {constant.value}  ({constant.source})"
                terminal.out.print(line, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _titled(one: "Reproduction") -> Iterator[None]:
    terminal.out.print(f"[bold]{escape(one.name)}[/]: {escape(one.title)}", highlight=False, soft_wrap=True)
    terminal.out.print(f"  {escape(one.source)}", style="dim", highlight=False, soft_wrap=True)
    yield
    terminal.out.print()


def _show(report: "Report") -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("target")
    for name in ("published", "ours", "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("tolerance", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for row in report.rows:
        table.add_row(*_cells(row))
    with _titled(report.reproduction):
        terminal.print_table(table)
        for note in report.notes:
            terminal.out.print(f"  {escape(note)}", highlight=False, soft_wrap=True)
        counts = {verdict: sum(row.verdict == verdict for row in report.rows) for verdict in COLOURS}
        told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
        how = ", a sample" if report.sample else ""
        terminal.out.print(f"{escape(report.reproduction.name)}: {told}; seed {report.seed}{how}", highlight=False)


def _cells(row: "Row") -> tuple[str, ...]:
    published, ours, ratio, tolerance = row.texts(nothing="–")
    verdict = f"[{COLOURS[row.verdict]}]{row.verdict}[/]"
    return (escape(row.target.name), published, ours, ratio, escape(tolerance), verdict)
