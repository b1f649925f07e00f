"""The VTC program in Go: it obeys, its switches start, and each planted fault serves somebody out of turn.

The workloads are the smallest by hand on which a fault shows.  Prices are 1 per input token and 2 per output token, as
in the paper; with one seat the order of admissions is the order of service.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from attrs import frozen

from schedspec.conformance.driver import Driver
from schedspec.conformance.script import STEP, Op, cancel, rounds, submit
from schedspec.conformance.subjects.stdio import StdioFactory
from schedspec.spec.vocabulary import Settings

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tests/conformance/subjects/vtc"


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    go = shutil.which("go") or shutil.which("go", path=ROOT / "build/go/bin")
    if go is None:
        pytest.skip("there is no go to compile vtc/main.go with: `make vtc` fetches one")
    folder = tmp_path_factory.mktemp("vtc")
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOCACHE": str(ROOT / "build/go/cache")}
    command = [go, "build", "-buildvcs=false", "-o", str(folder / "vtc"), "."]
    subprocess.run(command, cwd=SOURCE, env=environment, check=True)
    return shlex.quote(str(folder / "vtc"))


def of(client: str, *requests: tuple[str, int, int]) -> tuple[Op, ...]:
    """Submissions of one client: id, prompt tokens, output tokens."""
    return tuple(submit(id, prompt, output, client=client) for id, prompt, output in requests)


@frozen
class Case:
    """`fair` is the order of admissions that the paper's rule asks for, `unfair` the one with the fault."""

    switch: str
    ops: Sequence[Op]
    fair: str
    unfair: str
    seats: int = 1
    blocks: int = 64


CASES = (
    # B comes while A's a2 runs and a3, a4 wait: it starts where A is, and they take turns.
    Case(
        "-no-lift",
        (
            *of("A", ("a1", 1, 4), ("a2", 1, 4), ("a3", 1, 4), ("a4", 1, 4)),
            *rounds(5),
            *of("B", ("b1", 1, 4), ("b2", 1, 4)),
        ),
        fair="a1 a2 b1 a3 b2 a4",
        unfair="a1 a2 b1 b2 a3 a4",
    ),
    # a1 runs alone and nobody waits when B comes: it is lifted to A, who left last.
    Case(
        "-lift-misses-empty-queue",
        (
            *of("A", ("a1", 1, 9)),
            *rounds(8),
            *of("B", ("b1", 1, 4), ("b2", 1, 4)),
            *of("A", ("a2", 1, 4)),
        ),
        fair="a1 b1 a2 b2",
        unfair="a1 b1 b2 a2",
    ),
    # A waits with 1, B with 17 when C comes: it starts with A's 1.
    Case(
        "-lift-to-max",
        (
            *of("B", ("b1", 1, 9), ("b2", 1, 1)),
            STEP,
            *of("A", ("a1", 1, 4), ("a2", 1, 4)),
            *rounds(8),
            *of("C", ("c1", 1, 4)),
        ),
        fair="b1 a1 c1 a2 b2",
        unfair="b1 a1 a2 c1 b2",
    ),
    # A waits with 1 while B runs up 19: another arrival of A leaves it what it is owed.
    Case(
        "-lift-always",
        (
            *of("B", ("b1", 1, 9), ("b2", 1, 4)),
            STEP,
            *of("A", ("a1", 1, 4)),
            *rounds(8),
            *of("A", ("a2", 1, 4)),
        ),
        fair="b1 a1 a2 b2",
        unfair="b1 a1 b2 a2",
    ),
    # a1 costs 19, a request of B 5.
    Case(
        "-no-output-charge",
        (*of("A", ("a1", 1, 9), ("a2", 1, 9)), *of("B", ("b1", 3, 1), ("b2", 3, 1), ("b3", 3, 1))),
        fair="a1 b1 b2 b3 a2",
        unfair="a1 b1 a2 b2 b3",
    ),
    # Two seats.  When b1 ends (B has 7) a1 has got as much output and one more input token (A has 8).
    Case(
        "-charge-at-end",
        (*of("A", ("a1", 2, 9), ("a2", 1, 9)), *of("B", ("b1", 1, 3), ("b2", 1, 9))),
        fair="a1 b1 b2 a2",
        unfair="a1 b1 a2 b2",
        seats=2,
    ),
    # Two seats.  When b1 ends B has 8, and a1 has brought A to 7.
    Case(
        "-charge-twice",
        (*of("A", ("a1", 1, 9), ("a2", 1, 9)), *of("B", ("b1", 2, 3), ("b2", 1, 9))),
        fair="a1 b1 a2 b2",
        unfair="a1 b1 b2 a2",
        seats=2,
    ),
    # a1 is cancelled before it got anything, so A still has 1 when B has 7.
    Case(
        "-count-on-cancel",
        (
            *of("B", ("b1", 1, 3), ("b2", 1, 3)),
            STEP,
            *of("A", ("a1", 1, 9)),
            cancel("a1"),
            *of("A", ("a2", 1, 3)),
        ),
        fair="b1 a2 b2",
        unfair="b1 b2 a2",
    ),
    # A has the least counter; a1 needs six of eight blocks and b1 holds four, so b2 waits behind it.
    Case(
        "-skip-blocked",
        (*of("B", ("b1", 2, 3)), STEP, *of("A", ("a1", 4, 3)), *of("B", ("b2", 1, 2))),
        fair="b1 a1 b2",
        unfair="b1 b2 a1",
        seats=2,
        blocks=8,
    ),
    # A has 19, that is 3 modulo 16; B has 5.
    Case(
        "-modulo=16",
        (*of("A", ("a1", 1, 9), ("a2", 1, 9)), *of("B", ("b1", 3, 1), ("b2", 3, 1))),
        fair="a1 b1 b2 a2",
        unfair="a1 b1 a2 b2",
    ),
)


def order_of_service(command: str, case: Case) -> str:
    settings = Settings(blocks=case.blocks, block_size=1, seats=case.seats, token_budget=16, reserve="declared")
    with StdioFactory(command) as factory:
        run = Driver.start(factory, settings, 0)
        run.run(case.ops)
        run.drain()
    assert not run.broken, str(run.broken[0])
    assert run.fault is None, str(run.fault)
    deltas = [delta for message in run.messages if message.kind == "step" for delta in message.answer.deltas]
    return " ".join(delta[1] for delta in deltas if delta[0] == "admitted")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.switch)
def test_each_fault_serves_somebody_out_of_turn(program: str, case: Case) -> None:
    assert order_of_service(program, case) == case.fair
    assert order_of_service(f"{program} {case.switch}", case) == case.unfair


def test_the_program_breaks_no_rule(program: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "schedspec", "check", f"exec:{program}", "--depth", "smoke", "--workload", "none"]
    done = subprocess.run([*command, "--report", str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_help_names_every_switch(program: str) -> None:
    says = subprocess.run([*shlex.split(program), "-h"], capture_output=True, text=True, check=False).stderr
    for case in CASES:
        assert f"  {case.switch.partition('=')[0]}" in says
