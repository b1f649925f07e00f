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


IN_SHORT = {
    "convert": "Write a recorded run as a file of columns, or back.",
    "data": "Public files that can be used, and where they are.",
    "exhaust": "Look at every run of the reference in small scopes.",
    "explain": "A rule's card: statement, formula, reason and proof.",
    "matrix": "Check subjects under each combination of settings.",
    "parity": "Run a scheduler and a model of it in lock step.",
    "prove": "Run the proofs, by z3, cvc5 and Coq.",
    "replay": "Run a workload on a virtual clock, for each system.",
    "report": "Make the pages of a report or a recorded run.",
    "reproduce": "Hold systems of the literature against their papers.",
    "rules": "All rules, a line each.",
    "serve-sim": "Serve a workload with a real, small model.",
    "subjects": "Schedulers that are there by name.",
    "trace": "Judge a recorded run, or those of a fleet.",
    "tune": "Change one setting at a time, and see what it does.",
    "validate-adapter": "Does an adapter speak the protocol? A second.",
    "why": "One request's story, from a recorded run.",
}
"""For the list of all commands: each in a line of a narrow terminal."""

BEGIN = """\b
Begin with your own scheduler, my_scheduler.py, and its class Scheduler:
  schedspec validate-adapter my_scheduler:Scheduler
  schedspec check my_scheduler:Scheduler
or with one that is here: schedspec check fault:KV-7
"""


@click.group(epilog=BEGIN, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="schedspec")
@click.option("--traceback", "show_traceback", is_flag=True, help="Show where an error came from.")
@click.pass_context
def cli(ctx: click.Context, show_traceback: bool) -> None:
    """An executable specification of LLM request scheduling."""
    ctx.obj = show_traceback
    ctx.with_resource(told_once())


for command in COMMANDS:
    command.short_help = IN_SHORT.get(command.name or "", command.short_help)
    cli.add_command(command)


def main() -> None:
    """Whoever interrupts again, once it has been told what that did, does not end it in another way."""
    try:
        cli()
    except SystemExit as end:
        if end.code == INTERRUPTED:
            ignore_signals()
        raise
