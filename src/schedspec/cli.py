"""The command line: thin.  Each command stands in `commands/`."""

import click

from . import __version__
from .campaigns.signals import ignore_signals
from .commands.adapters import replay_failure, rerun, validate_adapter
from .commands.check import check
from .commands.data import data
from .commands.described import subjects
from .commands.exhaust import exhaust
from .commands.matrix import matrix
from .commands.parity import parity
from .commands.parts import INTERRUPTED, told_once
from .commands.recorded import convert, trace, why
from .commands.replay import replay
from .commands.report import report
from .commands.reproduce import reproduce
from .commands.rules import explain, rules
from .commands.serve_sim import serve_sim
from .commands.tune import tune
from .proofs.command import prove

COMMANDS: tuple[click.Command, ...] = (
    check,
    convert,
    data,
    exhaust,
    explain,
    matrix,
    parity,
    prove,
    replay,
    replay_failure,
    report,
    reproduce,
    rerun,
    rules,
    serve_sim,
    subjects,
    trace,
    tune,
    validate_adapter,
    why,
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="schedspec")
@click.option("--traceback", "show_traceback", is_flag=True, help="Show where an error came from.")
@click.pass_context
def cli(ctx: click.Context, show_traceback: bool) -> None:
    """An executable specification of LLM request scheduling."""
    ctx.obj = show_traceback
    ctx.with_resource(told_once())


for command in COMMANDS:
    cli.add_command(command)


def main() -> None:
    """Whoever interrupts again, once it has been told what that did, does not end it in another way."""
    try:
        cli()
    except SystemExit as end:
        if end.code == INTERRUPTED:
            ignore_signals()
        raise
