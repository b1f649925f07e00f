"""The VTC program in Go: it obeys, its switches start, and each planted fault serves somebody out of turn and is named.

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
from attrs import evolve, frozen

from schedspec.conformance.driver import Driver
from schedspec.conformance.script import STEP, Op, cancel, rounds, submit
from schedspec.conformance.subjects.stdio import StdioFactory
from schedspec.spec.catalogue import registry
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
    """`fair` is the order of admissions that the paper's rule asks for, `unfair` the one with the fault, `rule` the one
    that its counters break."""

    switch: str
    ops: Sequence[Op]
    fair: str
    unfair: str
    rule: str
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
        rule="FAIR-3",
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
        rule="FAIR-4",
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
        rule="FAIR-3",
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
        rule="FAIR-6",
    ),
    # a1 costs 19, a request of B 5.
    Case(
        "-no-output-charge",
        (*of("A", ("a1", 1, 9), ("a2", 1, 9)), *of("B", ("b1", 3, 1), ("b2", 3, 1), ("b3", 3, 1))),
        fair="a1 b1 b2 b3 a2",
        unfair="a1 b1 a2 b2 b3",
        rule="FAIR-2",
    ),
    # Two seats.  When b1 ends (B has 7) a1 has got as much output and one more input token (A has 8).
    Case(
        "-charge-at-end",
        (*of("A", ("a1", 2, 9), ("a2", 1, 9)), *of("B", ("b1", 1, 3), ("b2", 1, 9))),
        fair="a1 b1 b2 a2",
        unfair="a1 b1 a2 b2",
        rule="FAIR-2",
        seats=2,
    ),
    # Two seats.  When b1 ends B has 8, and a1 has brought A to 7.
    Case(
        "-charge-twice",
        (*of("A", ("a1", 1, 9), ("a2", 1, 9)), *of("B", ("b1", 2, 3), ("b2", 1, 9))),
        fair="a1 b1 a2 b2",
        unfair="a1 b1 b2 a2",
        rule="FAIR-2",
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
        rule="FAIR-6",
    ),
    # A has the least counter; a1 needs six of eight blocks and b1 holds four, so b2 waits behind it.
    Case(
        "-skip-blocked",
        (*of("B", ("b1", 2, 3)), STEP, *of("A", ("a1", 4, 3)), *of("B", ("b2", 1, 2))),
        fair="b1 a1 b2",
        unfair="b1 b2 a1",
        rule="FAIR-1",
        seats=2,
        blocks=8,
    ),
    # A has 19, that is 3 modulo 16; B has 5.
    Case(
        "-modulo=16",
        (*of("A", ("a1", 1, 9), ("a2", 1, 9)), *of("B", ("b1", 3, 1), ("b2", 3, 1))),
        fair="a1 b1 b2 a2",
        unfair="a1 b1 a2 b2",
        rule="FAIR-1",
    ),
)


WORLD = Settings(blocks=64, block_size=1, token_budget=16, reserve="declared", policy="vtc")


def run_of(command: str, case: Case, ignored: frozenset[str] = frozenset()) -> Driver:
    with StdioFactory(command) as factory:
        run = Driver.start(factory, evolve(WORLD, blocks=case.blocks, seats=case.seats), 0, ignored=ignored)
        run.run(case.ops)
        run.drain()
    assert run.fault is None, str(run.fault)
    return run


def order_of_service(run: Driver) -> str:
    deltas = [delta for message in run.messages if message.kind == "step" for delta in message.answer.deltas]
    return " ".join(delta[1] for delta in deltas if delta[0] == "admitted")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.switch)
def test_each_fault_serves_somebody_out_of_turn(program: str, case: Case) -> None:
    clean = run_of(program, case)
    assert not clean.broken, str(clean.broken[0])
    assert order_of_service(clean) == case.fair
    assert order_of_service(run_of(f"{program} {case.switch}", case, frozenset(registry.rules))) == case.unfair


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.switch)
def test_each_fault_is_named(program: str, case: Case) -> None:
    """By its counters where it arises; and where only decisions are looked at, by the client that is picked."""
    command = f"{program} {case.switch}"
    assert {violation.rule for violation in run_of(command, case).broken} == {case.rule}
    others = frozenset(registry.rules) - {"FAIR-1"}
    assert [violation.rule for violation in run_of(command, case, others).broken] == ["FAIR-1"]


def test_the_program_breaks_no_rule(program: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "schedspec", "check", f"exec:{program}", "--depth", "smoke", "--workload", "none"]
    done = subprocess.run([*command, "--report", str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_help_names_every_switch(program: str) -> None:
    says = subprocess.run([*shlex.split(program), "-h"], capture_output=True, text=True, check=False).stderr
    for case in CASES:
        assert f"  {case.switch.partition('=')[0]}" in says
