"""The command line: thin.  It reads arguments, calls the suite, and prints."""

import json
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NoReturn

import click
from attrs import evolve
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from . import __version__
from .spec.vocabulary import Settings, Subject, SubjectFactory

VOID = 2
DEFAULT_FIRST_S = 120
MOST_ROWS = 24
SUBJECT_HELP = "SUBJECT is a built-in name (reference, fault:ID), package.module:factory or exec:COMMAND."

out = Console()
err = Console(stderr=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="schedspec")
@click.option("--traceback", "show_traceback", is_flag=True, help="Show where an error came from.")
@click.pass_context
def cli(ctx: click.Context, show_traceback: bool) -> None:
    """An executable specification of LLM request scheduling."""
    ctx.obj = show_traceback


def main() -> None:
    cli()


# --- check -------------------------------------------------------------------------------------------------


@cli.command()
@click.argument("subject")
@click.option("--depth", type=click.Choice(["smoke", "quick", "standard", "soak"]), default="quick", show_default=True)
@click.option("--seconds", type=click.FloatRange(min=1), default=600, help="How long a soak takes.", show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--workload", help="KIND:FILE, such as azure:trace.csv; 'none' for none. Default: azure, if it is at hand."
)
@click.option("--first-s", default=str(DEFAULT_FIRST_S), help="Seconds of the recorded workload.", show_default=True)
@click.option(
    "--workload-s",
    type=click.FloatRange(min=0.1),
    help="Stop its arrivals after this time on your clock.  Default: never if --workload is given.",
)
@click.option("--rate", default="1", help="How many times as fast requests come: 2, 0.5, 1/3.", show_default=True)
@click.option("--size", default="1", help="Prompts and outputs times this.", show_default=True)
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
@click.pass_context
def check(ctx: click.Context, /, subject: str, **options: Any) -> None:
    """Judge a scheduler.

    Exit status: 0 every MUST holds, 1 a MUST is broken, 2 void (the subject broke the protocol, or cannot be made),
    3 with --strict.
    """
    with _one_sentence(ctx):
        from .conformance.check import DEPTHS, Check, exit_status, soak
        from .conformance.replaying import StepTime
        from .conformance.report import as_json, write_report
        from .conformance.script import read_setting
        from .spec.protocol import ProtocolError
        from .spec.workloads import WorkloadError

        depth = soak(options["seconds"]) if options["depth"] == "soak" else DEPTHS[options["depth"]]
        wall_s = options["workload_s"] or (None if options["workload"] else depth.workload_s)
        run = Check(
            name=subject,
            factory=_subject(subject, options["timeout_s"]),
            seed=options["seed"],
            depth=evolve(depth, workload_s=wall_s),
            workload=_workload(options, as_json=options["as_json"]),
            step_time=StepTime(fixed_ns=options["step_ns"], per_token_ns=options["token_ns"]),
            rerun=[sys.executable, "-m", "schedspec", "rerun", subject],
            only=_known_rules(options["rules"]),
            pinned=dict(read_setting(text) for text in options["settings"]),
            timeout_s=options["timeout_s"],
        )
        folder = _report_folder(options["report"] or Path("build") / "report" / _file_name(subject))
        try:
            with _progress(quiet=options["as_json"]) as run.progress, _kept_off_stdout(options["as_json"]):
                run.run()
        except (ProtocolError, WorkloadError) as fault:  # what was seen until then is reported all the same
            if isinstance(fault, ProtocolError):
                run.findings.faults.append(fault)
            write_report(folder, run, strict=options["strict"])
            if options["as_json"]:
                click.echo(json.dumps(as_json(run, strict=options["strict"])))
            raise
        write_report(folder, run, strict=options["strict"])
        status = exit_status(run.findings, strict=options["strict"])
        if options["as_json"]:
            click.echo(json.dumps(as_json(run, strict=options["strict"])))
        else:
            _print_check(run, folder)
    sys.exit(status)


def _report_folder(folder: Path) -> Path:
    """Made before anything runs, so that nothing is judged in vain."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.json").touch()
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


def _print_check(run: Any, folder: Path) -> None:
    from .conformance.report import failure_proof, failure_table, headline

    findings = run.findings
    out.print(_verdicts(findings))
    for failure in sorted(findings.failures.values(), key=lambda failure: failure.messages):
        if _level(failure.rule) == "SHOULD":
            page = folder / "failures" / f"{failure.rule}.md"
            out.print(
                f"advice: {failure.rule} is broken in {failure.messages} messages, see {page}",
                highlight=False,
                soft_wrap=True,
            )
            continue
        rule_table = _steps(failure_table(failure))
        out.print(f"\n[bold red]{failure.rule}[/]  {_statement(failure.rule)}", highlight=False)
        for word, text in failure_proof(failure):
            out.print(f"  [bold]{word:8}[/]{_escaped(text)}", highlight=False)
        out.print(rule_table)
        if failure.also:
            out.print(f"  also broken by this trace: {', '.join(failure.also)}", highlight=False)
        out.print(
            f"  again: schedspec replay-failure {folder / 'failures' / (failure.rule + '.json')}",
            highlight=False,
            soft_wrap=True,
        )
    for note in findings.notes:
        out.print(f"note: {_escaped(note)}", highlight=False, soft_wrap=True)
    if findings.refused_settings:
        refused = ", ".join(sorted(findings.refused_settings))
        out.print(f"settings that the subject refuses, so not tried: {refused}", highlight=False, soft_wrap=True)
    for name, replayed in findings.workloads.items():
        cut = " (cut short: time was up)" if replayed.cut_short else ""
        out.print(f"{name}: {replayed.requests} requests, {replayed.steps} steps{cut}", highlight=False)
    for fault in sorted({str(fault) for fault in findings.faults}):
        out.print(f"[bold red]void[/]  {_escaped(fault)}", highlight=False, soft_wrap=True)
    colour = "red" if findings.faults or any(_level(rule) == "MUST" for rule in findings.broken) else "green"
    out.print(
        f"[bold {colour}]{run.name}: {headline(findings)}[/]  seed {run.seed}, {findings.runs} runs, "
        f"{run.seconds:.1f} s; report in {folder}",
        highlight=False,
        soft_wrap=True,
    )


def _verdicts(findings: Any) -> Table:
    from .conformance.check import results

    colours = {"pass": "green", "fail": "bold red", "void": "bold red", "unknown": "yellow", "not exercised": "yellow"}
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    table.add_column("rule", width=8)
    table.add_column("verdict", width=15)
    table.add_column("exercised", width=9, justify="right")
    table.add_column("statement", ratio=1, no_wrap=True, overflow="ellipsis")
    for rule, result in results(findings).items():
        colour = (
            "yellow" if result.verdict == "fail" and result.level == "SHOULD" else colours.get(result.verdict, "dim")
        )
        verdict = f"{result.verdict} ({result.level})" if result.level == "SHOULD" else result.verdict
        table.add_row(rule, f"[{colour}]{verdict}[/]", f"{result.exercised:,}", _escaped(_statement(rule)))
    return table


def _steps(lines: list[Any]) -> Table:
    """The step table; of a long one the end, the whole stands in the report."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in ("", "#", "call", "answer"):
        table.add_column(column, justify="right" if column == "#" else "left")
    if len(lines) > MOST_ROWS:
        table.add_row("", "…", f"{len(lines) - MOST_ROWS} earlier messages: see the report", "")
    for line in lines[-MOST_ROWS:]:
        style = "bold red" if line.bad else ""
        table.add_row(
            "  ✗" if line.bad else "   ", str(line.number), _escaped(line.call), _escaped(line.answer), style=style
        )
    return table


# --- trace, validate-adapter, replay-failure ----------------------------------------------------------------


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--report", type=click.Path(path_type=Path), help="Report folder.  Default: build/report/FILE.")
@click.option("--strict", is_flag=True, help="A broken SHOULD or a rule not exercised: exit status 3.")
@click.pass_context
def trace(ctx: click.Context, file: Path, as_json: bool, report: Path | None, strict: bool) -> None:
    """Judge a recorded run.  Exit status as for check."""
    with _one_sentence(ctx):
        from .conformance.recorded import judge, result_json, write_recorded

        with _progress(quiet=as_json) as progress:
            judged = judge(file, progress)
        folder = report or Path("build") / "report" / _file_name(file.name)
        write_recorded(folder, judged)
        status = judged.exit_status(strict=strict)
        if as_json:
            click.echo(json.dumps(result_json(judged, strict=strict)))
        else:
            _print_trace(judged, folder)
    sys.exit(status)


def _print_trace(judged: Any, folder: Path) -> None:
    from .conformance.narrate import proof, step_table

    out.print(_verdicts(judged.findings))
    for violation, messages in judged.shortened:
        out.print(f"\n[bold red]{violation.rule}[/]  {_statement(violation.rule)}", highlight=False)
        for word, text in proof(judged.header, messages, violation):
            out.print(f"  [bold]{word:8}[/]{_escaped(text)}", highlight=False)
        out.print(_steps(step_table(messages, violation.message)))
    if judged.fault is not None:
        out.print(f"[bold red]void[/]  {_escaped(str(judged.fault))}", highlight=False, soft_wrap=True)
    out.print(
        f"{judged.messages:,} messages judged in {judged.seconds:.1f} s; report in {folder}",
        highlight=False,
        soft_wrap=True,
    )


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
            for item in checks:
                mark = "[green]ok[/]  " if item.ok else "[bold red]no[/]  "
                out.print(f"{mark}{item.name:24} {_escaped(item.sentence)}", highlight=False, soft_wrap=True)
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
            from .conformance.narrate import proof

            out.print(f"[bold]{stored.rule}[/]  {_statement(stored.rule)}", highlight=False)
            if again.violation is not None:
                for word, text in proof(again.run.header, again.run.messages, again.violation):
                    out.print(f"  [bold]{word:8}[/]{_escaped(text)}", highlight=False)
            out.print(_steps(again.table()))
            out.print(again.sentence(), highlight=False, soft_wrap=True)
    sys.exit(again.exit_status)


@cli.command(hidden=True)
@click.argument("subject")
def rerun(subject: str) -> None:
    """The second process of the DET rules: scripts on standard input, digests of answers on standard output."""
    from .conformance.determinism import rerun_tasks

    answers = sys.stdout
    with redirect_stdout(sys.stderr):  # what the subject prints is no answer
        rerun_tasks(_subject(subject, 10.0), sys.stdin, answers)


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
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("rule", "level", "needs", "claim", "evidence", "statement"):
            table.add_column(column, no_wrap=column not in ("statement", "claim"))
        for card in found:
            claims = " ".join(card["claims"]) or "–"
            table.add_row(
                card["id"], card["level"], card["needs"], claims, card["evidence"], _escaped(card["statement"])
            )
        out.print(table)


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
        out.print(
            f"[bold]{card['id']}[/] ({card['level']}, since {card['since']})  {_escaped(card['statement'])}\n",
            highlight=False,
        )
        for conjunct in card["formal"]:
            where = f"on {conjunct['on']}" if conjunct["on"] else conjunct["kind"]
            out.print(
                f"  {conjunct['name']:10} {where:18} {_escaped(conjunct['formula'])}", highlight=False, soft_wrap=True
            )
        needs = card["needs"] + (", and the order of deltas" if card["ordered"] else "")
        rows = [
            ("needs", needs),
            ("claim", ", ".join(card["claims"]) or "none: it binds everybody"),
            ("why", card["why"]),
            ("bugs", ", ".join(card["bugs"]) or "–"),
            ("checked by", ", ".join(card["checked_by"])),
            ("proved by", card["proved_by"] or "no proof: " + card["evidence"]),
            ("breaks with", "; ".join(f"{e['also']} ({e['why']})" for e in card["implies"]) or "–"),
        ]
        out.print()
        for name, text in rows:
            out.print(f"  [bold]{name:12}[/]{_escaped(text)}", highlight=False, soft_wrap=True)


# --- parts -------------------------------------------------------------------------------------------------


def builtin_subjects() -> Mapping[str, SubjectFactory]:
    """Built-in names.  The suite does not know them: to it they are subjects like any other."""
    from .conformance.subjects import vllm
    from .reference import make
    from .reference.faults import FAULTS, factory

    return {"reference": make, "vllm": vllm.make, "vllm-raw": vllm.raw} | {
        f"fault:{rule}": factory(rule) for rule in FAULTS
    }


def _subject(name: str, timeout_s: float) -> Callable[[Settings, int], Subject]:
    from .conformance.subjects.resolve import resolve

    return resolve(name, builtin_subjects(), timeout_s)


def _workload(options: Mapping[str, Any], *, as_json: bool) -> Any:
    """What was asked for; without a word the Azure trace where it is at hand."""
    from .spec.workloads import MissingWorkload, parse_workload

    wanted = options["workload"]
    if wanted == "none":
        return None
    scale = {"first_s": options["first_s"], "rate": options["rate"], "size": options["size"], "seed": options["seed"]}
    try:
        return parse_workload(wanted or "azure", **scale)
    except MissingWorkload as error:
        if wanted is not None:
            raise
        if not as_json:
            err.print(f"no real arrivals: {_escaped(str(error))}", highlight=False, soft_wrap=True)
        return None


def _cards() -> list[dict[str, Any]]:
    from .proofs.manifest import proved_rules
    from .spec.cards import cards

    return cards(proved_rules())


def _known_rules(ids: Any) -> frozenset[str]:
    from difflib import get_close_matches

    from .spec.catalogue import registry

    for rule in ids:
        if rule not in registry.rules:
            close = get_close_matches(rule.upper(), registry.rules, n=1)
            hint = f"did you mean {close[0]}?" if close else "`schedspec rules` lists them"
            raise click.UsageError(f"there is no rule {rule!r}: {hint}")
    return frozenset(ids)


def _statement(rule: str) -> str:
    from .spec.catalogue import registry

    return registry.rules[rule].statement if rule in registry.rules else ""


def _level(rule: str) -> str:
    from .spec.catalogue import registry

    return registry.rules[rule].level


def _file_name(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-." else "_" for c in text).strip("_")[:60]


def _escaped(text: str) -> str:
    return text.replace("[", "\\[")


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[str, float, str], None]]:
    """A live bar per stage, on standard error; nothing at all with --json."""
    if quiet:
        yield lambda stage, part, note: None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:12}"),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=False) as bars:
        tasks: dict[str, TaskID] = {}

        def show(stage: str, part: float, note: str) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=1.0, note=note)
            bars.update(tasks[stage], completed=part, note=note)

        yield show


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


def _stop(sentence: str, status: int) -> NoReturn:
    err.print(f"[bold red]error:[/] {_escaped(sentence)}", highlight=False, soft_wrap=True)
    sys.exit(status)
