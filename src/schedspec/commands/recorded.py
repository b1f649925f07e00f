"""`schedspec trace`, `convert` and `why`: what has been recorded."""

import json
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..conformance import terminal
from ..conformance.files import file_name
from ..conformance.names import counted
from .campaign import in_units, is_campaign
from .fleets import is_fleet, judge_fleet, under_one_clock
from .parts import command_line, one_sentence, report_folder, writes_report

if TYPE_CHECKING:
    from ..conformance.recorded import Judged


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--report", type=click.Path(path_type=Path), help="Report folder.  Default: build/report/FILE.")
@click.option("--strict", is_flag=True, help="A broken SHOULD or a rule not exercised: exit status 3.")
@click.option("--plain", is_flag=True, help="One entry after the other, even where numpy is there.")
@in_units
@under_one_clock
@click.pass_context
def trace(ctx: click.Context, /, files: tuple[str, ...], **options: Any) -> None:
    """Judge a recorded run, plain or packed (gzip, zstd); or those of a fleet, one file an engine.

    Of a fleet FILE is a folder, a pattern in quotes ('logs/**/*.jsonl.zst'), or there are several.  Exit status as for
    check.
    """
    with one_sentence(ctx):
        as_json, strict, plain = options["as_json"], options["strict"], options["plain"]
        file, report = Path(files[0]), options["report"]
        if is_fleet(files):
            sys.exit(judge_fleet(files, options))
        if is_campaign(options):
            raise click.UsageError("--on and --resume are for several files: one file is one unit")
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


def judge_file(file: Path, progress: Callable[[str, float, str], None], *, plain: bool, **how: Any) -> "Judged":
    """Whole steps at once, if numpy is there; both ways find the same."""
    from ..conformance.archives import read_recorded
    from ..conformance.recorded import judge

    if plain or find_spec("numpy") is None:
        return judge(file, progress, **how)
    from ..optimized.monitor import BulkMonitor
    from ..optimized.reading import ColumnLoads
    from ..spec.trace import read_trace

    in_columns = partial(read_trace, loads=ColumnLoads(), arrays=True)
    return judge(file, progress, BulkMonitor, partial(read_recorded, read=in_columns), **how)


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

        terminal.print_aside(f"{counted(convert_trace(file, to), 'message')} written to {to}")


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
