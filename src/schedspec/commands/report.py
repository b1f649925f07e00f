"""`schedspec report`: pages, badge and pictures of what is stored."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ..conformance import terminal
from ..conformance.files import file_name
from .parts import command_line, ensure_writable, one_sentence, report_folder


@click.command()
@click.argument("path", metavar="FOLDER|TRACE", type=click.Path(path_type=Path))
@click.option("--to", type=click.Path(path_type=Path), help="Folder.  Default: FOLDER itself, or build/report/TRACE.")
@click.option("--perfetto", type=click.Path(path_type=Path), help="Also write all of TRACE for ui.perfetto.dev.")
@click.option("--badge", type=click.Path(path_type=Path), help="Write the badge to this file, too.")
@click.pass_context
def report(ctx: click.Context, path: Path, to: Path | None, perfetto: Path | None, badge: Path | None) -> None:
    """Make the pages of a stored report, or of a recorded run: report.html, and one for each failure.

    Of a recorded run it judges it first; what breaks late in a long one is shown with what came just before.
    Exit status 0 if all is written, whatever the verdicts are.
    """
    with one_sentence(ctx):
        for file, what in ((perfetto, "the export for Perfetto"), (badge, "the badge")):
            if file is not None:
                ensure_writable(file, what)
        if path.is_dir():
            if perfetto is not None:
                raise click.UsageError(
                    "--perfetto needs a TRACE: those of a report are in its failures/ID.perfetto.json"
                )
            told, folder = _of_folder(path, to)
        else:
            told, folder = _of_trace(path, to, perfetto)
        if badge is not None:
            from ..conformance.folder import write_badge

            write_badge(badge, told)
        terminal.print_aside(f"written to {folder}")


def _of_folder(path: Path, to: Path | None) -> tuple[Mapping[str, Any], Path]:
    from ..check_report import write_pages
    from ..conformance.folder import write_badge, write_perfetto_of
    from ..conformance.shown import read_report
    from ..conformance.stored import read_json

    told = read_json(path / "report.json")
    if isinstance(told, dict) and "engines" in told:
        return _of_fleet(path, to, told), path
    told, failures = read_report(path)
    folder = report_folder(to or path, "badge.json")
    for one in failures:
        write_perfetto_of(folder / "failures", one.case)
    write_badge(folder / "badge.json", told)
    _say(write_pages(folder, told, failures))
    return told, folder


def _of_fleet(path: Path, to: Path | None, told: Mapping[str, Any]) -> Mapping[str, Any]:
    from ..check_report import write_fleet_pages
    from ..conformance.fleet import all_rules

    if to is not None:
        raise click.UsageError(
            "--to is not for the report of a fleet, whose pages lie beside the traces of its engines"
        )
    report_folder(path, "badge.json")
    try:
        _say(write_fleet_pages(path, told))
        return all_rules(told)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path / 'report.json'} is no report of a fleet of this version: {error!r}") from error


def _of_trace(path: Path, to: Path | None, perfetto: Path | None) -> tuple[Mapping[str, Any], Path]:
    from ..conformance.recorded import result_json, write_recorded
    from .recorded import judge_file, write_recorded_pages

    folder = report_folder(to or Path("build") / "report" / file_name(path.name))
    with terminal.progress(quiet=False) as progress:
        judged = judge_file(path, progress, plain=False)
        judged.command = command_line()
        write_recorded(folder, judged)
        if perfetto is not None:
            progress("perfetto", 0.0, str(perfetto))
            _export(path, perfetto, judged)
            progress("perfetto", 1.0, str(perfetto))
    _say(write_recorded_pages(folder, judged))
    return result_json(judged), folder


def _export(path: Path, perfetto: Path, judged: Any) -> None:
    from ..conformance.perfetto import export_trace

    export_trace(path, perfetto, {violation.message: rule for rule, violation in judged.first.items()}, judged.messages)


def _say(lacks: str | None) -> None:
    if lacks is not None:
        terminal.print_aside(lacks)
