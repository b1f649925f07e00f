"""`schedspec matrix`: check it under every combination of settings."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import click

from ..conformance import terminal
from .parts import command_line, ensure_writable, one_sentence


@click.command()
@click.argument("subjects", metavar="SUBJECT...", nargs=-1, required=True)
@click.option("--over", multiple=True, help="NAME=VALUE,VALUE: a setting and what it goes through (repeatable).")
@click.option("--depth", type=click.Choice(["smoke", "quick", "standard"]), default="quick", show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--workload", default="none", help="As for check.", show_default=True)
@click.option("--timeout-s", type=click.FloatRange(min=0.01), default=10.0, help="Per message.", show_default=True)
@click.option("--jobs", type=click.IntRange(min=1), help="Checks at a time.  Default: one per core.")
@click.option("--report", type=click.Path(path_type=Path), help="Report folder.  Default: build/report/matrix.")
@click.pass_context
def matrix(ctx: click.Context, /, subjects: tuple[str, ...], **options: Any) -> None:
    """Check one subject or several under every combination of settings; a table at the end.

    A raw form (vllm-raw) beside its shipped one (vllm): what fails raw only is said.  Exit status: the worst of
    check's.
    """
    with one_sentence(ctx):
        from ..conformance.matrix import cells, exit_status, read_over, run_matrix, write_matrix

        folder = options["report"] or Path("build") / "report" / "matrix"
        ensure_writable(folder / "matrix.json", "the table")
        todo = cells(subjects, [read_over(text) for text in options["over"]])
        command = [sys.executable, "-m", "schedspec", "check"]
        passed = [word for name in ("depth", "seed", "workload", "timeout_s") for word in _option(name, options[name])]
        begun = time.monotonic()
        with terminal.counted_progress("checks", len(todo)) as done:
            outcomes = run_matrix(
                todo, command, folder, jobs=options["jobs"] or os.cpu_count() or 1, options=passed, done=done
            )
        seconds = time.monotonic() - begun
        write_matrix(folder, outcomes, seconds, command_line())
        terminal.print_matrix(outcomes, folder, seconds)
        status = exit_status(outcomes)
    sys.exit(status)


def _option(name: str, value: object) -> list[str]:
    return ["--" + name.replace("_", "-"), str(value)]
