"""The manifest of the proofs against reality, and the provers against questions whose answers are known."""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import pytest
import z3
from attrs import evolve
from click.testing import CliRunner
from tests.mutants.traces import corpus

from schedspec.proofs import command, manifest, page, pins, run, second, tasks, theorems
from schedspec.proofs import obligations as provers
from schedspec.proofs.command import prove as main
from schedspec.proofs.history import HISTORY, Remembered
from schedspec.proofs.manifest import Firing, Manifest
from schedspec.proofs.mutants import conjuncts, mutate
from schedspec.proofs.obligations import LIMIT, Obligation, Outcome, can_fire, obligations, prove, variables
from schedspec.proofs.possible import POSSIBLE
from schedspec.proofs.run import by_rule, entry, firings, kind, places, proof, proved, trials, worst
from schedspec.proofs.tasks import THEORIES
from schedspec.proofs.theory import ENGINE, Theory
from schedspec.spec.cards import cards
from schedspec.spec.catalogue import registry as catalogue
from schedspec.spec.compiled import World, compile_program
from schedspec.spec.monitor import Monitor
from schedspec.spec.printed import printed
from schedspec.spec.registry import Conjunct, Registry
from schedspec.spec.relation import Engine
from schedspec.spec.terms import Bool, Event, Int, Key, Map, Set, State, Term, card, forall

MANIFEST = manifest.read()
PINNED = ("KV-1", "KV-2", "KV-3", "KV-4", "KV-5", "KV-7", "KV-8", "LIFE-2", "LIFE-3")


# --- the manifest --------------------------------------------------------------------------------------------


def test_the_manifest_names_what_there_is() -> None:
    counts = {(t.name, rule): len(owed) for t in THEORIES for rule, owed in by_rule(t).items()}
    assert {(proof.theory, proof.rule): proof.obligations for proof in MANIFEST.proofs} == counts
    assert [(f.theory, f.event) for f in MANIFEST.events] == [
        (t.name, event) for t in THEORIES for event in t.registry.events
    ]
    assert [(p.theory, p.step) for p in MANIFEST.possible] == [
        (theory, step.name) for theory, steps in POSSIBLE.items() for step in steps
    ]
    changes = Counter((name, kind(tasks.changes(name, number)[place])) for name, number, place in places())
    swept = {(sweep.theory, sweep.kind): sweep.tried for sweep in MANIFEST.sweeps}
    assert all(tried <= changes[of] for of, tried in swept.items())
    assert {("engine", "guard"), ("counters", "guard")} <= set(swept)
    tried = [(t.name, c.name) for t in THEORIES for c in conjuncts(t.registry)]
    assert [(mutant.theory, mutant.conjunct) for mutant in MANIFEST.mutants] == tried
    assert manifest.faults(MANIFEST) == []


@pytest.mark.parametrize("rule", ["KV-5", "LIFE-4", "FAIR-8", "ADMIT-2"])
def test_obligations_are_proved(rule: str) -> None:
    """`make proofs` proves them all."""
    found = {(theory.name, rule): worst(outcomes["z3"]) for theory, rule, outcomes in proved(rule, second=False)}
    assert found == {(proof.theory, proof.rule): proof.expected for proof in MANIFEST.only(rule).proofs}


def test_the_page_is_what_was_found() -> None:
    readme = page.README.read_text(encoding="utf-8")
    assert page.updated(readme, MANIFEST) == readme


def test_history_changes_no_run() -> None:
    """No guard and no effect of a rule reads it, and its effects write nothing else."""
    for conjunct in ENGINE.registry.conjuncts:
        if conjunct.event is None:
            continue
        if isinstance(conjunct, Remembered):
            assert conjunct.kind == "effect"
            assert conjunct.variable in HISTORY
        else:
            assert variables(conjunct.term).isdisjoint(HISTORY)


@pytest.mark.parametrize("rule", ["STEP-1", "STEP-3", "KV-11", "PRE-2", "PRE-3", "ADMIT-1", "ADMIT-2"])
def test_each_guard_and_effect_of_it_is_needed_by_a_proof(rule: str) -> None:
    assert {mutant.expected for mutant in MANIFEST.only(rule).mutants} == {"refuted"}


@pytest.mark.parametrize("rule", ["KV-1", "KV-4", "LIFE-3"])
def test_cvc5_agrees(rule: str) -> None:
    """`make proofs` asks it about every rule."""
    (found,) = (proof(*outcomes) for outcomes in proved(rule, second=True))
    expected = next(proof for proof in MANIFEST.proofs if proof.rule == rule)
    assert evolve(found, seconds=0) == evolve(expected, seconds=0)
    assert found.tools == ("z3", "cvc5")


def test_every_event_can_fire() -> None:
    assert tuple(firings()) == MANIFEST.events
    assert {firing.expected for firing in MANIFEST.events} == {"fires"}


@pytest.mark.parametrize("rule", ["KV-1", "KV-8", "LIFE-3", "STEP-2", "PRE-8"])
def test_mutants_are_as_the_manifest_says(rule: str) -> None:
    """`make proofs` tries them all."""
    assert tuple(entry(*trial) for trial in trials(rule)) == MANIFEST.only(rule).mutants


@pytest.mark.parametrize("rule", PINNED)
def test_proofs_can_fail(rule: str) -> None:
    """Some conjunct of the rule is needed by a proof, and some mutant breaks what the rule promises."""
    assert any(mutant.expected == "refuted" for mutant in MANIFEST.only(rule).mutants)
    broken = {conjunct.rpartition(".")[0] for mutant in MANIFEST.mutants for conjunct in mutant.breaks}
    assert rule in broken


def test_differences_are_told() -> None:
    first, *rest = MANIFEST.proofs
    weaker = evolve(MANIFEST, proofs=(evolve(first, expected="unknown", seconds=9), *rest[1:]))
    told = manifest.differences(MANIFEST, weaker)
    assert len(told) == 2
    assert told[0].startswith(f"the proof of {first.rule}: ")
    assert told[1] == f"the proof of {rest[0].rule} is in the manifest, but not found"
    assert manifest.differences(MANIFEST, evolve(MANIFEST, proofs=(evolve(first, seconds=9), *rest))) == []
    assert manifest.faults(weaker) == [f"the proof of {first.rule}: unknown"]
    assert manifest.faults(Manifest(events=(Firing(theory="engine", event="Take", expected="never fires"),))) != []


def test_the_manifest_is_written_as_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "manifest.toml"
    manifest.write(MANIFEST, path)
    assert manifest.read(path) == MANIFEST


def test_cards_need_no_solver() -> None:
    program = (
        "import sys\nfrom schedspec.proofs import manifest, pins\n"
        "assert manifest.proved_rules()['KV-1'].startswith('z3 and cvc5: KV-1.')\n"
        "assert pins.from_proofs()\nassert not {'z3', 'cvc5'} & set(sys.modules)"
    )
    source = Path(__file__).parents[2] / "src"
    subprocess.run([sys.executable, "-c", program], cwd=source, check=True)


def test_pins() -> None:
    table = pins.from_proofs(MANIFEST)
    dropped = next(m for m in MANIFEST.mutants if m.conjunct == "KV-1.2")
    assert table["KV-1.2"] == [pins.Pin("proof", invariant, "Take") for invariant in dropped.breaks]
    del table["STEP-2.1"]
    assert "STEP-2.1" in pins.unpinned(ENGINE.registry, table)
    more = pins.joined([table, {"STEP-2.1": [pins.Pin("fault", "overfull", "EndStep")]}])
    assert "STEP-2.1" not in pins.unpinned(ENGINE.registry, more)


# --- known answers -------------------------------------------------------------------------------------------


class Item(Key):
    __slots__ = ()


class Store(State):
    size: Int
    stock: Set[Item]
    price: Map[Item, Int]
    a: Int
    b: Int
    c: Int


class Add(Event):
    item: Item
    price: Int


def theory(*, claimed: bool = False, careless: bool = False, impossible: bool = False) -> Theory:
    """A shop that counts its stock; careless, it counts an item again that it has already."""
    registry = Registry(Store, {})

    def adds(s: Store, e: Add, t: Store) -> tuple[Bool, ...]:
        """The size is the number of items."""
        return (t.stock == s.stock.add(e.item), t.size == s.size + 1)

    def is_new(s: Store, e: Add, t: Store) -> Bool:
        """Only what is new comes in."""
        return (s.size == s.size + 1) if impossible else ~s.stock.has(e.item)

    registry.rule("KV-1", on=Add)(adds)
    registry.invariant("KV-1")(lambda s: s.size == card(s.stock))
    if not careless:
        registry.rule("KV-2", on=Add, claims=("watermark",) if claimed else ())(is_new)
    return Theory(registry, scope={"Item": 2}, initial=())


def verdicts(toy: Theory) -> dict[str, str]:
    return {o.name: prove(toy, o, LIMIT // 10).verdict for o in obligations(toy.registry)}


def test_what_holds_is_proved() -> None:
    assert verdicts(theory()) == {"KV-1.3 initially": "proved", "KV-1.3 after Add": "proved"}


def test_a_missing_guard_is_no_proof() -> None:
    assert verdicts(theory(careless=True))["KV-1.3 after Add"] != "proved"


def test_a_guard_of_a_claim_proves_nothing_without_it() -> None:
    assert verdicts(theory(claimed=True))["KV-1.3 after Add"] != "proved"


def test_an_event_that_cannot_fire_is_noticed() -> None:
    """Of it everything is proved."""
    toy = theory(impossible=True)
    assert set(verdicts(toy).values()) == {"proved"}
    assert can_fire(toy, "Add") == "proved"
    assert can_fire(theory(), "Add") == "refuted"


def test_a_wrong_start_is_no_proof() -> None:
    toy = evolve(theory(), chosen_initially=frozenset({"size"}))
    assert verdicts(toy)["KV-1.3 initially"] != "proved"


def test_mutants_of_the_toy() -> None:
    toy = theory()
    fates = {c.name: mutate(toy, c) for c in conjuncts(toy.registry)}
    assert {name: trial.fate for name, trial in fates.items()} == dict.fromkeys(fates, "refuted")
    example = fates["KV-1.2"].example.splitlines()
    assert example[0] == "without KV-1.2: size′ = size + 1"
    assert example[1].startswith("  Add(item=item")
    assert example[-1] == "  breaks KV-1.3: size = |stock|"
    assert any("→" in line for line in example[2:-1])


@pytest.mark.parametrize("prover", [prove, second.confirm])
def test_a_limit_that_is_reached_is_unknown(prover: Callable[[Theory, Obligation, int], Outcome]) -> None:
    """Whether 114 is a sum of three cubes nobody knows."""
    toy = theory()
    hard = Conjunct(
        rule="KV-1",
        place=9,
        kind="invariant",
        term=~(cube(SHOP.a) + cube(SHOP.b) + cube(SHOP.c) == 114),
        event=None,
        binding=toy.registry.rules["KV-1"].binding,
    )
    outcome = prover(toy, Obligation(hard, "Add"), LIMIT // 100)
    assert outcome.verdict == "unknown"
    assert manifest.faults(Manifest((proof(toy, "KV-1", {"z3": [outcome]}),))) == ["the proof of KV-1: unknown"]


def test_what_a_process_does_not_prove_for_what_it_was_asked_before_is_tried_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bool] = []

    def decided(solver: Any, limit: int) -> str:
        asked.append(solver.ctx == z3.main_ctx())
        return "unknown" if asked[-1] else decide(solver, limit)

    decide = provers.decide
    monkeypatch.setattr(provers, "decide", decided)
    assert verdicts(theory()) == {"KV-1.3 initially": "proved", "KV-1.3 after Add": "proved"}
    assert asked == [True, False] * 2
    assert verdicts(theory(careless=True))["KV-1.3 after Add"] != "proved"


SHOP = Store("state")


def cube(x: Int) -> Int:
    return x * x * x


def test_quantified_goals_are_refuted_too() -> None:
    toy = theory()
    toy.registry.invariant("KV-1")(lambda s: forall(Item, lambda i: s.price[i] == 0))
    toy.registry.also("KV-1", on=Add)(lambda s, e, t: t.price == s.price.set(e.item, e.price))
    assert verdicts(toy)["KV-1.4 after Add"] in ("refuted", "unknown")


# --- the command ---------------------------------------------------------------------------------------------


def test_the_command_prints_a_table() -> None:
    result = CliRunner().invoke(main, ["--rule", "KV-8", "--no-cvc5"])
    assert result.exit_code == 0, result.output
    assert re.search(r"^KV-8 +8  proved", result.output, re.MULTILINE)
    assert "breaks KV-8.5: ∀ b: granted[b] - returned[b] = refs[b]" in result.output


def test_the_command_prints_json() -> None:
    result = CliRunner().invoke(main, ["--rule", "KV-16", "--no-mutants", "--no-cvc5", "--json"])
    found = json.loads(result.output)
    assert result.exit_code == 0
    assert found["wrong"] == []
    assert found["proofs"][0]["expected"] == "proved"
    assert found["proofs"][0]["status"] == {"z3": "proved", "cvc5": "not run"}
    assert found["tools"]["cvc5"] == "not run: --no-cvc5"


def test_the_command_fails_when_something_is_not_as_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    first = MANIFEST.only("KV-16").proofs[0]
    monkeypatch.setattr(manifest, "read", lambda: Manifest((evolve(first, obligations=99),)))
    result = CliRunner().invoke(main, ["--rule", "KV-16", "--no-mutants", "--no-cvc5"])
    assert result.exit_code == 1
    assert "not as expected: the proof of KV-16" in result.output


def test_the_command_refuses_what_makes_no_sense() -> None:
    assert CliRunner().invoke(main, ["--rule", "KV-99"]).exit_code == 2
    assert CliRunner().invoke(main, ["--write", "--no-cvc5"]).exit_code == 2
    assert CliRunner().invoke(main, ["--unknown"]).exit_code == 2


def test_what_is_not_installed_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    monkeypatch.setattr(theorems, "coqc", lambda: None)
    result = CliRunner().invoke(main, [])
    assert result.exit_code == 2
    assert "nothing can run: z3 is not installed" in result.output
    monkeypatch.setattr(theorems, "coqc", lambda: "coqc")
    result = CliRunner().invoke(main, ["--rule", "KV-1"])
    assert result.exit_code == 0
    assert "1 rules are not proved by this run" in result.output
    document = json.loads(CliRunner().invoke(main, ["--rule", "KV-1", "--json"]).output)
    assert document["proofs"][0]["status"] == {"z3": "not run", "cvc5": "not run"}


def test_a_solver_that_crashes_has_proved_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "each", lambda function, tasks: (None for _ in tasks))
    result = CliRunner().invoke(main, ["--rule", "KV-16", "--no-mutants", "--no-cvc5"])
    assert result.exit_code == 1
    assert "unknown" in result.output
    assert "not as expected: the proof of KV-16" in result.output


# --- theorems in Coq ------------------------------------------------------------------------------------------

needs_coqc = pytest.mark.skipif(theorems.coqc() is None, reason=theorems.MISSING)

SUM = """From Coq Require Import ZArith Lia.
Open Scope Z_scope.

(* bound: FAIR-8 *)
Theorem a_sum_is_positive : forall x y, 0 < x -> 0 < y -> 0 < x + y.
Proof.
  intros. lia.
Qed.
"""


def checked(folder: Path, source: str) -> theorems.Found:
    (folder / "Sum.v").write_text(source, encoding="utf-8")
    return theorems.check(folder, ["Sum"], mutate=False)


def test_the_manifest_has_the_theorems_as_they_are_stated() -> None:
    stated = [evolve(theorem, expected="proved", seconds=0) for theorem in theorems.stated()]
    assert [evolve(theorem, seconds=0) for theorem in MANIFEST.theorems] == stated
    assert {rule for theorem in stated for rule in theorem.rules} <= set(catalogue.rules)
    assert {theorem.role for theorem in stated} == {
        *("bound", "part", "constant", "reached", "lower", "condition"),
        *("scan", "ground", "witness"),
    }


def test_theorems_are_about_what_exists() -> None:
    """Scans and facts for z3 name functions, witnesses name theorems; and no bound is without one."""
    names = {theorem.name for theorem in MANIFEST.theorems}
    for theorem in MANIFEST.theorems:
        if theorem.role == "witness":
            assert set(theorem.about) <= names
        for place in theorem.about if theorem.role in ("scan", "ground") else ():
            file, _, function = place.partition(" ")
            source = (theorems.FOLDER.parents[1] / file).read_text(encoding="utf-8")
            assert re.search(rf"def {function}\(", source), f"{theorem.name}: there is no {place}"
    witnessed = {name for theorem in MANIFEST.theorems if theorem.role == "witness" for name in theorem.about}
    asked = {theorem.name for theorem in MANIFEST.theorems if theorem.role in ("bound", "part", "constant", "lower")}
    assert asked - witnessed == {"where_a_prompt_token_is_no_dearer_the_closed_form_is_that_of_the_paper"}  # arithmetic


def test_every_theorem_is_in_the_manifest() -> None:
    """One without a line above it that says what it is for would not be asked what it rests on."""
    written = {name for file in theorems.FILES for name in theorem_names(theorems.FOLDER / f"{file}.v")}
    assert {theorem.name for theorem in MANIFEST.theorems} == written


def test_the_page_names_theorems_that_exist() -> None:
    page = (theorems.FOLDER.parent / "README.md").read_text(encoding="utf-8")
    rows = {name: rule for rule, name in re.findall(r"\| ([A-Z]+-\d+)? ?\| `(\w+)` \|", page)}
    stated = {theorem.name: theorem.rules for theorem in MANIFEST.theorems}
    assert len(rows) == 36
    assert all(rule in ("", *stated[name]) for name, rule in rows.items())


def theorem_names(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split()[1] for line in lines if line.startswith(("Theorem", "Corollary"))]


def test_changes_of_the_model_must_be_refused() -> None:
    assert {change.expected for change in MANIFEST.changes} == {"refused"}
    assert len(MANIFEST.changes) >= 10
    assert manifest.faults(Manifest(changes=(evolve(MANIFEST.changes[0], expected="accepted"),))) != []


@needs_coqc
def test_the_theorems_are_as_the_manifest_says() -> None:
    """`make proofs` tries the changes too."""
    found = theorems.check(mutate=False)
    assert found.complaint == ""
    assert manifest.differences(Manifest(theorems=MANIFEST.theorems), Manifest(theorems=found.theorems)) == []


@needs_coqc
def test_a_theorem_is_proved(tmp_path: Path) -> None:
    (theorem,) = checked(tmp_path, SUM).theorems
    assert theorem.expected == "proved"
    assert (theorem.role, theorem.rules) == ("bound", ("FAIR-8",))
    assert theorem.statement == "forall x y, 0 < x -> 0 < y -> 0 < x + y"


@needs_coqc
@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("lia.\nQed", "Admitted", "rests on Axioms: Sum.a_sum_is_positive"),
        ("(* bound", "Axiom all_is_well : False.\n\n(* bound", "proved"),  # not used
        ("intros. lia", "intros. destruct all_is_well", "does not compile"),
        ("0 < x -> ", "", "does not compile"),
    ],
)
def test_what_is_no_proof(tmp_path: Path, old: str, new: str, verdict: str) -> None:
    found = checked(tmp_path, SUM.replace(old, new))
    assert [theorem.expected.startswith(verdict) for theorem in found.theorems] == [True]
    assert bool(found.complaint) == (verdict == "does not compile")
    assert bool(manifest.faults(Manifest(theorems=found.theorems))) == (verdict != "proved")


@needs_coqc
def test_an_axiom_is_no_proof(tmp_path: Path) -> None:
    source = SUM.replace("(* bound", "Axiom all_is_well : False.\n\n(* bound").replace("lia.", "destruct all_is_well.")
    found = checked(tmp_path, source)
    assert found.theorems[0].expected == "rests on Axioms: Sum.all_is_well : False"
    assert len(manifest.faults(Manifest(theorems=found.theorems))) == 1


@needs_coqc
def test_another_statement_is_noticed(tmp_path: Path) -> None:
    """It may be true, but it is not what the manifest says is proved."""
    before = checked(tmp_path, SUM).theorems
    after = checked(tmp_path, SUM.replace("0 < y", "1 < y")).theorems
    assert after[0].expected == "proved"
    assert len(manifest.differences(Manifest(theorems=before), Manifest(theorems=after))) == 1


def test_without_coqc_nothing_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theorems, "coqc", lambda: None)
    result = CliRunner().invoke(main, ["--rule", "FAIR-8"])
    assert result.exit_code == 0, result.output
    assert "Coq: not run: coqc was not found (on Debian: apt-get install coq); " in result.output
    assert "theorems are not proved by this run" in result.output
    document = json.loads(CliRunner().invoke(main, ["--rule", "FAIR-8", "--json"]).output)
    assert {theorem["status"] for theorem in document["theorems"]} == {"not run"}
    assert document["tools"]["coq"] == f"not run: {theorems.MISSING}"
    assert CliRunner().invoke(main, ["--write"]).exit_code == 2


def test_cards_say_what_the_theorems_are_about() -> None:
    told = {card["id"]: card for card in cards(manifest.proved_rules(), manifest.related_theorems())}
    assert told["FAIR-8"]["evidence"] == "proved"
    assert told["FAIR-8"]["proved_by"].startswith(
        "coq: two_clients_that_wait_all_through_differ_by_at_most_2U (Theorems.v); z3 and cvc5: FAIR-8."
    )
    assert told["FAIR-8"]["proved_by"].endswith(
        ": of the counter algorithm; the rule judges any scheduler by its trace"
    )
    assert "reached: a_difference_of_2U_is_reached (Needed.v)" in told["FAIR-8"]["theorems"]
    assert told["FAIR-5"]["evidence"] == "tested"
    assert "condition: without_the_lift_of_victims_no_bound_holds (Needed.v)" in told["FAIR-5"]["theorems"]
    assert told["LIVE-2"]["evidence"] == told["LANE-3"]["evidence"] == "tested"
    assert told["LANE-1"]["evidence"] == "proved"
    assert "part: two_lanes_that_wait_" in told["LANE-3"]["theorems"]
    assert told["FAIR-15"]["proved_by"].endswith("of the counter algorithm; the rule judges any scheduler by its trace")
    assert told["FAIR-17"]["evidence"] == "proved"
    assert "lower: no_policy_" in told["FAIR-8"]["theorems"]
    assert told["KV-1"]["theorems"] is None


# --- what the proofs take for granted, on runs of the reference ------------------------------------------------


class Watching(Monitor):
    """A monitor that looks at what is assumed of an event, before the event happens."""

    wrong: ClassVar[list[str]]
    seen: ClassVar[Counter[str]]

    def _fire(self, event: str, *fields: Any) -> None:
        for term in ENGINE.events.get(event, ()):
            self.seen[event] += 1
            if not holds(event, term)(self.world, *fields):
                self.wrong.append(f"{event}{fields}: {printed(term)}")
        super()._fire(event, *fields)


@cache
def holds(event: str, term: Term) -> Callable[..., bool]:
    registry = Registry(Engine, {})

    def assumed(s: Engine, e: Event, t: Engine) -> Term:
        """An assumption, as a guard."""
        return term

    registry.rule("KV-1", on=ENGINE.registry.events[event])(assumed)
    program = compile_program(registry)

    def check(world: World, *fields: Any) -> bool:
        scratch = copy(world)
        scratch.failed, scratch.exercised, scratch.events = [], [0], Counter()
        program.one[event](scratch, *fields)
        return not scratch.failed

    return check


def test_what_is_assumed_of_events_holds() -> None:
    Watching.wrong, Watching.seen = [], Counter()
    for recorded in corpus():
        monitor = Watching(recorded.header, explain=True)  # explaining, it takes rows one by one
        for message in recorded.messages:
            monitor.feed(message)
    assert Watching.wrong == []
    assert set(Watching.seen) == set(ENGINE.events)


def test_what_is_proved_holds() -> None:
    """The same terms, compiled, after every message of clean runs: the initial state is the one of the proofs."""
    for recorded in corpus():
        monitor = Monitor(recorded.header)
        invariants = [c for c in ENGINE.registry.of_kind("invariant") if not isinstance(c, Remembered)]
        binding = [c for c in invariants if not c.binding.missing(recorded.header.capabilities)]
        for message in recorded.messages:
            monitor.feed(message)
            assert [c.name for c in binding if not monitor.program.holds[c.name](monitor.world)] == []
