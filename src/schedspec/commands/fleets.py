"""`schedspec trace` of many files: the engines of a fleet, and the router in front of them."""

import glob
import json
import os
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import click

from ..campaigns import Unit
from ..conformance import terminal
from ..conformance.files import file_name
from .campaign import UNITS, folder_of, run_units
from .parts import Command, report_folder, with_options, writes_report

ENDINGS = (".jsonl", ".columns")
NS_PER_MS = 1_000_000
CLOCK = (
    click.option("--skew-ms", type=click.IntRange(min=0), default=0, help="How far clocks of engines may be apart."),
    click.option(
        "--window-ms",
        type=click.IntRange(min=1),
        default=1_000,
        help="Service over engines is compared in windows of this length.",
        show_default=True,
    ),
)


def under_one_clock(command: Command) -> Command:
    return with_options(CLOCK, command)


def is_fleet(files: Sequence[str]) -> bool:
    first = Path(files[0])
    return len(files) > 1 or first.is_dir() or (glob.has_magic(files[0]) and not first.exists())


def judge_fleet(files: Sequence[str], options: Mapping[str, Any]) -> int:
    """The exit status."""
    from ..check_report import write_fleet_pages
    from ..conformance.fleet import find_files, merged, write_fleet

    paths, root = _paths(files)
    found = find_files(paths, root)
    folder = report_folder(folder_of(options, file_name(root.name) or "fleet"))
    window_ns = options["window_ms"] * NS_PER_MS
    units = [
        _unit(engine, path, plain=options["plain"], window_ns=window_ns)
        for engine, parts in found.engines.items()
        for path in parts
    ]
    results = run_units(units, folder, options, failures=_failures)
    report = merged(results, found.router, skew_ns=options["skew_ms"] * NS_PER_MS, window_ns=window_ns)
    if options["as_json"]:
        click.echo(json.dumps(report.plain))
    else:
        terminal.print_fleet(report)
    with writes_report(folder):
        write_fleet(folder, report)
        if not options["as_json"]:
            terminal.print_failures_of_engines(report, folder)
        lacks = write_fleet_pages(folder, report.plain)
    if lacks and not options["as_json"]:
        terminal.print_aside(lacks)
    return report.exit_status(strict=options["strict"])


def _unit(engine: str, path: Path, *, plain: bool, window_ns: int) -> Unit:
    """The size is part of it: a file that has changed since is another unit."""
    given = {"file": str(path), "engine": engine, "plain": plain, "window_ns": window_ns, "bytes": path.stat().st_size}
    return Unit(str(path), f"{UNITS}:judge_engine", given)


def _failures(result: Mapping[str, Any]) -> int:
    return int(result["has_broken_must"] or bool(result["faults"]))


def _paths(files: Sequence[str]) -> tuple[list[Path], Path]:
    """The files, each once, and the folder that they have in common.  Raises ValueError if there are none."""
    found: dict[Path, None] = {}
    roots = []
    for name in files:
        here, root = _matches(name)
        if not here:
            hint = "write its name" if Path(name).is_dir() else "put the pattern in quotes, and ** for folders below"
            kinds = ", ".join(f"*{ending}" for ending in ENDINGS)
            raise ValueError(f"{name}: there is no recorded run there ({kinds}, plain, .gz or .zst): {hint}")
        found |= dict.fromkeys(here)
        roots.append(root)
    if len({root.is_absolute() for root in roots}) > 1:  # then all of them
        roots, found = [root.absolute() for root in roots], {path.absolute(): None for path in found}
    return list(found), Path(os.path.commonpath(roots))


def _matches(name: str) -> tuple[list[Path], Path]:
    from ..conformance.archives import plain_name

    path = Path(name)
    if path.is_file():
        return [path], path.parent
    if path.is_dir():
        named = [one for one in path.rglob("*") if plain_name(one).endswith(ENDINGS)]
        for link in named:
            if link.is_symlink() and not link.exists():
                raise ValueError(f"{link} is a link that leads nowhere: mend it, or take it out of the folder")
        return [one for one in named if one.is_file()], path
    fixed = takewhile(lambda part: not glob.has_magic(part), path.parts)
    return [Path(one) for one in glob.glob(name, recursive=True) if Path(one).is_file()], Path(*fixed)
