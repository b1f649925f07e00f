"""What all commands with units have in common: `--on`, `--resume`, progress, and what is said of an interrupt."""

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import click

from ..campaigns import PATIENCE_S, WHERE, CampaignError, Journal, Unit, Watch, executor_of, must_be_begun, run_campaign
from ..campaigns.signals import interrupted_by_sigterm
from ..conformance import terminal
from .parts import Command, with_options

UNITS = "schedspec.commands.units"
OPTIONS = (
    click.option("--on", "where", default="one", help=f"Where it runs: {WHERE}.", show_default=True),
    click.option(
        "--resume", type=click.Path(path_type=Path), help="Go on with what was interrupted in this report folder."
    ),
    click.option(
        "--patience-s",
        type=click.FloatRange(min=0.1),
        default=PATIENCE_S,
        help="A worker that is silent for so long is taken for hung.",
        show_default=True,
    ),
)


def in_units(command: Command) -> Command:
    """It is ended by SIGTERM as by the keys, wherever it runs."""
    return with_options(OPTIONS, interrupted_by_sigterm()(command))


def is_campaign(options: Mapping[str, Any]) -> bool:
    """Asked to be cut into units: elsewhere, or to go on."""
    return options["where"] != "one" or options["resume"] is not None


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Without what says where and how it is run: the same units are the same wherever they run."""
    left_out = ("where", "resume", "patience_s", "report")
    return {name: value for name, value in options.items() if name not in left_out} | {"as_json": True}


def folder_of(options: Mapping[str, Any], name: str) -> Path:
    """The folder of the report is that of the campaign."""
    report, resume = options.get("report"), options["resume"]
    if report is not None and resume is not None and report != resume:
        raise click.UsageError("--resume names the report folder: leave --report out")
    if resume is not None:  # told before anything there is written anew
        must_be_begun(Path(resume))
    return Path(resume or report or Path("build") / "report" / name)


def run_units(
    units: Sequence[Unit],
    folder: Path,
    options: Mapping[str, Any],
    *,
    failures: Callable[[Any], int] = lambda result: 0,
    keep: Callable[[list[Any]], object] = lambda results: None,
) -> list[Any]:
    """Results in the order of the units.  Where not all come to an end, `keep` is given those that did, and who
    interrupts is told how to go on.  What Ray prints of nodes that die, or a subject, is kept off standard output."""
    executor = executor_of(options["where"], options["patience_s"])
    journal = Journal(folder, units, resume=options["resume"] is not None)
    quiet = options["as_json"]
    try:
        with _watched(failures, quiet=quiet) as watch, redirect_stdout(sys.stderr):
            return run_campaign(units, executor, journal, watch)
    except (CampaignError, KeyboardInterrupt) as end:
        keep([result for _, result in sorted(journal.results.items())])
        if isinstance(end, CampaignError):
            raise
        done = f"{len(journal.results)} of {len(units)} units are done"
        raise KeyboardInterrupt(
            f"interrupted: {done}; the same command with --resume {shlex.quote(str(folder))} goes on"
        ) from None


@contextmanager
def _watched(failures: Callable[[Any], int], *, quiet: bool) -> Iterator[Watch]:
    with terminal.unit_progress(quiet=quiet) as (begin, step):

        def hear(unit: Unit | None, event: Any, result: Any) -> None:
            if event.kind == "done":
                step(failures(result))
            elif event.kind == "again" and unit is not None:
                terminal.print_aside(f"{unit.name} is run again: {event.text}")

        yield Watch(begin, hear)
