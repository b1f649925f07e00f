"""The command line: thin.  It reads arguments, calls the suite, and prints."""

import json
import os
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from attrs import evolve

from . import __version__
from .conformance import terminal
from .conformance.files import file_name
from .data import data
from .proofs.command import prove
from .spec.vocabulary import Settings, SettingsWarning, Subject, SubjectFactory

if TYPE_CHECKING:
    from .conformance.recorded import Judged

VOID = 2
DEFAULT_FIRST_S = 120
DEFAULT_TIMEOUT_S = 10.0
WORKLOAD_HELP = "azure, mooncake, sharegpt, arxiv, vtc, csv, jsonl, each with :FILE; fitted:NAME; hostile:KIND"
SUBJECT_HELP = "SUBJECT is a built-in name (reference, optimized, fault:ID), package.module:factory or exec:COMMAND."


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="schedspec")
@click.option("--traceback", "show_traceback", is_flag=True, help="Show where an error came from.")
@click.pass_context
def cli(ctx: click.Context, show_traceback: bool) -> None:
    """An executable specification of LLM request scheduling."""
    ctx.obj = show_traceback
    ctx.with_resource(_told_once())


cli.add_command(data)
cli.add_command(prove)


def main() -> None:
    cli()


# --- check -------------------------------------------------------------------------------------------------


@cli.command()
@click.argument("subject")
@click.option("--depth", type=click.Choice(["smoke", "quick", "standard", "soak"]), default="quick", show_default=True)
@click.option("--seconds", type=click.FloatRange(min=1), default=600, help="How long a soak takes.", show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
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
@click.option(
    "--step-ns", type=click.IntRange(min=0), default=25_000_000, help="Fixed time of a step.", show_default=True
)
@click.option(
    "--token-ns", type=click.IntRange(min=0), default=50_000, help="Time of a step per token.", show_default=True
)
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

    Exit status: 0 every MUST holds, 1 a MUST is broken, 2 void (the subject broke the protocol, or cannot be made),
    3 with --strict.
    """
    with _one_sentence(ctx):
        from .conformance.baseline import BaselineError, expect, stand, update
        from .conformance.check import exit_status
        from .spec.protocol import ProtocolError
        from .spec.workloads import WorkloadError

        quiet, strict = options["as_json"], options["strict"]
        run = _new_check(subject, options)
        if run.workload is not None:
            _counted(run.workload)
        known = _known_failures(subject, options)
        if options["junit"] is not None:
            _ensure_writable(options["junit"], "JUnit XML")
        folder = _report_folder(options["report"] or Path("build") / "report" / file_name(subject))
        try:
            with terminal.progress(quiet=quiet) as run.progress, _kept_off_stdout(quiet):
                if known is not None:
                    again = {"mode": run.mode, "rerun": run.rerun or (), "timeout_s": run.timeout_s}
                    standings = list(stand(known, run.factory, **again))
                    expect(run, standings, update=options["update_baseline"])
                run.run()
            if known is not None and options["update_baseline"]:
                run.findings.notes.append(update(known, run, standings, strict=strict))
        except (ProtocolError, WorkloadError, BaselineError, OSError) as fault:
            # What was seen until then is reported all the same.
            if isinstance(fault, ProtocolError):
                run.findings.faults.append(fault)
            _write(run, folder, options)
            raise
        _write(run, folder, options)
        if not quiet:
            terminal.print_check(run, folder)
        status = exit_status(run.findings, strict=strict)
    sys.exit(status)


def _pinned(texts: Iterable[str]) -> dict[str, Any]:
    """Settings of the command line.  Raises ValueError with one sentence."""
    from .conformance.script import read_setting

    return dict(read_setting(text) for text in texts)


def _new_check(subject: str, options: Mapping[str, Any]) -> Any:
    from .conformance.check import DEPTHS, Check, soak
    from .conformance.replaying import StepTime

    depth = soak(options["seconds"]) if options["depth"] == "soak" else DEPTHS[options["depth"]]
    pinned = _pinned(options["settings"])
    Settings(**pinned)  # do they contradict each other?
    wall_s = options["workload_s"] or (None if options["workload"] else depth.workload_s)
    return Check(
        name=subject,
        factory=_subject(subject, options["timeout_s"]),
        seed=options["seed"],
        mode="raw" if subject.endswith("-raw") else "shipped",
        depth=evolve(depth, workload_s=wall_s),
        workload=_workload(options, as_json=options["as_json"]),
        step_time=StepTime(fixed_ns=options["step_ns"], per_token_ns=options["token_ns"]),
        rerun=[sys.executable, "-m", "schedspec", "rerun", subject],
        only=_known_rules(options["rules"]),
        pinned=pinned,
        timeout_s=options["timeout_s"],
    )


def _known_failures(subject: str, options: Mapping[str, Any]) -> Any:
    """The baseline, read and found writable before anything runs."""
    from .conformance.baseline import read_baseline

    path, wanted = options["baseline"], options["update_baseline"]
    if path is None:
        if wanted:
            raise click.UsageError("--update-baseline needs --baseline FILE")
        return None
    known = read_baseline(path, subject, may_be_missing=wanted)
    if wanted:
        _ensure_writable(path, "the baseline")
    return known


def _ensure_writable(path: Path, what: str) -> None:
    from .conformance.files import ensure_writable

    ensure_writable(path, what)


def _write(run: Any, folder: Path, options: Mapping[str, Any]) -> None:
    """Everything that programs read."""
    from .conformance.junit import write_junit
    from .conformance.report import as_json, write_report

    write_report(folder, run, strict=options["strict"])
    if options["junit"] is not None:
        write_junit(options["junit"], run, folder, strict=options["strict"])
    if options["as_json"]:
        click.echo(json.dumps(as_json(run, strict=options["strict"])))


def _report_folder(folder: Path, report: str = "report.json") -> Path:
    """Made before anything runs, so that nothing is judged in vain."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / report).touch()
    except OSError as error:
        raise ValueError(f"no report can be written to {folder}: {error.strerror}") from error
    return folder


@contextmanager
def _kept_off_stdout(wanted: bool) -> Iterator[None]:
    """With --json what the subject prints goes to standard error: there is one object on standard output."""
    if not wanted:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield


# --- matrix ------------------------------------------------------------------------------------------------


@cli.command()
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
    with _one_sentence(ctx):
        from .conformance.matrix import cells, exit_status, read_over, run_matrix, write_matrix

        folder = options["report"] or Path("build") / "report" / "matrix"
        todo = cells(subjects, [read_over(text) for text in options["over"]])
        command = [sys.executable, "-m", "schedspec", "check"]
        passed = [word for name in ("depth", "seed", "workload", "timeout_s") for word in _option(name, options[name])]
        begun = time.monotonic()
        with terminal.counted_progress("checks", len(todo)) as done:
            outcomes = run_matrix(
                todo, command, folder, jobs=options["jobs"] or os.cpu_count() or 1, options=passed, done=done
            )
        seconds = time.monotonic() - begun
        write_matrix(folder, outcomes, seconds)
        terminal.print_matrix(outcomes, folder, seconds)
        status = exit_status(outcomes)
    sys.exit(status)


def _option(name: str, value: object) -> list[str]:
    return ["--" + name.replace("_", "-"), str(value)]


# --- replay ------------------------------------------------------------------------------------------------


@cli.command()
@click.argument("workload")
@click.option("--system", "systems", multiple=True, help="SUBJECT or SUBJECT:NAME=VALUE,… (repeatable).")
@click.option("--cost", help="Model and device whose step times are used; a wrong name lists them.")
@click.option("--setting", "settings", multiple=True, help="NAME=VALUE that every system has (repeatable).")
@click.option("--first-s", default=str(DEFAULT_FIRST_S), help="Seconds of the recorded workload.", show_default=True)
@click.option("--rate", default="1", help="How many times as fast requests come: 2, 0.5, 1/3.", show_default=True)
@click.option("--load", "loads", default="1", help="Runs at so many times that rate each: 0.5,1,2.", show_default=True)
@click.option("--size", default="1", help="Prompts and outputs times this.", show_default=True)
@click.option("--cv", help="Burstiness of times that are drawn: 0 even, 1 Poisson, more is bursts.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--ttft-ms", type=click.IntRange(min=1), default=1_000, help="Promised first token.", show_default=True)
@click.option("--tpot-ms", type=click.IntRange(min=1), default=100, help="Promised time per token.", show_default=True)
@click.option("--host-us", type=click.IntRange(min=0), default=0, help="Time to plan a step.", show_default=True)
@click.option("--price-per-hour", help="Of the machine, in any currency, to price useful tokens.")
@click.option("--step-by-step", is_flag=True, help="Skip no decode steps; the result is the same.")
@click.option("--timeout-s", type=click.FloatRange(min=0.01), default=10.0, help="Per message.", show_default=True)
@click.option("--report", type=click.Path(path_type=Path), help="Report folder.  Default: build/report/replay.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def replay(ctx: click.Context, /, workload: str, **options: Any) -> None:
    """Run a recorded workload on a virtual clock, once for each system and load: a table, and a page with pictures.

    WORKLOAD is KIND:FILE with azure, mooncake, sharegpt, arxiv, vtc, csv or jsonl for KIND, KIND alone for the file
    that is usual, or fitted:NAME or hostile:KIND, which need no file.  Without --system it is the reference.  What is
    done is written and shown even if a later run fails or somebody interrupts.
    """
    with _one_sentence(ctx):
        conditions, systems, loads = _conditions(options), _systems(options), _loads(options["loads"])
        source = _workload({**options, "workload": workload}, as_json=options["as_json"])
        if source is None:
            raise click.UsageError("replay needs a workload: write KIND:FILE, fitted:NAME or hostile:KIND")
        count = _counted(source, min(system.settings.blocks * system.settings.block_size for system in systems))
        folder = _report_folder(options["report"] or Path("build") / "report" / "replay", "replay.json")
        told: dict[str, Any] = _replay_header(workload, options, [system.name for system in systems], list(loads))
        _write_replay(told, folder)
        try:
            with terminal.progress(quiet=options["as_json"]) as progress, _kept_off_stdout(options["as_json"]):
                for load, times in loads.items():
                    faster = evolve(source, rate=source.rate * times)
                    for system in systems:
                        show = _by_hundreds(progress, f"{system.name[:40]} ×{load}", count)
                        _replay_one(told, system, faster, load, conditions, show)
                        _write_replay(told, folder)
        finally:
            _show_replay(told, folder, as_json=options["as_json"])


def _replay_one(
    told: dict[str, Any], system: Any, source: Any, load: str, conditions: Any, show: Callable[[int], None]
) -> None:
    from .reference.simulation import replay as replay_one
    from .spec.workloads import to_requests

    run = replay_one(system, to_requests(source.arrivals(), conditions.seed), conditions, show)
    told["runs"].append({"system": system.name, "load": load, **run})


def _write_replay(told: Mapping[str, Any], folder: Path) -> None:
    from .conformance.files import replace_file

    replace_file(folder / "replay.json", json.dumps(told) + "\n")


def _loads(text: str) -> dict[str, Fraction]:
    """As they were written -> times the rate."""
    parts = [part.strip() for part in text.split(",")]
    loads = {part: _positive("--load", part) for part in parts}
    if len(set(loads.values())) < len(parts):
        raise click.UsageError(f"--load {text} has a number twice")
    return loads


def _positive(name: str, text: str) -> Fraction:
    try:
        number = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise click.UsageError(f"{name} is {text!r}, but must be a number such as 2, 0.5 or 1/3") from None
    if number <= 0:
        raise click.UsageError(f"{name} is {text}, but must be greater than 0")
    return number


def _conditions(options: Mapping[str, Any]) -> Any:
    from .reference.simulation import Conditions, Objective

    price = options["price_per_hour"]
    return Conditions(
        profile=_profile(options["cost"]),
        objective=Objective(ttft_ns=options["ttft_ms"] * 1_000_000, tpot_ns=options["tpot_ms"] * 1_000_000),
        seed=options["seed"],
        host_ns=options["host_us"] * 1_000,
        fast_forward=not options["step_by_step"],
        price_per_hour=None if price is None else _positive("--price-per-hour", price),
    )


def _profile(name: str | None) -> Any:
    from .reference.simulation import DEFAULT, PROFILES
    from .spec.protocol import did_you_mean

    wanted = name or DEFAULT
    if wanted not in PROFILES:
        raise click.UsageError(f"there is no cost model {wanted!r}: {did_you_mean(wanted, PROFILES)}")
    return PROFILES[wanted]


def _systems(options: Mapping[str, Any]) -> list[Any]:
    """Each with its settings: those of the device, those of all, its own."""
    from .conformance.subjects.guard import guarded
    from .reference.simulation import System, default_settings

    common = default_settings(_profile(options["cost"])) | _pinned(options["settings"])
    systems = []
    for name in options["systems"] or ("reference",):
        subject, own = _split_system(name)
        factory = _subject(subject, options["timeout_s"])
        if subject not in ("reference", "optimized"):  # these are ours, and answer as they should
            factory = guarded(factory, options["timeout_s"])
        systems.append(System(name, factory, Settings(**common | _pinned(own))))
    return systems


def _split_system(text: str) -> tuple[str, list[str]]:
    """`SUBJECT:NAME=VALUE,NAME=VALUE`; a command is taken as it is."""
    found = None if text.startswith("exec:") else re.fullmatch(r"(.+?):(\w+=.*)", text)
    return (text, []) if found is None else (found[1], re.split(r",(?=\w+=)", found[2]))


def _counted(workload: Any, pool_tokens: int | None = None) -> int:
    """All of it is read before anything runs, so that a bad line is told at once, as is a request that does not fit."""
    return sum(1 for _ in workload.arrivals(pool_tokens))


def _replay_header(workload: str, options: Mapping[str, Any], systems: list[str], loads: list[str]) -> dict[str, Any]:
    from .reference.simulation import DEFAULT

    same = {name: options[name] for name in ("first_s", "rate", "size", "cv", "seed", "host_us", "price_per_hour")}
    cost = options["cost"] or DEFAULT
    return {
        "schema": "schedspec-replay/1",
        "workload": workload,
        **same,
        "cost": cost,
        "source": _profile(cost).source,
        "objective": {"ttft_ms": options["ttft_ms"], "tpot_ms": options["tpot_ms"]},
        "planned": {"systems": systems, "loads": loads},
        "runs": [],
    }


def _by_hundreds(progress: Callable[[str, float, str], None], stage: str, count: int) -> Callable[[int], None]:
    shown = [-1]

    def show(requests: int) -> None:
        if requests * 100 // count > shown[0]:
            shown[0] = requests * 100 // count
            again = f", {requests - count:,} more asked again" if requests > count else ""
            progress(stage, min(1.0, requests / count), f"{min(requests, count):,} of {count:,} requests{again}")

    return show


def _show_replay(told: Mapping[str, Any], folder: Path, *, as_json: bool) -> None:
    from .replay_report import write_page

    page = write_page(told, folder)
    if as_json:
        click.echo(json.dumps(told))
        return
    for run in told["runs"]:
        terminal.print_replay(run, with_load=len(told["planned"]["loads"]) > 1)
    if told["runs"]:
        terminal.print_aside(f"{told['source']}; times in ms unless in s; report in {folder / 'replay.json'}")
    terminal.print_aside(page)


# --- parity ------------------------------------------------------------------------------------------------


@cli.command()
@click.argument("subject")
@click.option("--model", default="vllm-v1", show_default=True, help="What SUBJECT is held to: a subject, too.")
@click.option("--seeds", type=click.IntRange(min=1), default=100, help="Workloads of each kind.", show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--setting", "settings", multiple=True, help="NAME=VALUE that every workload has (repeatable).")
@click.option("--timeout-s", type=click.FloatRange(min=0.01), default=10.0, help="Per message.", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def parity(ctx: click.Context, /, subject: str, model: str, **options: Any) -> None:
    """Run a scheduler and a model in lock step on random workloads, up to the first difference.

    Exit status: 0 no difference, 1 a difference, 2 void (one of them broke the protocol, or cannot be made).
    """
    with _one_sentence(ctx):
        from .conformance.parity import Parity
        from .conformance.parity_report import as_json, printed

        quiet, timeout_s = options["as_json"], options["timeout_s"]
        pinned = _pinned(options["settings"])
        theirs, ours = _subject(subject, timeout_s), _subject(model, timeout_s)
        run = Parity(theirs, ours, options["seeds"], options["seed"], pinned, timeout_s)
        with terminal.progress(quiet=quiet) as progress, _kept_off_stdout(quiet):
            run.run(progress)
        if quiet:
            click.echo(json.dumps(as_json(run, subject, model)))
        else:
            for part in printed(run, subject, model):
                terminal.out.print(part, soft_wrap=True)
    sys.exit(1 if run.difference is not None else 0)


# --- trace, validate-adapter, replay-failure ----------------------------------------------------------------


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--report", type=click.Path(path_type=Path), help="Report folder.  Default: build/report/FILE.")
@click.option("--strict", is_flag=True, help="A broken SHOULD or a rule not exercised: exit status 3.")
@click.option("--plain", is_flag=True, help="One entry after the other, even where numpy is there.")
@click.pass_context
def trace(ctx: click.Context, file: Path, as_json: bool, report: Path | None, strict: bool, plain: bool) -> None:
    """Judge a recorded run.  Exit status as for check."""
    with _one_sentence(ctx):
        from .conformance.recorded import result_json, write_recorded

        with terminal.progress(quiet=as_json) as progress:
            judged = _judge(file, progress, plain=plain)
        folder = report or Path("build") / "report" / file_name(file.name)
        write_recorded(folder, judged)
        status = judged.exit_status(strict=strict)
        if as_json:
            click.echo(json.dumps(result_json(judged, strict=strict)))
        else:
            terminal.print_trace(judged, folder)
    sys.exit(status)


def _judge(file: Path, progress: Callable[[str, float, str], None], *, plain: bool) -> "Judged":
    """Whole steps at once, if numpy is there; both ways find the same."""
    from .conformance.recorded import judge

    if plain or find_spec("numpy") is None:
        return judge(file, progress)
    from .optimized.monitor import BulkMonitor
    from .optimized.reading import ColumnLoads
    from .spec.trace import read_trace

    return judge(file, progress, BulkMonitor, partial(read_trace, loads=ColumnLoads(), arrays=True))


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("to", type=click.Path(path_type=Path))
@click.pass_context
def convert(ctx: click.Context, file: Path, to: Path) -> None:
    """Write a recorded run as a file of columns, or a file of columns as lines.

    FILE says itself which it is.  Both hold the same run; columns are read several times as fast.
    """
    with _one_sentence(ctx):
        from .spec.trace_columns import convert_trace

        terminal.print_aside(f"{convert_trace(file, to):,} messages written to {to}")


@cli.command()
@click.argument("file", metavar="TRACE", type=click.Path(path_type=Path))
@click.argument("request")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def why(ctx: click.Context, file: Path, request: str, as_json: bool) -> None:
    """Tell one request's story from a recorded run: what it waited for, who went past it, how it ended."""
    with _one_sentence(ctx):
        from .conformance import why as story_of

        story = story_of.tell(file, request)
        if as_json:
            click.echo(json.dumps(story_of.as_json(story)))
        else:
            terminal.print_story(story_of.sentences(story))


@cli.command("validate-adapter")
@click.argument("subject")
@click.option("--timeout-s", type=click.FloatRange(min=0.01), default=5.0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def validate_adapter(ctx: click.Context, subject: str, timeout_s: float, as_json: bool) -> None:
    """Does an adapter speak the protocol?  About a second.  Exit status 2 if it does not."""
    with _one_sentence(ctx):
        from .conformance.validate import validate

        checks = validate(_subject(subject, timeout_s))
        good = all(item.ok for item in checks)
        if as_json:
            rows = [{"name": c.name, "ok": c.ok, "sentence": c.sentence} for c in checks]
            click.echo(json.dumps({"subject": subject, "ok": good, "checks": rows}))
        else:
            terminal.print_adapter(checks)
    sys.exit(0 if good else VOID)


@cli.command("replay-failure")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--subject", help="Instead of the one in the file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def replay_failure(ctx: click.Context, file: Path, subject: str | None, as_json: bool) -> None:
    """Run a stored failure again.  Exit status 1 if it still fails, 0 if it does not."""
    with _one_sentence(ctx):
        from .conformance.stored import load_failure, replay_stored

        stored = load_failure(file)
        name = subject or stored.subject
        again = replay_stored(stored, _subject(name, 10.0), rerun=[sys.executable, "-m", "schedspec", "rerun", name])
        if as_json:
            click.echo(json.dumps(again.as_json()))
        else:
            terminal.print_again(again)
    sys.exit(again.exit_status)


@cli.command(hidden=True)
@click.argument("subject")
def rerun(subject: str) -> None:
    """The second process of the DET rules: scripts on standard input, digests of answers on standard output."""
    from .conformance.determinism import rerun_tasks

    answers = sys.stdout
    with redirect_stdout(sys.stderr):  # what the subject prints is no answer
        rerun_tasks(_subject(subject, 10.0), sys.stdin, answers)


# --- exhaust -----------------------------------------------------------------------------------------------


@cli.command()
@click.argument("names", metavar="[CASE]...", nargs=-1)
@click.option(
    "--subject", help="This one in place of the reference, in the cases that are exhausted for the reference."
)
@click.option("--deep", is_flag=True, help="Those that take minutes, too.")
@click.option(
    "--calls",
    default=5,
    show_default=True,
    type=click.IntRange(min=1),
    help="Of a subject without `canonical`: all runs of so many calls.",
)
@click.option("--jobs", type=click.IntRange(min=1), help="Cases at a time.  Default: one per core.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--write", is_flag=True, help="Write what is found to exhausted.toml and README.md of proofs.")
@click.pass_context
def exhaust(ctx: click.Context, /, names: tuple[str, ...], **options: Any) -> None:
    """Look at every run in small scopes, up to symmetry, for somebody who gets nowhere and for a rule that is broken.

    Without CASE all cases of proofs/exhausted.toml, and a table; with some of them also the story of each
    counterexample.  Exit status 1: something is not as expected there, or another subject breaks a MUST.
    """
    with _one_sentence(ctx):
        from .conformance.small_scope.cases import TRUSTED, Manner, differences, faults, run_cases
        from .proofs import exhausted, manifest, page

        if options["write"] and options["subject"]:
            raise ValueError("--write is about the cases as they are: leave --subject out")
        cases = _cases(names, options["subject"], deep=options["deep"])
        factories = {subject: _subject(subject, DEFAULT_TIMEOUT_S) for subject in {case.subject for case in cases}}
        with terminal.counted_progress("cases", len(cases)) as done:
            manner = Manner(DEFAULT_TIMEOUT_S, options["calls"]) if options["subject"] else TRUSTED
            found = run_cases(cases, factories, options["jobs"] or os.cpu_count() or 1, done, manner)
        if all(one.refused for one in found):
            raise ValueError(f"{options['subject']} refuses every case, so nothing was looked at: {found[0].refused}")
        if options["write"]:
            there = {case.case.name: case.case.plain for case in found}
            exhausted.write(there.get(case["name"], case) for case in exhausted.read())
            page.rewrite(manifest.read())
        if options["subject"]:
            wrong = [line for one in found for line in faults(one)]
        else:
            pairs = zip(cases, found, strict=True)
            wrong = [] if options["write"] else [line for case, one in pairs for line in differences(case, one.case)]
        if options["as_json"]:
            plain = [
                {**f.case.plain, "why": dict(f.why), "stories": dict(f.stories), "refused": f.refused} for f in found
            ]
            document = {"cases": plain}
            click.echo(json.dumps(document | {"wrong": wrong}))
        else:
            terminal.print_cases(found, stories=bool(names or options["subject"]))
        for line in wrong:
            terminal.print_error(line)
    sys.exit(1 if wrong else 0)


def _cases(names: Iterable[str], subject: str | None, *, deep: bool) -> list[Any]:
    """Those that were named, or all; another subject is asked what the reference answers well."""
    from .conformance.small_scope.cases import Case
    from .proofs import exhausted

    cases = {plain["name"]: Case(**plain) for plain in exhausted.read()}
    for name in names:
        if name not in cases:
            raise ValueError(f"there is no case {name!r}: they are {', '.join(map(repr, cases))}")
    chosen = [cases[name] for name in names] or [case for case in cases.values() if deep or not case.deep]
    if subject is None:
        return chosen
    clean = [case for case in chosen if "refuted" not in (case.work, case.progress, case.starvation)]
    return [evolve(case, subject=subject, judged=True) for case in clean if case.subject == "reference"]


# --- rules, explain ----------------------------------------------------------------------------------------


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def rules(ctx: click.Context, as_json: bool) -> None:
    """All rules: id, level, what they need to see and to be claimed, statement."""
    with _one_sentence(ctx):
        found = _cards()
        if as_json:
            click.echo(json.dumps({card["id"]: card for card in found}))
            return
        terminal.print_rules(found)


@cli.command()
@click.argument("rule_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def explain(ctx: click.Context, rule_id: str, as_json: bool) -> None:
    """A rule's card: statement, formula, what it needs, why it exists, what checks and proves it."""
    with _one_sentence(ctx):
        (known,) = _known_rules([rule_id])
        card = next(card for card in _cards() if card["id"] == known)
        if as_json:
            click.echo(json.dumps(card))
            return
        terminal.print_card(card)


# --- parts -------------------------------------------------------------------------------------------------


def builtin_subjects() -> Mapping[str, SubjectFactory]:
    """Built-in names.  The suite does not know them: to it they are subjects like any other."""
    from . import optimized
    from .conformance.subjects import vllm
    from .optimized import on_device
    from .reference import make
    from .reference.faults import FAULTS, factory
    from .reference.systems import sketch, vllm_v1
    from .reference.systems.vllm_v1_wrong import WRONG

    subjects: dict[str, SubjectFactory] = {"reference": make, "optimized": optimized.make, "kernels": on_device.make}
    subjects |= {"vllm": vllm.make, "vllm-raw": vllm.raw}
    subjects |= {"vllm-v1": vllm_v1.make, "vllm-v1-raw": vllm_v1.raw}
    subjects |= {f"vllm-v1-wrong:{name}": model for name, model in WRONG.items()}
    subjects |= sketch.subjects()
    return subjects | {f"fault:{rule}": factory(rule) for rule in FAULTS}


def _subject(name: str, timeout_s: float) -> Callable[[Settings, int], Subject]:
    from .conformance.subjects.resolve import resolve

    return resolve(name, builtin_subjects(), timeout_s)


def _workload(options: Mapping[str, Any], *, as_json: bool) -> Any:
    """What was asked for; without a word the Azure trace, or where it is not at hand its statistics."""
    from .spec.workloads import MissingWorkload, parse_workload

    wanted = options["workload"]
    if wanted == "none":
        return None
    scale = {name: options[name] for name in ("first_s", "rate", "size", "seed", "cv")}
    if wanted is not None:
        return parse_workload(wanted, **scale)
    try:
        return parse_workload("azure", **scale)
    except MissingWorkload as error:
        if not as_json:
            terminal.print_aside(f"fitted:azure-conv in place of real arrivals: {error}")
        return parse_workload("fitted:azure-conv", **scale)


def _cards() -> list[dict[str, Any]]:
    from .proofs.exhausted import exhausted_rules
    from .proofs.manifest import proved_rules, related_theorems
    from .spec.cards import cards

    return cards(proved_rules(), related_theorems(), exhausted_rules())


def _known_rules(ids: Any) -> frozenset[str]:
    from difflib import get_close_matches

    from .spec.catalogue import registry

    for rule in ids:
        if rule not in registry.rules:
            close = get_close_matches(rule.upper(), registry.rules, n=1)
            hint = f"did you mean {close[0]}?" if close else "`schedspec rules` lists them"
            raise click.UsageError(f"there is no rule {rule!r}: {hint}")
    return frozenset(ids)


@contextmanager
def _one_sentence(ctx: click.Context) -> Iterator[None]:
    """Bad input ends in one clear sentence and status 2; `--traceback` shows where it came from."""
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, SystemExit):
        raise
    except KeyboardInterrupt:
        _stop("interrupted", 130)
    except FileNotFoundError as error:
        _stop(f"there is no file {error.filename}", VOID)
    except (ValueError, OSError, RuntimeError) as error:
        if ctx.obj:
            traceback.print_exc()
        _stop(str(error), VOID)
    except Exception as error:
        from .spec.vocabulary import Unsupported

        if not isinstance(error, Unsupported):
            raise
        if ctx.obj:
            traceback.print_exc()
        _stop(str(error), VOID)


@contextmanager
def _told_once() -> Iterator[None]:
    """A warning about settings is a line on standard error, however often they are made."""
    told: set[str] = set()
    plain = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if not issubclass(category, SettingsWarning):
            plain(message, category, *place, **more)
        elif str(message) not in told:
            told.add(str(message))
            terminal.print_aside(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", SettingsWarning)
        warnings.showwarning = show
        yield


def _stop(sentence: str, status: int) -> NoReturn:
    terminal.print_error(sentence)
    sys.exit(status)
