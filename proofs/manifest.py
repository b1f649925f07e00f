"""The manifest: what is proved, by what, and what must fail.  Reading it needs no solver.

`manifest.toml` is written by `python -m schedspec.proofs --write`, and every other run of the proofs is held
against it.  Mutants that must be refuted are entries like any other, and so are those that nothing refutes.
"""

import json
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, evolve, frozen

PATH = Path(__file__).with_name("manifest.toml")
_HEAD = "# Written by `python -m schedspec.proofs --write`; each run of the proofs is held against it.\n"


@frozen(kw_only=True)
class Proof:
    """The obligations of one rule.  `theory`: engine (the relation, as the monitor compiles it, history variables
    beside it), transfers (the second relation, in the same way) or counters (a model of the algorithm).  `statements`:
    what is proved, in the order of `conjuncts`.  `bounds`, `parts`: rules over traces of which it is the algorithm's
    half, or a part.  `expected` is the worst verdict among the obligations."""

    theory: str
    rule: str
    conjuncts: tuple[str, ...]
    statements: tuple[str, ...]
    bounds: tuple[str, ...]
    parts: tuple[str, ...]
    obligations: int
    expected: str
    tools: tuple[str, ...]
    seconds: float

    @property
    def is_of_traces(self) -> bool:
        """What the rule says is proved of every trace that keeps its guards."""
        return self.theory != "counters" and not self.parts


@frozen(kw_only=True)
class Firing:
    """An event that a step of a finite scope shows to be possible, or not."""

    theory: str
    event: str
    expected: str


@frozen(kw_only=True)
class Possible:
    """A step that the rules must leave possible, and the formula that some state of a finite scope satisfies with them.
    `claims`: those that bind it, if not all do."""

    theory: str
    step: str
    event: str
    sentence: str
    formula: str
    claims: tuple[str, ...]
    expected: str


@frozen(kw_only=True)
class Sweep:
    """Conjuncts of one kind, each changed by one token in every way (`variants.py`), and what shows it (`sweep.py`): so
    many break a proof, forbid a step that must be possible, are implied no more, mean the same (or do in the scope), or
    say something else of runs that is true as well; `surviving` has those that nothing here shows."""

    theory: str
    kind: str
    tried: int
    breaks: int
    forbids: int
    implied_no_more: int
    equal: int
    equal_in_the_scope: int
    true_too: int
    survives: int
    unknown: int
    surviving: tuple[str, ...]


@frozen(kw_only=True)
class Mutant:
    """A conjunct left out.  `expected`: refuted (then `breaks` has the invariants), implied or survives."""

    theory: str
    conjunct: str
    event: str
    expected: str
    breaks: tuple[str, ...]


@frozen(kw_only=True)
class Theorem:
    """A theorem as its source states it.  `role`, of the algorithm that `rules` are made after: bound (what a rule
    promises), part (of that), constant (how large U is), condition (what goes wrong without what a rule asks), reached
    (a run that comes to the bound), lower (what no other policy betters).  And, with what it is `about`: scan
    (functions whose scan form is the loop), ground (functions that state facts for z3), witness (theorems whose
    hypotheses hold of a run that it shows).  `seconds` are those of its whole file."""

    name: str
    file: str
    role: str
    rules: tuple[str, ...]
    about: tuple[str, ...]
    statement: str
    tools: tuple[str, ...]
    expected: str
    seconds: float


@frozen(kw_only=True)
class Change:
    """A change of the model or of a theorem, and the file with which the proofs stop then."""

    what: str
    file: str
    expected: str
    stops_in: str


@frozen
class Manifest:
    proofs: tuple[Proof, ...] = ()
    events: tuple[Firing, ...] = ()
    mutants: tuple[Mutant, ...] = ()
    theorems: tuple[Theorem, ...] = ()
    changes: tuple[Change, ...] = ()
    possible: tuple[Possible, ...] = ()
    sweeps: tuple[Sweep, ...] = ()

    def only(self, rule: str) -> "Manifest":
        """What is about one rule."""
        return Manifest(
            tuple(proof for proof in self.proofs if proof.rule == rule),
            (),
            tuple(mutant for mutant in self.mutants if mutant.conjunct.rpartition(".")[0] == rule),
            tuple(theorem for theorem in self.theorems if rule in theorem.rules),
        )


Entry = Proof | Firing | Possible | Mutant | Sweep | Theorem | Change


def read(path: Path = PATH) -> Manifest:
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    entries = {name: [_tuples(entry) for entry in table] for name, table in tables.items()}
    return Manifest(
        tuple(Proof(**entry) for entry in entries.get("proof", ())),
        tuple(Firing(**entry) for entry in entries.get("event", ())),
        tuple(Mutant(**entry) for entry in entries.get("mutant", ())),
        tuple(Theorem(**entry) for entry in entries.get("theorem", ())),
        tuple(Change(**entry) for entry in entries.get("change", ())),
        tuple(Possible(**entry) for entry in entries.get("possible", ())),
        tuple(Sweep(**entry) for entry in entries.get("sweep", ())),
    )


def write(manifest: Manifest, path: Path = PATH) -> None:
    path.write_text("\n".join([_HEAD, *_blocks(manifest)]), encoding="utf-8")


def proved_rules() -> dict[str, str]:
    """Rule -> what proves it, for its card."""
    manifest = read()
    proved = [proof for proof in manifest.proofs if proof.expected == "proved"]
    of_algorithms: dict[str, list[str]] = {}
    for rule, theorems in _theorems_by_rule(manifest, "bound").items():
        of_algorithms.setdefault(rule, []).append(f"coq: {theorems}")
    for proof in proved:
        for rule in proof.bounds:
            of_algorithms.setdefault(rule, []).append(f"{_told(proof)}")
    told = {rule: f"{'; '.join(by)}: {_OF_ALGORITHMS}" for rule, by in of_algorithms.items()}
    return told | {proof.rule: _told(proof) for proof in proved if proof.is_of_traces}


def related_theorems() -> dict[str, str]:
    """Rule -> theorems that are no proof of it, for its card: a part of it, what its constant comes to, that it is
    reached, what no other policy betters, and what goes wrong without it."""
    manifest = read()
    told: dict[str, list[str]] = {}
    for proof in manifest.proofs:
        for rule in proof.parts if proof.expected == "proved" else ():
            told.setdefault(rule, []).append(f"part: {_told(proof)}")
    for role in ("part", "constant", "reached", "lower", "condition"):
        for rule, theorems in _theorems_by_rule(manifest, role).items():
            told.setdefault(rule, []).append(f"{role}: {theorems}")
    return {rule: "; ".join(parts) for rule, parts in told.items()}


_OF_ALGORITHMS = "of the counter algorithm; the rule judges any scheduler by its trace"


def _theorems_by_rule(manifest: Manifest, role: str) -> dict[str, str]:
    named: dict[str, list[str]] = {}
    for theorem in manifest.theorems:
        if theorem.role == role and theorem.expected == "proved":
            for rule in theorem.rules:
                named.setdefault(rule, []).append(f"{theorem.name} ({theorem.file}.v)")
    return {rule: ", ".join(names) for rule, names in named.items()}


def _told(proof: Proof) -> str:
    tools, conjuncts = " and ".join(proof.tools), ", ".join(proof.conjuncts)
    where = "" if proof.theory == "engine" else f" of {proof.theory}.py"
    return f"{tools}: {conjuncts}{where} ({proof.obligations} obligations)"


def differences(expected: Manifest, found: Manifest) -> list[str]:
    """Where reality is not as the manifest says, in words; times may differ."""
    wanted, there = _by_name(expected), _by_name(found)
    lines = []
    for name in [*wanted, *(name for name in there if name not in wanted)]:
        if name not in there:
            lines.append(f"{name} is in the manifest, but not found")
        elif name not in wanted:
            lines.append(f"{name} is not in the manifest, but found: {there[name]}")
        elif wanted[name] != there[name]:
            lines.append(f"{name}: {wanted[name]} in the manifest, {there[name]} found")
    return lines


def faults(found: Manifest) -> list[str]:
    """What no manifest may accept."""
    good = {"proved", "fires", "possible", "refuted", "implied", "survives", "refused"}
    judged = {name: entry.expected for name, entry in _by_name(found).items() if not isinstance(entry, Sweep)}
    return [f"{name}: {verdict}" for name, verdict in judged.items() if verdict not in good]


def _by_name(manifest: Manifest) -> dict[str, Entry]:
    named: dict[str, Entry] = {}
    named |= {f"the proof of {p.rule}{_of(p.theory)}": evolve(p, seconds=0) for p in manifest.proofs}
    named |= {f"event {firing.event}{_of(firing.theory)}": firing for firing in manifest.events}
    named |= {f"step {step.step}{_of(step.theory)}": step for step in manifest.possible}
    named |= {f"the changes of each {sweep.kind}{_of(sweep.theory)}": sweep for sweep in manifest.sweeps}
    named |= {f"the mutant without {m.conjunct}{_of(m.theory)}": m for m in manifest.mutants}
    named |= {f"theorem {theorem.name}": evolve(theorem, seconds=0) for theorem in manifest.theorems}
    named |= {f"the change '{change.what}'": change for change in manifest.changes}
    return named


def _of(theory: str) -> str:
    return "" if theory == "engine" else f" of {theory}"


def _tuples(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}


def _blocks(manifest: Manifest) -> Iterator[str]:
    kinds: tuple[tuple[str, Sequence[Entry]], ...] = (
        ("proof", manifest.proofs),
        ("event", manifest.events),
        ("possible", manifest.possible),
        ("sweep", manifest.sweeps),
        ("mutant", manifest.mutants),
        ("theorem", manifest.theorems),
        ("change", manifest.changes),
    )
    for kind, entries in kinds:
        for entry in entries:
            lines = (f"{name} = {_toml(value)}" for name, value in asdict(entry).items())
            yield "\n".join([f"[[{kind}]]", *lines, ""])


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
