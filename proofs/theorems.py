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

from .manifest import Change, Theorem

FOLDER = Path(__file__).with_name("coq")
LIBRARY = "Schedspec"
SHARING = ("Model", "Bounds", "Memory", "Tokens", "Patience", "Theorems", "Lower", "Needed", "Witnesses")
SCANS = ("Loops", "Scans", "Prefixes", "Misfits", "Stacks", "Edges", "Merge", "Round", "Equal")
FILES = (*SHARING, *SCANS, "Sets")
MISSING = "coqc was not found (on Debian: apt-get install coq)"
_CLOSED = "Closed under the global context"
_TIMEOUT_S = 300
_STATED = re.compile(r"^\(\* (\w+): ([^*]+) \*\)\nTheorem (\w+) :(.*?)\.\nProof\.", re.MULTILINE | re.DOTALL)
_RULE = re.compile(r"[A-Z]+-\d+")

# What is changed, file, old, new.
_CHANGES = (
    ("a victim is not lifted", "Model", "enter (lifts_victims S) j", "enter false j"),
    (
        "nobody is lifted while the queue is empty",
        "Model",
        "if lifts_into_an_empty_queue S then Some (mark (counter s l)) else None",
        "None",
    ),
    ("a lift may lower a counter", "Model", "(Z.max (counter s u) m)", "m"),
    ("who left last is forgotten", "Model", "then last_left s else Some u", "then last_left s else last_left s"),
    ("who does not fit is passed", "Model", "if stops_at_the_head S then waiting s else filter", "filter"),
    ("aging goes one beyond its credit", "Model", "- credit S) / quantum S <=?", "- credit S - 1) / quantum S <=?"),
    ("a refund goes one below the virtual time", "Model", "Z.min c (virtual_time s)", "Z.min c (virtual_time s - 1)"),
    ("U leaves out what is committed", "Model", "(amount + committed u (k :: running s))", "amount"),
    ("what is charged stays owed", "Model", "(k :: rest) (last_left s)", "(j :: rest) (last_left s)"),
    ("memory has one token more", "Memory", "reserved (j :: running) <=? M", "reserved (j :: running) <=? M + 1"),
    ("prompt tokens may be dearer", "Theorems", "0 <= w_p <= w_q -> 0 <= L <= M -> p", "0 <= L <= M -> p"),
    (
        "two who wait differ by at most U",
        "Theorems",
        "g s t) <= 2 * (certificate t + credit S).\n",
        "g s t) <= certificate t + credit S.\n",
    ),
    (
        "nobody falls more than 2U behind",
        "Theorems",
        "got f s t <= 3 * (certificate t + credit S).\n",
        "got f s t <= 2 * (certificate t + credit S).\n",
    ),
    (
        "the rounds of quanta do not count",
        "Theorems",
        "2 * (certificate t + credit S + (Q - 1)).\nProof.\n  intros S Q s events",
        "2 * (certificate t + credit S).\nProof.\n  intros S Q s events",
    ),
    (
        "what is left of the budget is what there was",
        "Scans",
        "Z.max (budget - (given + before wishes i)) 0",
        "Z.max (budget - given) 0",
    ),
    ("a tile forgets its carry", "Scans", "(Z.min (given + total wishes) budget) others", "given others"),
    ("blocks beside the budget", "Loops", "(0 <? tokens) && (0 <? missing)", "(0 <? missing)"),
    ("who needs just what is there is a victim", "Scans", "free + all <? given + upto", "free + all <=? given + upto"),
    ("victims leave oldest first", "Scans", "rev (skipn stay running))", "skipn stay running)"),
    ("victims give nothing back", "Loops", "need <=? free + all_held victims", "need <=? free"),
    (
        "the watermark binds whoever is alone",
        "Scans",
        "if 0 <? place + Z.of_nat i + running then",
        "if 0 <=? place + Z.of_nat i + running then",
    ),
    ("a seat too many", "Loops", "if seats R <=? running then", "if seats R <? running then"),
    ("a tile forgets the blocks that it gave", "Scans", "blocks - blocks_given - before", "blocks - before"),
    (
        "a slice the other way round",
        "Scans",
        "(rev (skipn (length stack - count) stack),",
        "(skipn (length stack - count) stack,",
    ),
    ("the owner of the number below", "Scans", "Nat.leb (ends middle) number", "Nat.ltb (ends middle) number"),
    ("tables are given from their begin", "Scans", "concat (map (@rev Z) leaving)", "concat leaving"),
    (
        "a block too late at an edge",
        "Scans",
        "nth i holds 0 * size <=? nth i starts",
        "nth i holds 0 * size <? nth i starts",
    ),
    ("offsets run the other way", "Scans", "starts (- tick mod size))", "starts (tick mod size))"),
    ("a tie broken the other way", "Loops", "if counter d <? counter c then", "if counter d <=? counter c then"),
    (
        "a key is charged what it costs itself",
        "Scans",
        "(counter c + before (charges c) place,",
        "(counter c + upto (charges c) place,",
    ),
    ("a client fewer than picks", "Scans", "(firstn count (sorted (heads", "(firstn (count - 1) (sorted (heads"),
    (
        "who is in the set counts twice",
        "Sets",
        "(if group item then 0 else 1))\n  /\\ (forall group item, card (without",
        "1)\n  /\\ (forall group item, card (without",
    ),
)


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
        return tuple(pool.map(lambda change: _refused(place, *change), _CHANGES))


def _refused(place: Path, what: str, file: str, old: str, new: str) -> Change:
    """What is before the changed file is compiled already."""
    with TemporaryDirectory() as scratch:
        copy = Path(shutil.copytree(place, Path(scratch) / "changed"))
        source = (copy / f"{file}.v").read_text(encoding="utf-8")
        assert source.count(old) == 1, f"{what}: {old!r} must be in {file}.v once"
        (copy / f"{file}.v").write_text(source.replace(old, new), encoding="utf-8")
        stopped_in = _compile(copy, FILES[FILES.index(file) :]).stopped_in
    return Change(what=what, file=file, expected="refused" if stopped_in else "accepted", stops_in=stopped_in)
