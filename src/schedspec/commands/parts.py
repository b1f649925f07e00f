"""What several commands need: options read, one sentence for bad input, a folder for the report."""

import os
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import click

from ..conformance import terminal
from ..spec.vocabulary import Settings, SettingsWarning, Subject
from .subjects import builtin_subjects

Command = Callable[..., Any]

VOID = 2
INTERRUPTED = 130
MOST = 1_000_000
DEFAULT_FIRST_S = 120
DEFAULT_TIMEOUT_S = 10.0
WORKLOAD_HELP = "azure, mooncake, sharegpt, arxiv, vtc, csv, jsonl, each with :FILE; fitted:NAME; hostile:KIND"
SUBJECT_HELP = "SUBJECT is a built-in name (reference, optimized, fault:ID), package.module:factory or exec:COMMAND."


def with_options(options: Sequence[Callable[[Command], Command]], command: Command) -> Command:
    """In the order in which its help shows them."""
    for option in reversed(options):
        command = option(command)
    return command


def read_settings(texts: Iterable[str], common: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Settings of the command line, beside common ones.  Raises ValueError with one sentence."""
    from ..conformance.script import read_settings_of

    return read_settings_of(texts, common or {})


def ensure_writable(path: Path, what: str) -> None:
    from ..conformance.files import ensure_writable

    ensure_writable(path, what)


def report_folder(folder: Path, report: str = "report.json") -> Path:
    """Made before anything runs, so that nothing is judged in vain."""
    failures = folder / "failures"
    try:
        failures.mkdir(parents=True, exist_ok=True)
        for path in (folder, failures):
            probe = path / f".{os.getpid()}.probe"
            probe.write_text("Is there room?")
            probe.unlink()
        for path in (folder / report, folder / "report.md"):
            if path.exists():  # none is left behind that has nothing in it
                with path.open("a"):
                    pass
    except OSError as error:
        where = f" ({error.filename})" if error.filename and Path(error.filename) != folder else ""
        raise ValueError(
            f"no report can be written to {folder}: {error.strerror}{where}; name another folder by --report"
        ) from error
    return folder


def command_line() -> str:
    """What was typed, for the report; nothing where the command was called from Python."""
    name = Path(sys.argv[0]).name
    return shlex.join(["schedspec", *sys.argv[1:]]) if name in ("schedspec", "__main__.py") else ""


@contextmanager
def writes_report(folder: Path) -> Iterator[None]:
    """A disk that is full, or a folder that was taken away meanwhile, is one sentence, after what was found."""
    try:
        yield
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise ValueError(f"the report in {folder} is not complete: {error.strerror}{where}") from error


@contextmanager
def kept_off_stdout(wanted: bool) -> Iterator[None]:
    """With --json what the subject prints goes to standard error: there is one object on standard output."""
    if not wanted:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield


def counted(workload: Any, pool_tokens: int | None = None) -> int:
    """All of it is read before anything runs, so that a bad line is told at once, as is a request that does not fit."""
    return sum(1 for _ in workload.arrivals(pool_tokens))


def subject_of(name: str, timeout_s: float) -> Callable[[Settings, int], Subject]:
    from ..conformance.subjects.resolve import resolve

    return resolve(name, builtin_subjects(), timeout_s)


def workload_of(options: Mapping[str, Any], *, as_json: bool) -> Any:
    """What was asked for; without a word the Azure trace, or where it is not at hand its statistics."""
    from ..spec.workloads import MissingWorkload, parse_workload

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


def positive(name: str, text: str) -> Fraction:
    try:
        number = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise click.UsageError(f"{name} is {text!r}, but must be a number such as 2, 0.5 or 1/3") from None
    if number <= 0:
        raise click.UsageError(f"{name} is {text}, but must be greater than 0")
    if number > MOST:
        raise click.UsageError(f"{name} is {text}, but must be at most {MOST:,}")
    return number


def known_rules(ids: Any) -> frozenset[str]:
    from ..spec.catalogue import registry
    from ..spec.fleets.rules import RULES as FLEET
    from ..spec.hints import did_you_mean

    for rule in ids:
        if rule in FLEET:
            raise click.UsageError(f"{rule} is judged over several engines: `schedspec trace FOLDER` does it")
        if rule not in registry.rules:
            hint = did_you_mean(rule, registry.rules, "`schedspec rules`")
            raise click.UsageError(f"there is no rule {rule!r}: {hint}")
    return frozenset(ids)


@cache
def all_cards() -> list[dict[str, Any]]:
    from ..proofs.exhausted import exhausted_rules
    from ..proofs.manifest import proved_rules, related_theorems
    from ..spec.cards import cards

    return cards(proved_rules(), related_theorems(), exhausted_rules())


@contextmanager
def one_sentence(ctx: click.Context) -> Iterator[None]:
    """Bad input ends in one clear sentence and status 2; `--traceback` shows where it came from."""
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, SystemExit):
        raise
    except KeyboardInterrupt as interrupt:
        stop(str(interrupt) or "interrupted", INTERRUPTED)
    except FileNotFoundError as error:
        stop(f"there is no file {error.filename}", VOID)
    except (ValueError, OSError, RuntimeError) as error:
        if ctx.obj:
            traceback.print_exc()
        for line in getattr(error, "told", ()):  # what a subject left: its traceback, the end of its stderr
            terminal.print_aside(f"  {line}")
        stop(str(error), VOID)
    except Exception as error:
        from ..spec.vocabulary import Unsupported

        if not isinstance(error, Unsupported):
            raise
        if ctx.obj:
            traceback.print_exc()
        stop(str(error), VOID)


@contextmanager
def told_once() -> Iterator[None]:
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


def stop(sentence: str, status: int) -> NoReturn:
    terminal.print_error(sentence)
    sys.exit(status)
