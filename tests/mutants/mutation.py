"""`python -m tests.mutants.mutation --sample 500`: mutants of the reference, and what notices each.

The vectors come first, then the directed scenarios, corners made for mutants (`corners.py`), random walks and
crossings of settings; of each only those runs that reach the changed line.  A mutant is noticed when a rule is broken,
when it crashes or hangs, or when it decides otherwise than the reference did: the spec may allow that, but the
recorded decision says no.  It is made in a child process, in which the package `schedspec.reference` is imported anew.
"""

import ast
import hashlib
import importlib
import json
import os
import pickle
import select
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import click
from attrs import define, frozen
from tests.mutants.corners import corners, crossing, logged
from tests.mutants.mutations import ROOT, Mutant, every_mutant, sampled
from tests.vectors.generate import is_pair
from tests.vectors.records import read
from tests.vectors.worlds import worlds

from schedspec.conformance.driver import Driver
from schedspec.conformance.scenarios import scenarios
from schedspec.conformance.script import COMPLETE, STEP, Script
from schedspec.conformance.small_scope.world import canonical_of
from schedspec.conformance.walks import walk
from schedspec.reference import make
from schedspec.spec.protocol import ProtocolError
from schedspec.spec.vocabulary import Header, Message, SettingsWarning, SubjectFactory, Unsupported

PACKAGE = "schedspec.reference"
WALKS = 120
CROSSINGS = 200
CALL_S = 2.0
MUTANT_S = 120.0
KINDS = ("vector", "world", "scenario", "corner", "walk", "crossing")
PAGE = Path(__file__).with_name("MUTATION.md")
EQUIVALENT = Path(__file__).with_name("equivalent.json")
DONE = ROOT / "build" / "mutation.jsonl"
READ = ("reference/**/*.py", "spec/**/*.py", "tests/conformance/**/*.py", "tests/mutants/mutations.py")
"""What mutants and runs of the reference depend on."""

HOWS = {
    "rule": "a broken rule",
    "crash": "a crash, or an answer that is none",
    "hang": "a call that did not end",
    "decision": "another decision than the recorded one, which no rule forbids",
    "state": "another state by its own account (`canonical`), which no decision shows",
}
"""How a mutant is noticed."""


@frozen
class Case:
    """A run of the reference; `state`: what it says of its own when the script is over; `lines`: those of its modules
    that it reaches."""

    name: str
    script: Script
    header: Header
    messages: tuple[Message, ...]
    state: Hashable
    advice: frozenset[str]
    lines: frozenset[tuple[str, int]]


@frozen
class Seen:
    """What noticed a mutant, and how; `how` is "" if nothing did."""

    how: str
    what: str = ""
    case: str = ""


# --- runs of the reference -------------------------------------------------------------------------------------


def cases() -> list[Case]:
    """Those that were made before, of the same sources, are not made again: to follow lines takes its time."""
    file = _kept_in("cases")
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
            driver, state = driven(make, script)
    except (Unsupported, ProtocolError, ValueError):
        return None
    assert not driver.over, f"{name}: the reference is clean"
    messages, advice, lines = tuple(driver.messages), frozenset(driver.advice), frozenset(reached.lines)
    return Case(name, script, driver.header, messages, state, advice, lines)


def driven(factory: SubjectFactory, script: Script) -> tuple[Driver, Hashable]:
    """A run, and what the subject says of its state before whoever is left is done."""
    driver = Driver.start(factory, script.settings, script.seed, timeout_s=CALL_S)
    driver.run(script.ops)
    state = None if driver.over else state_of(driver)
    driver.drain()
    return driver, state


def state_of(driver: Driver) -> Hashable:
    """By `canonical`, which a search in small scopes takes states for one another by."""
    canonical = canonical_of(driver.subject)
    asked = [op.request for op in driver.ops if op.request is not None]
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
    return own if own or mutant.line in _inside(mutant) else list(every)


def _inside(mutant: Mutant) -> set[int]:
    """Lines of bodies of functions."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(mutant.source)):
        if isinstance(node, ast.FunctionDef):
            last = node.body[-1].end_lineno or node.lineno
            found |= set(range(node.body[0].lineno, last + 1))
    return found


# --- one mutant ------------------------------------------------------------------------------------------------


def noticed(mutant: Mutant, every: Sequence[Case]) -> Seen:
    """What a child process finds out."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _be_the_child(mutant, every, reader, writer)
    os.close(writer)
    answer = b""
    try:
        deadline = time.monotonic() + MUTANT_S
        while select.select([reader], [], [], max(0.0, deadline - time.monotonic()))[0]:
            part = os.read(reader, 1 << 16)
            if not part:
                return Seen(*json.loads(answer)) if answer else Seen("crash", "the process ended")
            answer += part
        return Seen("hang", f"{MUTANT_S:.0f} s")
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _be_the_child(mutant: Mutant, every: Sequence[Case], reader: int, writer: int) -> None:
    os.close(reader)
    try:
        seen = _first_seen(mutant, every)
        os.write(writer, json.dumps([seen.how, seen.what, seen.case]).encode())
    finally:
        os._exit(0)


def _first_seen(mutant: Mutant, every: Sequence[Case]) -> Seen:
    try:
        factory = imported(mutant)
    except Exception as error:
        return Seen("crash", f"{type(error).__name__} at import")
    weakest = Seen("")
    for case in every:
        seen = _seen_in(factory, case)
        if seen is not None and seen.how != "state":
            return seen
        weakest = seen or weakest
    return weakest


def imported(mutant: Mutant) -> SubjectFactory:
    """The reference with the mutant in it."""
    for name in [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]:
        del sys.modules[name]
    sys.meta_path.insert(0, _Finder(mutant))
    factory: SubjectFactory = importlib.import_module(PACKAGE).make
    return factory


@define
class _Finder(MetaPathFinder):
    mutant: Mutant

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != self.mutant.module:
            return None
        spec = PathFinder.find_spec(fullname, path)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Loader(fullname, spec.origin, self.mutant.text)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, text: str) -> None:
        super().__init__(fullname, path)
        self.text = text

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self.text, self.path, "exec")
        return code


def _seen_in(factory: SubjectFactory, case: Case) -> Seen | None:
    try:
        driver, state = driven(factory, case.script)
    except Exception as error:
        return Seen("crash", type(error).__name__, case.name)
    if driver.broken:
        return Seen("rule", driver.broken[0].rule, case.name)
    if driver.fault is not None:
        return Seen("crash", str(driver.fault).splitlines()[0][:100], case.name)
    if more := sorted(driver.advice.keys() - case.advice):
        return Seen("rule", more[0], case.name)
    if driver.header != case.header:
        return Seen("decision", "capabilities", case.name)
    if tuple(driver.messages) != case.messages:
        pairs = zip(driver.messages, case.messages, strict=False)
        kinds = (own.kind for own, other in pairs if own != other)
        return Seen("decision", next(kinds, "another number of messages"), case.name)
    if state != case.state:
        return Seen("state", case=case.name)
    return None


def kept_mutants() -> list[Mutant]:
    """All, as they were made of the same sources before: a run goes on in slices."""
    file = _kept_in("mutants")
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(pickle.dumps(list(every_mutant())))
    made: list[Mutant] = pickle.loads(file.read_bytes())
    return made


def _kept_in(name: str) -> Path:
    digest = hashlib.sha256()
    for part in READ:
        for path in sorted(ROOT.glob(part)):
            digest.update(path.read_bytes())
    return DONE.with_name(f"mutation-{name}-{digest.hexdigest()[:16]}.pickle")


# --- many ------------------------------------------------------------------------------------------------------


def known(path: Path) -> dict[str, Seen]:
    """What was found out before, of the same mutants."""
    if not path.exists():
        return {}
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {row["mutant"]: Seen(row["how"], row["what"], row["case"]) for row in rows}


def equivalent() -> dict[str, str]:
    """Mutant -> why nobody could notice it."""
    plain: dict[str, str] = json.loads(EQUIVALENT.read_text(encoding="utf-8")) if EQUIVALENT.exists() else {}
    return plain


def page(command: str, every: int, drawn: int, found: Sequence[tuple[Mutant, Seen]]) -> Iterator[str]:
    why = equivalent()
    same = [mutant for mutant, seen in found if not seen.how and mutant.id in why]
    open_ones = [mutant for mutant, seen in found if not seen.how and mutant.id not in why]
    killed = Counter(seen.how for _, seen in found if seen.how)
    judged = len(found) - len(same)
    yield "# Mutants of the reference"
    yield ""
    yield f"Written by `{command}`. Operators are mutmut's; of {every:,} mutants of `reference/*.py` and"
    yield f"`reference/selection/`, {drawn} were drawn, of each module as its share is, and {len(found)} tried."
    yield ""
    yield f"**{sum(killed.values())} of {judged} were noticed, {_percent(sum(killed.values()), judged)}**;"
    yield f"{len(same)} more are equivalent."
    yield ""
    yield "| noticed by | mutants |"
    yield "| --- | ---: |"
    yield from (f"| {says} | {killed[how]} |" for how, says in HOWS.items())
    yield ""
    by_kind = Counter((seen.case or "import").split()[0] for _, seen in found if seen.how)
    yield "First noticed in: " + ", ".join(f"{count} {kind}" for kind, count in by_kind.most_common()) + "."
    yield ""
    yield f"## Survivors, {len(open_ones)}"
    yield ""
    yield from (f"* `{mutant.id}`" for mutant in open_ones)
    yield ""
    yield f"## Equivalent, {len(same)}"
    yield ""
    yield from (f"* `{mutant.id}`: {why[mutant.id]}" for mutant in same)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "nothing was judged"


@click.command()
@click.option("--sample", default=500, show_default=True, help="So many mutants.")
@click.option("--seed", default=0, show_default=True, help="Of the draw.")
@click.option("--seconds", type=float, help="Stop after that time; the next call goes on from there.")
@click.option("--anew", is_flag=True, help="Forget what was found out before.")
@click.option("--again", is_flag=True, help="Try those once more that nothing noticed.")
@click.option("--write", is_flag=True, help="Write MUTATION.md of all that were tried.")
def main(sample: int, seed: int, seconds: float | None, anew: bool, again: bool, write: bool) -> None:
    warnings.simplefilter("ignore", SettingsWarning)
    try:
        mutants = kept_mutants()
    except ImportError:
        raise click.ClickException(
            "mutmut is not installed: `make mutation` installs it, or pip install mutmut"
        ) from None
    drawn = sampled(mutants, sample, seed)
    click.echo(f"seed {seed}: {len(drawn)} of {len(mutants)} mutants")
    before = {} if anew else known(DONE)
    found = [
        (mutant, before[mutant.id]) for mutant in drawn if mutant.id in before and _stays(before[mutant.id], again)
    ]
    todo = [mutant for mutant in drawn if mutant.id not in before or not _stays(before[mutant.id], again)]
    found += list(_tried(todo, seconds)) if todo else []
    _keep(before, found)
    killed = sum(bool(seen.how) for _, seen in found)
    same = sum(not seen.how and mutant.id in equivalent() for mutant, seen in found)
    click.echo(f"{killed} of {len(found)} noticed, {same} equivalent; {len(drawn) - len(found)} not tried yet")
    if write:
        command = f"make mutation ARGS='--sample {sample} --seed {seed} --write'"
        PAGE.write_text(
            "\n".join(page(command, len(mutants), len(drawn), sorted(found, key=_place))) + "\n", encoding="utf-8"
        )


def _stays(seen: Seen, again: bool) -> bool:
    return bool(seen.how) or not again


def _place(row: tuple[Mutant, Seen]) -> tuple[str, int]:
    return row[0].file, row[0].number


def _tried(todo: Iterable[Mutant], seconds: float | None) -> Iterator[tuple[Mutant, Seen]]:
    every = cases()
    click.echo(f"{len(every)} runs of the reference")
    began = time.monotonic()
    for mutant in todo:
        if seconds is not None and time.monotonic() - began > seconds:
            return
        seen = noticed(mutant, reaching(mutant, every))
        if not seen.how:
            click.echo(f"SURVIVED {mutant.id}")
        yield mutant, seen


def _keep(before: dict[str, Seen], found: Iterable[tuple[Mutant, Seen]]) -> None:
    kept = before | {mutant.id: seen for mutant, seen in found}
    rows = ({"mutant": id, "how": s.how, "what": s.what, "case": s.case} for id, s in kept.items())
    DONE.parent.mkdir(exist_ok=True)
    DONE.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
