"""Runs of the reference, as they were recorded: what mutants of it are asked, and which lines each run reaches.

The vectors come first, then the worlds of decisions, directed scenarios, corners made for mutants (`corners.py`),
random walks and crossings of settings.
"""

import ast
import hashlib
import pickle
import sys
from collections.abc import Hashable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from attrs import frozen
from tests.mutants.corners import corners, crossing, logged
from tests.mutants.mutations import ROOT, Mutant
from tests.vectors.generate import is_pair
from tests.vectors.records import read
from tests.vectors.worlds import worlds

from schedspec.conformance.driver import Driver
from schedspec.conformance.scenarios import scenarios
from schedspec.conformance.script import COMPLETE, STEP, Script
from schedspec.conformance.small_scope.world import canonical_of
from schedspec.conformance.walks import walk
from schedspec.reference import make
from schedspec.spec.errors import ProtocolError
from schedspec.spec.vocabulary import Header, Message, Subject, SubjectFactory, Unsupported

WALKS = 120
CROSSINGS = 200
KINDS = ("vector", "world", "scenario", "corner", "walk", "crossing")
BUILD = ROOT / "build"
READ = ("reference/**/*.py", "spec/**/*.py", "tests/conformance/**/*.py")
"""What runs of the reference depend on."""


@frozen
class Case:
    """A run of the reference; `state`: what it says of its own when the script is over, after `so_many` messages;
    `lines`: those of its modules that it reaches."""

    name: str
    script: Script
    header: Header
    messages: tuple[Message, ...]
    state: Hashable
    so_many: int
    advice: frozenset[str]
    lines: frozenset[tuple[str, int]]


def cases() -> list[Case]:
    """Those that were made before, of the same sources, are not made again: to follow lines takes its time."""
    file = kept_in("cases", READ)
    made: dict[str, Case] = pickle.loads(file.read_bytes()) if file.exists() else {}
    for name, script in _scripts():
        if name not in made or made[name].script != script:
            case = case_of(name, script)
            if case is not None:
                made[name] = case
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(pickle.dumps(made))
    return sorted(made.values(), key=_cost)


def _cost(case: Case) -> tuple[int, int]:
    return KINDS.index(case.name.split()[0]), len(case.messages)


def _scripts() -> Iterator[tuple[str, Script]]:
    for vector in read():
        if vector.subject == "reference" and not is_pair(vector.rule):
            yield f"vector {vector.id}", vector.script
    for world in worlds():
        comes = [world.comes[step] if step < len(world.comes) else () for step in range(world.steps)]
        yield f"world {world.id}", Script(world.settings, 0, [op for ops in comes for op in (*ops, STEP, COMPLETE)])
    for scenario in scenarios(0):
        yield f"scenario {scenario.name}", scenario.script
        yield f"corner logged: {scenario.name}", logged(scenario.script)
    for name, script in corners():
        yield f"corner {name}", script
    for seed in range(WALKS):
        yield f"walk {seed}", walk(seed)
    for seed in range(CROSSINGS):
        crossed = crossing(seed)
        if crossed is not None:
            yield f"crossing {seed}", crossed


def case_of(name: str, script: Script) -> Case | None:
    reached = Reached()
    try:
        with reached:
            driver = driven(make, script)
            so_many = len(driver.messages)
            state = state_of(driver.subject, script)
            driver.drain()
    except (Unsupported, ProtocolError, ValueError):
        return None
    assert not driver.over, f"{name}: the reference is clean"
    messages, advice, lines = tuple(driver.messages), frozenset(driver.advice), frozenset(reached.lines)
    return Case(name, script, driver.header, messages, state, so_many, advice, lines)


def driven(factory: SubjectFactory, script: Script, timeout_s: float | None = None) -> Driver:
    """The script has been run; whoever is left is not yet done."""
    driver = Driver.start(factory, script.settings, script.seed, timeout_s=timeout_s)
    driver.run(script.ops)
    return driver


def state_of(subject: Subject, script: Script) -> Hashable:
    """By `canonical`, which a search in small scopes takes states for one another by."""
    canonical = canonical_of(subject)
    asked = [op.request for op in script.ops if op.request is not None]
    names = [dict.fromkeys(request.id for request in asked), dict.fromkeys(request.client for request in asked)]
    try:
        told: Hashable = canonical and canonical(*({name: n for n, name in enumerate(of)} for of in names))
    except TypeError as nobody_said:
        return str(nobody_said)
    return told


class Reached:
    """The lines of the reference that run meanwhile, and of each function its first one."""

    def __init__(self) -> None:
        self.lines: set[tuple[str, int]] = set()
        self.files: dict[str, str] = {}
        self.left: dict[CodeType, set[int]] = {}

    def __enter__(self) -> None:
        sys.settrace(self._call)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, arg: object) -> Any:
        path = frame.f_code.co_filename
        if path not in self.files:
            self.files[path] = _short(path)
        if not self.files[path]:
            return None
        code = frame.f_code
        if code not in self.left:
            self.lines.add((self.files[path], code.co_firstlineno))
            self.left[code] = {line for *_, line in code.co_lines() if line is not None}
        return self._line if self.left[code] else None

    def _line(self, frame: FrameType, event: str, arg: object) -> Any:
        left = self.left[frame.f_code]
        if event == "line" and frame.f_lineno in left:
            left.remove(frame.f_lineno)
            self.lines.add((self.files[frame.f_code.co_filename], frame.f_lineno))
        return self._line


def _short(path: str) -> str:
    """`reference/…`, or nothing for another package."""
    _, found, rest = path.rpartition("/reference/")
    return f"reference/{rest}" if found else ""


def reaching(mutant: Mutant, every: Sequence[Case]) -> list[Case]:
    """Those that run the changed line; a change of what is made at import is in none, and all are asked."""
    own = [case for case in every if (mutant.file, mutant.line) in case.lines]
    return own if own or mutant.line in _inside(mutant.source) else list(every)


@cache
def _inside(source: str) -> set[int]:
    """Lines of bodies of functions."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            last = node.body[-1].end_lineno or node.lineno
            found |= set(range(node.body[0].lineno, last + 1))
    return found


def kept_in(name: str, parts: Sequence[str]) -> Path:
    """A file for what was made of these sources, as they are now."""
    digest = hashlib.sha256()
    for part in parts:
        for path in sorted(ROOT.glob(part)):
            digest.update(path.read_bytes())
    return BUILD.joinpath(f"mutation-{name}-{digest.hexdigest()[:16]}.pickle")
