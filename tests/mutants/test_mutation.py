"""The runner of mutants: the draw is the same each time, and a change of the reference is noticed for what it does."""

import pytest
from tests.mutants import fleets, mutation, recorded
from tests.mutants.corners import corners
from tests.mutants.mutations import ROOT, Mutant, sampled, shares

from schedspec.conformance.script import Script, cancel, rounds, submit
from schedspec.reference import make
from schedspec.spec.vocabulary import Settings

SCRIPT = Script(Settings(blocks=4, block_size=1, seats=2), 0, (submit("a", 2, 2), *rounds(1), cancel("a"), *rounds(1)))


def mutant(file: str, old: str, new: str) -> Mutant:
    source = (ROOT / file).read_text(encoding="utf-8")
    start = source.index(old)
    line = source.count("\n", 0, start) + 1
    return Mutant(file, 0, "?", line, source, start, start + len(old), new)


@pytest.mark.parametrize(
    ("file", "old", "new", "how"),
    [
        ("reference/pool.py", "self.free.pop()", "self.free[-1]", "rule"),
        ("reference/pool.py", "self.free.pop()", "self.free.pop(0)", "decision"),
        ("reference/pool.py", "self.free.pop()", "self.free.pup()", "crash"),
        ("reference/pool.py", "from collections import", "from collection import", "crash"),
        ("reference/pool.py", "self.free.pop()", "self.free.pop( )", ""),
    ],
)
def test_a_change_is_noticed_for_what_it_does(file: str, old: str, new: str, how: str) -> None:
    case = recorded.case_of("vector", SCRIPT)
    assert case is not None
    changed = mutant(file, old, new)
    assert mutation.noticed(changed, recorded.reaching(changed, [case])).how == how


def test_a_run_that_does_not_reach_the_line_is_not_asked() -> None:
    case = recorded.case_of("vector", SCRIPT)
    assert case is not None
    assert recorded.reaching(mutant("reference/swapping.py", "    return", "    return not"), [case]) == []


@pytest.mark.parametrize(("name", "script"), list(corners()))
def test_the_reference_breaks_nothing_in_a_corner(name: str, script: Script) -> None:
    driver = recorded.driven(make, script)
    driver.drain()
    assert not driver.over, name
    assert driver.advice.keys() <= {"LIVE-11"}


def test_the_draw_has_its_share_of_each_module() -> None:
    assert shares({"a": 70, "b": 20, "c": 10}, 10) == {"a": 7, "b": 2, "c": 1}
    assert sum(shares({"a": 1, "b": 1, "c": 1}, 2).values()) == 2
    every = [Mutant(file, n, "f", 1, "x = 1\n", 4, 5, str(n)) for file in ("a.py", "b.py") for n in range(50)]
    assert sampled(every, 10, 1) == sampled(every, 10, 1) != sampled(every, 10, 2)
    broken = [Mutant("a.py", n, "f", 1, "x = 1\n", 4, 5, "(") for n in range(9)]
    assert sampled([*broken, every[3]], 10, 0) == [every[3]]


def test_what_is_called_equivalent_has_a_reason() -> None:
    assert all(reason.endswith(".") for reason in mutation.equivalent().values())


@pytest.mark.parametrize(
    ("file", "old", "new", "how"),
    [
        ("reference/router.py", "self.engines[turn %", "self.engines[(turn + 1) %", "decision"),
        ("reference/fleet.py", 'self._log("ended", request=request.id, how="refused")', "pass", "rule"),
        ("reference/router.py", "self.placed.pop(request.id, None)", "self.placed.pop(request.id)", ""),
    ],
)
def test_a_change_of_a_fleet_is_noticed_for_what_it_does(file: str, old: str, new: str, how: str) -> None:
    fleets.recorded()
    assert mutation.noticed(mutant(file, old, new), []).how == how
