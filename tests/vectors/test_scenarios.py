"""The sets of legal decisions: made again they are the same, the reference stays in them, and a scheduler in C does."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.vectors.forms import as_json, as_lines, path_of
from tests.vectors.legal import Tree
from tests.vectors.records import FOLDER
from tests.vectors.worlds import World, worlds

from schedspec.conformance.driver import Driver
from schedspec.conformance.script import COMPLETE, STEP
from schedspec.reference import make
from schedspec.reference.faults import FAULTS
from schedspec.spec.vocabulary import Message, SubjectFactory

WORLDS = tuple(worlds())
SOURCE = FOLDER / "scheduler.c"
PATHS = [str(path_of(world, "txt")) for world in WORLDS]
BUGS = {
    "BUDGET_OFF_BY_ONE": "S-02",
    "BLOCKS_ROUNDED_DOWN": "S-15",
    "PROMPTS_FIRST": "S-04",
    "LAST_COMES_FIRST": "S-06",
    "PRIORITY_IGNORED": "S-07",
    "HEAD_IS_PASSED": "S-08",
    "HEAD_BLOCKS": "S-09",
    "SEATS_FORGOTTEN": "S-05",
    "WATERMARK_FORGOTTEN": "S-13",
    "WATERMARK_WHEN_IDLE": "S-13",
    "OLDEST_IS_VICTIM": "S-10",
    "VICTIM_KEEPS_POSITION": "S-12",
    "VICTIM_LOSES_OUTPUTS": "S-11",
    "VICTIM_GOES_LAST": "S-16",
    "CANCEL_LEAKS": "S-14",
    "END_LEAKS": "S-09",
    "STOP_IGNORED": "S-15",
}
"""Bug of the scheduler in C -> a scenario that names it."""
QUICK = ("VICTIM_GOES_LAST", "WATERMARK_FORGOTTEN")
"""CI looks for these; the others are looked for by `make vectors` and `make test`."""
LARGE = ("S-04", "S-05", "S-08")
"""Their sets take seconds; CI makes the others again."""


def marked(values: Iterable[Any], is_deep: Callable[[Any], bool]) -> list[Any]:
    return [pytest.param(value, marks=pytest.mark.deep) if is_deep(value) else value for value in values]


@pytest.mark.parametrize("world", marked(WORLDS, lambda world: world.id in LARGE), ids=lambda world: world.name)
def test_made_again_a_set_is_the_same(world: World) -> None:
    nodes = Tree(world).grown()
    assert path_of(world, "json").read_text(encoding="utf-8") == as_json(world, nodes)
    assert path_of(world, "txt").read_text(encoding="utf-8") == as_lines(world, nodes)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_the_reference_stays_in_the_set(world: World) -> None:
    assert left_at(make, world) is None


@pytest.mark.parametrize(("rule", "id"), [("PRE-5", "S-10"), ("KV-11", "S-13"), ("KV-4", "S-03"), ("STEP-9", "S-04")])
def test_a_scheduler_with_a_seeded_fault_leaves_the_set(rule: str, id: str) -> None:
    assert id in [world.id for world in WORLDS if left_at(FAULTS[rule], world) is not None]


def left_at(factory: SubjectFactory, world: World) -> int | None:
    """The first step of the scheduler that is not in the set."""
    scenario = json.loads(path_of(world, "json").read_text(encoding="utf-8"))
    driver = Driver.start(factory, world.settings, 0)
    number: int | None = 0
    for step in range(world.steps):
        for op in world.comes[step] if step < len(world.comes) else ():
            driver.do(op)
        if number is None or driver.over:
            return step if driver.over else None
        before = len(driver.messages)
        driver.run((STEP, COMPLETE))
        number = _found(scenario["nodes"][number]["legal"], driver.messages[before:])
        if number == MISSING:
            return step
    return None


MISSING = -1


def _found(legal: list[dict[str, Any]], messages: list[Message]) -> int | None:
    """Where the decision leads to."""
    plan = next(message.answer for message in messages if message.kind == "step")
    ends = [d[1] for m in messages if m.kind == "complete" for d in m.answer if d[0] == "finished"]
    own = {
        "preempted": sorted(delta[1] for delta in plan.deltas if delta[0] == "preempted"),
        "admitted": [delta[1] for delta in plan.deltas if delta[0] in ("admitted", "resumed")],
        "runs": sorted(map(list, zip(plan.request, plan.start, plan.tokens, plan.samples, strict=True))),
        "ends": sorted(ends),
    }
    for choice in legal:
        known = {
            "preempted": sorted(choice.get("preempted", [])),
            "admitted": choice.get("admitted", []),
            "runs": sorted(row[:4] for row in choice["runs"]),
            "ends": sorted(choice.get("ends", [])),
        }
        if known == own:
            then: int | None = choice["then"]
            return then
    return MISSING


# --- without Python --------------------------------------------------------------------------------------------


def built(folder: Path, *flags: str) -> str:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    program = str(folder / "scheduler")
    flags = ("-std=c99", "-Wall", "-Wextra", "-Werror", *flags)
    subprocess.run([compiler, *flags, "-o", program, str(SOURCE)], check=True)
    return program


def held_to_them(program: str, *paths: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *paths], capture_output=True, text=True, check=False, timeout=20)


def test_the_scheduler_in_c_stays_in_the_sets(tmp_path: Path) -> None:
    done = held_to_them(built(tmp_path), *PATHS)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"{len(PATHS)} passed, 0 failed")


def test_another_policy_stays_in_them_too(tmp_path: Path) -> None:
    done = held_to_them(built(tmp_path, "-DCHUNK=1"), *PATHS)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_bug_is_one_of_the_source() -> None:
    text = SOURCE.read_text(encoding="utf-8")
    listed = text[text.index("enum fault {") : text.index("};")]
    named = [line.split(",")[0].split()[0] for line in listed.splitlines()[2:] if line.strip()]
    assert named == list(BUGS)


@pytest.mark.parametrize("bug", marked(BUGS, lambda bug: bug not in QUICK))
def test_a_planted_bug_is_named(bug: str, tmp_path: Path) -> None:
    done = held_to_them(built(tmp_path, f"-DFAULT={bug}"), *PATHS)
    assert done.returncode == 1
    assert f"FAIL {BUGS[bug]}, " in done.stdout
    assert "     legal:" in done.stdout


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("schedspec-vectors/2\n", ":1: another version wrote this"),
        ("schedspec-vectors/1\nnode 0\n", "cut off"),
        ("schedspec-vectors/1\nrun a 0 1 1 1\n", ":2: this belongs to a decision"),
        ("schedspec-vectors/1\nsetting lanes 3\n", "there is no such setting here"),
    ],
)
def test_a_bad_file_is_one_sentence(text: str, says: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text(text)
    done = held_to_them(built(tmp_path), str(bad))
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
