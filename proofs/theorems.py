"""Fair sharing and scan forms in Coq: `coq/*.v`, compiled from scratch, and what each theorem rests on.

A theorem is proved if its file compiles and Coq says that it is closed under the global context: it rests on no axiom,
and nothing was admitted on the way.  Without coqc nothing is proved.  Some changes must be refused; if coqc accepted
one, no theorem would need what it changes.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from os import times
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import evolve, frozen

from .changes import CHANGES
from .manifest import Change, Theorem

FOLDER = Path(__file__).with_name("coq")
LIBRARY = "Schedspec"
SHARING = ("Model", "Bounds", "Memory", "Tokens", "Patience", "Caps", "Theorems", "Lower", "Needed", "Witnesses")
SCANS = ("Loops", "Scans", "Prefixes", "Misfits", "Stacks", "Edges", "Merge", "Round", "Equal")
FILES = (*SHARING, *SCANS, "Sets")
MISSING = "coqc was not found (on Debian: apt-get install coq)"
_CLOSED = "Closed under the global context"
_TIMEOUT_S = 300
_STATED = re.compile(r"^\(\* (\w+): ([^*]+) \*\)\nTheorem (\w+) :(.*?)\.\nProof\.", re.MULTILINE | re.DOTALL)
_RULE = re.compile(r"[A-Z]+-\d+")


def coqc() -> str | None:
    return shutil.which("coqc")


@frozen
class Compiled:
    """`seconds`: file -> processor time, of those that compiled.  `stopped_in` is the first that did not, `told` what
    coqc says."""

    seconds: Mapping[str, float]
    stopped_in: str = ""
    told: str = ""


@frozen
class Found:
    """`complaint`: what coqc says where it stops, if it does."""

    theorems: tuple[Theorem, ...] = ()
    changes: tuple[Change, ...] = ()
    seconds: float = 0.0
    complaint: str = ""


def stated(folder: Path = FOLDER, files: Sequence[str] = FILES) -> Iterator[Theorem]:
    """The theorems as the sources have them; not that they are proved."""
    for file in files:
        for role, about, name, statement in _STATED.findall((folder / f"{file}.v").read_text(encoding="utf-8")):
            topics = about.split(", ")
            yield Theorem(
                name=name,
                file=file,
                role=role,
                rules=tuple(topic for topic in topics if _RULE.fullmatch(topic)),
                about=tuple(topic for topic in topics if not _RULE.fullmatch(topic)),
                statement=" ".join(statement.split()),
                tools=("coq",),
                expected="unknown",
                seconds=0.0,
            )


def check(folder: Path = FOLDER, files: Sequence[str] = FILES, *, mutate: bool = True) -> Found:
    """Compile everything, ask what each theorem rests on, and compile it once more after each change."""
    with TemporaryDirectory() as scratch:
        place = Path(scratch) / "sound"
        place.mkdir()
        for file in files:
            shutil.copy(folder / f"{file}.v", place)
        compiled = _compile(place, files)
        there = tuple(stated(place, files))
        rests = _rests_on(place, compiled, there)
        theorems = tuple(_judged(theorem, compiled, rests) for theorem in there)
        changes = _changed(place) if mutate and not compiled.stopped_in else ()
    return Found(theorems, changes, sum(compiled.seconds.values()), compiled.told)


def _coqc(place: Path, file: str) -> tuple[bool, str]:
    """Whether it compiles, and what coqc says."""
    command = ["coqc", "-q", "-R", ".", LIBRARY, f"{file}.v"]
    try:
        run = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return False, f"{file}.v: no end in {_TIMEOUT_S} s"
    return run.returncode == 0, run.stderr if run.returncode else run.stdout


def _compile(place: Path, files: Sequence[str]) -> Compiled:
    """One file after the other: each needs those before it."""
    seconds: dict[str, float] = {}
    for file in files:
        before = times()
        compiles, told = _coqc(place, file)
        if not compiles:
            return Compiled(seconds, file, told)
        after = times()
        seconds[file] = after.children_user + after.children_system - before.children_user - before.children_system
    return Compiled(seconds)


def _rests_on(place: Path, compiled: Compiled, there: Sequence[Theorem]) -> dict[str, str]:
    """Theorem -> what Coq prints of its assumptions."""
    lines = [f"From {LIBRARY} Require {file}." for file in compiled.seconds]
    for theorem in (theorem for theorem in there if theorem.file in compiled.seconds):
        lines += [
            f'Goal True. idtac "theorem {theorem.name}". Abort.',
            f"Print Assumptions {theorem.file}.{theorem.name}.",
        ]
    (place / "Assumptions.v").write_text("\n".join(lines), encoding="utf-8")
    _, printed = _coqc(place, "Assumptions")
    parts = (part.partition("\n") for part in printed.split("theorem ")[1:])
    return {name.strip(): " ".join(rests.split()) for name, _, rests in parts}


def _judged(theorem: Theorem, compiled: Compiled, rests: Mapping[str, str]) -> Theorem:
    if theorem.file not in compiled.seconds:
        return evolve(theorem, expected="does not compile")
    told = rests.get(theorem.name, "what is not known")
    verdict = "proved" if told == _CLOSED else f"rests on {told}"
    return evolve(theorem, expected=verdict, seconds=round(compiled.seconds[theorem.file], 2))


def _changed(place: Path) -> tuple[Change, ...]:
    """Two at a time: each is a run of coqc by itself."""
    with ThreadPoolExecutor(2) as pool:
        return tuple(pool.map(lambda change: _refused(place, *change), CHANGES))


def _refused(place: Path, what: str, file: str, old: str, new: str) -> Change:
    """What is before the changed file is compiled already."""
    with TemporaryDirectory() as scratch:
        copy = Path(shutil.copytree(place, Path(scratch) / "changed"))
        source = (copy / f"{file}.v").read_text(encoding="utf-8")
        assert source.count(old) == 1, f"{what}: {old!r} must be in {file}.v once"
        (copy / f"{file}.v").write_text(source.replace(old, new), encoding="utf-8")
        stopped_in = _compile(copy, FILES[FILES.index(file) :]).stopped_in
    return Change(what=what, file=file, expected="refused" if stopped_in else "accepted", stops_in=stopped_in)
