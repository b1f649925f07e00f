"""`schedspec parity`: a scheduler and a model in lock step."""

import json
import sys
from collections.abc import Mapping
from typing import Any

import click

from ..campaigns import Unit
from ..conformance import terminal
from .campaign import UNITS, folder_of, in_units, is_campaign, run_units
from .parts import kept_off_stdout, one_sentence, read_settings, subject_of

SAME = ("seeds", "seed", "settings", "timeout_s")


@click.command()
@click.argument("subject")
@click.option("--model", default="vllm-v1", show_default=True, help="What SUBJECT is held to: a subject, too.")
@click.option("--seeds", type=click.IntRange(min=1), default=100, help="Workloads of each kind.", show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--setting", "settings", multiple=True, help="NAME=VALUE that every workload has (repeatable).")
@click.option("--timeout-s", type=click.FloatRange(min=0.01), default=10.0, help="Per message.", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@in_units
@click.pass_context
def parity(ctx: click.Context, /, subject: str, model: str, **options: Any) -> None:
    """Run a scheduler and a model in lock step on random workloads, up to the first difference.

    Exit status: 0 no difference, 1 a difference, 2 void (one of them broke the protocol, or cannot be made).
    """
    with one_sentence(ctx):
        from ..conformance.parity import Parity
        from ..conformance.parity_report import as_json, printed

        quiet, timeout_s = options["as_json"], options["timeout_s"]
        pinned = read_settings(options["settings"])
        theirs, ours = subject_of(subject, timeout_s), subject_of(model, timeout_s)
        run = Parity(theirs, ours, options["seeds"], options["seed"], pinned, timeout_s)
        with kept_off_stdout(quiet):
            if is_campaign(options):
                same = {"subject": subject, "model": model, **{name: options[name] for name in SAME}}
                given = [{**same, "name": name, "start": start, "end": end} for name, start, end in run.parts()]
                units = [Unit("{name}, from {start}".format(**one), f"{UNITS}:compare_part", one) for one in given]
                run.merge(run_units(units, folder_of(options, "parity"), options, failures=_differs))
            else:
                with terminal.progress(quiet=quiet) as progress:
                    run.run(progress)
        if quiet:
            click.echo(json.dumps(as_json(run, subject, model)))
        else:
            for part in printed(run, subject, model):
                terminal.out.print(part, soft_wrap=True)
    sys.exit(1 if run.difference is not None else 0)


def _differs(part: Mapping[str, Any]) -> int:
    return int(part["differs"] is not None)
