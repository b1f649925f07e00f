"""`schedspec trace`, `convert` and `why`: what has been recorded."""

import json
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..conformance import terminal
from ..conformance.files import file_name
from .parts import command_line, one_sentence, report_folder, writes_report

if TYPE_CHECKING:
    from ..conformance.recorded import Judged


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--report", type=click.Path(path_type=Path), help="Report folder.  Default: build/report/FILE.")
@click.option("--strict", is_flag=True, help="A broken SHOULD or a rule not exercised: exit status 3.")
@click.option("--plain", is_flag=True, help="One entry after the other, even where numpy is there.")
@click.pass_context
def trace(ctx: click.Context, file: Path, as_json: bool, report: Path | None, strict: bool, plain: bool) -> None:
    """Judge a recorded run.  Exit status as for check."""
    with one_sentence(ctx):
        from ..conformance.recorded import result_json, write_recorded

        folder = report_folder(report or Path("build") / "report" / file_name(file.name))
        with terminal.progress(quiet=as_json) as progress:
            judged = judge_file(file, progress, plain=plain)
        judged.command = command_line()
        status = judged.exit_status(strict=strict)
        if as_json:
            click.echo(json.dumps(result_json(judged, strict=strict)))
        else:
            terminal.print_trace(judged, folder)
        with writes_report(folder):
            write_recorded(folder, judged, strict=strict)
            lacks = write_recorded_pages(folder, judged)
        if lacks and not as_json:
            terminal.print_aside(lacks)
    sys.exit(status)


def write_recorded_pages(folder: Path, judged: "Judged") -> str | None:
    """report.html and those of failures; of a run that breaks nothing its beginning.  Why not, if there can be none."""
    from ..check_report import lacks, write_pages
    from ..conformance.recorded import result_json, shown_cases
    from ..conformance.shown import beginning

    if why := lacks():
        return why
    failures = shown_cases(judged, folder)
    return write_pages(
        folder, result_json(judged), failures, None if failures else beginning(judged.path, judged.messages)
    )


def judge_file(file: Path, progress: Callable[[str, float, str], None], *, plain: bool) -> "Judged":
    """Whole steps at once, if numpy is there; both ways find the same."""
    from ..conformance.recorded import judge

    if plain or find_spec("numpy") is None:
        return judge(file, progress)
    from ..optimized.monitor import BulkMonitor
    from ..optimized.reading import ColumnLoads
    from ..spec.trace import read_trace

    return judge(file, progress, BulkMonitor, partial(read_trace, loads=ColumnLoads(), arrays=True))


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("to", type=click.Path(path_type=Path))
@click.pass_context
def convert(ctx: click.Context, file: Path, to: Path) -> None:
    """Write a recorded run as a file of columns, or a file of columns as lines.

    FILE says itself which it is.  Both hold the same run; columns are read several times as fast.
    """
    with one_sentence(ctx):
        from ..spec.trace_columns import convert_trace

        terminal.print_aside(f"{convert_trace(file, to):,} messages written to {to}")


@click.command()
@click.argument("file", metavar="TRACE", type=click.Path(path_type=Path))
@click.argument("request")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def why(ctx: click.Context, file: Path, request: str, as_json: bool) -> None:
    """Tell one request's story from a recorded run: what it waited for, who went past it, how it ended."""
    with one_sentence(ctx):
        from ..conformance import why as story_of

        story = story_of.tell(file, request)
        if as_json:
            click.echo(json.dumps(story_of.as_json(story)))
        else:
            terminal.print_story(story_of.sentences(story))
