"""ADMIT-9: who reads the future is found by swapping it; who predicts it, or is told, is not."""

from typing import Any

import pytest
from attrs import evolve

from schedspec.conformance.check import DEPTHS, Check, results
from schedspec.conformance.determinism import rerun_here
from schedspec.conformance.foresight import FORESEEN, foretold, twins
from schedspec.conformance.script import Script, rounds, submit
from schedspec.reference import Scheduler, make
from schedspec.reference.faults.others import LooksIntoTheScript
from schedspec.spec.catalogue import registry
from schedspec.spec.vocabulary import Capabilities, Settings

SMALL = Settings(blocks=16, block_size=1, seats=2, token_budget=8)
COME = (submit("a", 2, 4, stop_after=2), submit("b", 2, 3), *rounds(2), submit("c", 2, 4, stop_after=1), *rounds(8))
SCRIPT = Script(SMALL, 0, COME)


class Oracle(LooksIntoTheScript):
    def capabilities(self) -> Capabilities:
        shown = super().capabilities()
        return evolve(shown, claims=shown.claims | {"clairvoyant"})


class Guesses(Scheduler):
    """Looks at the prediction, which is right here: that is no secret."""

    def grow(self, job: Any, positions: int) -> None:
        short = job.request.predicted_output_tokens == 1
        free = self.state.pool.free
        free[:] = free[::-1] if short else free
        super().grow(job, positions)
        free[:] = free[::-1] if short else free


def test_a_twin_differs_in_nothing_but_the_ends() -> None:
    ends = [[op.stop_after for op in twin.ops if op.request is not None] for twin in twins(SCRIPT)]
    assert ends == [[None, 1, None], [2, 1, None], [2, None, None]]
    for twin in twins(SCRIPT):
        assert [evolve(op, stop_after=None) for op in twin.ops] == [evolve(op, stop_after=None) for op in SCRIPT.ops]


def test_who_foresees_is_found_at_the_first_answer_that_shows_it() -> None:
    (own,), (marked,) = rerun_here(LooksIntoTheScript, [SCRIPT]), foretold(LooksIntoTheScript, [SCRIPT])
    assert marked.index(FORESEEN) == 2  # two have come, and the first step places their blocks
    assert [one for one, other in zip(own, marked, strict=True) if one != other] == [own[2]]


@pytest.mark.parametrize("factory", [make, Guesses])
def test_who_does_not_is_not(factory: Any) -> None:
    predicted = [evolve(op, request=evolve(op.request, predicted_output_tokens=1)) if op.request else op for op in COME]
    for script in (SCRIPT, Script(SMALL, 0, predicted)):
        assert foretold(factory, [script]) == rerun_here(factory, [script])


def test_an_oracle_that_says_so_is_not_bound() -> None:
    assert registry.missing("ADMIT-9", make(SMALL, 0).capabilities()) is None
    assert registry.missing("ADMIT-9", Oracle(SMALL, 0).capabilities()) == "not claimed"
    check = Check(name="it", factory=Oracle, seed=0, depth=DEPTHS["quick"])
    for script in (SCRIPT, evolve(SCRIPT, seed=1)):
        check.run_script(script, "a run")
    check._determinism()
    assert "ADMIT-9" not in check.findings.broken
    assert results(check.findings)["ADMIT-9"].verdict == "not claimed"
