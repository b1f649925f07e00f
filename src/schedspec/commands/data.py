"""`schedspec data`: the public files that the project can use, whether they are here, and how they come here."""

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from ..conformance import terminal

if TYPE_CHECKING:
    from ..spec.workloads.public import PublicFile

VOID = 2
COLOURS = {"found": "green", "unverified": "green", "missing": "yellow", "other bytes": "bold red"}


@click.command()
@click.argument("name", required=False)
@click.option(
    "--fetch", "is_wanted", is_flag=True, help="Download what is missing, and keep it if its sha256 is right."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def data(name: str | None, is_wanted: bool, as_json: bool) -> None:
    """Which public files can be used, where they come from, and whether they are here.

    They are looked for in $SCHEDSPEC_DATA, else in ../shared/data.  NAME is a file or a folder of the list; of a single
    file everything is shown.  Exit status 2: there is no such file, or one that should be fetched could not be.
    """
    from ..spec.workloads import WorkloadError
    from ..spec.workloads.public import data_folder, named, public_files

    try:
        files = public_files() if name is None else named(name)
    except WorkloadError as error:
        terminal.print_error(str(error))
        sys.exit(VOID)
    faults = _fetch(files, quiet=as_json, is_one=len(files) == 1) if is_wanted else []
    if as_json:
        click.echo(json.dumps({"folder": str(data_folder()), "files": [_plain(file) for file in files]}))
    elif len(files) == 1:
        _print_one(files[0])
    else:
        _print_all(files)
    for fault in faults:
        terminal.print_error(fault)
    sys.exit(VOID if faults else 0)


def _fetch(files: Sequence["PublicFile"], *, quiet: bool, is_one: bool) -> list[str]:
    """What is missing; of several files, those that can be had.  The first fault ends it, as it would be the next."""
    from ..spec.workloads import WorkloadError
    from ..spec.workloads.fetch import fetch
    from ..spec.workloads.public import standing

    wanted = [file for file in files if standing(file) in ("missing", "other bytes")]
    if not is_one:
        wanted = [file for file in wanted if file.can_be_fetched]
    for file in wanted:
        try:
            with terminal.progress(quiet=quiet) as progress:
                fetch(file, progress=partial(_show, progress, file))
        except WorkloadError as error:
            return [str(error)]
    return []


def _show(progress: Callable[[str, float, str], None], file: "PublicFile", size: int) -> None:
    progress(file.name, size / (file.size or size), f"{size:,} bytes")


def _plain(file: "PublicFile") -> dict[str, Any]:
    from ..spec.workloads.public import data_folder, standing

    state = standing(file)
    return {
        "name": file.name,
        "use": file.use,
        "repository": f"https://github.com/{file.repository}",
        "commit": file.commit,
        "path": file.path,
        "licence": file.licence,
        "size": file.size,
        "sha256": file.sha256,
        "reshaped": file.reshaped,
        "standing": state,
        "found": None if state == "missing" else str(data_folder() / file.name),
        "how_to_get": file.how_to_get if state == "missing" else None,
    }


def _print_one(file: "PublicFile") -> None:
    for name, value in _plain(file).items():
        if value is not None:
            _line(f"{name:12} {escape(str(value))}")


def _print_all(files: Sequence["PublicFile"]) -> None:
    """A line per file under its source; the terminal may break it, but nothing is cut off."""
    from ..spec.workloads.fits import FITS
    from ..spec.workloads.hostile import SOURCES
    from ..spec.workloads.public import data_folder, standing

    for (repository, licence), group in groupby(files, key=lambda file: (file.repository, file.licence)):
        _line(f"[bold]https://github.com/{repository}[/], {licence}")
        for file in group:
            state = standing(file)
            size = "?" if file.size is None else f"{file.size:,}"
            digest = (file.sha256 or "?")[:12]
            note = ", re-shaped" if file.reshaped else ""
            _line(
                f"  [{COLOURS[state]}]{state:11}[/] {size:>9} {digest:12} {escape(file.name)} @{file.commit[:8]}{note}"
            )
    terminal.print_aside(f"in {data_folder()}; `schedspec data NAME` has all of one file, --fetch gets what is missing")
    terminal.print_aside(f"without a file: {', '.join(f'fitted:{fit}' for fit in FITS)}")
    terminal.print_aside(f"and {', '.join(f'hostile:{kind}' for kind in SOURCES)}")


def _line(text: str) -> None:
    terminal.out.print(text, soft_wrap=True, highlight=False)
