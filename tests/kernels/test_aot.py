"""Every kernel compiles for every chip without a spill, and the barriers are there that the interpreter never
misses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="kernels need torch: `make kernels` installs it")
pytest.importorskip("triton", reason="kernels need triton: `make kernels` installs it")

from schedspec.kernels.compile import TARGETS, WITHOUT

ROOT = Path(__file__).parents[2]


def run(program: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: what is interpreted is not compiled."""
    environment = {name: value for name, value in os.environ.items() if name != WITHOUT}
    environment["PYTHONPATH"] = str(ROOT / "src")
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_every_kernel_compiles_without_a_spill() -> None:
    """The kernel that sorts takes most of the time: here it is compiled for one chip, by the command for all."""
    made = run("from schedspec.kernels.compile import main; raise SystemExit(main(['--quick']))")
    assert made.returncode == 0, made.stdout + made.stderr
    rows = [line.split("|")[1:3] for line in made.stdout.splitlines()[2:]]
    assert {chip.strip() for _, chip in rows} == set(TARGETS)
    print(made.stdout)


def test_a_spill_fails() -> None:
    program = (
        "from schedspec.kernels import compile\n"
        "from schedspec.kernels.compile import cases\n"
        "compile.cases = lambda: [case._replace(constants=case.constants | {'tile': 4_096})"
        " for case in cases() if case.name == 'admit_fcfs']\n"
    )
    made = run(f"{program}raise SystemExit(compile.main(['--chip', 'sm_90']))")
    assert made.returncode == 1, made.stdout + made.stderr
    assert "a kernel spills" in made.stderr


def test_barriers_stand_between_pushing_and_popping() -> None:
    """In the intermediate form there are no barriers but those that are written in the kernel: one between the store of
    what victims release and the load of what growth takes, and those for the prefix sums."""
    program = (
        "from schedspec.kernels.compile import cases, compiled\n"
        "case = next(case for case in cases() if case.name == 'allocate')\n"
        "made = compiled(case, 'sm_90')\n"
        "words = [word for line in made.intermediate.splitlines()"
        " for word in ('tt.store', 'tt.load', 'barrier') if word in line]\n"
        "print(*words)\n"
    )
    made = run(program)
    assert made.returncode == 0, made.stderr
    words = made.stdout.split()
    assert words.count("barrier") == 6
