"""`python -m tests.mutants.mutation --sample 500`: mutants of the reference, and what notices each.

The vectors come first, then the directed scenarios, corners made for mutants (`corners.py`), random walks and
crossings of settings; of each only those runs that reach the changed line.  A mutant is noticed when a rule is broken,
when it crashes or hangs, or when it decides otherwise than the reference did: the spec may allow that, but the
recorded decision says no.  Recorded calls are made once more, and only a run that they are answered otherwise in is
driven and judged anew.  It is made in a child process, in which the package `schedspec.reference` is imported anew.
Mutants of what runs several engines repeat fleets (`fleets.py`).
"""

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
from collections.abc import Iterable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any, Literal

import click
from attrs import define, frozen
from tests.mutants import fleets
from tests.mutants.mutations import Mutant, every_mutant, sampled
from tests.mutants.recorded import BUILD, Case, cases, driven, kept_in, reaching, state_of

from schedspec.conformance.driver import answered
from schedspec.conformance.subjects.guard import guarded
from schedspec.spec.vocabulary import SettingsWarning, SubjectFactory

PACKAGE = "schedspec.reference"
CALL_S = 10.0
"""On a machine that has much else to do, a call that ends may take as long as a second or two."""
MUTANT_S = 240.0
LOOK_EVERY = 8
"""Messages of which two snapshots at most are compared, where calls are made once more."""
MADE_OF = ("reference/**/*.py", "tests/mutants/mutations.py")
PAGE = Path(__file__).with_name("MUTATION.md")
EQUIVALENT = Path(__file__).with_name("equivalent.json")
DONE = BUILD / "mutation.jsonl"

HOWS = {
    "rule": "a broken rule",
    "crash": "a crash, or an answer that is none",
    "hang": "a call that did not end",
    "decision": "another decision than the recorded one, which no rule forbids",
    "state": "another state by its own account (`canonical`), which no decision shows",
}
"""How a mutant is noticed."""


@frozen
class Seen:
    """What noticed a mutant, and how; `how` is "" if nothing did."""

    how: str
    what: str = ""
    case: str = ""


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
    is_state_another = Seen("")
    for case in every:
        differs = difference(factory, case)
        if differs == "answer":
            return _seen_in(factory, case)
        if differs == "state":
            is_state_another = Seen("state", case=case.name)
    if mutant.file in fleets.MODULES and (found := fleets.first_difference()):
        return Seen(*found)
    return is_state_another


def difference(factory: SubjectFactory, case: Case) -> str:
    """Whether any of the recorded calls is answered otherwise, or leads to another state; "" if not."""
    subject = guarded(factory, CALL_S)(case.script.settings, case.script.seed)
    try:
        if subject.capabilities() != case.header.capabilities:
            return "answer"
        state = None
        for number, message in enumerate(case.messages):
            if number == case.so_many:
                state = state_of(subject, case.script)
            if (message.kind != "observe" or number % LOOK_EVERY < 2) and answered(subject, message) != message.answer:
                return "answer"
    except Exception:
        return "answer"
    return "" if state == case.state else "state"


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


def _seen_in(factory: SubjectFactory, case: Case) -> Seen:
    """How a run differs, of which some answer does."""
    try:
        driver = driven(factory, case.script, CALL_S)
        driver.drain()
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
    pairs = zip(driver.messages, case.messages, strict=False)
    kinds = (own.kind for own, other in pairs if own != other)
    return Seen("decision", next(kinds, "another number of messages"), case.name)


def kept_mutants() -> list[Mutant]:
    """All, as they were made of the same sources before: a run goes on in slices."""
    file = kept_in("mutants", MADE_OF)
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(pickle.dumps(list(every_mutant())))
    made: list[Mutant] = pickle.loads(file.read_bytes())
    return made


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
    _keep(before)
    for mutant, seen in _tried(todo, seconds) if todo else ():
        found.append((mutant, seen))
        _keep({mutant.id: seen}, "a")
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
    fleets.recorded()
    click.echo(f"{len(every)} runs of the reference")
    began = time.monotonic()
    for mutant in todo:
        if seconds is not None and time.monotonic() - began > seconds:
            return
        seen = noticed(mutant, reaching(mutant, every))
        if not seen.how:
            click.echo(f"SURVIVED {mutant.id}")
        yield mutant, seen


def _keep(found: dict[str, Seen], mode: Literal["w", "a"] = "w") -> None:
    """Of a mutant that comes twice the last row counts."""
    rows = ({"mutant": id, "how": s.how, "what": s.what, "case": s.case} for id, s in found.items())
    DONE.parent.mkdir(exist_ok=True)
    with DONE.open(mode, encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


if __name__ == "__main__":
    main()
