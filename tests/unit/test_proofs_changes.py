"""Changes of one token, the steps that must be possible, and the processes in which solvers run."""

import re

import pytest
from click.testing import CliRunner

from schedspec.proofs import manifest, run, tasks
from schedspec.proofs.command import prove as main
from schedspec.proofs.obligations import Step, can_be
from schedspec.proofs.possible import POSSIBLE
from schedspec.proofs.possible.step import Steps
from schedspec.proofs.smt import Finite
from schedspec.proofs.sweep import Sweep
from schedspec.proofs.theory import Theory
from schedspec.proofs.variants import variants
from schedspec.proofs.workers import each
from schedspec.spec.printed import printed
from schedspec.spec.registry import Conjunct, Registry
from schedspec.spec.terms import Bool, Event, Int, Key, Set, State, implies, ite, walk

MANIFEST = manifest.read()


# --- a bottle of beads -----------------------------------------------------------------------------------------------


class Bead(Key):
    __slots__ = ()


class Bottle(State):
    room: Int
    filled: Int
    inside: Set[Bead]
    closed: Bool


class Put(Event):
    bead: Bead
    beads: Int


def holds_some(s: Bottle, e: Put, t: Bottle) -> tuple[Bool, ...]:
    """A bottle holds what it has room for."""
    return (
        e.beads >= 1,
        s.filled + e.beads <= s.room,
        implies(s.closed, s.filled + e.beads <= s.room),  # follows from the one before
        t.filled == ite(e.beads <= 0, s.filled, s.filled + e.beads),
        t.inside == s.inside.add(e.bead),
    )


def bottle() -> Theory:
    registry = Registry(Bottle, {})
    registry.rule("KV-1", on=Put)(holds_some)
    registry.invariant("KV-1")(lambda s: (s.filled <= s.room, s.filled >= 0))
    return Theory(registry, name="bottle", scope={"Bead": 2}, in_scope=(Bottle("state").room >= 0,))


STEPS = Steps(bottle().registry)


@STEPS.step(Put)
def one_bead_fills_it(s: Bottle, e: Put, t: Bottle) -> Bool:
    """One bead may fill a bottle that is open."""
    return ~s.closed & (e.beads == 1) & (s.filled + 1 == s.room) & (s.filled >= 1)


@STEPS.step(Put)
def two_beads_in_a_large_one(s: Bottle, e: Put, t: Bottle) -> Bool:
    """Two beads at once leave room; the beads that are inside are remembered."""
    return (e.beads == 2) & (s.filled + 3 == s.room) & t.inside.has(e.bead)


def fates(place: int) -> dict[str, str]:
    toy = bottle()
    conjunct = toy.registry.conjuncts[place]
    sweep = Sweep(toy, STEPS)
    found = (sweep.trial(variant) for variant in variants(toy.registry, conjunct))
    return {printed(trial.variant.term): trial.fate for trial in found}


def test_a_guard() -> None:
    assert fates(1) == {
        "filled + beads < room": "forbids",
        "room ≤ filled + beads": "breaks",
        "filled - beads ≤ room": "breaks",
        "room + beads ≤ room": "forbids",
        "filled′ + beads ≤ room": "forbids",
        "filled + room ≤ room": "breaks",
        "filled + filled ≤ room": "breaks",
        "filled + beads ≤ filled′": "breaks",
        "filled + beads ≤ beads": "breaks",
    }


def test_a_guard_that_follows_from_others() -> None:
    found = fates(2)
    assert found["closed ⇒ filled + beads < room"] == "implied no more"
    assert found["closed ⇒ filled - beads ≤ room"] == "equal"
    assert set(found.values()) <= {"implied no more", "equal", "forbids"}


def test_an_effect() -> None:
    assert fates(4) == {"inside′ = inside ∖ {bead}": "forbids"}
    found = fates(3)
    assert found["filled′ = if beads ≤ 0 then filled else filled - beads"] == "breaks"
    assert found["filled′ = if beads < 0 then filled else filled + beads"] == "equal"


def test_an_invariant() -> None:
    found = fates(5)
    assert found["filled < room"] == "breaks"
    assert found["room ≤ filled"] == "breaks"
    assert fates(6)["filled ≥ -1"] == "true too"


def test_what_is_impossible_is_noticed() -> None:
    toy = bottle()
    step = Step(toy, Finite(toy.scope), "Put")
    assert [can_be(step, wanted.terms, wanted.claims) for wanted in STEPS] == ["refuted", "refuted"]
    assert can_be(step, (*STEPS[0].terms, Put("field").beads == 3)) == "proved"


# --- the theories ----------------------------------------------------------------------------------------------------


def every_conjunct() -> list[tuple[Registry, Conjunct]]:
    return [(theory.registry, conjunct) for theory in tasks.THEORIES for conjunct in theory.registry.conjuncts]


def test_a_variant_differs_in_one_token() -> None:
    """A name, an operator or a literal; a negation adds or takes one."""
    for registry, conjunct in every_conjunct():
        tokens = sum(1 for _ in walk(conjunct.term))
        found = list(variants(registry, conjunct))
        assert len({variant.term.key() for variant in found}) == len(found)
        for variant in found:
            assert variant.term.key() != conjunct.term.key()
            allowed = {-1, 1} if variant.kind == "negation" else {0}
            assert sum(1 for _ in walk(variant.term)) - tokens in allowed, f"{variant.name}: {variant.kind}"


def test_nothing_survives() -> None:
    assert {(sweep.survives, sweep.unknown, sweep.surviving) for sweep in MANIFEST.sweeps} == {(0, 0, ())}
    assert all(sweep.breaks + sweep.forbids + sweep.implied_no_more > sweep.tried // 2 for sweep in MANIFEST.sweeps)


def test_each_step_that_must_be_possible_has_a_sentence() -> None:
    for steps in POSSIBLE.values():
        assert len({step.name for step in steps}) == len(steps)
        assert all(step.sentence.endswith(".") for step in steps)
    assert {step.expected for step in MANIFEST.possible} == {"possible"}


def test_a_sample_has_some_of_each_kind() -> None:
    chosen = run.sample(0)
    assert chosen == run.sample(0) != run.sample(1)
    kinds = {"guard", "effect", "invariant", "transition"}
    assert {run.kind(tasks.changes(name, number)[place]) for name, number, place in chosen} == {
        *kinds,
        *(f"{kind} of history" for kind in kinds - {"guard"}),
    }


def test_the_command_changes_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    of_a_guard = [place for place in run.places("KV-16") if run.kind(tasks.changes(*place[:2])[0]) == "guard"]
    monkeypatch.setattr(run, "places", lambda rule: of_a_guard)
    options = ["--rule", "KV-16", "--changes", "all", "--no-mutants", "--no-cvc5"]
    result = CliRunner().invoke(main, options)
    assert result.exit_code == 0, result.output
    assert "    phase[request] ≠ running ∨ held[request] = ∅\n" in result.output
    assert re.search(r"^guard: \d+ tried, \d+ break a proof", result.output, re.MULTILINE)


def test_a_change_that_nothing_shows_is_not_as_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "change", eval)  # takes what it is given, and gives what is no fate
    monkeypatch.setattr(run, "each", lambda function, asked: (("survives", "", 0.0) for _ in asked))
    monkeypatch.setattr(run, "proved", lambda rule, second: iter(()))
    monkeypatch.setattr(run, "trials", lambda rule, among=None: iter(()))
    result = CliRunner().invoke(main, ["--rule", "KV-16", "--changes", "sample", "--no-cvc5"])
    assert result.exit_code == 1
    assert "not as expected: the change KV-16.1: " in result.output


# --- processes -------------------------------------------------------------------------------------------------------


def test_a_process_that_dies_or_hangs_takes_nothing_with_it() -> None:
    asked = [("1 + 1",), ("__import__('os')._exit(11)",), ("__import__('time').sleep(60)",), ("2 + 2",)]
    assert list(each(eval, asked, limit_s=1)) == [2, None, None, 4]


def test_an_error_is_no_crash() -> None:
    with pytest.raises(ZeroDivisionError):
        list(each(eval, [("1 / 0",)]))
