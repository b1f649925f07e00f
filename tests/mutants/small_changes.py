"""Small changes of the optimized scheduler and of the plain twins of the kernels: their own tests must notice each.

`python tests/mutants/small_changes.py` makes one after the other in a copy of the tree and runs the tests there that
should fail; it prints who survives, and ends with 1 then.  It takes minutes; `--only calendar` is one module alone.
Twins need an interpreter with torch and triton: `--kernels .venv-kernels/bin/python`.  What is changed stands in
`list_of_small_changes.py`; changes of kernels themselves stand beside their tests.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]  # it is run by its path

from tests.mutants.list_of_small_changes import OPTIMIZED, TWINS, Change  # noqa: E402

PARTS = ("optimized", "kernels", "reference", "spec", "proofs", "src", "tests")
NOTICED = 1
"""Some tests failed, says pytest."""

PATIENCE = ("--timeout=300", "--timeout-method=thread")
"""Seconds, of one test: some changes make a loop that never ends, which is noticed, too."""


def survivors(changes: Sequence[Change], python: str) -> Iterator[tuple[Change, bool]]:
    """Each change, and whether no test noticed it."""
    with TemporaryDirectory() as folder:
        tree = Path(folder)
        for part in PARTS:
            shutil.copytree(
                ROOT / part, tree / part, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "reports")
            )
        shutil.copy(ROOT / "pyproject.toml", tree)
        for tests in {change.tests for change in changes}:
            if run(tree, tests, python) != 0:
                raise click.ClickException(f"{' '.join(tests)} fail as it is: what they noticed would say nothing")
        for change in changes:
            file = tree / change.file
            text = file.read_text(encoding="utf-8")
            file.write_text(text.replace(change.old, change.new), encoding="utf-8")
            yield change, run(tree, change.tests, python) != NOTICED
            file.write_text(text, encoding="utf-8")


def run(tree: Path, tests: Sequence[str], python: str) -> int:
    command = [python, "-m", "pytest", "-q", "-x", *PATIENCE, "-p", "no:cacheprovider", *tests]
    paths = os.pathsep.join(map(str, (tree / "src", tree)))
    return subprocess.run(
        command, cwd=tree, env=os.environ | {"PYTHONPATH": paths}, stdout=subprocess.DEVNULL, check=False
    ).returncode


@click.command()
@click.option("--only", multiple=True, help="A module.")
@click.option("--kernels", metavar="PYTHON", help="Plain twins, too, in an interpreter that has torch and triton.")
def main(only: tuple[str, ...], kernels: str | None) -> None:
    missed = 0
    for changes, python in ((OPTIMIZED, sys.executable), (TWINS, kernels)):
        chosen = [change for change in changes if not only or change.module in only]
        if python is None:
            click.echo(f"{len(chosen)} changes of plain twins were not made: --kernels names no interpreter")
            continue
        for change, survived in survivors(chosen, python):
            missed += survived
            click.echo(f"{'SURVIVED' if survived else 'noticed '} {change}")
    click.echo(f"{missed} survived")
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
