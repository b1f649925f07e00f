"""`schedspec check`: judge a scheduler."""

import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
from attrs import evolve

from ..campaigns import Unit
from ..conformance import terminal
from ..conformance.files import file_name
from ..spec.vocabulary import Settings
from .campaign import UNITS, folder_of, in_units, is_campaign, run_units
from .exhaust import clean_cases
from .parts import (
    DEFAULT_FIRST_S,
    WORKLOAD_HELP,
    command_line,
    counted,
    ensure_writable,
    kept_off_stdout,
    known_rules,
    one_sentence,
    read_settings,
    report_folder,
    subject_of,
    workload_of,
    writes_report,
)
from .replay import profile_of

DEPTH_HELP = "A second or two, up to half a minute, minutes; every run of small scopes; or as long as you say."
DEPTH_NAMES = ("smoke", "quick", "standard", "small-scope", "soak")


@click.command()
@click.argument("subject")
@click.option("--depth", type=click.Choice(DEPTH_NAMES), default="quick", help=DEPTH_HELP, show_default=True)
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    default=600,
    help="How long a soak takes, and at most a search in small scopes.",
    show_default=True,
)
@click.option("--run", "alone", type=click.IntRange(min=0), help="Of a soak this run alone, by its number.")
@click.option("--runs", type=click.IntRange(min=1), help="A soak of so many runs, in units, however long they take.")
@in_units
@click.option("--seed", type=int, default=0, help="Of all that is drawn.", show_default=True)
@click.option("--workload", help=f"{WORKLOAD_HELP}; 'none' for none.  Default: azure, or else fitted:azure-conv.")
@click.option("--first-s", default=str(DEFAULT_FIRST_S), help="Seconds of the recorded workload.", show_default=True)
@click.option(
    "--workload-s",
    type=click.FloatRange(min=0.1),
    help="Stop its arrivals after this time on your clock.  Default: never if --workload is given.",
)
@click.option("--rate", default="1", help="How many times as fast requests come: 2, 0.5, 1/3.", show_default=True)
@click.option("--size", default="1", help="Prompts and outputs times this.", show_default=True)
@click.option("--cv", help="Burstiness of times that are drawn: 0 even, 1 Poisson, more is bursts.")
@click.option("--cost", help="Steps take what this model and device do while little is read; a wrong name lists them.")
@click.option("--step-ns", type=click.IntRange(min=0), help="Fixed time of a step.  Default: that of --cost, or 25 ms.")
@click.option("--token-ns", type=click.IntRange(min=0), help="Time per token.  Default: that of --cost, or 50 µs.")
@click.option(
    "--setting", "settings", multiple=True, help="NAME=VALUE that every run has, such as blocks=64 (repeatable)."
)
@click.option("--rule", "rules", multiple=True, help="Judge this rule only (repeatable).")
@click.option("--timeout-s", type=click.FloatRange(min=0.01), default=10.0, help="Per message.", show_default=True)
@click.option("--report", type=click.Path(path_type=Path), help="Report folder.  Default: build/report/SUBJECT.")
@click.option("--strict", is_flag=True, help="A broken SHOULD or a rule not exercised: exit status 3.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--junit", type=click.Path(path_type=Path), help="Write the verdicts as JUnit XML, too.")
@click.option("--baseline", type=click.Path(path_type=Path), help="Known failures: they do not count.")
@click.option("--update-baseline", is_flag=True, help="Write what fails now to the baseline; what passes goes.")
@click.pass_context
def check(ctx: click.Context, /, subject: str, **options: Any) -> None:
    """Judge a scheduler.

    SUBJECT is package.module:factory, exec:COMMAND in any language, or a built-in name (`schedspec subjects`).

    Exit status: 0 every MUST holds, 1 a MUST is broken, 2 void (the subject broke the protocol, or cannot be made),
    3 with --strict.
    """
    with one_sentence(ctx):
        from ..conformance.baseline import BaselineError, expect, stand, update
        from ..conformance.check import exit_status
        from ..conformance.folder import empty_failures
        from ..conformance.report import keep_failure
        from ..spec.errors import ProtocolError
        from ..spec.workloads import WorkloadError

        quiet, strict = options["as_json"], options["strict"]
        run = _new_check(subject, options)
        if run.workload is not None:
            counted(run.workload)
        known = _known_failures(subject, options)
        if options["junit"] is not None:
            ensure_writable(options["junit"], "JUnit XML")
        folder = report_folder(folder_of(options, file_name(subject)))
        if run.depth.name == "soak":
            empty_failures(folder)
            run.keep = partial(keep_failure, folder, run)
        try:
            with terminal.progress(quiet=quiet) as run.progress, kept_off_stdout(quiet):
                if known is not None:
                    again = {"mode": run.mode, "rerun": run.rerun or (), "timeout_s": run.timeout_s}
                    standings = list(stand(known, run.factory, **again))
                    expect(run, standings, update=options["update_baseline"])
                if options["runs"] is None:
                    run.run()
            if known is not None and options["update_baseline"]:
                run.findings.notes.append(update(known, run, standings, strict=strict))
        except (ProtocolError, WorkloadError, BaselineError, OSError) as fault:
            # What was seen until then is reported all the same.
            if isinstance(fault, ProtocolError):
                run.findings.faults.append(fault)
            _write(run, folder, options)
            raise
        if options["runs"] is not None:
            _run_parts(run, folder, options)
        if not quiet:
            terminal.print_check(run, folder)
        _write(run, folder, options)
        status = exit_status(run.findings, strict=strict)
    sys.exit(status)


def _run_parts(run: Any, folder: Path, options: Mapping[str, Any]) -> None:
    """A unit for so many runs of a soak, from their numbers alone."""
    from ..conformance.soak_parts import PER_PART, merge_parts

    runs = options["runs"]
    given = {"subject": run.name} | {name: options[name] for name in ("seed", "settings", "rules", "timeout_s")}
    units = [
        Unit(f"runs from {start}", f"{UNITS}:soak_part", given | {"start": start, "end": min(start + PER_PART, runs)})
        for start in range(0, runs, PER_PART)
    ]
    parts = run_units(units, folder, options, failures=lambda part: len(part["examples"]))
    run.command = run.again(0).replace(" --run 0", f" --runs {runs}", 1)  # the same wherever it ran
    with kept_off_stdout(options["as_json"]):
        merge_parts(run, parts)


def _ensure_units(options: Mapping[str, Any]) -> None:
    """What is cut into units is a number of runs of a soak."""
    if options["runs"] is None:
        if is_campaign(options):
            raise click.UsageError("--on and --resume are for a soak of a number of runs: --depth soak --runs 10000")
        return
    if options["depth"] != "soak":
        raise click.UsageError("--runs is for --depth soak")
    for name in ("alone", "baseline", "workload"):
        if options[name] is not None:
            option = {"alone": "--run"}.get(name, f"--{name}")
            raise click.UsageError(f"{option} does not go with --runs: leave one of them out")


def _replays(depth: str, options: Mapping[str, Any]) -> bool:
    return depth != "small-scope" and options["runs"] is None


def _new_check(subject: str, options: Mapping[str, Any]) -> Any:
    _ensure_units(options)
    from ..conformance.check import DEPTHS, Check, small_scope, soak

    depths = DEPTHS | {make.name: make for make in (soak(options["seconds"]), small_scope(options["seconds"]))}
    depth = depths[options["depth"]]
    if options["alone"] is not None and depth.name != "soak":
        raise click.UsageError("--run is the number of a run of a soak: write --depth soak, too")
    pinned = read_settings(options["settings"])
    Settings(**pinned)  # do they contradict each other?
    wall_s = options["workload_s"] or (None if options["workload"] else depth.workload_s)
    return Check(
        name=subject,
        factory=subject_of(subject, options["timeout_s"]),
        seed=options["seed"],
        mode="raw" if subject.endswith("-raw") else "shipped",
        depth=evolve(depth, workload_s=wall_s),
        workload=workload_of(options, as_json=options["as_json"]) if _replays(depth.name, options) else None,
        step_time=step_time_of(options),
        rerun=[sys.executable, "-m", "schedspec", "rerun", subject],
        only=known_rules(options["rules"]),
        pinned=pinned,
        timeout_s=options["timeout_s"],
        alone=options["alone"],
        cases=clean_cases() if depth.name == "small-scope" else (),
        command=command_line(),
    )


def step_time_of(options: Mapping[str, Any]) -> Any:
    """What is given, else what the cost model says, else the default."""
    from ..conformance.replaying import SETTINGS, StepTime

    times = StepTime()
    if options["cost"] is not None:
        from ..reference.simulation.declared import light_time

        fixed_ns, per_token_ns = light_time(profile_of(options["cost"]).cost, SETTINGS.token_budget)
        times = StepTime(fixed_ns=fixed_ns, per_token_ns=per_token_ns)
    given = {"fixed_ns": options["step_ns"], "per_token_ns": options["token_ns"]}
    return evolve(times, **{name: ns for name, ns in given.items() if ns is not None})


def _known_failures(subject: str, options: Mapping[str, Any]) -> Any:
    """The baseline, read and found writable before anything runs."""
    from ..conformance.baseline import read_baseline

    path, wanted = options["baseline"], options["update_baseline"]
    if path is None:
        if wanted:
            raise click.UsageError("--update-baseline needs --baseline FILE")
        return None
    known = read_baseline(path, subject, may_be_missing=wanted)
    if wanted:
        ensure_writable(path, "the baseline")
    return known


def _write(run: Any, folder: Path, options: Mapping[str, Any]) -> None:
    """Everything that programs read, and the pages."""
    from ..check_report import write_pages
    from ..conformance.junit import write_junit
    from ..conformance.report import as_json, shown_failures, write_report

    told = as_json(run, strict=options["strict"])
    if options["as_json"]:
        click.echo(json.dumps(told))
    with writes_report(folder):
        write_report(folder, run, strict=options["strict"])
        if options["junit"] is not None:
            write_junit(options["junit"], run, folder, strict=options["strict"])
        lacks = write_pages(folder, told, shown_failures(run, folder))
    if lacks and not options["as_json"]:
        terminal.print_aside(lacks)
