"""Look for every bug, and say which rule found it.  Exit status 1 if one was missed."""

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from schedspec.conformance.check import DEPTHS
from schedspec.conformance.files import ensure_writable

from . import CATALOGUE, Bug, hunt
from .table import as_json, as_page, as_text, line, misses

BUILD = Path("build")


@click.command()
@click.option("--only", default="", help="Bugs, such as B01,B05; a bug's siblings are B01.1 and so on.")
@click.option("--siblings", is_flag=True, help="Look for siblings of the bugs instead.")
@click.option("--seeds", default="0,1,2", show_default=True)
@click.option("--depth", type=click.Choice(list(DEPTHS)), default="standard", show_default=True)
@click.option("--json", "path", type=click.Path(path_type=Path), help="Default: build/mutants.json, or siblings.json.")
@click.option("--page", type=click.Path(path_type=Path), help="Write a page in Markdown, too.")
def main(only: str, siblings: bool, seeds: str, depth: str, path: Path | None, page: Path | None) -> None:
    bugs = list(chosen(only.split(",") if only else (), siblings=siblings))
    numbers = whole_numbers(seeds)
    path = path or BUILD / ("siblings.json" if siblings else "mutants.json")
    for file, what in ((path, "the result"), (page, "the page")):
        if file is not None:
            ensure_there_is_room(file, what)
    catches = []
    for bug in bugs:
        for seed in numbers:
            catches.append(hunt(bug, seed, DEPTHS[depth]))
            click.echo(line(catches[-1]), err=True)
    path.write_text(as_json(catches, depth))
    if page is not None:
        page.write_text(as_page(catches, command(only, siblings=siblings), depth))
    click.echo(as_text(catches))
    sys.exit(1 if misses(catches) else 0)


def command(only: str, *, siblings: bool) -> str:
    """What makes the same page again; seeds and depth stand beside it."""
    arguments = ([f"--only {only}"] if only else []) + (["--siblings"] if siblings else []) + ["--page FILE"]
    return f'make mutants ARGS="{" ".join(arguments)}"'


def ensure_there_is_room(file: Path, what: str) -> None:
    try:
        ensure_writable(file, what)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def chosen(ids: Iterable[str], *, siblings: bool) -> Iterable[Bug]:
    for id in ids:
        if id not in CATALOGUE:
            raise click.UsageError(f"there is no bug {id!r}: there are {', '.join(CATALOGUE)}")
    wanted = set(ids)
    return (bug for bug in CATALOGUE.values() if (bug.id in wanted if wanted else bool(bug.of) == siblings))


def whole_numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise click.UsageError(f"--seeds is {text!r}, but must be whole numbers such as 0,1,2") from None


if __name__ == "__main__":
    main()
