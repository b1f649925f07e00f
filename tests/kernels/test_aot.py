"""Every kernel compiles for every chip without a spill, and the barriers are there that the interpreter never
misses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="kernels need torch: `make kernels` installs it")
pytest.importorskip("triton", reason="kernels need triton: `make kernels` installs it")

import triton

from schedspec.kernels.compile import HEAD, README, TARGETS, WITHOUT, cases, with_table

ROOT = Path(__file__).parents[2]
PINNED = "3.7.1"
"""The table is of this version."""


def run(program: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: what is interpreted is not compiled."""
    environment = {name: value for name, value in os.environ.items() if name != WITHOUT}
    environment["PYTHONPATH"] = str(ROOT / "src")
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


BARRIERS = {"allocate": 6, "step": 9, "settle": 5, "settle, groups": 5, "cancel": 6, "lift": 2, "issue": 1}
BARRIERS |= {"line: offsets": 1, "line: make_room": 1, "admit_shared": 4}
"""Wherever one thread reads what another wrote to memory, or writes over what another reads; as between pushing blocks
and popping them.  Kernels that are not here have none."""


def test_every_kernel_compiles_without_a_spill_and_with_its_barriers() -> None:
    """The kernel that sorts takes most of the time: here it is compiled for one chip, by the command for all.  In the
    intermediate form there are no barriers but those that are written in a kernel."""
    made = run("from schedspec.kernels.compile import main; raise SystemExit(main(['--quick']))")
    assert made.returncode == 0, made.stdout + made.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in made.stdout.splitlines()[2:]]
    assert {chip for _, chip, *_ in rows} == set(TARGETS)
    assert {name: int(barriers) for name, *_, barriers in rows if int(barriers)} == BARRIERS
    if triton.__version__ == PINNED:
        page = README.read_text(encoding="utf-8")
        assert [line for line in made.stdout.splitlines() if line not in page] == []


def test_the_page_has_every_kernel_for_every_chip() -> None:
    page = README.read_text(encoding="utf-8")
    rows = {tuple(cell.strip() for cell in line.split("|")[1:3]) for line in page.splitlines() if " gfx942 " in line}
    assert {name for name, _ in rows} == {case.name for case in cases()}


def test_the_table_is_written_over_the_old_one() -> None:
    page = "before\n\n| kernel | chip | x |\n|---|---|---|\n| old | sm_80 | 1 |\n\nafter\n"
    assert with_table(page, f"{HEAD}| new | sm_80 |\n") == f"before\n\n{HEAD}| new | sm_80 |\n\nafter\n"


def test_a_spill_fails() -> None:
    """A small kernel whose tile does not fit into registers; the table says by how much."""
    program = (
        "from schedspec.kernels import compile\n"
        "from schedspec.kernels.compile import cases\n"
        "compile.cases = lambda: [case._replace(constants=case.constants | {'tile': 32_768})"
        " for case in cases() if case.name == 'line: kept']\n"
    )
    made = run(f"{program}raise SystemExit(compile.main(['--chip', 'sm_90']))")
    assert made.returncode == 1, made.stdout + made.stderr
    assert "a kernel spills" in made.stderr
    spills = [int(line.split("|")[4]) for line in made.stdout.splitlines()[2:]]
    assert len(spills) == 1
    assert spills[0] > 0
