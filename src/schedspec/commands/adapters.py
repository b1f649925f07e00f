"""`schedspec validate-adapter` and `replay-failure`, and the process that DET rules run a scheduler in again."""

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

import click

from ..conformance import terminal
from .parts import VOID, one_sentence, subject_of


@click.command("validate-adapter")
@click.argument("subject")
@click.option("--timeout-s", type=click.FloatRange(min=0.01), default=5.0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def validate_adapter(ctx: click.Context, subject: str, timeout_s: float, as_json: bool) -> None:
    """Does an adapter speak the protocol?  About a second.  Exit status 2 if it does not."""
    with one_sentence(ctx):
        from ..conformance.validate import validate

        checks = validate(subject_of(subject, timeout_s))
        good = all(item.ok for item in checks)
        if as_json:
            rows = [{"name": c.name, "ok": c.ok, "sentence": c.sentence} for c in checks]
            click.echo(json.dumps({"subject": subject, "ok": good, "checks": rows}))
        else:
            terminal.print_adapter(checks)
    sys.exit(0 if good else VOID)


@click.command("replay-failure")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--subject", help="Instead of the one in the file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def replay_failure(ctx: click.Context, file: Path, subject: str | None, as_json: bool) -> None:
    """Run a stored failure again.  Exit status 1 if it still fails, 0 if it does not."""
    with one_sentence(ctx):
        from ..conformance.stored import load_failure, replay_stored

        stored = load_failure(file)
        name = subject or stored.subject
        again = replay_stored(stored, subject_of(name, 10.0), rerun=[sys.executable, "-m", "schedspec", "rerun", name])
        if as_json:
            click.echo(json.dumps(again.as_json()))
        else:
            terminal.print_again(again)
    sys.exit(again.exit_status)


@click.command(hidden=True)
@click.argument("subject")
@click.pass_context
def rerun(ctx: click.Context, subject: str) -> None:
    """The second process of the DET rules: scripts on standard input, digests of answers on standard output."""
    from ..conformance.determinism import rerun_tasks

    answers = sys.stdout
    with one_sentence(ctx), redirect_stdout(sys.stderr):  # what the subject prints is no answer
        rerun_tasks(subject_of(subject, 10.0), sys.stdin, answers)
